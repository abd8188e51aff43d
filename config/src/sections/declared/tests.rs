//! Entries with all choices, mistakes with their lines, and project files that are refused.

use serde_json::json;

use super::*;
use crate::environment::Environment;
use crate::{discovery, file, problems};

const USER: &str = ".config/subagent/config.yaml";
const PROJECT: &str = "ws/.subagent/config.yaml";

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        Self { dir }
    }

    fn env(&self) -> Environment {
        let base = self.dir.path().canonicalize().unwrap();
        Environment::new([("HOME".into(), base.clone().into())], base.join("ws"))
    }

    /// The lines and messages of `config check`.
    fn checked(&self) -> Vec<String> {
        let found = problems::of_command(None, None, &self.env()).unwrap();
        let line = |line: Option<u64>| line.unwrap_or(0);
        let problems = found.problems.iter().map(|one| format!("{}: {}", line(one.line), one.message));
        let unknown = found.unknown.iter().map(|key| format!("{}: {}", line(key.line), key.problem()));
        problems.chain(unknown).collect()
    }
}

fn parsed(text: &str) -> crate::Config {
    file::parse(Path::new("/c.yaml"), text.as_bytes()).unwrap()
}

#[test]
fn an_entry_has_the_same_choices_as_the_command() {
    let config = parsed(
        "schedules:\n  nightly:\n    cron: 0 2 * * 1-5\n    timezone: Europe/Berlin\n    missed: skip\n    overlap: cancel-previous\n    \
         maxFailures: 0\n    cwd: ~/app\n    agent: codex\n    sandbox: review\n    worktree: true\n    text: Go.\n  \
         often: {every: 30m, cwd: /app, send: codex-1, text: Go on.}\n  once: {at: '2030-12-01T09:00', cwd: /app, agent: a, text: x}\n\
         triggers:\n  asked: {cwd: /app, agent: a, text: x}\n  docs: {watch: '*.md', debounce: 0.5, cwd: /app, agent: a, text: x}\n  \
         head: {onCommand: git ls-remote, every: 600, timeout: 2m, cwd: /app, agent: a, text: x}\n  \
         fixer: {after: build, status: failed, cwd: /app, agent: a, text: x}\n",
    );
    let nightly = &config.schedules["nightly"];
    assert_eq!(nightly.when, When::Cron("0 2 * * 1-5".to_owned()));
    assert_eq!((nightly.timezone.as_deref(), nightly.missed), (Some("Europe/Berlin"), Missed::Skip));
    assert_eq!((nightly.start.overlap, nightly.start.max_failures), (Overlap::CancelPrevious, 0));
    assert_eq!(nightly.start.at.map(|at| at.line), Some(2));
    let DeclaredReceiver::Task { agent, sandbox, worktree, .. } = &nightly.start.receiver else { panic!() };
    assert_eq!((agent.as_str(), sandbox.as_deref()), ("codex", Some("review")));
    assert_eq!(worktree, &Some(WorktreeChoice::default()));
    let often = &config.schedules["often"];
    assert_eq!(often.when, When::EverySeconds(1800));
    assert_eq!(often.start.receiver, DeclaredReceiver::Worker("codex-1".to_owned()));
    assert_eq!((often.missed, often.start.max_failures), (Missed::Once, MAX_FAILURES));
    let source = |name: &str| config.triggers[name].source.clone();
    assert_eq!(source("asked"), DeclaredSource::Request);
    assert_eq!(source("docs"), DeclaredSource::Files { globs: vec!["*.md".to_owned()], debounce_ms: 500 });
    let line = "git ls-remote".to_owned();
    assert_eq!(source("head"), DeclaredSource::Command { line, every_seconds: 600, timeout_seconds: 120 });
    let after = DeclaredSource::After { worker: "build".to_owned(), status: Some(EndStatus::Failed) };
    assert_eq!(source("fixer"), after);
}

#[test]
fn a_mistake_has_its_line_and_a_misspelled_key_a_suggestion() {
    let of = |section: &str, keys: &str| {
        let text = format!("{section}:\n  a.b:\n    cwd: /app\n    agent: a\n    text: x\n{keys}");
        Home::new(&[(USER, &text)]).checked()
    };
    let every = "    every: 5m\n";
    for (section, keys, says) in [
        ("schedules", "", "2: `schedules.a.b` has no time: write cron, every or at"),
        ("schedules", "    every: 5m\n    at: x\n", "7: `schedules.a.b.at` cannot stand beside `every`"),
        ("schedules", "    every: soon\n", "6: `schedules.a.b.every` must be a time"),
        ("schedules", "    every: 0.5\n", "6: `schedules.a.b.every` must be whole seconds"),
        (
            "schedules",
            "    every: 36601d\n",
            "6: `schedules.a.b.every` must be more than 0 seconds and at most",
        ),
        (
            "schedules",
            "    every: 5m\n    missed: never\n",
            "7: `schedules.a.b.missed` says `never`; write skip",
        ),
        ("schedules", "    every: 5m\n    send: b\n", "7: `schedules.a.b.send` cannot stand beside `agent`"),
        (
            "schedules",
            "    every: 5m\n    maxFailures: -1\n",
            "7: `schedules.a.b.maxFailures` must be a whole",
        ),
        (
            "schedules",
            "    every: 5m\n    timezon: UTC\n",
            "7: unknown key `schedules.a.b.timezon`; did you mean `timezone`?",
        ),
        ("triggers", "    status: failed\n", "6: `triggers.a.b.status` has no meaning without `after`"),
        ("triggers", "    every: 5m\n", "6: `triggers.a.b.every` has no meaning without `onCommand`"),
        ("triggers", "    watch: ['*', 7]\n", "6: `triggers.a.b.watch[1]` must be a string"),
        ("triggers", "    webhook: true\n", "6: `triggers.a.b.webhook` must be a mapping"),
        ("triggers", "    webhook: {tokenSha256: abc}\n", "6: `triggers.a.b.webhook` needs tokenSha256"),
        (
            "triggers",
            "    onComand: x\n",
            "6: unknown key `triggers.a.b.onComand`; did you mean `onCommand`?",
        ),
    ] {
        let found = of(section, keys);
        assert!(matches!(found.as_slice(), [one] if one.starts_with(says)), "{says}: {found:#?}");
    }
    assert_eq!(of("schedules", every), [""; 0]);
    let both = format!(
        "{0}:\n  a: {{every: 5m, cwd: /a, agent: a, text: x}}\n{1}:\n  a: {{cwd: /a, agent: a, text: x}}\n",
        SCHEDULES, TRIGGERS
    );
    let found = Home::new(&[(USER, &both)]).checked();
    assert!(
        matches!(found.as_slice(), [one] if one.contains("`triggers.a` is the name of a schedule too")),
        "{found:?}"
    );
    let relative = "schedules: {a: {every: 5m, cwd: app, agent: a, text: x}}\n";
    assert!(Home::new(&[(USER, relative)]).checked()[0].contains("write an absolute path"));
}

#[test]
fn a_project_file_with_one_is_refused() {
    let entry = |section: &str| {
        format!("defaults: {{}}\n{section}: {{a: {{every: 5m, cwd: /a, agent: a, text: x}}}}\n")
    };
    for section in [SCHEDULES, TRIGGERS] {
        let home = Home::new(&[(PROJECT, &entry(section))]);
        let error = discovery::load(None, None, &home.env()).unwrap_err();
        assert_eq!((error.code(), &error.details()["line"]), ("CONFIG_PARSE_ERROR", &json!(2)));
        assert!(error.message().contains("counts only in your own file"), "{}", error.message());
        let found = home.checked();
        assert!(
            found.iter().any(|line| line.starts_with("2: ") && line.contains("your own file")),
            "{found:?}"
        );
    }
    // Under a project's file, those of the user count.
    let home = Home::new(&[(PROJECT, "defaults: {}\nschedules:\n"), (USER, &entry(SCHEDULES))]);
    let loaded = discovery::load(None, None, &home.env()).unwrap();
    assert_eq!(loaded.config.schedules["a"].start.at.map(|at| at.line), Some(2));
    assert_eq!(home.checked(), [""; 0]);
}
