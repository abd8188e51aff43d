//! Output for people: the executables at a terminal.

use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt as _;
use subagent_tests::harness::{On, TestLauncher, TestSandbox};

/// Starts a control sequence: colors, erasing, titles.
const ESCAPE: char = '\u{1b}';

#[test]
fn a_list_is_a_table_with_states_in_colour_and_relative_times() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let screen = sandbox.command("subagent").args(["worker", "list"]).on_screen();
    assert_eq!(screen.status.code(), Some(0));
    let lines = screen.lines();
    assert!(lines[0].starts_with("NAME") && lines[0].ends_with("CHANGED   WORKER"), "{lines:?}");
    assert!(
        lines[1].starts_with("demo-1  ") && lines[1].contains("  idle  ") && lines[1].contains("  demo "),
        "{lines:?}"
    );
    assert!(lines[1].ends_with(&worker), "{lines:?}");
    assert!(lines[1].contains(" ago") || lines[1].contains("just now"), "{lines:?}");
    assert!(screen.bytes.contains("\u{1b}[32midle\u{1b}[0m"), "{:?}", screen.bytes);
    sandbox.finish();
}

#[test]
fn lines_for_anything_but_a_terminal_stay_those_of_the_contract() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let list = sandbox.command("subagent").args(["worker", "list"]).env("CLICOLOR_FORCE", "1").run();
    assert_eq!(list.text(), format!("{worker}\tidle\tworker\n"));
    let failed = sandbox.command("subagent").args(["worker", "show", "w_none"]).run();
    assert!(failed.stderr.starts_with("WORKER_NOT_FOUND: ") && !failed.stderr.contains(ESCAPE), "{failed}");
    let sent = sandbox.command("subagent").args(["send", "--worker-id", &worker, "--text", "hi"]).run();
    assert!(sent.text().starts_with(&format!("workerId: {worker}\nturnId: ")), "{sent}");
    assert_eq!(sent.stderr, "", "{sent}");
    sandbox.finish();
}

#[test]
fn json_at_a_terminal_is_the_same_document() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for args in
        [&["worker", "list", "--json"][..], &["send", "--worker-id", &worker, "--text", "hi", "--json"]]
    {
        let screen = sandbox.command("subagent").args(args).on_screen();
        assert!(
            screen.bytes.starts_with("{\"data\": {") && !screen.bytes.contains(ESCAPE),
            "{:?}",
            screen.bytes
        );
        assert_eq!(screen.bytes.lines().count(), 1);
    }
    for flag in ["--ndjson", "--json", "--raw"] {
        let screen = sandbox.command("subagent").args(["watch", "--worker-id", &worker, flag]).on_screen();
        assert!(screen.bytes.starts_with("{\"data\": {"), "{:?}", screen.bytes);
    }
    sandbox.finish();
}

#[test]
fn colours_follow_what_the_terminal_and_the_person_want() {
    let (sandbox, _) = TestSandbox::with_worker();
    let list = || sandbox.command("subagent").args(["worker", "list"]);
    assert!(!list().env("NO_COLOR", "1").on_screen().bytes.contains(ESCAPE));
    assert!(!list().env("TERM", "dumb").on_screen().bytes.contains(ESCAPE));
    assert!(list().env("TERM", "dumb").env("CLICOLOR_FORCE", "1").on_screen().bytes.contains(ESCAPE));
    sandbox.finish();
}

#[test]
fn a_narrow_terminal_gets_a_narrow_table() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let label = "a very long label that fills more than the line of a terminal";
    sandbox.run(&["worker", "start", "--label", label]).data_of("worker.started");
    let screen = sandbox.command("subagent").args(["worker", "list"]).at_terminal(72, On::Both).screen();
    assert!(screen.lines().iter().all(|line| line.chars().count() <= 72), "{:?}", screen.lines());
    assert!(screen.text().contains("a very long") && screen.text().contains('…'), "{:?}", screen.lines());
    sandbox.finish();
}

#[test]
fn an_error_has_its_code_in_colour_and_what_to_do() {
    let sandbox = TestSandbox::new();
    let screen = sandbox.command("subagent").args(["worker", "start"]).on_screen();
    assert_eq!(screen.status.code(), Some(1));
    assert!(
        screen.bytes.contains("\u{1b}[1m\u{1b}[31mCONTROLLER_NOT_FOUND\u{1b}[0m: "),
        "{:?}",
        screen.bytes
    );
    let lines = screen.lines();
    assert!(lines.iter().any(|line| line == "Try:  subagent worker start demo"), "{lines:?}");
    sandbox.finish();
}

#[test]
fn what_an_agent_says_cannot_reach_the_terminal() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let evil = "before\u{1b}]0;owned\u{7}\u{9b}2Jafter";
    let send = ["send", "--worker-id", &worker, "--text-file", "evil"];
    std::fs::write(
        sandbox.workspace().join("evil"),
        format!("!think {evil}\n!tool read {evil}\n!say {evil}"),
    )
    .unwrap();
    let sent = sandbox.command("subagent").args(send).on_screen();
    assert!(sent.text().contains("beforeafter"), "{:?}", sent.bytes);
    let watched = sandbox.command("subagent").args(["watch", "--worker-id", &worker]).on_screen();
    // The message, the thought, the tool call, the response.
    assert!(watched.text().matches("beforeafter").count() >= 6, "{:?}", watched.bytes);
    for screen in [sent, watched] {
        assert!(!screen.bytes.contains("owned") && !screen.bytes.contains("\u{9b}"), "{:?}", screen.bytes);
        assert!(!screen.bytes.contains('\u{7}') && !screen.bytes.contains("2J"), "{:?}", screen.bytes);
    }
    let label = sandbox.run(&["worker", "start", "--label", evil]).data_of("worker.started");
    assert_eq!(label["label"], evil);
    for args in [&["worker", "list"][..], &["worker", "show", label["workerId"].as_str().unwrap()]] {
        let screen = sandbox.command("subagent").args(args).on_screen();
        assert!(
            screen.text().contains("beforeafter") && !screen.bytes.contains("owned"),
            "{:?}",
            screen.bytes
        );
    }
    let failed = sandbox.command("subagent").args(["worker", "show", "w_\u{1b}[2J"]).on_screen();
    assert!(!failed.bytes.contains("[2J"), "{:?}", failed.bytes);
    sandbox.finish();
}

#[test]
fn a_line_says_what_the_agent_is_doing_while_send_waits_and_is_gone_afterwards() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("tool");
    let prompt = format!("!think hm\n{}\nfinished", gate.directive());
    let send = ["send", "--worker-id", &worker, "--text", &prompt];
    let sending = sandbox.command("subagent").args(send).at_terminal(80, On::Both);
    sending.wait_for("running · ");
    sending.wait_for(" · thinking");
    gate.open();
    let screen = sending.screen();
    let (line, result) = screen.bytes.rsplit_once("\r\u{1b}[2K").unwrap();
    assert!(line.contains("thinking"), "{:?}", screen.bytes);
    assert!(result.starts_with("finished\n") && result.contains("completed"), "{:?}", screen.bytes);
    sandbox.finish();
}

#[test]
fn only_a_terminal_that_can_erase_gets_the_line_and_stdout_stays_as_it_is() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let send = || sandbox.command("subagent").args(["send", "--worker-id", &worker, "--text", "hi"]);
    let dumb = send().env("TERM", "dumb").on_screen();
    assert!(!dumb.bytes.contains("running ·"), "{:?}", dumb.bytes);
    let half = send().at_terminal(80, On::Stderr).screen();
    assert!(half.bytes.ends_with("\r\u{1b}[2K") && !half.bytes.contains("hi"), "{:?}", half.bytes);
    sandbox.finish();
}

#[test]
fn a_wait_that_gives_up_takes_its_line_away_and_says_why() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let wait = ["wait", "--worker-id", &worker, "--timeout-seconds", "0.3"];
    let screen = sandbox.command("subagent").args(wait).on_screen();
    assert_eq!(screen.status.code(), Some(1));
    let (line, error) = screen.bytes.rsplit_once("\r\u{1b}[2K").unwrap();
    assert!(line.contains("waiting · 0s"), "{:?}", screen.bytes);
    assert!(error.contains("WAIT_TIMEOUT") && error.contains("Hint: "), "{:?}", screen.bytes);
    assert!(screen.text().contains("Hint: the worker is idle: no turn is open"), "{:?}", screen.bytes);
    sandbox.finish();
}

#[test]
fn ctrl_c_ends_the_wait_and_not_the_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let prompt = format!("{}\nlate", gate.directive());
    let send = ["send", "--worker-id", &worker, "--text", &prompt];
    let sending = sandbox.command("subagent").args(send).at_terminal(80, On::Both);
    sending.wait_for("running · ");
    sending.signal(Signal::SIGINT);
    let screen = sending.screen();
    assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{screen:?}");
    let lines = screen.lines();
    let command = lines
        .iter()
        .find_map(|line| line.strip_prefix("Try:  subagent "))
        .unwrap_or_else(|| panic!("{lines:?}"));
    assert!(screen.text().contains("the turn goes on"), "{lines:?}");
    gate.open();
    let args: Vec<&str> = command.split(' ').collect();
    assert_eq!(sandbox.run(&args).data_of("event.matched")["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn ctrl_c_at_a_wait_by_name_says_how_to_go_on_by_name() {
    let (sandbox, _) = TestSandbox::with_worker();
    sandbox.run(&["worker", "start", "demo"]).data_of("worker.started");
    let gates = ["demo-1", "demo-2"].map(|worker| {
        let gate = sandbox.gate(worker);
        sandbox.run(&["send", worker, &gate.directive(), "-d"]).data_of("turn.accepted");
        gate
    });
    for (args, line, hint) in [
        (&["wait", "demo-1"][..], "running · ", "subagent cancel demo-1"),
        (&["wait", "demo-1", "demo-2"], "waiting for 2 workers · ", "subagent wait demo-1 demo-2"),
        (&["send", "demo-1", "--queue", "late"], "running · ", "subagent cancel demo-1"),
    ] {
        let waiting = sandbox.command("subagent").args(args).at_terminal(80, On::Both);
        waiting.wait_for(line);
        waiting.signal(Signal::SIGINT);
        let screen = waiting.screen();
        assert_eq!(screen.status.signal(), Some(Signal::SIGINT as i32), "{screen:?}");
        let text = screen.text();
        assert!(text.contains("The wait has ended") && text.contains(hint), "{text}");
        assert!(
            text.contains(if args.len() == 3 {
                "Try:  subagent wait demo-1 demo-2"
            } else {
                "Try:  subagent wait demo-1"
            }),
            "{text}"
        );
    }
    for gate in gates {
        gate.open();
    }
    let waited = sandbox.command("subagent").args(["wait", "demo-1", "demo-2"]).on_screen();
    assert!(waited.text().contains("demo-2  completed"), "{waited:?}");
    sandbox.finish();
}

#[test]
fn a_worker_that_is_addressed_by_its_name_is_called_by_it() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["worker", "start", "demo", "--tag", "job=x"]).data_of("worker.started");
    let at_terminal = |args: &[&str]| {
        let screen = sandbox.command("subagent").args(args).on_screen();
        assert!(!screen.text().contains("w_"), "{args:?}: {}", screen.text());
        screen.text()
    };
    let accepted = at_terminal(&["send", "demo-1", "-d", "!ask execute make\n!sleep 60000"]);
    assert!(accepted.contains("subagent wait demo-1") && accepted.contains("subagent watch demo-1 -f"));
    let asked = at_terminal(&["wait", "demo-1", "--no-ask"]);
    assert_eq!(asked.matches("subagent approve demo-1").count(), 1, "{asked}");
    assert!(
        asked.starts_with("demo-1  needs answer\n  ? Permission requested for execute: make\n"),
        "{asked}"
    );
    let asked = at_terminal(&["wait", "-l", "job=x"]);
    assert!(asked.contains("Answer:  subagent approve demo-1"), "{asked}");
    assert!(asked.contains("Permission requested for execute: make"), "{asked}");
    assert!(at_terminal(&["approve"]).contains("Wait:  subagent wait demo-1"));
    assert!(at_terminal(&["cancel", "demo-1"]).starts_with("demo-1  "));
    let form = r#"!elicit {"mode": "form", "message": "Go?", "requestedSchema": {"type": "object", "properties": {}}}"#;
    at_terminal(&["send", "demo-1", "-d", &format!("{form}\n!sleep 60000")]);
    assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(15));
    assert!(at_terminal(&["answer", "--accept"]).contains("Wait:  subagent wait demo-1"));
    at_terminal(&["cancel", "demo-1"]);
    let set = at_terminal(&["worker", "set", "demo-1", "--idle-timeout", "20m"]);
    assert_eq!(set.trim(), "demo-1\n  idle timeout  20m 00s");
    let set = at_terminal(&["worker", "set", "demo-1", "--idle-timeout", "never"]);
    assert_eq!(set.trim(), "demo-1\n  idle timeout  never");
    let set = sandbox.run(&["worker", "set", "demo-1", "--idle-timeout", "20m"]).data_of("worker.set");
    let keys: Vec<&String> = set.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["idleTimeoutMs", "workerId"], "the agent must not be involved");
    assert_eq!(set["idleTimeoutMs"], 1_200_000);
    let stopped = at_terminal(&["worker", "stop", "-l", "job=x"]);
    assert_eq!(stopped.trim(), "demo-1  stopped");
    assert!(at_terminal(&["stop", "demo-1"]).starts_with("demo-1  stopped"));
    // Data stay unchanged.
    let data = sandbox.run(&["stop", "demo-1"]).data_of("worker.stopped");
    assert!(data.get("name").is_none(), "{data}");
    sandbox.finish();
}

#[test]
fn a_run_says_at_a_terminal_what_the_agent_does_while_it_is_silent() {
    let sandbox = TestSandbox::new();
    let gate = sandbox.gate("turn");
    let prompt = format!("!say begun\n!think about it\n!tool read src/lib.rs\n{}\nlate", gate.directive());
    let running = sandbox.command("subagent").args(["run", "demo", &prompt]).at_terminal(80, On::Both);
    running.wait_for("running · ");
    gate.open();
    let screen = running.screen();
    assert_eq!(screen.status.code(), Some(0), "{screen:?}");
    let (line, after) = screen.bytes.rsplit_once("\r\u{1b}[2K").unwrap();
    assert!(line.contains("src/lib.rs: done"), "{:?}", screen.bytes);
    let (_, clock) = line.rsplit_once("running · ").unwrap();
    let seconds: u32 = clock.split_once('s').unwrap().0.parse().unwrap();
    assert!((1..60).contains(&seconds), "{:?}", screen.bytes);
    assert!(after.starts_with("late\n") && after.contains("done"), "{:?}", screen.bytes);
    let dumb = sandbox.command("subagent").args(["run", "demo", "!sleep 1200\nlate"]).env("TERM", "dumb");
    let dumb = dumb.at_terminal(80, On::Both).screen();
    assert!(!dumb.bytes.contains("running · "), "{:?}", dumb.bytes);
    sandbox.finish();
}

#[test]
fn a_permission_request_names_what_to_type_for_each_answer() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let send = ["send", "--worker-id", &worker, "--text", "!ask execute rm -rf build"];
    let screen = sandbox.command("subagent").args(send).at_terminal(200, On::Both).screen();
    let lines = screen.lines();
    assert!(screen.text().contains("? Permission requested for execute: rm -rf build  ap_"), "{lines:?}");
    let command = |label: &str| -> Vec<String> {
        let line = lines.iter().find(|line| line.trim_start().starts_with(label));
        let (_, command) =
            line.and_then(|line| line.split_once("subagent ")).unwrap_or_else(|| panic!("{lines:?}"));
        command.split(' ').map(str::to_owned).collect()
    };
    assert!(command("Reject").ends_with(&["--option-id=reject-once".to_owned()]));
    let decided = sandbox.command("subagent").args(command("Allow once")).on_screen();
    assert!(decided.text().contains("answered with allow-once"), "{decided:?}");
    sandbox.finish();
}

#[test]
fn a_permission_request_shows_the_command_and_the_diff_that_it_carries() {
    let (sandbox, worker) = with_hostile_worker();
    let send = ["send", "--worker-id", &worker, "--text", "hostile: permission-with-details"];
    let sent = sandbox.command("subagent").args(send).on_screen();
    let inspected = sandbox.command("subagent").args(["worker", "inspect", &worker]).on_screen();
    for screen in [&sent, &inspected] {
        let expected = "  $ rm -rf /ws\n    reboot\n  /ws/a.txt\n  - old\n  + new\n";
        assert!(screen.text().contains(expected), "{:?}", screen.lines());
        assert!(!screen.bytes.contains("[2J"), "{:?}", screen.bytes);
        assert_eq!(screen.text().matches("? Permission requested").count(), 1, "{:?}", screen.lines());
    }
    let pending = &sandbox.run(&["worker", "inspect", &worker]).data()["pendingApprovals"][0];
    assert_eq!(pending["toolCallId"], "t-2");
    assert_eq!(pending["command"], pending["rawInput"]["command"]);
    assert_eq!(pending["content"][0]["newText"], "new\n");
    assert_eq!(pending["locations"][0]["path"], "/ws/a.txt");
    let _ = sandbox.approve(&worker, &pending["requestId"], "allow").data_of("approval.decided");
    sandbox.finish();
}

#[test]
fn the_printed_command_answers_with_just_that_option() {
    let (sandbox, worker) = with_hostile_worker();
    for label in ["Hyphen", "Escape"] {
        let send = ["send", "--worker-id", &worker, "--text", "hostile: permission-strange-ids"];
        let screen = sandbox.command("subagent").args(send).at_terminal(300, On::Both).screen();
        let lines = screen.lines();
        let line = lines.iter().find(|line| line.trim_start().starts_with(label)).unwrap();
        let command = line.trim_start().trim_start_matches(label).trim_start();
        assert!(!command.contains(char::is_control), "{command:?}");
        let script = command.replacen("subagent", &sandbox.executable("subagent"), 1);
        let decided = sandbox.command("bash").args(["-c", &format!("{script} --json")]).run();
        let id = decided.data_of("approval.decided")["optionId"].as_str().unwrap().to_owned();
        assert_eq!(id, if label == "Hyphen" { "-x" } else { "it's\u{1b}[2J\u{202e}\n" });
        let nul = lines.iter().find(|line| line.trim_start().starts_with("Nul")).unwrap();
        assert!(nul.contains("--input") && !nul.contains("--option-id"), "{nul:?}");
    }
    sandbox.finish();
}

fn with_hostile_worker() -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    (sandbox, worker)
}

#[test]
fn watch_shows_a_turn_as_a_story() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let prompt = "!think hm\n!plan look | fix\n!tool edit src/a.rs\n!chunks 3 ab\n!error -32000 no more";
    let sent =
        sandbox.command("subagent").args(["send", "--worker-id", &worker, "--text", prompt]).on_screen();
    assert!(sent.text().contains("BACKEND_RPC_ERROR: "), "{sent:?}");
    let screen = sandbox.command("subagent").args(["watch", "--worker-id", &worker]).on_screen();
    let text = screen.text();
    let mut rest = text.as_str();
    for expected in [
        "worker started\n",
        "turn turn_",
        "> !think hm\n",
        "\nhm\n",
        "  [>] look\n  [ ] fix\n",
        " * edit src/a.rs",
        "\nababab\n",
        "failed  BACKEND_RPC_ERROR: ",
    ] {
        let at = rest.find(expected).unwrap_or_else(|| panic!("{expected:?} is not in its place in\n{text}"));
        rest = &rest[at + expected.len()..];
    }
    sandbox.finish();
}

#[test]
fn launchers_are_shown_with_what_they_run() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("gone", TestLauncher::new("no-such-program".to_owned(), ["--acp"]));
    let screen = sandbox.command("subagent").args(["launcher", "list"]).on_screen();
    assert!(
        screen.lines()[0].split_whitespace().eq(["LAUNCHER", "STATE", "FROM", "COMMAND"]),
        "{:?}",
        screen.lines()
    );
    let screen = sandbox.command("subagent").args(["launcher", "probe", "gone"]).on_screen();
    assert_eq!(screen.lines()[0], "gone  missing");
    assert!(screen.text().contains("no-such-program --acp"), "{:?}", screen.lines());
    sandbox.finish();
}

#[test]
fn the_last_worker_is_shown_by_its_name() {
    let (sandbox, _) = TestSandbox::with_worker();
    sandbox.run(&["worker", "start", "demo", "--name", "auth"]).data_of("worker.started");
    let commands: [&[&str]; 5] = [
        &["worker", "set", "@last", "--idle-timeout", "never"],
        &["worker", "restart", "@last"],
        &["worker", "handoff", "@last"],
        &["stop", "@last", "demo-1"],
        &["stop", "@last"],
    ];
    for command in commands {
        sandbox.run(&["show", "auth"]).data_of("worker.overview");
        let screen = sandbox.command("subagent").args(command).on_screen();
        let lines = screen.lines();
        assert!(lines.iter().any(|line| line.starts_with("auth")), "{command:?}: {lines:?}");
    }
    sandbox.finish();
}
