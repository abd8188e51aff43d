//! Commands that change something, at a real pseudo terminal of each width, one after another in
//! one workspace.

use std::fs;

use subagent_tests::harness::{On, Screen, TestSandbox};

use super::normal::{normal, width};
use super::snapshot::{differences, fits};
use super::{FORM, WIDTHS};
use crate::worktrees::repository;

const HOOKS: &str = "hooks: {PreToolUse: [{hooks: [{type: command, command: 'echo checked'}]}]}\n";

/// The typed lines. `FORM` and `CONFIG` are a form and the config file of the workspace.
const LINES: &[&str] = &[
    "config init --path NEW",
    "config init --path NEW --force",
    "hook trust CONFIG --yes",
    "hook test PreToolUse",
    "hook test Stop",
    "hook trust CONFIG --remove",
    "hook test PreToolUse",
    "worker start demo --name auth",
    "worker start demo --name docs --worktree",
    "send auth 'Hello'",
    "send auth --no-ask '!ask execute make all'",
    "approve auth",
    "wait auth",
    "send -d auth '!ask execute make all'",
    "send -d auth --queue 'And then the docs'",
    "cancel auth",
    "wait auth",
    "send auth --no-ask 'FORM'",
    "answer auth --decline",
    "wait auth",
    "worker set auth --name login",
    "worker restart login",
    "worker resume login",
    "send docs '!edit create b.txt new'",
    "worktree list",
    "worktree show docs",
    "worktree setup docs",
    "land docs --patch docs.patch",
    "land docs",
    "land docs",
    "stop docs",
    "worktree prune",
    "run demo 'Hello'",
    "run demo 'LONG'",
    "run demo '!tool read LONG'",
    "run demo '!error -32000 LONG'",
    "run -d demo --name side 'Hello'",
    "wait side",
    "stop side",
    "worker continue --from-worker side",
    "stop @last",
    "task run --agent explore --name Find --background --text 'Found it.'",
    "task wait Find",
    "task message Find --text 'And the tests?'",
    "task wait Find",
    "task cancel Find",
    "task result Find",
    "schedule add nightly --every 5m --timezone UTC --send login --text 'Look at the tests'",
    "schedule pause nightly",
    "schedule resume nightly",
    "schedule run nightly",
    "wait login",
    "schedule rm nightly",
    "trigger add pushed --send login --text 'Look: {{payload}}'",
    "trigger list",
    "trigger show pushed",
    "trigger pause pushed",
    "trigger resume pushed",
    "trigger fire pushed --occurrence first",
    "wait login",
    "trigger log pushed",
    "trigger rm pushed",
    "budget set --max-turns 40",
    "stop Find",
    "task prune --older-than 0 --dry-run",
    "task prune --older-than 0",
    "stop login",
    "rm login",
    "prune --older-than 0 --dry-run",
    "daemon restart",
    "daemon stop",
];

/// Lines whose view has numbers of events, times, commits, pids, or a state that changes meanwhile;
/// they have no snapshot.
const VARYING: &[&str] = &[
    "run demo 'Hello'",
    "run demo 'LONG'",
    "run demo '!tool read LONG'",
    "run demo '!error -32000 LONG'",
    "land docs",
    "approve auth",
    "send -d auth --queue 'And then the docs'",
    "cancel auth",
    "answer auth --decline",
    "schedule run nightly",
    "trigger fire pushed --occurrence first",
    "trigger log pushed",
    "prune --older-than 0 --dry-run",
    "daemon stop",
];

/// Returns the line without the part of a worktree's path that is made of its repository's path.
fn without_hash(line: &str) -> String {
    match line.split_once("/worktrees/ws-") {
        Some((before, after)) => format!("{before}/worktrees/ws-HASH{}", after.get(8..).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Returns the line of a task that was given right now, whose worker may be started already.
fn as_queued(line: &str) -> String {
    line.replace("state  spawning", "state  queued")
}

/// A text that is wider than each terminal.
const LONG: &str = "this text has more words than a terminal of two hundred columns can show on a single line, so that the command has to wrap it at one of its spaces before the text reaches the right margin of the terminal";

fn at(sandbox: &TestSandbox, line: &str, columns: u16) -> Screen {
    let words = shell_words::split(line).unwrap().into_iter().map(|word| match word.as_str() {
        "FORM" => FORM.to_owned(),
        "NEW" => sandbox.file_name("new.yaml"),
        "CONFIG" => sandbox.config_file().to_str().unwrap().to_owned(),
        _ => word.replace("LONG", LONG),
    });
    sandbox.command("subagent").args(words).at_terminal(columns, On::Both).screen()
}

#[test]
fn every_change_is_shown_in_a_view() {
    let mut wrong = Vec::new();
    for columns in WIDTHS {
        let mut sandbox = repository();
        let demo = sandbox.demo_agent(&[]);
        sandbox.launcher("demo", demo);
        let config = sandbox.config_file();
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{text}{HOOKS}")).unwrap();
        sandbox.init();
        let mut all = String::new();
        for line in LINES {
            let lines = at(&sandbox, line, columns).lines();
            let text = lines.join("\n");
            let broken = ["PANIC", "panicked", "INTERNAL", "INVALID_ARGUMENT", "Usage:"];
            if let Some(word) = broken.iter().find(|word| text.contains(**word)) {
                wrong.push(format!("{line} at {columns}: {word} in {text}"));
            }
            if let Some(wide) = lines.iter().find(|line| !fits(line, columns)) {
                wrong.push(format!("{line} at {columns}: {} columns: {wide}", width(wide)));
            }
            // A line of a pipe: a key before a colon or tabs between cells.
            if text.contains('\t')
                || ["workerId: ", "taskId: "].iter().any(|key| text.contains(key))
                || text.contains("{\"")
            {
                wrong.push(format!("{line} at {columns} prints the lines of a pipe: {text}"));
            }
            if VARYING.contains(line) {
                continue;
            }
            let lines: Vec<String> = lines.iter().map(|line| as_queued(&without_hash(line))).collect();
            all.push_str(&format!("$ subagent {line}\n{}\n\n", normal(&sandbox, &lines)));
        }
        wrong.extend(differences(&format!("changes-{columns}"), &all));
        sandbox.finish();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
