//! The last line of a run at a terminal: its outcome, duration, changes and usage.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{On, TestSandbox};

use super::running;
use crate::look::git;

/// A turn with two tool calls, three files, tokens and a cost.
fn busy() -> String {
    let update = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.312, "currency": "USD"}});
    let params = json!({"sessionId": "SESSION", "update": update});
    let usage = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let edits = "!edit create new.txt 1\\n2\n!edit replace a.txt 1 ONE\n!edit delete gone.txt";
    format!("{edits}\n!tool read a file\n!raw {usage}\n!tokens {{\"totalTokens\": 41234}}\nAll done.")
}

/// Returns the last line without the duration.
#[track_caller]
fn last(sandbox: &TestSandbox, args: &[&str], prompt: &str, code: i32) -> String {
    let command = sandbox.command("subagent").args(["run"]).args(args).args(["demo", prompt]);
    let screen = command.at_terminal(100, On::Both).screen();
    assert_eq!(screen.status.code(), Some(code), "{}", screen.text());
    let lines = screen.lines();
    let mut parts: Vec<&str> = lines.last().unwrap().split(" · ").collect();
    let time = parts.remove(1);
    assert!(time.ends_with('s') && time.starts_with(|c: char| c.is_ascii_digit()), "{lines:?}");
    parts.join(" · ")
}

fn files(sandbox: &TestSandbox) {
    fs::write(sandbox.workspace().join("a.txt"), "one\ntwo\n").unwrap();
    fs::write(sandbox.workspace().join("gone.txt"), "gone\n").unwrap();
}

#[test]
fn a_run_ends_with_its_figures() {
    let sandbox = TestSandbox::new();
    git(&sandbox, &["init", "-q", "."]);
    files(&sandbox);
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    let expected = "done · 4 tools · 3 files +3 −2 · 41k tokens · $0.31";
    assert_eq!(last(&sandbox, &[], &busy(), 0), expected);
    // Changes from before the run do not count, and absent values are omitted.
    assert_eq!(last(&sandbox, &[], "hello", 0), "done");
    sandbox.finish();
}

#[test]
fn without_git_the_figures_are_those_that_the_agent_has_reported() {
    let sandbox = TestSandbox::new();
    files(&sandbox);
    let expected = "done · 4 tools · 3 files +3 −2 · 41k tokens · $0.31";
    assert_eq!(last(&sandbox, &[], &busy(), 0), expected);
    sandbox.finish();
}

#[test]
fn the_first_word_is_the_outcome() {
    let sandbox = TestSandbox::new();
    for (args, prompt, word, code) in [
        (&[][..], "!error -32000 no luck", "failed", 10),
        (&["--no-ask"], "!ask execute rm -rf build", "denied · 1 tool", 12),
        (&["--timeout", "1s"], "!sleep 60000", "timed out", 13),
        (&[], "!stop refusal", "refused", 16),
        (&[], "!stop max_tokens", "token limit", 17),
    ] {
        assert_eq!(last(&sandbox, args, prompt, code), word);
    }
    sandbox.finish();
}

#[test]
fn only_a_person_gets_the_line() {
    let sandbox = TestSandbox::new();
    let output = running(&sandbox, "!tool read a\nhello").run();
    assert_eq!(output.text(), "hello\n");
    assert!(!output.stderr.contains("done · "), "{output}");
    // Stdout is for programs, stderr for people.
    let command = sandbox.command("subagent").args(["run", "demo", "hello"]);
    let screen = command.at_terminal(80, On::Stderr).screen();
    assert!(screen.lines().last().unwrap().starts_with("done · "), "{}", screen.text());
    let command = sandbox.command("subagent").args(["run", "--json", "demo", "hello"]);
    let screen = command.at_terminal(80, On::Both).screen();
    assert!(!screen.text().contains("done · "), "{}", screen.text());
    sandbox.finish();
}
