//! Runtimes that die at critical moments, and their journals.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::support::{WorkerFixture, until};
use subagent_protocol::record::RecordType as T;

/// Runs a worker whose runtime dies at the named point. Returns its journal.
fn dies_at(point: &str, drive: impl FnOnce(&WorkerFixture)) -> Vec<T> {
    let worker = WorkerFixture::new(&[]);
    let mut runtime = worker.run_with(&[("SUBAGENT_FAILPOINTS", &format!("{point}=exit(42)"))]);
    drive(&worker);
    assert_eq!(runtime.ended(), Some(42), "{point} was never reached");
    until("the end of the guard", || worker.guard_lock_is_free().then_some(()));
    worker.types()
}

/// Sends a prompt without waiting for a reply: the runtime dies.
fn prompt(worker: &WorkerFixture, text: &str) {
    let mut daemon = worker.ready();
    daemon.send_text(&format!(
        r#"{{"t":"command","id":1,"command":{{"c":"prompt","turn":1,"turnId":"turn_0101010101","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
    ));
    while daemon.receive().is_some() {}
}

#[test]
fn a_prompt_without_its_record_was_never_sent() {
    assert!(!dies_at("dispatch.before_record", |worker| prompt(worker, "hello")).contains(&T::Dispatching));
    for point in ["dispatch.after_record", "dispatch.after_write", "turn_end.before_record"] {
        let types = dies_at(point, |worker| prompt(worker, "hello"));
        assert!(types.contains(&T::Dispatching) && !types.contains(&T::TurnEnd), "{point}: {types:?}");
    }
    assert_eq!(dies_at("turn_end.after_record", |worker| prompt(worker, "hello")).last(), Some(&T::TurnEnd));
}

#[test]
fn without_file_notifications_the_runtime_polls() {
    let mut worker = WorkerFixture::new(&[]);
    worker.start.limits.segment_bytes = 100_000;
    worker.start.limits.journal_quota_bytes = 300_000;
    // Once at the beginning and at every retry.
    let mut runtime = worker.run_with(&[("SUBAGENT_FAILPOINTS", "watch.before_begin=error(24)")]);
    let mut daemon = worker.ready();
    fs::remove_file(&worker.start.socket).unwrap();
    until("another command socket", || worker.start.socket.exists().then_some(()));
    assert_eq!(daemon.prompt(1, "flood 5000"), None);
    let path = worker.directory.path().to_owned();
    let segment = |number: u32| path.join(format!("{number}.journal"));
    for number in 1..=5 {
        until("the next segment", || segment(number + 1).exists().then_some(()));
        fs::remove_file(segment(number)).unwrap();
    }
    fs::remove_file(path.join("lock")).unwrap();
    drop(daemon);
    assert_eq!(runtime.ended(), Some(0));
}

#[test]
fn an_answer_without_its_record_was_never_written() {
    let answer = |worker: &WorkerFixture| {
        let mut daemon = worker.ready();
        assert_eq!(daemon.prompt(1, "ask"), None);
        let id = worker.wait_for(T::ApprovalRequested).body["requestId"].to_string();
        daemon.send_text(&format!(
            r#"{{"t":"command","id":9,"command":{{"c":"answer","requestId":{id},"optionId":"yes"}}}}"#
        ));
        while daemon.receive().is_some() {}
    };
    assert!(!dies_at("answer.before_record", answer).contains(&T::AnswerWritten));
    for point in ["answer.after_record", "answer.after_write"] {
        assert_eq!(dies_at(point, answer).last(), Some(&T::AnswerWritten), "{point}");
    }
}

#[test]
fn only_a_tree_that_is_gone_is_reported_as_ended() {
    let terminate = |worker: &WorkerFixture| {
        // Closing a socket with unread frames discards data that was written to it.
        let mut daemon = worker.ready();
        daemon.send_text(r#"{"t":"command","id":1,"command":{"c":"terminate","reason":"r"}}"#);
        while daemon.receive().is_some() {}
    };
    for point in ["end.before_clean", "end.after_clean"] {
        assert!(!dies_at(point, terminate).contains(&T::Ended), "{point}");
    }
}
