//! Snapshots and pages for views: `/v1/overview` with the stream that
//! follows it, `/v1/workers?parent=`, transcripts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_model::{Applied, OverviewRow, Workers};
use subagent_tests::harness::{TestSandbox, request, wait_until};

fn get(sandbox: &TestSandbox, path: &str) -> Value {
    let socket = sandbox.daemon_info().unwrap().socket;
    request(&socket, &[&format!("GET {path} HTTP/1.1")], "").json()
}

pub(crate) fn data(sandbox: &TestSandbox, path: &str, kind: &str) -> Value {
    let mut envelope = get(sandbox, path);
    assert_eq!(envelope["type"], kind, "{envelope}");
    envelope["data"].take()
}

fn overview(sandbox: &TestSandbox) -> Value {
    data(sandbox, "/v1/overview", "overview.shown")
}

fn view(overview: &Value) -> Workers {
    Workers::new(&serde_json::from_value(overview.clone()).unwrap())
}

/// The state of workers according to events.
fn seen(view: &Workers) -> Value {
    let row = |row: &OverviewRow| {
        let needs: Vec<&str> = row.needs.iter().map(|need| need.request_id.as_str()).collect();
        json!({
            "worker": row.worker_id(), "state": row.state, "turn": row.active_turn_id, "needs": needs, "waiting": row.waiting,
            "paused": row.is_paused, "doing": row.doing(), "last": row.last_event_at, "error": row.last_error,
        })
    };
    view.rows().iter().map(row).collect()
}

fn worker<'a>(overview: &'a Value, worker: &str) -> &'a Value {
    overview["items"].as_array().unwrap().iter().find(|item| item["workerId"] == *worker).unwrap()
}

/// Returns the events of all workers after a cursor, up to now.
fn events(sandbox: &TestSandbox, from: Option<&Value>) -> Vec<Value> {
    let from = from.map(|from| format!("?from={}", from.as_str().unwrap())).unwrap_or_default();
    let socket = sandbox.daemon_info().unwrap().socket;
    let stream = request(&socket, &[&format!("GET /v1/events{from} HTTP/1.1")], "").body;
    stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_overview_has_what_each_worker_does_asks_and_has_used() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (busy, asking, idle) = (sandbox.start("demo"), sandbox.start("demo"), sandbox.start("demo"));
    let _ = sandbox.send(&idle, r#"!tokens {"totalTokens": 12}"#);
    let asked = sandbox.send(&asking, "!ask execute rm -rf build");
    let gate = sandbox.gate("busy");
    let text = format!("!plan look | fix\n{}", gate.directive());
    let sent = sandbox.send_no_wait(&busy, &text);
    sandbox.sending(&busy, "later").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    let shown = wait_until("the plan", Duration::from_secs(20), || {
        let shown = overview(&sandbox);
        (worker(&shown, &busy)["doing"]["steps"] == 2).then_some(shown)
    });
    assert_eq!(shown["count"], 3);
    let of = worker(&shown, &busy);
    assert_eq!((&of["state"], &of["activeTurnId"]), (&json!("running"), &sent["turnId"]));
    assert_eq!(of["queue"], json!({"length": 1, "paused": false}));
    assert_eq!(of["questions"], json!([]));
    let of = worker(&shown, &asking);
    assert_eq!(
        (&of["state"], &of["questions"][0]["requestId"]),
        (&json!("waiting_approval"), &asked["requestId"])
    );
    assert_eq!(of["since"], of["questions"][0]["createdAt"]);
    let of = worker(&shown, &idle);
    assert_eq!((&of["state"], &of["doing"], &of["queue"]), (&json!("idle"), &Value::Null, &Value::Null));
    assert_eq!(of["usage"]["tokens"], json!({"used": 12, "unreported": 0}));
    assert_eq!(of["budget"]["tokens"]["used"], 12);
    assert!(of["name"].as_str().unwrap().starts_with("demo-"), "{of}");
    assert_eq!((&of["task"], &of["worktree"], &of["launcher"]), (&Value::Null, &Value::Null, &json!("demo")));
    gate.open();
    sandbox.finish();
}

#[test]
fn a_snapshot_and_the_stream_behind_it_have_no_gap_and_nothing_twice() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let workers = [sandbox.start("demo"), sandbox.start("demo")];
    let gate = sandbox.gate("first");
    for worker in &workers {
        let _ = sandbox.send_no_wait(worker, &gate.directive());
        for _ in 0..15 {
            let queued = sandbox.sending(worker, "!sleep 1\nmore").args(["--queue", "--no-wait"]);
            queued.run().data_of("turn.queued");
        }
    }
    // Both work while snapshots are taken.
    gate.open();
    let snapshots = wait_until("both to be idle", Duration::from_secs(60), {
        let mut snapshots = Vec::new();
        let (sandbox, workers) = (&sandbox, &workers);
        move || {
            snapshots.push(overview(sandbox));
            let now = snapshots.last().unwrap();
            let idle = |id: &String| worker(now, id)["state"] == "idle" && worker(now, id)["queue"].is_null();
            workers.iter().all(idle).then(|| std::mem::take(&mut snapshots))
        }
    });
    let all = events(&sandbox, None);
    let mut moments = std::collections::BTreeSet::new();
    for shown in &snapshots {
        let cursor = shown["cursor"].as_str().unwrap();
        moments.insert(cursor);
        // Exactly the remaining events follow the cursor.
        let (before, after): (Vec<&Value>, Vec<&Value>) =
            all.iter().partition(|event| event["eventId"].as_str().unwrap() <= cursor);
        let stream = events(&sandbox, Some(&shown["cursor"]));
        assert_eq!(stream.iter().collect::<Vec<_>>(), after);
        // The snapshot matches the events up to the cursor.
        for id in &workers {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            let (mut open, mut last) = (Value::Null, Value::Null);
            for event in before.iter().filter(|event| event["workerId"] == **id) {
                *counts.entry(event["type"].as_str().unwrap()).or_default() += 1;
                last = event["ts"].clone();
                match event["type"].as_str().unwrap() {
                    "turn.started" => open = event["turnId"].clone(),
                    "turn.completed" => open = Value::Null,
                    _ => {}
                }
            }
            let of = worker(shown, id);
            let count = |kind: &str| counts.get(kind).copied().unwrap_or(0);
            assert_eq!(of["activeTurnId"], open, "{cursor} {of}");
            assert_eq!(of["usage"]["turns"], count("turn.started"), "{cursor} {of}");
            assert_eq!(of["budget"]["turns"]["used"], count("turn.started"), "{cursor} {of}");
            assert_eq!(of["usage"]["tokens"]["unreported"], count("turn.completed"), "{cursor} {of}");
            let waiting = count("turn.queued") - (count("turn.started") - 1);
            assert_eq!(of["queue"]["length"].as_u64().unwrap_or(0), waiting, "{cursor} {of}");
            assert_eq!(of["lastEventAt"], last, "{cursor} {of}");
        }
    }
    // A view that combines one snapshot with the stream equals the next snapshot.
    for pair in snapshots.windows(2) {
        let mut view = view(&pair[0]);
        let last = pair[1]["cursor"].as_str().unwrap();
        for event in all.iter().filter(|event| event["eventId"].as_str().unwrap() <= last) {
            let event = serde_json::from_value(event.clone()).unwrap();
            assert_ne!(view.apply(&event), Applied::Unknown);
        }
        assert_eq!(seen(&view), seen(&self::view(&pair[1])), "{}", pair[1]);
    }
    assert!(moments.len() > 3, "snapshots were taken while they worked: {moments:?}");
    sandbox.finish();
}

#[test]
fn a_view_follows_questions_tools_plans_failures_and_the_end() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let mut snapshots = vec![overview(&sandbox)];
    let gate = sandbox.gate("tool");
    let sent =
        sandbox.send_no_wait(&worker, &format!("!plan look | fix\n!tool execute make\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &sent["acceptedEventId"], "progress.update:tool_call");
    snapshots.push(overview(&sandbox));
    gate.open();
    let _ = sandbox.turn_end(&sent);
    let asked = sandbox.send(&worker, "!ask execute rm -rf build");
    snapshots.push(overview(&sandbox));
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data();
    let _ = sandbox.turn_end(&asked);
    let _ = sandbox.send_no_wait(&worker, "!error -32603 no luck");
    sandbox.sending(&worker, "later").args(["--if-busy", "queue", "--no-wait"]).run().data();
    snapshots.push(overview(&sandbox));
    sandbox.run(&["worker", "stop", "--worker-id", &worker]).data_of("worker.stopped");
    snapshots.push(overview(&sandbox));
    let all = events(&sandbox, None);
    for (first, earlier) in snapshots.iter().enumerate() {
        for later in &snapshots[first..] {
            let mut view = view(earlier);
            let last = later["cursor"].as_str().unwrap();
            for event in all.iter().filter(|event| event["eventId"].as_str().unwrap() <= last) {
                let _ = view.apply(&serde_json::from_value(event.clone()).unwrap());
            }
            let (mut seen, mut expected) = (seen(&view), seen(&self::view(later)));
            // A snapshot contains the code of an error too.
            seen[0]["error"].take();
            expected[0]["error"].take();
            assert_eq!(seen, expected, "{earlier}\n{later}");
        }
    }
    sandbox.finish();
}

#[test]
fn the_pages_of_a_transcript_are_all_of_it_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for turn in ["!chunks 40\n!tool execute make", "!think hm\ntwo"] {
        let _ = sandbox.send(&worker, turn);
    }
    let page =
        |query: &str| data(&sandbox, &format!("/v1/workers/{worker}/transcript{query}"), "transcript.shown");
    let whole = page("?limit=2000");
    assert_eq!((&whole["before"], &whole["workerId"]), (&Value::Null, &json!(worker)));
    let newest = sandbox.events(&worker).pop().unwrap();
    assert_eq!(whole["cursor"], newest["eventId"]);
    let kinds = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["kind"].as_str().unwrap().to_owned()).collect()
    };
    let all = kinds(&whole);
    assert_eq!(all.iter().filter(|kind| *kind == "user").count(), 2, "{whole}");
    assert_eq!(all.iter().filter(|kind| *kind == "turn_end").count(), 2, "{whole}");
    for kind in ["agent", "tool", "thought"] {
        assert!(all.iter().any(|found| found == kind), "{kind} is missing: {whole}");
    }
    // Texts of all pages, the newest first.
    let text = |page: &Value| -> String {
        let items = page["items"].as_array().unwrap().iter();
        let agent = items.filter(|item| item["kind"] == "agent");
        agent.map(|item| item["text"].as_str().unwrap()).collect()
    };
    let (mut joined, mut before, mut pages) = (String::new(), Value::Null, 0);
    loop {
        let cursor = before.as_str().map(|before| format!("&before={before}")).unwrap_or_default();
        let shown = page(&format!("?limit=7{cursor}"));
        joined = text(&shown) + &joined;
        (before, pages) = (shown["before"].clone(), pages + 1);
        if before.is_null() {
            break;
        }
    }
    assert_eq!(joined, text(&whole));
    assert!(pages > 2, "{pages}");
    for (query, code) in [
        ("?limit=0", "INVALID_ARGUMENT"),
        ("?limit=2001", "INVALID_ARGUMENT"),
        ("?before=yesterday", "EVENT_NOT_FOUND"),
    ] {
        let refused = get(&sandbox, &format!("/v1/workers/{worker}/transcript{query}"));
        assert_eq!(refused["error"]["code"], code, "{query}");
    }
    let unknown = get(&sandbox, "/v1/workers/w_0000000000/transcript");
    assert_eq!(unknown["error"]["code"], "WORKER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn the_workers_of_the_tasks_of_a_worker_are_listed_alone_and_say_where_they_belong() {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), &[]);
    let other = sandbox.start("demo");
    let file = sandbox.task_file("nested", "Unit", "background", "!say hello");
    let _ = sandbox.send(&root, &sandbox.gives(&file));
    let below = data(&sandbox, &format!("/v1/workers?parent={root}"), "worker.listed");
    assert_eq!(below["count"], 1, "{below}");
    let task = below["items"][0]["workerId"].as_str().unwrap();
    let shown = overview(&sandbox);
    let of = &worker(&shown, task)["task"];
    assert_eq!(
        (&of["name"], &of["parent"], &of["root"], &of["depth"]),
        (&json!("Unit"), &json!(root), &json!(root), &json!(1))
    );
    assert_eq!(worker(&shown, &root)["task"], Value::Null);
    assert_eq!(data(&sandbox, &format!("/v1/workers?parent={other}"), "worker.listed")["count"], 0);
    let unknown = get(&sandbox, "/v1/workers?parent=w_0000000000");
    assert_eq!(unknown["error"]["code"], "WORKER_NOT_FOUND");
    sandbox.finish();
}
