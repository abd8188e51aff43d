//! Views at a terminal of another host, and of all hosts.

use serde_json::json;
use subagent_tests::harness::{On, SshHost, TestSandbox};

use super::far_client::host;

#[test]
fn the_board_of_a_host_answers_there_and_refuses_what_needs_its_files() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let _ = sandbox.run(&["worker", "start", "demo", "--name", "one"]).data_of("worker.started");
    let _ = sandbox.run(&["send", "one", "!ask execute rm -rf build", "-d"]).data_of("turn.accepted");
    let top = sandbox.command("subagent").args(["top", "--host", "lap"]).cwd(sandbox.file("away"));
    let board = top.at_terminal(100, On::All);
    board.sees("rm -rf build");
    board.sees("[y] once");
    board.types("y");
    board.sees("Done  1");
    board.types("q");
    assert!(board.screen().status.success());
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}

#[test]
fn a_list_of_all_hosts_has_a_row_for_one_that_does_not_answer() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    let _ = sandbox.run(&["worker", "start", "demo", "--name", "one"]).data_of("worker.started");
    let dead = json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]});
    SshHost::offer(&sandbox, &json!({"lap": host.entry(&sandbox), "dead": dead}));
    let list = sandbox.command("subagent").args(["ls", "--all-hosts"]).cwd(sandbox.file("away"));
    let screen = list.at_terminal(120, On::All).screen();
    let text = screen.text();
    for part in ["lap/one", "dead/", "no answer", "never"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}

#[test]
fn names_of_hosts_are_completed_and_names_there_are_not_guessed() {
    let sandbox = TestSandbox::new();
    SshHost::offer(&sandbox, &json!({"lap": "ssh://me@lap", "big": "ssh://me@big"}));
    sandbox.init();
    let _ = sandbox.run(&["worker", "start", "demo", "--name", "one"]).data_of("worker.started");
    let complete = |words: &[&str]| {
        let all = [&["__complete", "bash"], words].concat();
        sandbox.command("subagent").args(all).run().stdout
    };
    let hosts = complete(&["ls", "--host", ""]);
    assert!(hosts.contains("lap") && hosts.contains("big"), "{hosts}");
    assert!(complete(&["stop", ""]).contains("one"));
    assert!(!complete(&["--host", "lap", "stop", ""]).contains("one"));
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}
