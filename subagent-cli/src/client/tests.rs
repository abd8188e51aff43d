//! Tests of the client with good, bad, broken and missing responses.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_config::Environment;
use subagent_protocol::Code;

use super::fake::{Act, Fake};
use super::*;
use crate::command_line::TypedFlags;
use crate::output::OutputFormat;

/// A deadline that no test reaches.
const FAR: Duration = Duration::from_secs(60);

fn ok(data: Value) -> Act {
    Act::Answer(200, json!({"schemaVersion": "v1", "ok": true, "type": "x", "data": data}))
}

fn client(fake: &Fake) -> DaemonClient {
    DaemonClient::of_running(fake.dir.path().to_owned())
}

async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(FAR, work).await.expect("the test takes too long")
}

#[tokio::test]
async fn a_request_carries_protocol_key_and_handle() {
    let fake = Fake::new(vec![ok(json!({"a": 1})), ok(json!(null))]);
    let mut client = client(&fake);
    client.handle =
        Some(ControllerHandle { controller_id: "ctl_1".into(), epoch: "2".into(), token: "t-t".into() });
    let ask = ApiRequest::change("/v1/x", &json!({"b": 2})).unwrap();
    assert_eq!(bounded(client.ask(&ask)).await.unwrap(), json!({"a": 1}));
    assert_eq!(bounded(client.ask(&ApiRequest::get("/v1/y"))).await.unwrap(), Value::Null);
    let seen = fake.seen();
    assert_eq!((seen[0].line.as_str(), &seen[0].body), ("POST /v1/x", &json!({"b": 2})));
    assert_eq!(seen[0].header("subagent-protocol"), Some("1"));
    assert_eq!(seen[0].header("idempotency-key").map(str::len), Some(32));
    assert_eq!(seen[0].header("subagent-controller-epoch"), Some("2"));
    assert_eq!(seen[0].header("subagent-controller-token"), Some("t-t"));
    assert_eq!((seen[1].line.as_str(), seen[1].header("idempotency-key")), ("GET /v1/y", None));
}

#[tokio::test]
async fn an_error_passes_unchanged_even_with_an_unknown_code() {
    let error = json!({"code": "NEW_CODE", "message": "m", "retryable": true, "details": {"d": 1}});
    let fake = Fake::new(vec![Act::Answer(418, json!({"ok": false, "error": error}))]);
    let failure = bounded(client(&fake).ask(&ApiRequest::get("/v1/x"))).await.unwrap_err();
    assert_eq!(serde_json::to_value(failure).unwrap(), error);
}

#[tokio::test]
async fn what_is_no_envelope_is_a_defect() {
    let fake = Fake::new(vec![Act::Answer(200, json!([1]))]);
    assert!(bounded(client(&fake).ask(&ApiRequest::get("/v1/x"))).await.unwrap_err().is(Code::Internal));
}

#[tokio::test]
async fn after_a_lost_connection_the_same_is_asked_with_the_same_key() {
    let fake = Fake::new(vec![Act::Close, Act::Close, ok(json!("done"))]);
    let ask = ApiRequest::change("/v1/x", &json!({})).unwrap();
    assert_eq!(bounded(client(&fake).ask(&ask)).await.unwrap(), "done");
    let seen = fake.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test]
async fn a_daemon_that_closes_everything_is_given_up() {
    let fake = Fake::new(Vec::new());
    let failure = bounded(client(&fake).ask(&ApiRequest::get("/v1/x"))).await.unwrap_err();
    assert!(failure.is(Code::DaemonUnresponsive), "{failure}");
    assert_eq!(failure.details["pid"], 4242);
}

#[tokio::test]
async fn a_daemon_that_says_nothing_is_unresponsive_within_the_limit() {
    let fake = Fake::new(vec![Act::Hang]);
    let ask = ApiRequest::get("/v1/x").within(Some(Duration::from_millis(50)));
    let failure = bounded(client(&fake).ask(&ask)).await.unwrap_err();
    assert!(failure.is(Code::DaemonUnresponsive), "{failure}");
    assert_eq!(failure.details["pid"], 4242);
    assert!(failure.details.contains_key("recommendedAction"));
}

#[tokio::test]
async fn a_daemon_that_is_ending_is_followed_to_the_next() {
    let fake = Fake::new(vec![Act::Leave, ok(json!("next"))]);
    assert_eq!(bounded(client(&fake).ask(&ApiRequest::get("/v1/x"))).await.unwrap(), "next");
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test]
async fn without_a_daemon_only_what_may_start_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = DaemonClient::of_running(dir.path().to_owned());
    let failure = bounded(client.ask(&ApiRequest::get("/v1/x"))).await.unwrap_err();
    assert!(failure.is(Code::DaemonNotRunning), "{failure}");
    let vars =
        [("SUBAGENT_NO_AUTOSTART".into(), "1".into()), ("SUBAGENT_STATE_DIR".into(), dir.path().into())];
    let context = CliContext {
        env: Environment::new(vars, "/"),
        format: OutputFormat::Json,
        typed: TypedFlags::default(),
        host: None,
    };
    let mut client = DaemonClient::new(&context, &context.workspace(None).unwrap());
    let failure = bounded(client.ask(&ApiRequest::get("/v1/x"))).await.unwrap_err();
    assert!(
        failure.is(Code::DaemonNotRunning) && failure.message.contains("SUBAGENT_NO_AUTOSTART"),
        "{failure}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}

fn waiting(cursor: WaitStart) -> WorkerWait {
    WorkerWait {
        worker_id: "w_1".to_owned(),
        until: Some("any".to_owned()),
        cursor,
        timeout: 5.0,
        no_progress: 1.0,
        collect_turn: None,
        only_turn: None,
    }
}

fn timed_out(details: Value) -> Act {
    let error = json!({"code": "WAIT_TIMEOUT", "message": "m", "retryable": true, "details": details});
    Act::Answer(408, json!({"ok": false, "error": error}))
}

#[tokio::test]
async fn a_wait_from_now_gets_a_cursor_first_and_keeps_it_over_a_lost_connection() {
    let newest = json!({"workerId": "w_1", "event": {"eventId": "ev_000000000007"}});
    let fake = Fake::new(vec![ok(newest), Act::Close, ok(json!({"state": "idle"}))]);
    let waited = bounded(client(&fake).wait(waiting(WaitStart::Latest))).await.unwrap();
    assert_eq!(waited["state"], "idle");
    let seen = fake.seen();
    assert_eq!(seen[0].line, "GET /v1/workers/w_1/events/latest");
    for repeated in &seen[1..] {
        assert_eq!(repeated.body["fromEventId"], "ev_000000000007");
    }
    assert_eq!(seen[1].body["timeoutSeconds"], 5.0);
    let left = seen[2].body["timeoutSeconds"].as_f64().unwrap();
    assert!(left > 0.0 && left < 5.0, "{left}");
}

#[tokio::test]
async fn a_worker_without_events_is_waited_for_from_the_beginning() {
    let fake = Fake::new(vec![ok(json!({"workerId": "w_1", "event": null})), ok(json!({}))]);
    bounded(client(&fake).wait(waiting(WaitStart::Latest))).await.unwrap();
    assert_eq!(fake.seen()[1].body["includeHistory"], true);
}

#[tokio::test]
async fn a_timeout_reports_the_callers_own_time() {
    let fake = Fake::new(vec![timed_out(json!({"timeoutSeconds": 4.99}))]);
    let failure = bounded(client(&fake).wait(waiting(WaitStart::After("ev_1".into())))).await.unwrap_err();
    assert!(failure.is(Code::WaitTimeout) && failure.retryable);
    assert_eq!(failure.details["timeoutSeconds"], 5.0);
}

#[tokio::test]
async fn a_long_answer_to_a_wait_that_is_cut_is_asked_for_again() {
    let cut = Act::Stream(vec!["{\"ok\":true,\"data\":{\"assistantText\":\"a"], false);
    let whole = json!({"assistantText": "ab", "lastAssistantChunk": "b"});
    let fake = Fake::new(vec![cut, ok(whole.clone())]);
    let waited = bounded(client(&fake).wait(waiting(WaitStart::After("ev_1".into())))).await.unwrap();
    assert_eq!(waited, whole);
    assert_eq!(fake.seen().len(), 2);
}

async fn all(client: &mut DaemonClient, follow: bool, at_most: usize) -> Result<Vec<Value>> {
    let mut events = client.events("w_1", None, follow, true);
    let mut found = Vec::new();
    while found.len() < at_most {
        match events.next().await? {
            EventBatch::Events(some) => found.extend(some),
            EventBatch::End => break,
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_its_last_whole_event() {
    let first = Act::Stream(vec!["{\"eventId\":\"ev_1\"}\n{\"eventId\":", "\"ev_2\"}\n{\"event"], false);
    let fake = Fake::new(vec![first, Act::Stream(vec!["{\"eventId\":\"ev_3\"}\n"], true)]);
    let found = bounded(all(&mut client(&fake), false, 10)).await.unwrap();
    assert_eq!(found, ["ev_1", "ev_2", "ev_3"].map(|id| json!({"eventId": id})));
    let lines: Vec<_> = fake.seen().into_iter().map(|seen| seen.line).collect();
    assert_eq!(
        lines,
        ["GET /v1/workers/w_1/events?raw=true", "GET /v1/workers/w_1/events?from=ev_2&raw=true"]
    );
}

#[tokio::test]
async fn a_followed_stream_outlives_its_daemon() {
    let last = "{\"eventId\":\"ev_1\"}\n{\"ok\":false,\"error\":{\"code\":\"DAEMON_NOT_RUNNING\",\"message\":\"m\",\"retryable\":true}}\n";
    let fake =
        Fake::new(vec![Act::Stream(vec![last], true), Act::Stream(vec!["{\"eventId\":\"ev_2\"}\n"], true)]);
    let found = bounded(all(&mut client(&fake), true, 2)).await.unwrap();
    assert_eq!(found, ["ev_1", "ev_2"].map(|id| json!({"eventId": id})));
}

#[tokio::test]
async fn a_followed_stream_that_is_closed_in_order_is_over() {
    let fake = Fake::new(vec![Act::Stream(vec!["{\"eventId\":\"ev_1\"}\n"], true)]);
    let found = bounded(all(&mut client(&fake), true, 10)).await.unwrap();
    assert_eq!((found.len(), fake.seen().len()), (1, 1));
}

#[tokio::test]
async fn the_error_of_a_stream_is_the_commands() {
    let error = json!({"code": "WORKER_NOT_FOUND", "message": "m", "retryable": false});
    let fake = Fake::new(vec![Act::Answer(404, json!({"ok": false, "error": error}))]);
    assert!(bounded(all(&mut client(&fake), false, 1)).await.unwrap_err().is(Code::WorkerNotFound));
    let late = "{\"eventId\":\"ev_1\"}\n{\"ok\":false,\"error\":{\"code\":\"CURSOR_EXPIRED\",\"message\":\"m\",\"retryable\":false}}\n";
    let fake = Fake::new(vec![Act::Stream(vec![late], true)]);
    let mut client = client(&fake);
    let mut events = client.events("w_1", None, true, false);
    assert!(matches!(bounded(events.next()).await, Ok(EventBatch::Events(found)) if found.len() == 1));
    assert!(bounded(events.next()).await.unwrap_err().is(Code::CursorExpired));
}
