//! Drop-in replacement: recorded requests to the reference (`tests/reference/*.session`) are
//! repeated, and our responses must contain everything in the reference's. Intended differences are
//! listed with their reasons.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use subagent_tests::harness::{Output, TestSandbox};

mod differences;

use differences::{DIFFERENCES, RACES};

/// Texts for people, compared only for presence.
const WORDS: &[&str] = &[
    "message",
    "recommendedAction",
    "recommendedCommand",
    "error",
    "prompt",
    "suggestedAction",
    "diagnosis",
];
/// Values that differ in every run.
const CHANGING: &[&str] = &["pid", "token", "runtimePid", "runtimeSocket", "resolvedCommandPath"];

/// Values that differ in every run and are replaced.
struct VolatileValues {
    root: String,
    agent: String,
}

/// One command of a session.
#[derive(Default)]
struct RecordedCommand {
    line: String,
    stdin: String,
    saves: Vec<(String, String)>,
    env: Vec<(String, String)>,
    code: i32,
    stdout: Vec<String>,
    stderr: Vec<String>,
}

#[test]
fn registry() {
    replay("registry");
}

#[test]
fn controller() {
    replay("controller");
}

#[test]
fn debug() {
    replay("debug");
}

#[test]
fn strict() {
    replay("strict");
}

#[track_caller]
fn replay(name: &str) {
    let sandbox = TestSandbox::new();
    let run = VolatileValues {
        root: sandbox.path().to_str().unwrap().to_owned(),
        agent: sandbox.executable("subagent"),
    };
    let config = fs::read_to_string(folder().join("config.yaml")).unwrap();
    let config = config.replace("$AGENT", &run.agent);
    fs::write(sandbox.config_file(), config).unwrap();
    let mut names = BTreeMap::from([("ROOT".to_owned(), run.root.clone())]);
    let mut env: Vec<(String, String)> = Vec::new();
    let mut wrong = Vec::new();
    let mut unused: Vec<_> = DIFFERENCES.iter().filter(|[session, ..]| *session == name).collect();
    for step in steps(name) {
        for (variable, value) in &step.env {
            env.push((variable.clone(), filled(value, &names)));
        }
        let words = shell_words::split(&filled(&step.line, &names)).unwrap();
        let mut command = sandbox.command(&words[0]).args(&words[1..]).stdin(filled(&step.stdin, &names));
        for (variable, value) in &env {
            command = command.env(variable, value);
        }
        let output = command.run();
        let mut found = Vec::new();
        compare(&step, &output, &run, &mut found);
        for (path, text) in found {
            let fits = |[session, command, place, _]: &&[&str; 4]| {
                *session == name && step.line.contains(command) && *place == path
            };
            match DIFFERENCES.iter().chain(RACES).find(fits) {
                Some(known) => unused.retain(|difference| !std::ptr::eq(*difference, known)),
                None => wrong.push(format!("$ {}\n  {path}: {text}", step.line)),
            }
        }
        for (variable, path) in &step.saves {
            let document: Value = serde_json::from_str(&output.stdout).unwrap_or(Value::Null);
            let value = &document.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            names.insert(variable.clone(), text);
        }
    }
    for [_, command, path, _] in unused {
        wrong.push(format!("no longer a difference: {command} {path}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    sandbox.finish();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reference")
}

fn steps(name: &str) -> Vec<RecordedCommand> {
    let text = fs::read_to_string(folder().join(format!("{name}.session"))).unwrap();
    let (mut steps, mut env): (Vec<RecordedCommand>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(assignment) = line.strip_prefix("env ") {
            let (variable, value) = assignment.split_once('=').unwrap();
            env.push((variable.to_owned(), value.to_owned()));
            continue;
        }
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "$" {
            steps.push(RecordedCommand {
                line: rest.to_owned(),
                env: std::mem::take(&mut env),
                ..RecordedCommand::default()
            });
            continue;
        }
        let step = steps.last_mut().unwrap();
        match mark {
            "<" => step.stdin.push_str(&format!("{rest}\n")),
            "=" => {
                let (variable, path) = rest.split_once(' ').unwrap();
                step.saves.push((variable.to_owned(), path.to_owned()));
            }
            "?" => step.code = rest.parse().unwrap(),
            ">" => step.stdout.push(rest.to_owned()),
            "!" => step.stderr.push(rest.to_owned()),
            _ => panic!("{name}: {line}"),
        }
    }
    assert!(!steps.is_empty(), "{name} holds no command");
    steps
}

fn filled(text: &str, names: &BTreeMap<String, String>) -> String {
    // The longest name first: one may be the prefix of another.
    let mut names: Vec<_> = names.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

/// Collects the differences, as path and text.
fn compare(step: &RecordedCommand, output: &Output, run: &VolatileValues, found: &mut Vec<(String, String)>) {
    let code = output.status.code().unwrap_or(-1);
    if code != step.code {
        found.push(("exit".to_owned(), format!("exit code {code} instead of {}\n{output}", step.code)));
        return;
    }
    if step.code == 2 {
        return;
    }
    let lines: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
    for (index, recorded) in step.stdout.iter().enumerate() {
        match serde_json::from_str::<Value>(recorded) {
            Ok(recorded) if recorded.is_object() => {
                let ours = lines.get(index).and_then(|line| serde_json::from_str(line).ok());
                let path = if step.stdout.len() > 1 { format!("[{index}]") } else { String::new() };
                match ours {
                    Some(ours) => values(&path, "", &ours, &recorded, run, found),
                    None => found.push((path, format!("instead of {recorded}\n{output}"))),
                }
            }
            _ => {
                let has = lines.iter().any(|line| plain(&hidden(line), run) == *recorded);
                if !has && !step.line.contains("prompt render") {
                    found.push(("text".to_owned(), format!("{recorded:?} is not in\n{output}")));
                }
            }
        }
    }
    let first =
        |text: Option<&str>| text.unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
    let (ours, recorded) =
        (first(output.stderr.lines().next()), first(step.stderr.first().map(String::as_str)));
    if ours != recorded {
        found.push(("stderr".to_owned(), format!("{ours:?} instead of {recorded:?}\n{output}")));
    }
}

fn values(
    path: &str,
    key: &str,
    ours: &Value,
    recorded: &Value,
    run: &VolatileValues,
    found: &mut Vec<(String, String)>,
) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            for (key, recorded) in recorded {
                let path = format!("{path}.{key}");
                match ours.get(key) {
                    Some(ours) => values(&path, key, ours, recorded, run, found),
                    None => found.push((path, "is missing".to_owned())),
                }
            }
        }
        (Value::Array(ours), Value::Array(recorded)) if ours.len() == recorded.len() => {
            for (index, (ours, recorded)) in ours.iter().zip(recorded).enumerate() {
                values(&format!("{path}[{index}]"), key, ours, recorded, run, found);
            }
        }
        (Value::String(ours), Value::String(recorded)) => {
            let same = WORDS.contains(&key) || CHANGING.contains(&key) || plain(ours, run) == *recorded;
            if !same {
                found.push((path.to_owned(), format!("{ours:?} instead of {recorded:?}")));
            }
        }
        (Value::Number(_), Value::String(_)) if CHANGING.contains(&key) => {}
        _ if ours == recorded => {}
        _ => found.push((path.to_owned(), format!("{ours} instead of {recorded}"))),
    }
}

/// Returns a line of text without varying parts.
fn hidden(line: &str) -> String {
    match line.split_once(": ") {
        Some((key @ ("owner.pid" | "runtimePid"), _)) => format!("{key}: <pid>"),
        _ => line.to_owned(),
    }
}

/// Returns the text with ids, times and the sandbox's folder replaced,
/// as `tests/reference/record` does it.
fn plain(text: &str, run: &VolatileValues) -> String {
    let text = text.replace(&run.root, "<root>").replace(&run.agent, "<agent>");
    let mut out = String::new();
    let mut rest = text.as_str();
    'next: while let Some(first) = rest.chars().next() {
        let begins = out.chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        for prefix in ["ctl", "ci", "w", "turn", "ev", "ap", "hs", "sess"] {
            let digits = rest.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).map(|rest| {
                rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count()
            });
            if let (true, Some(digits @ 10..=12)) = (begins, digits) {
                out.push_str(&format!("{prefix}_*"));
                rest = &rest[prefix.len() + 1 + digits..];
                continue 'next;
            }
        }
        let time: Option<String> = rest.get(..25).map(|time| time.replace(|c: char| c.is_ascii_digit(), "0"));
        if time.as_deref() == Some("0000-00-00T00:00:00+00:00") {
            out.push_str("<time>");
            rest = &rest[25..];
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}
