//! The event's report about the session, for every agent, and failed starts.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::agent::{gone, of_type, sandbox, say, works};

/// The capabilities and behavior of an agent, and the effect on its session.
struct SessionRevivalCase {
    words: &'static str,
    session: &'static str,
}

const fn case(words: &'static str, session: &'static str) -> SessionRevivalCase {
    SessionRevivalCase { words, session }
}

const CASES: [SessionRevivalCase; 13] = [
    case("resume load", "resumed"),
    case("resume no-load", "resumed"),
    case("resume", "resumed"),
    case("resume load refuse-resume", "loaded"),
    case("resume load refuse-resume refuse-load", "new"),
    case("resume no-load refuse-resume", "new"),
    case("resume refuse-resume", "loaded"),
    case("load", "loaded"),
    case("load refuse-load", "new"),
    case("no-load", "new"),
    case("no-load refuse-load", "new"),
    // It declares nothing, and is tried.
    case("", "loaded"),
    case("refuse-load", "new"),
];

/// The way in which a worker recovers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RecoveryWay {
    Send,
    Restart,
}

#[track_caller]
fn brought_back(sandbox: &TestSandbox, worker: &str, way: RecoveryWay) {
    match way {
        RecoveryWay::Send => works(sandbox, worker),
        RecoveryWay::Restart => drop(sandbox.run(&["worker", "restart", worker]).data_of("worker.restarted")),
    }
}

#[test]
fn the_event_says_what_became_of_the_session_at_a_message() {
    what_became_of_the_session(RecoveryWay::Send);
}

#[test]
fn the_event_says_what_became_of_the_session_at_a_restart() {
    what_became_of_the_session(RecoveryWay::Restart);
}

#[track_caller]
fn what_became_of_the_session(way: RecoveryWay) {
    let sandbox = sandbox("");
    for SessionRevivalCase { words, session } in CASES {
        say(&sandbox, words);
        let worker = sandbox.start("words");
        let started = of_type(&sandbox, &worker, "worker.started");
        assert_eq!(started.len(), 1, "{words}");
        let before = sandbox.show(&worker)["sessionId"].clone();
        let _ = sandbox.send(&worker, "then: exit 0");
        gone(&sandbox, &worker);
        brought_back(&sandbox, &worker, way);
        let restarted = of_type(&sandbox, &worker, "worker.restarted");
        assert_eq!(restarted.len(), 1, "{words}: {restarted:?}");
        let (data, after) = (&restarted[0]["data"], sandbox.show(&worker)["sessionId"].clone());
        assert_eq!(
            (&data["session"], &data["contextLost"]),
            (&json!(session), &json!(session == "new")),
            "{words}"
        );
        assert_eq!(after == before, session != "new", "{words}: {before} {after}");
        // The next one is asked for the present session.
        let _ = sandbox.send(&worker, "then: kill");
        gone(&sandbox, &worker);
        say(&sandbox, "load");
        brought_back(&sandbox, &worker, way);
        assert_eq!(sandbox.show(&worker)["sessionId"], after, "{words}");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}

/// Fails in this way, and returns the error.
#[track_caller]
fn fails(sandbox: &TestSandbox, worker: &str, way: RecoveryWay) -> Value {
    match way {
        RecoveryWay::Send => sandbox.sending(worker, "hello").run().any_error(),
        RecoveryWay::Restart => sandbox.run(&["worker", "restart", worker]).any_error(),
    }
}

#[test]
fn a_session_that_could_not_be_asked_for_is_not_given_up_by_a_message() {
    not_given_up(RecoveryWay::Send);
}

#[test]
fn a_session_that_could_not_be_asked_for_is_not_given_up_by_a_restart() {
    not_given_up(RecoveryWay::Restart);
}

#[track_caller]
fn not_given_up(way: RecoveryWay) {
    let sandbox = sandbox("");
    for (offers, phase) in [("load", "load"), ("resume load", "resume"), ("load", "initialize")] {
        for (what, code) in
            [("exit", "BACKEND_UNAVAILABLE"), ("kill", "BACKEND_UNAVAILABLE"), ("hang", "BACKEND_TIMEOUT")]
        {
            let title = format!("{what} in {phase} by {way:?}");
            say(&sandbox, offers);
            let worker = sandbox.start(if what == "hang" { "hasty" } else { "words" });
            let session = sandbox.show(&worker)["sessionId"].clone();
            let _ = sandbox.send(&worker, "then: exit 1");
            gone(&sandbox, &worker);
            say(&sandbox, &format!("{offers} {what}-in-{phase}"));
            let error = fails(&sandbox, &worker, way);
            assert_eq!(error["code"], code, "{title}: {error}");
            let shown = sandbox.show(&worker);
            assert_eq!(shown["state"], "idle", "{title}: it must still have a session");
            assert!(shown["lastError"].as_str().unwrap().starts_with(code), "{title}: {shown}");
            assert!(of_type(&sandbox, &worker, "worker.restarted").is_empty(), "{title}");
            say(&sandbox, offers);
            works(&sandbox, &worker);
            let data = of_type(&sandbox, &worker, "worker.restarted").pop().unwrap()["data"].clone();
            assert_eq!(data["contextLost"], json!(false), "{title}: {data}");
            let shown = sandbox.show(&worker);
            assert_eq!((&shown["sessionId"], &shown["lastError"]), (&session, &Value::Null), "{title}");
            let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        }
    }
    sandbox.finish();
}

#[test]
fn a_worker_that_never_had_a_session_is_started_by_a_message() {
    never_had_a_session(RecoveryWay::Send);
}

#[test]
fn a_worker_that_never_had_a_session_is_started_by_a_restart() {
    never_had_a_session(RecoveryWay::Restart);
}

#[track_caller]
fn never_had_a_session(way: RecoveryWay) {
    let sandbox = sandbox("");
    for words in
        ["exit-in-initialize", "kill-in-initialize", "hang-in-initialize", "exit-in-new", "refuse-new"]
    {
        let title = format!("{words} by {way:?}");
        say(&sandbox, words);
        let launcher = if words.starts_with("hang") { "hasty" } else { "words" };
        let error = sandbox.run(&["worker", "start", "--launcher", launcher]).any_error();
        let worker = error["details"]["workerId"].as_str().unwrap().to_owned();
        assert_eq!(sandbox.show(&worker)["state"], "error", "{title}");
        // Not yet: nothing has changed, and it can be retried any number of times.
        let again = fails(&sandbox, &worker, way);
        assert_eq!(again["code"], error["code"], "{title}");
        say(&sandbox, "load");
        brought_back(&sandbox, &worker, way);
        let shown = sandbox.show(&worker);
        assert_eq!((&shown["state"], &shown["lastError"]), (&json!("idle"), &Value::Null), "{title}");
        let started = of_type(&sandbox, &worker, "worker.started");
        assert_eq!(started.len(), 1, "{title}: its first session is a start");
        assert!(of_type(&sandbox, &worker, "worker.restarted").is_empty(), "{title}");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}
