//! A new user's first result: from an empty home to a visible change, with little
//! typing and without ids.

use subagent_tests::harness::{TestSandbox, Typist};

use crate::config_layers::{agent, bare, program};
use crate::look::git;

/// A person with an empty home, an agent in the PATH, and a repository.
fn newcomer() -> TestSandbox {
    let mut sandbox = bare();
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    sandbox.set_state_dir(sandbox.workspace().join(".subagent/state"));
    std::fs::remove_dir_all(sandbox.file("ws/.git")).unwrap();
    agent(&sandbox, "codex-acp", "");
    program(&sandbox, "git", "exec /usr/bin/git \"$@\"");
    program(&sandbox, "subagent", &format!("exec '{}' \"$@\"", sandbox.executable("subagent")));
    git(&sandbox, &["init", "-q", "."]);
    sandbox
}

#[test]
fn with_nothing_configured_a_run_answers() {
    let sandbox = newcomer();
    let answered = Typist::new(&sandbox).types("subagent run codex 'hello'", 0);
    assert_eq!(answered.stdout, "hello\n", "{answered}");
    sandbox.finish();
}

#[test]
fn a_first_result_takes_few_commands_and_no_id() {
    let sandbox = newcomer();
    let mut typist = Typist::new(&sandbox);
    let prompt = "!edit create fix.txt\n!ask execute make\nFixed.";
    let started = typist.types(&format!("subagent run -d codex '{prompt}'"), 0);
    assert_eq!(started.stdout, "codex-1\n");
    let listed = typist.types("subagent ls", 0);
    assert!(listed.stdout.contains("codex-1"), "{listed}");
    let asked = typist.types("subagent wait codex-1", 15);
    assert!(asked.stderr.contains("answer with: subagent approve codex-1"), "{asked}");
    let _ = typist.types("subagent approve", 0);
    let ended = typist.types("subagent wait codex-1", 0);
    assert!(ended.stdout.starts_with("codex-1\tcompleted\t"), "{ended}");
    let shown = typist.types("subagent show codex-1", 0);
    assert!(shown.stdout.contains("filesChanged: 1 +1 -0"), "{shown}");
    let diff = typist.types("subagent diff codex-1", 0);
    assert!(diff.stdout.contains("+++ b/fix.txt"), "{diff}");
    typist.assert_little_typed();
    let _ = typist.types("subagent stop codex-1", 0);
    sandbox.finish();
}

#[test]
fn a_first_change_is_landed_with_little_typing() {
    let mut sandbox = newcomer();
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "first"]);
    for who in ["AUTHOR", "COMMITTER"] {
        sandbox.set_env(format!("GIT_{who}_NAME"), "me");
        sandbox.set_env(format!("GIT_{who}_EMAIL"), "me@example.com");
    }
    let mut typist = Typist::new(&sandbox);
    let found = typist.types("subagent init --yes", 0);
    assert!(found.stdout.contains("codex"), "{found}");
    let prompt = "!edit create fix.txt\n!ask execute make";
    let started = typist.types(&format!("subagent run -d codex --worktree '{prompt}'"), 0);
    assert_eq!(started.stdout, "codex-1\n");
    let _ = typist.types("subagent wait codex-1", 15);
    let _ = typist.types("subagent approve", 0);
    let _ = typist.types("subagent wait codex-1", 0);
    let shown = typist.types("subagent show", 0);
    assert!(shown.stdout.contains("filesChanged: 1 +1 -0"), "{shown}");
    let diff = typist.types("subagent diff", 0);
    assert!(diff.stdout.contains("+++ b/fix.txt"), "{diff}");
    let file = sandbox.workspace().join("fix.txt");
    assert!(!file.exists(), "the change is in the worktree alone");
    let _ = typist.types("subagent land codex-1", 0);
    assert!(file.exists());
    typist.assert_little_typed();
    let log = git(&sandbox, &["log", "--format=%s"]);
    assert_eq!(log.lines().count(), 2, "{log}");
    let watched = sandbox.command("subagent").args(["watch", "codex-1"]).on_screen().text();
    for sentence in [" created, branch ", "landed on ", ": 1 file +1 -0"] {
        assert!(watched.contains(sentence), "{sentence}: {watched}");
    }
    assert!(!watched.contains('{'), "{watched}");
    let _ = typist.types("subagent stop codex-1", 0);
    sandbox.finish();
}
