//! A real runtime, a real guard and a small agent: the guarantees for the daemon.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;

use crate::support::{WorkerFixture, is_alive, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use subagent_protocol::frame::{FromRuntime, Refusal, RuntimePhase, ToRuntime};
use subagent_protocol::record::RecordType as T;
use subagent_protocol::state::Desired;

#[test]
fn a_turn_from_prompt_to_end() {
    let worker = WorkerFixture::new(&[]);
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "hello"), None);
    let end = worker.wait_for(T::TurnEnd);
    let answer = json!({"stopReason": "end_turn"});
    let body = json!({"end": "answered", "stopReason": "end_turn", "answer": answer});
    assert_eq!((end.turn, &end.body), (Some(1), &body));
    assert_eq!(worker.texts(Some(1)), ["you said: ", "hello"]);
    assert_eq!(daemon.prompt(1, "again"), Some(Refusal::WrongTurn { last: 1 }));
    assert_eq!(daemon.terminate(), None);
    assert_eq!(runtime.ended(), Some(0));
    let expected = [
        T::Segment,
        T::AgentStarted,
        T::Session,
        T::Dispatching,
        T::Update,
        T::Update,
        T::TurnEnd,
        T::Terminating,
        T::AgentExited,
        T::Ended,
    ];
    assert_eq!(worker.types(), expected);
    assert!(!worker.start.socket.exists());
    until("guard.lock", || worker.guard_lock_is_free().then_some(()));
    let last = std::iter::from_fn(|| daemon.receive()).last();
    assert!(matches!(last, Some(FromRuntime::End(end)) if end.number == 10), "{last:?}");
}

#[test]
fn a_lease_ends_a_turn_that_no_daemon_follows() {
    let mut worker = WorkerFixture::new(&[]);
    worker.start.lease_ms = Some(200);
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "wait"), None);
    worker.wait_for(T::Dispatching);
    drop(daemon);
    assert_eq!(runtime.ended(), Some(0));
    assert_eq!(worker.wait_for(T::TurnEnd).body["stopReason"], "cancelled");
    let ending = worker.wait_for(T::Terminating).body["reason"].to_string();
    assert!(ending.contains("lease"), "{ending}");
    until("guard.lock", || worker.guard_lock_is_free().then_some(()));
}

#[test]
fn the_agent_inherits_only_the_given_environment() {
    let mut worker = WorkerFixture::new(&[]);
    let path = worker.directory.path().join("seen");
    let script = format!(
        "umask >> '{0}'; ulimit -Sn >> '{0}'; pwd >> '{0}'; env >> '{0}'; ls /proc/self/fd >> '{0}'; ps -o sid= -p $$ >> '{0}'",
        path.display()
    );
    worker.start.agent.program = "sh".to_owned();
    worker.start.agent.args = vec!["-c".to_owned(), script];
    let mut runtime = worker.run();
    assert_eq!(runtime.ended(), Some(0));
    let seen = fs::read_to_string(path).unwrap();
    for line in [
        "0022",
        "512",
        "MINI=1",
        "SUBAGENT_MARKER=marker-of-a-test",
        worker.directory.path().to_str().unwrap(),
    ] {
        assert!(seen.lines().any(|seen| seen == line), "{line} is not in {seen}");
    }
    assert!(!seen.contains("HOME="), "{seen}");
    let fds: Vec<&str> = seen.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(fds, ["0", "1", "2", "3"], "3 is that of ls");
}

#[test]
fn an_approval_is_recorded_before_it_is_reported() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "ask"), None);
    let asked = worker.wait_for(T::ApprovalRequested);
    let id = &asked.body["requestId"];
    assert_eq!(asked.body["params"]["toolCall"]["kind"], "edit");
    assert_eq!(daemon.prompt(2, "busy"), Some(Refusal::Busy));
    // A daemon that reconnects sees the open turn.
    let (mut daemon, hello) = worker.hello();
    assert_eq!(serde_json::to_value(&hello.open_approvals).unwrap(), json!([id]));
    assert_eq!((hello.open_turn, hello.last_turn), (Some(1), 1));
    assert_eq!(daemon.answer(&json!("ap_0000000000"), None), Some(Refusal::NoSuchRequest));
    assert_eq!(daemon.answer(id, Some("yes")), None);
    worker.wait_for(T::TurnEnd);
    assert_eq!(worker.texts(Some(1)), [r#"{"outcome":"selected","optionId":"yes"}"#]);
    assert_eq!(daemon.answer(id, Some("yes")), Some(Refusal::NoSuchRequest));
    let types = worker.types();
    let at = |t| types.iter().position(|other| *other == t).unwrap();
    assert!(at(T::ApprovalRequested) < at(T::AnswerWritten) && at(T::AnswerWritten) < at(T::Update));
}

#[test]
fn a_cancel_answers_what_is_open_and_late_updates_belong_to_its_turn() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "ask"), None);
    worker.wait_for(T::ApprovalRequested);
    assert_eq!(daemon.cancel(2), Some(Refusal::NoSuchTurn));
    assert_eq!(daemon.cancel(1), None);
    worker.wait_for(T::TurnEnd);
    let closed = worker.wait_for(T::ApprovalClosed);
    assert_eq!(closed.body["reason"], "turn_canceled");
    assert_eq!(worker.texts(Some(1)), [r#"{"outcome":"cancelled"}"#]);
    assert_eq!(daemon.cancel(1), Some(Refusal::NoSuchTurn));
    assert_eq!(daemon.prompt(2, "wait"), None);
    assert_eq!(daemon.cancel(2), None);
    assert_eq!(worker.wait_for_nth(T::TurnEnd, 2).body["stopReason"], "cancelled");
    assert_eq!(worker.texts(Some(2)), ["late"]);
}

#[test]
fn an_agent_that_ignores_a_cancel_is_ended() {
    let worker = WorkerFixture::new(&["--stay"]);
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "deaf"), None);
    assert_eq!(daemon.cancel(1), None);
    assert_eq!(worker.wait_for(T::TurnEnd).body["error"]["code"], "BACKEND_TIMEOUT");
    assert_eq!(runtime.ended(), Some(0));
    assert_eq!(worker.types().last(), Some(&T::Ended));
}

#[test]
fn an_agent_that_ends_in_a_turn_fails_it_after_its_last_words() {
    let worker = WorkerFixture::new(&[]);
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "exit 3"), None);
    assert_eq!(runtime.ended(), Some(0));
    let end = worker.wait_for(T::TurnEnd).body;
    assert_eq!(end["error"]["code"], "BACKEND_UNAVAILABLE");
    assert_eq!(end["error"]["details"]["exitCode"], 3);
    assert!(
        end["error"]["details"]["stderrTail"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line.as_str().unwrap().contains("leaving")),
        "{end}"
    );
    assert_eq!(worker.texts(Some(1)), ["last words"]);
    assert_eq!(worker.types()[5..], [T::AgentExited, T::TurnEnd, T::Ended]);
    assert!(worker.log().contains("mini-agent: leaving"));
}

#[test]
fn leftover_processes_end_with_their_agent() {
    for by_kill in [false, true] {
        let worker = WorkerFixture::new(&[]);
        let pids = worker.directory.path().join("pids");
        let mut runtime = worker.run();
        let mut daemon = worker.ready();
        assert_eq!(daemon.prompt(1, &format!("leave-behind {}", pids.display())), None);
        worker.wait_for(T::TurnEnd);
        let left: i32 = until("the pid", || fs::read_to_string(&pids).unwrap().trim().parse().ok());
        let agent =
            i32::try_from(worker.wait_for(T::AgentStarted).body["agentPid"].as_i64().unwrap()).unwrap();
        assert!(is_alive(left) && is_alive(agent));
        if by_kill {
            kill(Pid::from_raw(runtime.pid()), Signal::SIGKILL).unwrap();
        } else {
            assert_eq!(daemon.terminate(), None);
        }
        runtime.ended();
        until("the end of the guard", || worker.guard_lock_is_free().then_some(()));
        assert!(!is_alive(left) && !is_alive(agent));
        assert_eq!(worker.types().contains(&T::Ended), !by_kill);
    }
}

#[test]
fn the_tree_is_ended_even_if_the_guard_is_killed() {
    let worker = WorkerFixture::new(&["--stay"]);
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "wait"), None);
    let started = worker.wait_for(T::AgentStarted).body;
    let pid = |value: &serde_json::Value| i32::try_from(value.as_i64().unwrap()).unwrap();
    kill(Pid::from_raw(pid(&started["guard"]["pid"])), Signal::SIGKILL).unwrap();
    assert_eq!(runtime.ended(), Some(0));
    assert!(!is_alive(pid(&started["agentPid"])));
    assert_eq!(worker.wait_for(T::TurnEnd).body["error"]["code"], "BACKEND_UNAVAILABLE");
    assert_eq!(worker.types().last(), Some(&T::Ended));
}

#[test]
fn starts_that_fail_say_why() {
    let start_failure = |worker: &WorkerFixture| {
        let mut runtime = worker.run();
        assert_eq!(runtime.ended(), Some(0));
        assert_eq!(worker.types().last(), Some(&T::Ended));
        worker.wait_for(T::StartFailed).body["error"].clone()
    };
    let mut worker = WorkerFixture::new(&[]);
    worker.start.agent.program = "/no/such/agent".to_owned();
    let error = start_failure(&worker);
    assert_eq!(
        (&error["code"], &error["details"]["reasonCategory"]),
        (&json!("BACKEND_LAUNCHER"), &json!("launcher"))
    );

    let mut worker = WorkerFixture::new(&[]);
    worker.start.agent.program = "/etc/passwd".to_owned();
    assert_eq!(start_failure(&worker)["code"], "BACKEND_PERMISSION_DENIED");

    let mut worker = WorkerFixture::new(&[]);
    worker.start.agent.cwd = "/no/such/folder".into();
    let error = start_failure(&worker);
    assert_eq!(error["code"], "BACKEND_LAUNCHER");
    assert!(error["message"].as_str().unwrap().contains("/no/such/folder"), "{error}");

    let mut worker = WorkerFixture::new(&[]);
    worker.start.agent.program = "sh".to_owned();
    worker.start.agent.args = ["-c", "echo broken >&2; exit 7"].map(str::to_owned).into();
    let error = start_failure(&worker);
    assert_eq!((&error["code"], &error["details"]["exitCode"]), (&json!("BACKEND_UNAVAILABLE"), &json!(7)));
    assert_eq!(error["details"]["logTail"], "broken\n");

    let error = start_failure(&WorkerFixture::new(&["--needs-auth"]));
    assert_eq!(
        (&error["code"], &error["details"]["authMethods"]),
        (&json!("BACKEND_RPC_ERROR"), &json!(["key"]))
    );

    let mut worker = WorkerFixture::new(&["--no-acp"]);
    worker.start.timeouts.startup_ms = 500;
    let error = start_failure(&worker);
    assert_eq!((&error["code"], &error["retryable"]), (&json!("BACKEND_TIMEOUT"), &json!(true)));
    assert_eq!(error["details"]["stdoutHead"], "I am not an agent");
    assert_eq!(error["details"]["phase"], "initialize");
}

#[test]
fn the_replay_of_a_loaded_session_is_kept_apart() {
    for args in [&[][..], &["--no-capabilities"]] {
        let mut worker = WorkerFixture::new(args);
        worker.start.session = Some("mini".to_owned());
        let mut runtime = worker.run();
        let mut daemon = worker.ready();
        let session = worker.wait_for(T::Session).body;
        assert_eq!((&session["sessionId"], &session["origin"]), (&json!("mini"), &json!("loaded")));
        assert_eq!(daemon.prompt(1, "hi"), None);
        worker.wait_for(T::TurnEnd);
        let journal = worker.journal();
        let replayed = journal.iter().filter(|record| record.k.as_deref() == Some("replayed"));
        assert_eq!(replayed.map(|record| record.turn).collect::<Vec<_>>(), [None, None]);
        assert_eq!(worker.texts(Some(1)), ["you said: ", "hi"]);
        daemon.terminate();
        runtime.ended();
    }
}

#[test]
fn noise_is_kept_and_unknown_requests_are_answered() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "noise"), None);
    assert_eq!(worker.wait_for(T::TurnEnd).body["stopReason"], "end_turn");
    let journal = worker.journal();
    let noise = journal
        .iter()
        .filter(|record| record.t == T::Noise)
        .map(|record| record.body["reason"].as_str().unwrap());
    assert_eq!(noise.collect::<Vec<_>>(), ["not_json", "not_json", "not_a_message", "unexpected_response"]);
    assert_eq!(worker.texts(Some(1)), ["-32602"], "it is outside of the workspace");
}

#[test]
fn a_flood_goes_through_segments_without_a_gap() {
    let mut worker = WorkerFixture::new(&[]);
    worker.start.limits.segment_bytes = 100_000;
    let mut runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "flood 20000"), None);
    worker.wait_for(T::TurnEnd);
    let texts = worker.texts(Some(1));
    assert_eq!(texts.len(), 20_000);
    assert!(texts.iter().enumerate().all(|(number, text)| *text == format!("chunk {number}")));
    assert!(worker.types().iter().filter(|t| **t == T::Sealed).count() > 10);
    daemon.terminate();
    assert_eq!(runtime.ended(), Some(0));
}

#[test]
fn a_daemon_that_does_not_read_blocks_nothing() {
    let worker = WorkerFixture::new(&[]);
    let mut runtime = worker.run();
    let mut deaf = worker.ready();
    // The journal grows often enough to fill the socket's buffer with unread notices.
    for turn in 1..=3 {
        deaf.send_text(&format!(
            r#"{{"t":"command","id":{turn},"command":{{"c":"prompt","turn":{turn},"turnId":"turn_0101010101","prompt":[{{"type":"text","text":"flood 20000"}}]}}}}"#
        ));
        worker.wait_for_nth(T::TurnEnd, turn);
    }
    deaf.send_text(r#"{"t":"command","id":9,"command":{"c":"terminate","reason":"r"}}"#);
    assert_eq!(runtime.ended(), Some(0));
    let numbers: Vec<u64> = std::iter::from_fn(|| deaf.receive())
        .filter_map(|frame| match frame {
            FromRuntime::End(end) => Some(end.number),
            _ => None,
        })
        .collect();
    assert!(numbers.is_sorted() && numbers.len() < 60_000, "{} notices", numbers.len());
}

#[test]
fn the_quota_stops_reading_until_the_daemon_has_taken_some() {
    let mut worker = WorkerFixture::new(&[]);
    worker.start.limits.segment_bytes = 100_000;
    worker.start.limits.journal_quota_bytes = 500_000;
    let _runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, "flood 20000"), None);
    let segment = |number: u32| worker.directory.path().join(format!("{number}.journal"));
    let on_disk = || {
        let sizes = (1..100).filter_map(|number| fs::metadata(segment(number)).ok());
        sizes.map(|metadata| metadata.len()).sum::<u64>()
    };
    until("a journal above the quota", || (on_disk() > 500_000).then_some(()));
    // Each of these runs the loop once, which would read the agent too.
    (0..50).for_each(|_| drop(worker.hello()));
    assert!(on_disk() < 1_000_000, "the whole flood has several times as much");
    assert!(!worker.types().contains(&T::TurnEnd));
    // Reads and removes segments repeatedly, as a daemon does. The turn may end in a segment
    // that is already closed.
    let ends =
        |number: u32| fs::read(segment(number)).unwrap().windows(9).any(|bytes| bytes == b"\"turnEnd\"");
    let mut taken = 0;
    until("the end of the turn", || {
        let newest =
            (1..1000).take_while(|number| *number <= taken || segment(*number).exists()).last().unwrap();
        for number in taken + 1..newest {
            if ends(number) {
                return Some(());
            }
            fs::remove_file(segment(number)).unwrap();
            taken = number;
        }
        ends(newest).then_some(())
    });
    assert!(taken >= 10);
}

#[test]
fn only_the_newest_generation_is_served() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let mut old = worker.ready();
    let hello = |generation| ToRuntime::Hello { protocol: 1, generation, desired: Desired::Run };
    let mut stale = worker.connect();
    stale.send(&hello(4));
    let answer = stale.receive();
    assert!(
        matches!(answer, Some(FromRuntime::Refused { refusal: Refusal::OldGeneration, generation: 5 })),
        "{answer:?}"
    );
    assert!(stale.receive().is_none());
    let mut new = worker.connect();
    new.send(&hello(6));
    assert!(matches!(new.receive(), Some(FromRuntime::Hello(hello)) if hello.phase == RuntimePhase::Ready));
    until("the end of the old connection", || old.receive().is_none().then_some(()));
    assert_eq!(new.prompt(1, "hello"), None);
}

#[test]
fn an_agent_cannot_command_its_own_worker() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let mut daemon = worker.ready();
    assert_eq!(daemon.prompt(1, &format!("knock {}", worker.start.socket.display())), None);
    worker.wait_for(T::TurnEnd);
    let answer = worker.texts(Some(1)).concat();
    assert!(answer.contains("belowGuard") && !answer.contains("journalEnd"), "{answer}");
    assert_eq!(daemon.prompt(2, "still served"), None);
}

#[test]
fn unknown_frames_are_refused_and_end_nothing() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let (mut daemon, hello) = worker.hello();
    assert!(hello.guard.is_some());
    let mut raw = std::os::unix::net::UnixStream::connect(&worker.start.socket).unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut raw, &mut answer).unwrap();
    assert!(answer.contains("refused"), "{answer}");
    worker.wait_for(T::Session);
    daemon.send_text(r#"{"t":"command","id":70,"command":{"c":"dance"}}"#);
    let answer =
        std::iter::from_fn(|| daemon.receive()).find(|frame| matches!(frame, FromRuntime::Reply { .. }));
    assert!(
        matches!(answer, Some(FromRuntime::Reply { id: 70, refusal: Some(Refusal::Unknown { .. }) })),
        "{answer:?}"
    );
    assert_eq!(daemon.prompt(1, "hello"), None);
}

#[test]
fn a_stop_at_hello_a_signal_and_a_lost_lock_all_end_it_in_order() {
    for how in 0..3 {
        let worker = WorkerFixture::new(&["--stay"]);
        let mut runtime = worker.run();
        let mut daemon = worker.ready();
        assert_eq!(daemon.prompt(1, "wait"), None);
        match how {
            0 => {
                let mut daemon = worker.connect();
                daemon.send(&ToRuntime::Hello { protocol: 1, generation: 5, desired: Desired::Stop });
                assert!(matches!(daemon.receive(), Some(FromRuntime::Hello(_))));
            }
            1 => kill(Pid::from_raw(runtime.pid()), Signal::SIGTERM).unwrap(),
            _ => fs::remove_file(worker.directory.path().join("lock")).unwrap(),
        }
        assert_eq!(runtime.ended(), Some(0), "{how}");
        let types = worker.types();
        let expected = [T::Terminating, T::Update, T::TurnEnd, T::AgentExited, T::Ended];
        assert_eq!(types[types.len() - 5..], expected, "{how}");
    }
}

#[test]
fn a_socket_that_vanishes_is_bound_again() {
    let worker = WorkerFixture::new(&[]);
    let _runtime = worker.run();
    let first = worker.ready();
    fs::remove_file(&worker.start.socket).unwrap();
    let mut second = worker.ready();
    assert_eq!(second.prompt(1, "hello"), None);
    drop(first);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&worker.start.socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_runtime_without_its_descriptors_says_so() {
    let output = std::process::Command::new(crate::support::example("runtime")).arg("run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("subagentd"), "{message}");
}
