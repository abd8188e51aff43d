//! Questions at a terminal: a person answers `run` with a key.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{AtTerminal, On, TestSandbox, wait_until};

const ASK: &str = "!ask execute rm -rf build";
const FORM: &str = r#"!elicit {"mode": "form", "message": "Which port?", "requestedSchema": {"type": "object", "properties": {"port": {"type": "integer", "title": "Port"}}, "required": ["port"]}}"#;

/// Starts `run` at a terminal with a keyboard.
#[track_caller]
fn run(sandbox: &TestSandbox, args: &[&str], prompt: &str) -> AtTerminal {
    let command = sandbox.command("subagent").args(["run"]).args(args).args(["demo", prompt]);
    command.at_terminal(100, On::All)
}

/// Returns the only open question.
fn open(sandbox: &TestSandbox) -> Value {
    sandbox.run(&["approval", "list"]).data_of("inbox.listed")["items"][0].clone()
}

/// Returns the last decision of the only worker.
fn decided(sandbox: &TestSandbox) -> Value {
    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = list["items"][0]["workerId"].as_str().unwrap();
    let events = sandbox.events(worker);
    events.into_iter().rev().find(|event| event["type"] == "approval.decided").unwrap()["data"].take()
}

#[test]
fn a_key_allows_or_rejects() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[y] allow once");
    terminal.wait_for("? Permission requested for execute: rm -rf build");
    terminal.types("x");
    terminal.types("y");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    assert_eq!(decided(&sandbox)["optionId"], "allow-once");
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[n] reject");
    terminal.types("n");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(12), "{}", screen.text());
    assert_eq!(decided(&sandbox)["optionId"], "reject-once");
    sandbox.finish();
}

#[test]
fn a_rejection_can_have_a_note() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[N] reject with a note");
    terminal.types("N");
    terminal.wait_for("note: ");
    terminal.types("not the build folder\n");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(12), "{}", screen.text());
    assert_eq!(decided(&sandbox)["note"], "not the build folder");
    sandbox.finish();
}

#[test]
fn always_shows_the_rule_and_makes_it_after_enter() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], &format!("{ASK}\n{ASK}"));
    terminal.wait_for("[a] always");
    terminal.types("a");
    terminal.wait_for("execute(rm -rf build)");
    terminal.wait_for("[Enter] allow and make this rule");
    terminal.types("x");
    terminal.types("a\r");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    assert_eq!(
        screen.text().matches("? ").count(),
        1,
        "the second one is allowed by the rule: {}",
        screen.text()
    );
    let rules = sandbox.run(&["policy", "rules", "list"]).data();
    assert_eq!(rules["items"][0]["rule"], "execute(rm -rf build)");
    sandbox.finish();
}

#[test]
fn the_first_answer_wins_and_the_other_terminal_says_who_answered() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[s] skip");
    let request = open(&sandbox)["requestId"].as_str().unwrap().to_owned();
    sandbox.run(&["approve", &request]).data_of("approval.decided");
    terminal.wait_for("answered by owner: allow");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[s] skip");
    terminal.types("s");
    terminal.wait_for("Answer later:  subagent approve ap_");
    sandbox.run(&["approve"]).data_of("approval.decided");
    assert_eq!(terminal.screen().status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn approve_asks_one_open_request_after_the_other() {
    let sandbox = TestSandbox::new();
    for worker in ["one", "two", "three"] {
        sandbox.run(&["worker", "start", "demo", "--name", worker]).data_of("worker.started");
        let prompt = format!("!ask execute make {worker}");
        sandbox.run(&["send", worker, &prompt, "-d"]).data_of("turn.accepted");
        assert_eq!(sandbox.run(&["wait", worker]).status.code(), Some(15));
    }
    sandbox.run(&["approve"]).error("REQUEST_AMBIGUOUS");
    let terminal = sandbox.command("subagent").args(["approve"]).at_terminal(100, On::All);
    terminal.wait_for("? Permission requested for execute: make one");
    terminal.types("d");
    terminal.types("y");
    terminal.wait_for("? Permission requested for execute: make two");
    terminal.types("s");
    terminal.wait_for("? Permission requested for execute: make three");
    // An answer from another terminal ends the last question.
    sandbox.run(&["approve", "three", "--decision", "reject"]).data_of("approval.decided");
    terminal.wait_for("answered by owner: reject");
    assert_eq!(terminal.screen().status.code(), Some(0));
    assert_eq!(open(&sandbox)["name"], "two", "it was skipped");
    let one = sandbox.run(&["approve"]).data_of("approval.decided");
    assert_eq!(one["optionId"], "allow-once");
    sandbox.finish();
}

#[test]
fn two_questions_of_a_worker_are_listed_in_a_pipe_and_asked_at_a_terminal() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    sandbox.run(&["send", "demo-1", "!ask2 execute make", "-d"]).data_of("turn.accepted");
    let open = || sandbox.run(&["approval", "list"]).data_of("inbox.listed")["items"].clone();
    wait_until("both are open", Duration::from_secs(30), || (open().as_array()?.len() == 2).then_some(()));
    let approve = sandbox.command("subagent").args(["approve", "demo-1"]).run();
    assert_eq!(approve.status.code(), Some(1), "{approve}");
    for asked in open().as_array().unwrap() {
        let word = |key: &str| asked[key].as_str().unwrap();
        let line = format!("Open: {}  demo-1  {}\n", word("requestId"), word("subject"));
        assert!(approve.stderr.contains(&line), "{line}\n{approve}");
    }
    let terminal = sandbox.command("subagent").args(["approve", "demo-1"]).at_terminal(80, On::All);
    for number in 1..=2 {
        terminal.wait_for(&format!("? Permission requested for execute: make ({number})"));
        terminal.types("y");
    }
    assert_eq!(terminal.screen().status.code(), Some(0));
    assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn a_question_shows_the_command_the_diff_the_rule_and_the_place() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    let start = ["worker", "start", "hostile", "--name", "h"];
    sandbox.run(&start).data_of("worker.started");
    sandbox.run(&["send", "h", "hostile: permission-with-details", "-d"]).data_of("turn.accepted");
    for columns in [80, 200] {
        let terminal = sandbox.command("subagent").args(["wait", "h"]).at_terminal(columns, On::All);
        terminal.wait_for("[s] skip");
        terminal.types("ds");
        let screen = terminal.screen();
        assert_eq!(screen.status.code(), Some(15), "{}", screen.text());
        let details = "  $ rm -rf /ws\n    reboot\n  /ws/a.txt\n  - old\n  + new\n";
        assert_eq!(screen.text().matches(details).count(), 2, "as asked, and after d: {}", screen.text());
        let place = format!(
            "  in  {}
",
            sandbox.workspace().display()
        );
        assert!(screen.text().contains(&place), "{screen:?}");
        assert!(!screen.bytes.contains("[2J"), "{:?}", screen.bytes);
    }
    sandbox.run(&["approve", "h"]).data_of("approval.decided");
    sandbox
        .run(&["worker", "start", "demo", "--name", "d", "--ask", "execute(rm *)"])
        .data_of("worker.started");
    sandbox.run(&["send", "d", ASK, "-d"]).data_of("turn.accepted");
    let terminal = sandbox.command("subagent").args(["wait", "d"]).at_terminal(80, On::All);
    terminal.wait_for("[s] skip");
    terminal.types("y");
    let screen = terminal.screen();
    assert!(screen.text().contains("  asked for  owner rule execute(rm *)\n"), "{screen:?}");
    sandbox.finish();
}

#[test]
fn d_shows_all_of_a_long_command() {
    let sandbox = TestSandbox::new();
    let lines: Vec<String> = (1..=20).map(|line| format!("step {line}")).collect();
    let script = format!("!ask execute {}", lines.join(" "));
    let terminal = sandbox.command("subagent").args(["run", "demo", &script]).at_terminal(60, On::All);
    terminal.wait_for("[y] once [a] always [n] reject [N] note [d] all [s] skip");
    terminal.types("dn");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(12), "{}", screen.text());
    assert_eq!(screen.text().matches("[s] skip").count(), 2, "{}", screen.text());
    assert!(screen.text().split_whitespace().collect::<Vec<_>>().join(" ").contains(&lines.join(" ")));
    sandbox.finish();
}

#[test]
fn a_terminal_without_colours_is_asked_without_codes() {
    let sandbox = TestSandbox::new();
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        let command = sandbox.command("subagent").args(["run", "demo", ASK]).env(name, value);
        let terminal = command.at_terminal(80, On::All);
        terminal.wait_for("[y] allow once  [a] always  [n] reject  [N] with a note  [d] all  [s] skip");
        terminal.types("y");
        let screen = terminal.screen();
        assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
        let coloured = screen.bytes.contains("\u{1b}[1") || screen.bytes.contains("\u{1b}[3");
        assert!(!coloured, "{name}: {:?}", screen.bytes);
        assert!(name != "TERM" || !screen.bytes.contains('\u{1b}'), "{:?}", screen.bytes);
    }
    sandbox.finish();
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], FORM);
    terminal.wait_for("[y] fill in and accept");
    terminal.types("y");
    terminal.wait_for("Port: ");
    terminal.types("many\n");
    terminal.wait_for("INVALID_ELICITATION_CONTENT");
    terminal.types("y");
    terminal.types("8080\n");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    assert!(
        screen.text().contains(r#"{"port":8080}"#) || screen.text().contains("8080"),
        "{}",
        screen.text()
    );
    sandbox.finish();
}

#[test]
fn ctrl_c_at_a_question_ends_the_run_and_leaves_the_terminal_as_it_was() {
    let sandbox = TestSandbox::new();
    let terminal = run(&sandbox, &[], ASK);
    terminal.wait_for("[s] skip");
    terminal.types("\u{3}");
    let screen = terminal.screen();
    assert!(!screen.status.success(), "{}", screen.text());
    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(list["items"][0]["state"], "stopped");
    sandbox.finish();
}

#[test]
fn without_a_person_or_with_no_ask_the_question_is_rejected() {
    let sandbox = TestSandbox::new();
    let screen = run(&sandbox, &["--no-ask"], ASK).screen();
    assert_eq!(screen.status.code(), Some(12), "{}", screen.text());
    let command = sandbox.command("subagent").args(["run", "demo", ASK]);
    let screen = command.at_terminal(80, On::Both).screen();
    assert_eq!(screen.status.code(), Some(12), "stdin is no terminal: {}", screen.text());
    let output = sandbox.run(&["run", "demo", ASK]);
    assert_eq!(output.document()["data"]["denied"][0]["optionId"], json!("reject-once"));
    sandbox.finish();
}

#[test]
fn send_and_wait_ask_in_place_and_go_on() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    let type_in = |args: &[&str]| sandbox.command("subagent").args(args).at_terminal(100, On::All);
    let terminal = type_in(&["send", "demo-1", ASK]);
    terminal.wait_for("[y] allow once");
    terminal.types("y");
    assert_eq!(terminal.screen().status.code(), Some(0));
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    let terminal = type_in(&["wait", "demo-1"]);
    terminal.wait_for("[n] reject");
    terminal.types("n");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(12), "{}", screen.text());
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    let terminal = type_in(&["wait", "demo-1"]);
    terminal.wait_for("[s] skip");
    terminal.types("s");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(15), "{}", screen.text());
    let screen = type_in(&["wait", "demo-1", "--no-ask"]).screen();
    assert_eq!(screen.status.code(), Some(15), "{}", screen.text());
    let terminal = type_in(&["wait", "demo-1"]);
    terminal.wait_for("[s] skip");
    sandbox.run(&["approve"]).data_of("approval.decided");
    terminal.wait_for("answered by owner: allow");
    assert_eq!(terminal.screen().status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn ctrl_c_at_a_question_of_a_wait_ends_the_wait_alone() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    let typed = |args: &[&str]| {
        let terminal = sandbox.command("subagent").args(args).at_terminal(100, On::All);
        terminal.wait_for("[s] skip");
        terminal.types("\u{3}");
        terminal.screen()
    };
    // `send` has handled Ctrl-C before; the signal must end it anyway.
    for args in [&["send", "demo-1", ASK][..], &["wait", "demo-1"]] {
        let screen = typed(args);
        assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{}", screen.text());
        assert!(screen.text().contains("subagent wait demo-1"), "{}", screen.text());
        assert_eq!(open(&sandbox)["name"], "demo-1", "the question is open");
    }
    sandbox.run(&["approve"]).data_of("approval.decided");
    sandbox.finish();
}

#[test]
fn ctrl_c_in_a_note_or_a_field_ends_the_wait() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    let started = |args: &[&str], prompt: &str| {
        let terminal = sandbox.command("subagent").args(args).at_terminal(100, On::All);
        terminal.wait_for(prompt);
        terminal
    };
    let ended = |terminal: AtTerminal, hint: &str| {
        let screen = terminal.screen();
        assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{}", screen.text());
        assert!(screen.text().contains(hint), "{}", screen.text());
        assert_eq!(open(&sandbox)["name"], "demo-1", "the question is open");
    };
    let (wait, watch) = (&["wait", "demo-1"][..], &["watch", "-f", "demo-1"][..]);
    for (text, at, key, field) in [(ASK, "[s] skip", "N", "note: "), (FORM, "[s] skip", "y", "Port: ")] {
        for (args, hint) in [
            (&["send", "demo-1", text][..], "subagent wait demo-1\n"),
            (wait, "subagent wait demo-1\n"),
            (watch, "subagent watch -f demo-1\n"),
        ] {
            let terminal = started(args, at);
            terminal.types(key);
            terminal.wait_for(field);
            // The terminal sends this signal for Ctrl-C while a line is typed.
            terminal.signal(Signal::SIGINT);
            ended(terminal, hint);
            // At a choice Ctrl-C is a key; this signal comes from another process.
            if args[0] != "send" {
                let terminal = started(args, at);
                terminal.signal(Signal::SIGINT);
                ended(terminal, hint);
            }
        }
        sandbox.run(&["cancel", "demo-1"]).document();
        sandbox.run(&["wait", "demo-1"]).document();
    }
    // After an answer, Ctrl-C ends the watch as before.
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    let terminal = started(watch, "[s] skip");
    terminal.types("y");
    terminal.wait_for("completed");
    terminal.signal(Signal::SIGINT);
    assert_eq!(terminal.screen().status.signal(), Some(Signal::SIGINT as i32));
    sandbox.finish();
}

#[test]
fn ctrl_c_at_a_question_of_a_watch_says_how_to_go_on() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo", "--tag", "job=review"]).data_of("worker.started");
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    for (args, hint) in [
        (&["watch", "-f", "-l", "job=review"][..], "subagent watch -f -l 'job=review'\n"),
        (&["watch", "-f", "--all"], "subagent watch -f --all\n"),
        (&["watch", "-f", "demo-1"], "subagent watch -f demo-1\n"),
    ] {
        let terminal = sandbox.command("subagent").args(args).at_terminal(100, On::All);
        terminal.wait_for("[s] skip");
        terminal.types("\u{3}");
        let screen = terminal.screen();
        assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{}", screen.text());
        assert!(screen.text().contains(hint), "{}", screen.text());
    }
    assert_eq!(open(&sandbox)["name"], "demo-1", "the question is open");
    sandbox.run(&["approve"]).data_of("approval.decided");
    sandbox.finish();
}

#[test]
fn watch_asks_in_place_what_is_open_and_goes_on() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    let type_in = |args: &[&str]| sandbox.command("subagent").args(args).at_terminal(100, On::All);
    // The earlier question has its answer: it is not asked again.
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(15));
    sandbox.run(&["approve"]).data_of("approval.decided");
    sandbox.run(&["wait", "demo-1"]).data_of("workers.waited");
    let terminal = type_in(&["watch", "-f", "demo-1"]);
    terminal.wait_for("completed");
    sandbox
        .run(&["send", "demo-1", "!say before\n!ask execute make\n!say after", "-d"])
        .data_of("turn.accepted");
    terminal.wait_for("[y] allow once");
    assert_eq!(terminal.bytes().matches("[y] allow once").count(), 1, "{}", terminal.bytes());
    terminal.types("y");
    terminal.wait_for("permission: allow-onceafter");
    assert!(!terminal.bytes().contains("answered by"), "the person answered: {}", terminal.bytes());
    wait_until("the end of the turn", Duration::from_secs(30), || {
        sandbox.run(&["wait", "demo-1"]).status.success().then_some(())
    });
    sandbox.run(&["send", "demo-1", ASK, "-d"]).data_of("turn.accepted");
    wait_until("the second question", Duration::from_secs(30), || {
        (terminal.bytes().matches("[s] skip").count() == 2).then_some(())
    });
    terminal.types("\u{3}");
    let screen = terminal.screen();
    assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{}", screen.text());
    assert!(screen.text().contains("subagent watch -f demo-1"), "{}", screen.text());
    assert_eq!(open(&sandbox)["name"], "demo-1", "the question is open");
    // The contract's output, and that of `--no-ask`, only shows it.
    let worker = open(&sandbox)["workerId"].as_str().unwrap().to_owned();
    for args in [
        &["watch", "--worker-id", &worker, "--follow", "--timeout", "0"][..],
        &["watch", "-f", "demo-1", "--no-ask"],
    ] {
        let terminal = type_in(args);
        terminal.wait_for("rm -rf build");
        terminal.signal(Signal::SIGINT);
        let screen = terminal.screen();
        assert!(!screen.text().contains("[y] allow once"), "{}", screen.text());
    }
    sandbox.run(&["approve"]).data_of("approval.decided");
    sandbox.finish();
}

#[test]
fn a_task_asks_in_place_and_goes_on() {
    let sandbox = TestSandbox::new();
    let type_in = |args: &[&str]| sandbox.command("subagent").args(args).at_terminal(100, On::All);
    let terminal = type_in(&["task", "run", "--text", ASK]);
    terminal.wait_for("[y] allow once");
    terminal.types("y");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    assert!(screen.text().contains("permission: allow-once"), "{}", screen.text());
    let given = ["task", "run", "--background", "--name", "Clean up", "--text", ASK];
    let given = sandbox.run(&given).data_of("task.spawned");
    let task = given["taskId"].as_str().unwrap();
    let terminal = type_in(&["task", "wait", task]);
    terminal.wait_for("? Permission requested for execute: rm -rf build");
    terminal.wait_for("[s] skip");
    terminal.types("\u{3}");
    let screen = terminal.screen();
    assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{}", screen.text());
    assert!(screen.text().contains("Clean up  ? Permission requested"), "{}", screen.text());
    assert!(screen.text().contains(&format!("subagent task wait {task}")), "{}", screen.text());
    // A question ends with the time limit of the wait.
    let screen = type_in(&["task", "wait", task, "--timeout", "1s"]).screen();
    assert_eq!(screen.status.code(), Some(1), "{}", screen.text());
    assert!(
        screen.text().contains("[s] skip") && screen.text().contains("WAIT_TIMEOUT"),
        "{}",
        screen.text()
    );
    // `--no-ask` names the command for an answer. An answer from another
    // terminal ends the question.
    let terminal = type_in(&["task", "wait", task, "--no-ask"]);
    terminal.wait_for("answer with: subagent approve");
    let asking = type_in(&["task", "wait", task]);
    asking.wait_for("[s] skip");
    sandbox.run(&["approve"]).data_of("approval.decided");
    asking.wait_for("answered by owner: allow");
    assert_eq!(asking.screen().status.code(), Some(0));
    assert_eq!(terminal.screen().status.code(), Some(0));
    // Ctrl-C at a question of `task run` cancels the task, as at any other time.
    let terminal = type_in(&["task", "run", "--text", ASK]);
    terminal.wait_for("[s] skip");
    terminal.types("\u{3}");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(1), "{}", screen.text());
    let tasks = sandbox.run(&["task", "list"]).data_of("task.listed");
    let canceled = tasks["items"].as_array().unwrap().iter().filter(|task| task["status"] == "cancelled");
    assert_eq!(canceled.count(), 1, "{tasks}");
    sandbox.finish();
}
