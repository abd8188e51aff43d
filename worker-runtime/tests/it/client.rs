//! Client requests of an agent through a real runtime: files of the workspace, and terminals.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use crate::support::{RuntimeProcess, WorkerFixture, is_alive, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subagent_protocol::record::RecordType as T;
use tempfile::TempDir;

/// A worker in its own workspace.
struct ClientWorkspace {
    workspace: TempDir,
    worker: WorkerFixture,
}

impl ClientWorkspace {
    fn new() -> Self {
        let workspace = TempDir::new().unwrap();
        let mut worker = WorkerFixture::new(&["--stay"]);
        worker.start.agent.cwd = workspace.path().to_owned();
        worker.start.private = vec![worker.directory.path().to_owned()];
        Self { workspace, worker }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    /// Returns the responses to these requests, which the agent makes in order within a turn.
    fn answers(&self, calls: &Value) -> Vec<Value> {
        let mut daemon = self.worker.ready();
        let turn = self.worker.journal().iter().filter(|record| record.t == T::Dispatching).count() + 1;
        assert_eq!(daemon.prompt(turn as u64, &format!("script {calls}")), None);
        self.worker.wait_for_nth(T::TurnEnd, turn);
        let texts = self.worker.texts(Some(turn as u64));
        texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// Begins a turn with these requests that does not end.
    fn begin(&self, calls: &Value) {
        assert_eq!(self.worker.ready().prompt(1, &format!("script {calls}")), None);
    }

    fn pid(&self, name: &str) -> i32 {
        until("a pid", || fs::read_to_string(self.path(name)).ok()?.trim().parse().ok())
    }

    fn ended(&self, runtime: &mut RuntimeProcess) {
        runtime.ended();
        until("the end of all guards", || self.worker.guard_lock_is_free().then_some(()));
    }

    fn records(&self, t: T) -> Vec<Value> {
        self.worker.journal().into_iter().filter(|record| record.t == t).map(|record| record.body).collect()
    }
}

fn wait() -> Value {
    json!(["terminal/wait_for_exit", {"terminalId": "term_1_1"}])
}

/// A command that writes its pid and stays, with a child in another session.
const STUBBORN: &str = "trap '' TERM HUP; echo $$ > main; setsid sh -c 'trap \"\" TERM HUP; echo $$ > child; exec sleep 1000' & exec sleep 1000";

#[test]
fn files_are_read_and_written_and_all_of_it_is_in_the_journal() {
    let office = ClientWorkspace::new();
    fs::write(office.path("old"), "one\ntwo\nthree\n").unwrap();
    let _runtime = office.worker.run();
    let (old, new) = (office.path("old"), office.path("folder/new"));
    let answers = office.answers(&json!([
        ["fs/read_text_file", {"sessionId": "mini", "path": old, "line": 2, "limit": 1}],
        ["fs/write_text_file", {"sessionId": "another", "path": new, "content": "secret text"}],
        ["fs/read_text_file", {"path": office.path("none")}],
        ["fs/read_text_file", {"path": "old"}],
        ["fs/write_text_file", {"path": "/etc/passwd", "content": ""}],
        ["fs/read_text_file", {"path": office.worker.directory.path().join("lock")}],
    ]));
    assert_eq!(answers[..2], [json!({"result": {"content": "two\n"}}), json!({"result": {}})]);
    let codes: Vec<_> = answers[2..].iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32002, -32602, -32602, -32602]);
    assert_eq!(answers[2]["error"]["data"]["uri"], json!(office.path("none")));
    assert!(
        answers[4]["error"]["message"].as_str().unwrap().contains("/etc/passwd is outside of the workspace")
    );
    assert_eq!(fs::read_to_string(&new).unwrap(), "secret text");
    let asked = office.records(T::ClientRequest);
    assert_eq!(asked[1]["params"], json!({"sessionId": "another", "path": new, "content": "secret text"}));
    let answered = office.records(T::ClientResponse);
    assert_eq!(answered[0], json!({"call": 1, "method": "fs/read_text_file", "path": old, "bytes": 4}));
    assert_eq!(answered[1], json!({"call": 2, "method": "fs/write_text_file", "path": new, "bytes": 11}));
    assert_eq!((answered.len(), &answered[5]["error"]["code"]), (6, &json!(-32602)));
    let types: Vec<T> = office.worker.types().into_iter().filter(|t| *t != T::Update).collect();
    let asked_first = types.iter().position(|t| *t == T::ClientRequest)
        < types.iter().position(|t| *t == T::ClientResponse);
    assert!(asked_first, "{types:?}");
}

#[test]
fn a_terminal_runs_prints_and_ends() {
    let office = ClientWorkspace::new();
    fs::create_dir(office.path("sub")).unwrap();
    let _runtime = office.worker.run();
    let script = "echo out; echo err >&2; pwd; echo \"$MINI-$EXTRA-$SUBAGENT_MARKER-$LD_X\"; env | grep -c SUBAGENT_COMMAND; umask; exit 3";
    let create = json!({
        "sessionId": "mini", "command": "sh", "args": ["-c", script], "cwd": office.path("sub"),
        "env": [{"name": "EXTRA", "value": "a=b\nc"}, {"name": "SUBAGENT_MARKER", "value": "none"}, {"name": "LD_X", "value": "y"}],
    });
    let terminal = json!({"sessionId": "mini", "terminalId": "term_1_1"});
    let answers = office.answers(&json!([
        ["terminal/create", create],
        ["terminal/wait_for_exit", terminal],
        ["terminal/output", terminal],
        ["terminal/kill", terminal],
        ["terminal/output", terminal],
        ["terminal/release", terminal],
        ["terminal/output", terminal],
    ]));
    let exit = json!({"exitCode": 3, "signal": null});
    let printed = format!(
        "out\nerr\n{}\n1-a=b\nc-marker-of-a-test-y\n0\n0022\n",
        office.path("sub").canonicalize().unwrap().display()
    );
    let output = json!({"result": {"output": printed, "truncated": false, "exitStatus": exit}});
    assert_eq!(answers[0], json!({"result": {"terminalId": "term_1_1"}}));
    assert_eq!(answers[1], json!({"result": exit}));
    assert_eq!((&answers[2], &answers[4]), (&output, &output), "also after a kill");
    assert_eq!((&answers[3], &answers[5]), (&json!({"result": {}}), &json!({"result": {}})));
    assert_eq!(answers[6]["error"]["code"], -32002, "it is released");
    let exited = office.records(T::TerminalExited);
    let tail =
        json!({"terminalId": "term_1_1", "exitStatus": exit, "outputBytes": printed.len(), "tail": printed});
    assert_eq!(exited, [tail]);
}

#[test]
fn the_output_of_a_terminal_is_cut_at_its_beginning() {
    let office = ClientWorkspace::new();
    let _runtime = office.worker.run();
    let answers = office.answers(&json!([
        ["terminal/create", {"command": "printf 'begin %s' ääää; kill -9 $$", "outputByteLimit": 5}],
        wait(),
        ["terminal/output", {"terminalId": "term_1_1"}],
        ["terminal/create", {"command": "yes | head -c 3000000"}],
        ["terminal/wait_for_exit", {"terminalId": "term_1_2"}],
        ["terminal/output", {"terminalId": "term_1_2"}],
    ]));
    let exit = json!({"exitCode": null, "signal": "SIGKILL"});
    assert_eq!(answers[1], json!({"result": exit}));
    assert_eq!(answers[2]["result"], json!({"output": "ää", "truncated": true, "exitStatus": exit}));
    assert_eq!(answers[5]["result"]["output"].as_str().unwrap().len(), 1024 * 1024);
    let exited = office.records(T::TerminalExited).remove(1);
    assert_eq!((&exited["outputBytes"], exited["tail"].as_str().unwrap().len()), (&json!(3_000_000), 4096));
}

#[test]
fn a_terminal_that_cannot_be_started_says_why() {
    let office = ClientWorkspace::new();
    fs::write(office.path("file"), "").unwrap();
    let _runtime = office.worker.run();
    let in_folder = |cwd: PathBuf| json!(["terminal/create", {"command": "true", "cwd": cwd}]);
    let answers = office.answers(&json!([
        ["terminal/create", {"command": "no-such-program-here"}],
        ["terminal/create", {"command": "a\u{0}b"}],
        ["terminal/create", {"command": "true", "env": [{"name": "A=B", "value": "c"}]}],
        in_folder("/".into()),
        in_folder(office.path("none")),
        in_folder(office.path("file")),
        ["terminal/create", {"command": "x".repeat(3_000_000)}],
        ["terminal/output", {"terminalId": "term_1_1"}],
    ]));
    let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32603, -32602, -32602, -32602, -32002, -32602, -32603, -32002]);
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("no-such-program-here"));
}

#[test]
fn a_kill_and_a_release_end_the_whole_tree() {
    let office = ClientWorkspace::new();
    let _runtime = office.worker.run();
    let office_answers = office.answers(&json!([
        ["terminal/create", {"command": STUBBORN}],
        ["terminal/create", {"command": "until test -s child; do :; done; mv main main1; mv child child1"}],
        ["terminal/wait_for_exit", {"terminalId": "term_1_2"}],
        ["terminal/kill", {"terminalId": "term_1_1"}],
        wait(),
        ["terminal/create", {"command": STUBBORN}],
        ["terminal/create", {"command": "until test -s child; do :; done"}],
        ["terminal/wait_for_exit", {"terminalId": "term_1_4"}],
        ["terminal/release", {"terminalId": "term_1_3"}],
    ]));
    assert_eq!(office_answers[4], json!({"result": {"exitCode": null, "signal": "SIGKILL"}}));
    for name in ["main1", "child1", "main", "child"] {
        let pid = office.pid(name);
        until("its end", || (!is_alive(pid)).then_some(()));
    }
}

#[test]
fn no_kind_of_end_leaves_a_process_of_a_terminal() {
    for how in ["terminate", "kill the runtime", "kill the agent", "kill the guard of the agent", "cancel"] {
        let office = ClientWorkspace::new();
        let mut runtime = office.worker.run();
        office.begin(&json!([["terminal/create", {"command": STUBBORN}], wait()]));
        let pids = [office.pid("main"), office.pid("child")];
        until("both requests", || (office.records(T::ClientRequest).len() == 2).then_some(()));
        let started = office.worker.wait_for(T::AgentStarted).body;
        let shoot = |pid: i64| kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
        match how {
            "terminate" => assert_eq!(office.worker.ready().terminate(), None),
            "kill the runtime" => shoot(runtime.pid().into()),
            "kill the agent" => shoot(started["agentPid"].as_i64().unwrap()),
            // The agent waits for its terminal and ignores the cancel, so it is ended.
            "cancel" => assert_eq!(office.worker.ready().cancel(1), None),
            _ => shoot(started["guard"]["pid"].as_i64().unwrap()),
        }
        office.ended(&mut runtime);
        assert!(!pids.into_iter().any(is_alive), "{how}");
        let killed = how == "kill the runtime";
        assert_eq!(office.worker.types().last() == Some(&T::Ended), !killed, "{how}");
        if !killed {
            let asked = office.records(T::ClientRequest).len();
            assert_eq!(office.records(T::ClientResponse).len(), asked, "{how}: each has its end");
            let last = office.records(T::ClientResponse).pop().unwrap();
            assert_eq!(last["error"]["message"], "the worker is being stopped", "{how}");
        }
    }
}

#[test]
fn a_guard_that_is_killed_loses_nothing_but_the_exit_status() {
    let office = ClientWorkspace::new();
    let mut runtime = office.worker.run();
    office.begin(&json!([
        ["terminal/create", {"command": STUBBORN}],
        ["terminal/create", {"command": "echo $$ > other; exec sleep 1000"}],
        wait(),
        ["terminal/output", {"terminalId": "term_1_2"}],
    ]));
    let (main, child, other) = (office.pid("main"), office.pid("child"), office.pid("other"));
    let stat = fs::read_to_string(format!("/proc/{main}/stat")).unwrap();
    let guard: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    kill(Pid::from_raw(guard), Signal::SIGKILL).unwrap();
    office.worker.wait_for(T::TurnEnd);
    assert_eq!(
        office.worker.texts(Some(1))[2..],
        [r#"{"result":{"exitCode":null,"signal":null}}"#, r#"{"result":{"output":"","truncated":false}}"#]
    );
    until("the end of both", || (!is_alive(main) && !is_alive(child)).then_some(()));
    assert!(is_alive(other), "the other terminal goes on");
    assert_eq!(office.worker.ready().terminate(), None);
    office.ended(&mut runtime);
    assert!(!is_alive(other));
}

#[test]
fn a_terminal_outlives_its_turn_and_a_cancel() {
    let office = ClientWorkspace::new();
    let _runtime = office.worker.run();
    // One of them prints as fast as it can; the others do not wait for it.
    office.answers(
        &json!([["terminal/create", {"command": STUBBORN}], ["terminal/create", {"command": "yes"}]]),
    );
    let main = office.pid("main");
    let mut daemon = office.worker.ready();
    assert_eq!(daemon.prompt(2, "wait"), None);
    assert_eq!(daemon.cancel(2), None);
    office.worker.wait_for_nth(T::TurnEnd, 2);
    assert!(is_alive(main));
    let output = office.answers(&json!([["terminal/output", {"terminalId": "term_1_1"}]]));
    assert_eq!(output, [json!({"result": {"output": "", "truncated": false}})]);
}

#[test]
fn a_withdrawn_request_gets_one_answer() {
    let office = ClientWorkspace::new();
    let _runtime = office.worker.run();
    office.answers(&json!([["terminal/create", {"command": "exec sleep 1000"}]]));
    let mut daemon = office.worker.ready();
    assert_eq!(daemon.prompt(2, &format!("withdraw {}", wait())), None);
    office.worker.wait_for_nth(T::TurnEnd, 2);
    let answer: Value = serde_json::from_str(&office.worker.texts(Some(2))[0]).unwrap();
    assert_eq!(answer["error"]["code"], -32800);
    let create = json!(["terminal/create", {"command": STUBBORN}]);
    assert_eq!(daemon.prompt(3, &format!("withdraw {create}")), None);
    office.worker.wait_for_nth(T::TurnEnd, 3);
    // No client has its id, whether it was withdrawn in time or not.
    until("the end of what was withdrawn", || {
        let pids = ["main", "child"].map(|name| fs::read_to_string(office.path(name)).unwrap_or_default());
        (!pids.iter().filter_map(|pid| pid.trim().parse().ok()).any(is_alive)).then_some(())
    });
    let unknown = office.answers(&json!([["terminal/output", {"terminalId": "term_1_2"}]]));
    assert_eq!(unknown[0]["error"]["code"], -32002);
}

#[test]
fn an_agent_that_asks_and_does_not_listen_fills_no_memory() {
    let office = ClientWorkspace::new();
    fs::write(office.path("large"), "x".repeat(1024 * 1024)).unwrap();
    let runtime = office.worker.run();
    let mut daemon = office.worker.ready();
    let often = json!([60, "fs/read_text_file", {"path": office.path("large")}]);
    assert_eq!(daemon.prompt(1, &format!("ask-often {often}")), None);
    office.worker.wait_for(T::TurnEnd);
    assert_eq!(office.worker.texts(Some(1)), ["60"], "the last reader gets all of them");
    let often = json!([10_000, "terminal/create", {"command": "exec sleep 1000"}]);
    assert_eq!(daemon.prompt(2, &format!("ask-often {often}")), None);
    office.worker.wait_for_nth(T::TurnEnd, 2);
    let created: usize = office.worker.texts(Some(2))[0].parse().unwrap();
    assert!((1..=32).contains(&created), "{created} terminals");
    let status = fs::read_to_string(format!("/proc/{}/status", runtime.pid())).unwrap();
    let max = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = max.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kibibytes < 40 * 1024, "it took {kibibytes} KiB");
}

#[test]
fn a_file_system_that_hangs_holds_up_neither_terminals_nor_a_cancel_nor_the_end() {
    let office = ClientWorkspace::new();
    let mut runtime = office.worker.run_with(&[("SUBAGENT_FAILPOINTS", "client_file.before_open=hang")]);
    let mut daemon = office.worker.ready();
    let read = json!(["fs/read_text_file", {"path": office.path("none")}]);
    assert_eq!(daemon.prompt(1, &format!("withdraw {read}")), None);
    office.worker.wait_for(T::TurnEnd);
    let answer: Value = serde_json::from_str(&office.worker.texts(Some(1))[0]).unwrap();
    assert_eq!(answer["error"]["code"], -32800);
    assert_eq!(
        office.answers(&json!([["terminal/output", {"terminalId": "x"}]]))[0]["error"]["code"],
        -32002
    );
    let create = json!(["terminal/create", {"command": "true"}]);
    let mut daemon = office.worker.ready();
    assert_eq!(daemon.prompt(3, &format!("script [{create}]")), None);
    until("the request", || (office.records(T::ClientRequest).len() == 3).then_some(()));
    assert_eq!(daemon.cancel(3), None);
    office.ended(&mut runtime);
    assert_eq!(office.worker.types().last(), Some(&T::Ended));
}

#[test]
fn a_runtime_that_dies_has_recorded_its_commands() {
    for (point, written) in [("client_file.before_open", false), ("client_file.after_close", true)] {
        let office = ClientWorkspace::new();
        let mut runtime = office.worker.run_with(&[("SUBAGENT_FAILPOINTS", &format!("{point}=exit(42)"))]);
        let write = json!(["fs/write_text_file", {"path": office.path("new"), "content": "text"}]);
        let mut daemon = office.worker.ready();
        daemon.send_text(&format!(
            r#"{{"t":"command","id":1,"command":{{"c":"prompt","turn":1,"turnId":"turn_0101010101","prompt":[{{"type":"text","text":{}}}]}}}}"#,
            json!(format!("script [{write}]"))
        ));
        office.ended(&mut runtime);
        assert_eq!(office.path("new").exists(), written, "{point}");
        let asked = office.records(T::ClientRequest);
        assert_eq!(asked[0]["params"]["content"], "text", "{point}");
        assert!(office.records(T::ClientResponse).is_empty());
    }
}
