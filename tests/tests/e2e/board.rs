//! The board at a real terminal: `subagent top`, and `subagent` alone.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_tests::harness::{AtTerminal, On, TestSandbox, wait_until};

use crate::config_layers::bare;

const ASK: &str = "!ask execute rm -rf build";
const FORM: &str = r#"!elicit {"mode": "form", "message": "Which port?", "requestedSchema": {"type": "object", "properties": {"port": {"type": "integer", "title": "Port"}}, "required": ["port"]}}"#;
/// What gives the terminal back: the colors, the cursor, pastes, the screen.
const LEFT: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?2004l\u{1b}[?1049l";

fn board(sandbox: &TestSandbox, columns: u16) -> AtTerminal {
    sandbox.command("subagent").args(["top"]).at_terminal(columns, On::All)
}

/// Leaves a board; its terminal is as it was.
#[track_caller]
fn leave(board: AtTerminal) {
    board.types("q");
    let screen = board.screen();
    assert!(screen.status.success(), "{:?}", screen.status);
    assert!(screen.bytes.ends_with(LEFT), "{:?}", screen.bytes);
}

/// A board in the foreground of an interactive shell, which has the terminal.
fn shell(sandbox: &TestSandbox) -> AtTerminal {
    let shell = ["-c", "bash", "--norc", "--noprofile", "-i"];
    let shell = sandbox.command("setsid").args(shell).env("PS1", "ready> ").at_terminal(80, On::All);
    shell.sees("ready>");
    shell.types(&format!("'{}' top\n", sandbox.executable("subagent")));
    shell
}

/// Starts a worker and sends it a message without a wait.
fn start_and_send(sandbox: &TestSandbox, name: &str, text: &str) {
    sandbox.run(&["worker", "start", "demo", "--name", name]).data_of("worker.started");
    sandbox.run(&["send", name, text, "-d"]).data_of("turn.accepted");
}

fn state(sandbox: &TestSandbox, worker: &str, expected: &str) {
    wait_until(expected, Duration::from_secs(30), || {
        (sandbox.show(worker)["state"] == expected).then_some(())
    });
}

#[test]
fn an_answer_on_the_board_lets_a_shell_go_on_that_waits() {
    let sandbox = TestSandbox::new();
    let shell = sandbox.command("subagent").args(["run", "demo", ASK]).at_terminal(100, On::All);
    shell.wait_for("[s] skip");
    for columns in [60, 200] {
        let board = board(&sandbox, columns);
        board.sees("Needs you  1");
        board.sees("rm -rf build");
        board.sees("[y] once");
        leave(board);
    }
    let board = board(&sandbox, 80);
    board.sees("[y] once");
    board.types("y");
    shell.wait_for("answered by owner: allow");
    assert_eq!(shell.screen().status.code(), Some(0));
    board.sees("Done  1");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_rule_is_shown_before_it_is_made_and_a_note_comes_along() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", &format!("{ASK}\n{ASK}"));
    let board = board(&sandbox, 80);
    board.sees("[a] always");
    board.types("a");
    board.sees("allow  execute(rm -rf build)  for this worker");
    board.types("\r");
    board.sees("Done  1");
    let rules = sandbox.run(&["policy", "rules", "list"]).data();
    assert_eq!(rules["items"][0]["rule"], "execute(rm -rf build)");
    sandbox.run(&["send", "one", "!ask execute make", "-d"]).data_of("turn.accepted");
    board.sees("make");
    board.sees("[N] with a note");
    board.types("N");
    board.sees("reject with the note:");
    board.types("not now\r");
    board.sees("Done  1");
    let worker = sandbox.show("one")["workerId"].as_str().unwrap().to_owned();
    let decided = sandbox.events(&worker).into_iter().rev().find(|event| event["type"] == "approval.decided");
    assert_eq!(decided.unwrap()["data"]["note"], "not now");
    leave(board);
    sandbox.finish();
}

#[test]
fn the_daemon_is_killed_and_the_board_goes_on() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", ASK);
    let board = board(&sandbox, 80);
    board.sees("[y] once");
    sandbox.kill_daemon();
    board.sees("connected to the daemon again");
    board.types("j");
    sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    board.sees("connected to the daemon again");
    start_and_send(&sandbox, "two", "hello");
    board.sees("two");
    board.sees("[y] once");
    board.types("y");
    board.sees("Done  2");
    state(&sandbox, "one", "idle");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_worker_is_started_messaged_looked_at_and_stopped() {
    let sandbox = TestSandbox::new();
    let git = sandbox.command("git").args(["init", "-q", "."]).run();
    assert!(git.status.success(), "{git}");
    let board = sandbox.command("subagent").at_terminal(80, On::All);
    board.sees("Nothing was started in this workspace.");
    assert!(sandbox.daemon_info().is_none(), "a look starts no daemon");
    board.types("w");
    board.sees("agent (empty: the default):");
    board.types("\r");
    board.sees("task:");
    board.types("Hello\r");
    board.sees("demo-1 started");
    board.sees("Done  1");
    board.types("s");
    board.sees("message to demo-1:");
    board.types("!edit create notes.txt Hello notes\r");
    board.sees("+1 −0");
    board.types("d");
    board.sees("+Hello notes");
    board.types("q\r");
    board.sees("> !edit create notes.txt");
    board.sees("G follows");
    sandbox.run(&["send", "demo-1", "One more", "-d"]).data_of("turn.accepted");
    board.sees("> One more");
    board.types("x");
    board.sees("stop demo-1 and all of its processes?");
    board.types("y");
    board.sees("demo-1 is stopped");
    board.types("q");
    board.sees("stopped");
    leave(board);
    sandbox.finish();
}

#[test]
fn the_first_start_in_another_shell_is_seen_without_a_key() {
    let sandbox = TestSandbox::new();
    let board = board(&sandbox, 80);
    board.sees("Nothing was started in this workspace.");
    start_and_send(&sandbox, "one", ASK);
    board.sees("Needs you  1");
    board.sees("[y] once");
    board.types("y");
    board.sees("Done  1");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_turn_is_canceled_and_rows_are_filtered() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "busy", "!sleep 3600000");
    start_and_send(&sandbox, "other", "hello");
    let board = board(&sandbox, 80);
    board.sees("Working  1");
    board.types("/bus");
    board.sees("/bus");
    board.types("\rc");
    board.sees("[y/N] cancel the turn of busy?");
    board.types("y");
    board.sees("the turn of busy is canceled");
    board.types("\u{1b}");
    board.sees("other");
    board.types("?");
    board.sees("the next question");
    board.types("q");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_form_is_filled_in_outside_of_the_board() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", FORM);
    let board = board(&sandbox, 80);
    board.sees("[y] fill in");
    board.types("y");
    board.wait_for("[y] fill in and accept");
    assert!(!board.picture().1, "it is asked at the shell's screen");
    board.types("y");
    board.wait_for("Port: ");
    board.types("8080\n");
    board.sees("Done  1");
    state(&sandbox, "one", "idle");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_signal_ends_a_form_too() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", FORM);
    let before = sandbox.command("true").at_terminal(80, On::All).modes();
    let board = board(&sandbox, 80);
    board.sees("[y] fill in");
    board.types("y");
    board.wait_for("[y] fill in and accept");
    board.signal(Signal::SIGTERM);
    wait_until("the usual modes", Duration::from_secs(30), || (board.modes() == before).then_some(()));
    assert_eq!(board.screen().status.signal(), Some(Signal::SIGTERM as i32));
    sandbox.run(&["answer", "one", "--decline"]).data_of("elicitation.answered");
    sandbox.finish();
}

/// Lets a shell continue its stopped job, and waits until it is in the foreground.
fn continued(shell: &AtTerminal) {
    shell.types("fg\n");
    wait_until("the job in the foreground", Duration::from_secs(30), || {
        // Behind the name: state, parent, group, session, terminal, and the group in its foreground.
        let stat = fs::read_to_string(format!("/proc/{}/stat", shell.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        (fields[2] != fields[5]).then_some(())
    });
}

#[test]
fn a_shell_stops_a_form_and_ctrl_c_leads_back_to_the_board() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", FORM);
    let shell = shell(&sandbox);
    shell.sees("[y] fill in");
    shell.types("y");
    shell.wait_for("[y] fill in and accept");
    // Before the first field, keys are read one by one.
    shell.types("\u{1a}");
    shell.sees("Stopped");
    continued(&shell);
    wait_until("the keys again", Duration::from_secs(30), || {
        (shell.bytes().matches("[y] fill in and accept").count() == 2).then_some(())
    });
    shell.types("y");
    shell.wait_for("Port: ");
    shell.types("\u{1a}");
    wait_until("the second stop", Duration::from_secs(30), || {
        (shell.bytes().matches("Stopped").count() == 2).then_some(())
    });
    continued(&shell);
    shell.types("\u{3}");
    shell.sees("the question was left open");
    shell.types("q");
    shell.sees("ready>");
    shell.types("exit\n");
    let _ = shell.screen();
    sandbox.run(&["answer", "one", "--decline"]).data_of("elicitation.answered");
    sandbox.finish();
}

#[test]
fn an_order_that_is_given_up_at_the_end_is_named() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", "hello");
    state(&sandbox, "one", "idle");
    let board = board(&sandbox, 80);
    board.sees("Done  1");
    let daemon = Pid::from_raw(sandbox.daemon().pid);
    kill(daemon, Signal::SIGSTOP).unwrap();
    board.types("s");
    board.sees("message to one:");
    board.types("late\r");
    board.sees("sending to one ...");
    board.types("q");
    let screen = board.screen();
    kill(daemon, Signal::SIGCONT).unwrap();
    let (_, said) = screen.bytes.split_once(LEFT).unwrap();
    assert!(said.contains("sending to one was given up"), "{said:?}");
    sandbox.finish();
}

#[test]
fn a_window_may_change_its_width() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "one", ASK);
    let mut board = board(&sandbox, 200);
    board.sees("waiting approval");
    board.resize(20);
    board.sees("> one  rm -rf build");
    board.resize(80);
    board.sees("? keys  q quit  Enter story  d diff");
    leave(board);
    sandbox.run(&["approve", "one"]).data_of("approval.decided");
    sandbox.finish();
}

#[test]
fn the_terminal_is_as_it_was_however_the_board_ends() {
    let sandbox = TestSandbox::new();
    for name in ["q", "Ctrl-C", "SIGTERM", "SIGHUP"] {
        let board = board(&sandbox, 20);
        let before = sandbox.command("true").at_terminal(80, On::All).modes();
        board.sees("Nothing was started");
        assert_ne!(board.modes(), before, "it has keys of its own");
        match name {
            "q" => board.types("q"),
            "Ctrl-C" => board.types("\u{3}"),
            "SIGTERM" => board.signal(Signal::SIGTERM),
            _ => board.signal(Signal::SIGHUP),
        }
        wait_until("the usual modes", Duration::from_secs(30), || (board.modes() == before).then_some(()));
        let screen = board.screen();
        assert!(screen.bytes.ends_with(LEFT), "{name}: {:?}", screen.bytes);
        let signal = name.starts_with("SIG").then_some(screen.status.signal()).flatten();
        assert_eq!(signal.is_some(), name.starts_with("SIG"), "{name}: {:?}", screen.status);
    }
    let command = sandbox.command("subagent").args(["top"]).env("SUBAGENT_SABOTAGE", "board.draw");
    let screen = command.at_terminal(80, On::All).screen();
    let (_, said) = screen.bytes.split_once(LEFT).unwrap();
    assert!(said.contains("the board is sabotaged") && !screen.status.success(), "{:?}", screen.bytes);
    sandbox.finish();
}

#[test]
fn a_shell_stops_the_board_and_has_it_back() {
    let sandbox = TestSandbox::new();
    let shell = shell(&sandbox);
    shell.sees("Nothing was started");
    shell.types("\u{1a}");
    shell.sees("Stopped");
    assert!(!shell.picture().1, "the shell has its screen");
    shell.types("fg\n");
    shell.sees("Nothing was started");
    shell.types("q");
    shell.sees("ready>");
    shell.types("exit\n");
    let _ = shell.screen();
    sandbox.finish();
}

#[test]
fn without_a_terminal_there_is_help_or_an_error() {
    let sandbox = TestSandbox::new();
    let help = sandbox.command("subagent").run();
    assert_eq!((help.status.code(), help.stdout.as_str()), (Some(2), ""), "{help}");
    assert!(help.stderr.starts_with("Delegate work to coding agents"), "{help}");
    assert!(help.stderr.contains("\nUsage: subagent <COMMAND>\n"), "{help}");
    let dumb = sandbox.command("subagent").env("TERM", "dumb").at_terminal(80, On::All).screen();
    assert_eq!((dumb.status.code(), dumb.bytes.as_str()), (Some(2), help.stderr.as_str()));
    let no_keys = sandbox.command("subagent").at_terminal(80, On::Both).screen();
    assert_eq!((no_keys.status.code(), no_keys.bytes.as_str()), (Some(2), help.stderr.as_str()));
    sandbox.run(&["top"]).status.code().filter(|code| *code != 0).unwrap();
    let top = sandbox.command("subagent").args(["top"]).run();
    assert!(top.stderr.contains("TERMINAL_REQUIRED") && top.stderr.contains("subagent ls"), "{top}");
    let mut outside = bare();
    outside.remove_env("SUBAGENT_STATE_DIR");
    fs::remove_dir_all(outside.file("ws/.git")).unwrap();
    let nowhere = outside.command("subagent").cwd(outside.path()).at_terminal(80, On::All).screen();
    assert_eq!(nowhere.status.code(), Some(2), "there is no workspace: {:?}", nowhere.bytes);
    outside.finish();
    sandbox.finish();
}

#[test]
fn hostile_text_does_not_act_on_the_terminal() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    let label = "\u{1b}]0;evil\u{7}\u{202e}label";
    let start = ["worker", "start", "hostile", "--name", "h", "--label", label];
    sandbox.run(&start).data_of("worker.started");
    sandbox.run(&["send", "h", "hostile: permission-with-details", "-d"]).data_of("turn.accepted");
    for (name, value) in [("TERM", "xterm-256color"), ("NO_COLOR", "1")] {
        let board = sandbox.command("subagent").env(name, value).at_terminal(80, On::All);
        board.sees("[y] once");
        board.types("\r");
        board.sees("- old");
        board.types("q");
        board.types("q");
        let screen = board.screen();
        assert_eq!(screen.bytes.matches("[2J").count(), 1, "the board's own: {:?}", screen.bytes);
        for evil in ["\u{1b}]", "\u{202e}", "\u{7}", "\u{9b}"] {
            assert!(!screen.bytes.contains(evil), "{evil:?} in {:?}", screen.bytes);
        }
        let coloured = screen.bytes.contains("\u{1b}[1m") || screen.bytes.contains("\u{1b}[7m");
        assert_eq!(coloured, name == "TERM", "{:?}", screen.bytes);
    }
    sandbox.run(&["approve", "h"]).data_of("approval.decided");
    sandbox.finish();
}

/// The pictures in the documents, from the real program. `UPDATE_VIEWS=1` writes it anew.
#[test]
fn the_documents_show_the_board() {
    let sandbox = TestSandbox::new();
    start_and_send(&sandbox, "docs", "!plan Read it|Describe it\n!sleep 3600000");
    start_and_send(&sandbox, "tests", "All tests pass.");
    state(&sandbox, "tests", "idle");
    start_and_send(&sandbox, "login", "!ask execute rm -rf build && make --jobs 8");
    state(&sandbox, "login", "waiting_approval");
    let board = board(&sandbox, 80);
    board.sees("[y] once");
    board.sees("step 1 of 2");
    let picture = without_times(&board.picture().0, &sandbox);
    // The second one has its first lines.
    let lines: Vec<&str> = picture.lines().collect();
    for (document, picture) in [("docs/board.md", picture.clone()), ("README.md", lines[..5].join("\n"))] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(document);
        let text = fs::read_to_string(&file).unwrap();
        let (before, rest) = text.split_once("```text\n").unwrap();
        let (known, after) = rest.split_once("\n```").unwrap();
        if std::env::var_os("UPDATE_VIEWS").is_some() {
            fs::write(&file, format!("{before}```text\n{picture}\n```{after}")).unwrap();
        } else {
            assert_eq!(picture, known, "UPDATE_VIEWS=1 writes {document} anew");
        }
    }
    leave(board);
    sandbox.run(&["approve", "login"]).data_of("approval.decided");
    sandbox.run(&["cancel", "docs"]).data_of("turn.canceled");
    sandbox.finish();
}

/// The picture with the same ages and folders each time, and without empty lines in its middle.
fn without_times(picture: &str, sandbox: &TestSandbox) -> String {
    let folder = sandbox.workspace().display().to_string();
    let mut lines: Vec<String> = Vec::new();
    for line in picture.replace(&folder, "/home/ada/shop").lines() {
        let words = line.split(' ').map(|word| {
            let is_age = word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
            if is_age { "9s" } else { word }
        });
        let line = words.collect::<Vec<_>>().join(" ").replace("   9s", "  9s");
        if !(line.is_empty() && lines.last().is_some_and(String::is_empty)) {
            lines.push(line);
        }
    }
    lines.join("\n")
}
