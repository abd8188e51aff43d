//! What a page does: it looks, answers, sends, starts, and goes on when a daemon died.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use subagent_protocol::PROTOCOL;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{LIMIT, PageStream, Panel, error, get, post};
use crate::removal::{count, days_earlier, stop_daemon};

/// The state of this worker in a line of the live stream.
fn state_of(line: &Value, worker: &str) -> Option<String> {
    let rows = line["rows"].as_array()?;
    let row = rows.iter().find(|row| row["id"] == worker)?;
    row["state"].as_str().map(str::to_owned)
}

fn in_state(live: &mut PageStream, worker: &str, state: &str) {
    live.find(&format!("{worker} {state}"), |line| state_of(line, worker).filter(|now| now == state));
}

#[test]
fn a_question_is_answered_while_the_turn_waits() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    in_state(&mut live, &worker, "idle");
    let sent = sandbox.send_no_wait(&worker, "!ask execute make clean");
    let question = live.find("the question", |line| line["questions"].as_array()?.first().cloned());
    assert_eq!(
        (&question["worker"], &question["subject"]),
        (&json!(worker), &json!("make clean")),
        "{question}"
    );
    assert!(
        question["options"].as_array().unwrap().iter().any(|option| option["kind"] == "allow_once"),
        "{question}"
    );
    let place = page.place();
    let request = question["id"].as_str().unwrap();
    let path = format!("/api/{place}/workers/{worker}/approvals/{request}");
    let decided = page.post(&path, &json!({"decision": "allow"}));
    assert_eq!(decided.status, 200, "{decided:?}");
    let _ = sandbox.turn_end(&sent);
    live.find("the empty inbox", |line| {
        line["questions"].as_array().filter(|open| open.is_empty()).map(|_| ())
    });
    in_state(&mut live, &worker, "idle");
    // A second page that was slower hears who was first.
    let late = page.post(&path, &json!({"decision": "deny"}));
    assert_eq!(error(&late), "APPROVAL_NOT_PENDING", "{late:?}");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_story_is_followed_and_resumed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let base = format!("/api/{}/workers/{worker}", page.place());
    let mut story = page.stream(&format!("{base}/follow"));
    let first = story.find("the snapshot", |line| (line["all"] == true).then(|| line.clone()));
    let cursor = first["cursor"].as_str().unwrap().to_owned();
    let sent = page.post(&format!("{base}/turns"), &json!({"text": "Say **hello**"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let item = |line: &Value, kind: &str| {
        line["items"].as_array()?.iter().find(|item| item["kind"] == kind).cloned()
    };
    let user = story.find("the message", |line| item(line, "user"));
    assert_eq!(user["blocks"][0]["c"][1], json!({"t": "strong", "c": ["hello"]}), "{user}");
    story.find("the end of the turn", |line| item(line, "turn_end"));
    // A page that was away has it in the snapshot, and gets no notice that events are missing.
    let mut again = page.stream(&format!("{base}/follow?from={cursor}"));
    let line = again.find("a line", |line| Some(line.clone()));
    assert!(line["all"] == true && item(&line, "turn_end").is_some(), "{line}");
    assert_eq!(page.get(&format!("{base}/page"))["before"], Value::Null);
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_worker_is_started_written_to_and_stopped() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let place = page.place();
    let choices = page.get(&format!("/api/{place}/choices"));
    assert!(choices["launchers"].as_array().unwrap().iter().any(|one| one["name"] == "demo"), "{choices}");
    let started =
        page.post(&format!("/api/{place}/workers"), &json!({"launcher": "demo", "text": "!sleep 3600000"}));
    assert_eq!(started.status, 200, "{started:?}");
    let worker = started.json()["data"]["workerId"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.show(&worker)["state"], "running");
    let base = format!("/api/{place}/workers/{worker}");
    let busy = page.post(&format!("{base}/turns"), &json!({"text": "one"}));
    assert_eq!(error(&busy), "WORKER_BUSY");
    for text in ["one", "two"] {
        let queued = page.post(&format!("{base}/turns"), &json!({"text": text, "ifBusy": "queue"}));
        assert_eq!(queued.status, 200, "{queued:?}");
    }
    let waiting = || {
        let turns = page.get(&format!("{base}/turns"));
        let turns = turns["items"].as_array().unwrap().iter().filter(|turn| turn["status"] == "queued");
        turns
            .map(|turn| (turn["turnId"].as_str().unwrap().to_owned(), turn["text"].clone()))
            .collect::<Vec<_>>()
    };
    let two = waiting()[1].0.clone();
    assert_eq!(page.post(&format!("/api/{place}/turns/{two}/move"), &json!({"to": 1})).status, 200);
    assert_eq!(waiting()[0].1, "two");
    assert_eq!(page.post(&format!("/api/{place}/turns/{two}/drop"), &json!({})).status, 200);
    assert_eq!(waiting().len(), 1);
    assert_eq!(page.post(&format!("{base}/stop"), &json!({})).status, 200);
    assert_eq!(sandbox.show(&worker)["state"], "stopped");
    let empty = page.post(&format!("{base}/turns"), &json!({"text": " "}));
    assert_eq!(error(&empty), "INVALID_INPUT");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_form_is_answered() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let schema = json!({"type": "object", "properties": {"name": {"type": "string", "title": "A\u{202e}B\u{200b}C"}}, "required": ["name"]});
    let form = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
    let sent = sandbox.send_no_wait(&worker, &format!("!elicit {form}"));
    let question = live.find("the form", |line| line["questions"].as_array()?.first().cloned());
    let field = &question["fields"][0];
    assert_eq!((&question["kind"], &field["name"]), (&json!("elicitation"), &json!("name")), "{question}");
    assert_eq!((&field["label"], &field["required"]), (&json!("ABC"), &json!(true)), "{question}");
    let path =
        format!("/api/{}/workers/{worker}/elicitations/{}", page.place(), question["id"].as_str().unwrap());
    let answered = page.post(&path, &json!({"action": "accept", "content": {"name": "Ada"}}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let _ = sandbox.turn_end(&sent);
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_page_goes_on_when_the_daemon_died() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    in_state(&mut live, &worker, "idle");
    sandbox.kill_daemon();
    // The page is notified, a new daemon is started, and the page has a new snapshot.
    live.find("a new snapshot", |line| {
        (line["all"] == true && state_of(line, &worker).is_some()).then_some(())
    });
    let sent = page.post(&format!("/api/{}/workers/{worker}/turns", page.place()), &json!({"text": "hello"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    in_state(&mut live, &worker, "idle");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_daemon_of_another_age_is_reported_and_its_successor_is_shown() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let file = sandbox.state_dir().join("daemon.json");
    let mut info: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let panel = Panel::start(&sandbox, &[]);
    let mut live = panel.enter().stream("/api/live");
    in_state(&mut live, &worker, "idle");
    // One of the first version understands the protocol and has no overview.
    let first = sandbox.file("run/first.sock");
    let listener = UnixListener::bind(&first).unwrap();
    std::thread::spawn(move || {
        let unknown = include_str!("../../../fixtures/0.1.0/no_such_path.json");
        let unknown = (400, unknown.replace("daemon/examination", "overview"));
        let shown = (200, include_str!("../../../fixtures/0.1.0/daemon_shown.json").to_owned());
        for stream in listener.incoming() {
            let (mut stream, mut asked) = (stream.unwrap(), [0; 64 * 1024]);
            let length = stream.read(&mut asked).unwrap_or_default();
            let is_known = !String::from_utf8_lossy(&asked[..length]).contains("/v1/overview");
            let (status, body) = if is_known { &shown } else { &unknown };
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes());
        }
    });
    info["socket"] = json!(first);
    // Beside the live one: without either, the panel would start one.
    fs::write(&file, info.to_string()).unwrap();
    sandbox.kill_daemon();
    for (protocol, code, said) in [
        (info["protocol"].clone(), "DAEMON_TOO_OLD", "than this panel"),
        (json!(0), "DAEMON_TOO_OLD", "than this command"),
        (json!(PROTOCOL + 9), "DAEMON_TOO_NEW", "than this command"),
    ] {
        (info["protocol"], info["oldestProtocol"]) = (protocol.clone(), protocol);
        fs::write(file.with_extension("new"), info.to_string()).unwrap();
        fs::rename(file.with_extension("new"), &file).unwrap();
        let is_said = |down: &Value| {
            down["code"] == code && down["message"].as_str().is_some_and(|message| message.contains(said))
        };
        let down = live.find(code, |line| Some(line["down"].clone()).filter(is_said));
        assert!(down["details"]["recommendedAction"].as_str().unwrap().contains("daemon"), "{down}");
    }
    fs::remove_file(&file).unwrap();
    let _ = sandbox.send(&worker, "to the next one");
    live.find("a new snapshot", |line| {
        (line["all"] == true && state_of(line, &worker).is_some()).then_some(())
    });
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_daemon_that_was_stopped_is_not_started_by_looking() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    in_state(&mut live, &worker, "idle");
    let place = page.place();
    let _ = sandbox.run(&["daemon", "stop"]).data();
    let down = live.find("that it is down", |line| line.get("down").cloned());
    assert_eq!(down["code"], "DAEMON_NOT_RUNNING", "{down}");
    live.find("that it is still down", |line| line.get("down").cloned());
    for path in ["usage", &format!("workers/{worker}/page"), &format!("workers/{worker}/diff")] {
        let response = get(panel.port, &format!("/api/{place}/{path}"), &[&page.bearer()]);
        assert_eq!(
            (response.status, error(&response).as_str()),
            (503, "DAEMON_NOT_RUNNING"),
            "{path}: {response:?}"
        );
    }
    assert!(sandbox.daemon_info().is_none());
    let _ = sandbox.run(&["daemon", "start"]).data();
    live.find("a snapshot", |line| (line["all"] == true).then_some(()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_cursor_that_is_too_old_is_reported_and_gets_a_new_snapshot() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for _ in 0..3 {
        let _ = sandbox.send(&worker, "!chunks 20 old");
    }
    let old = sandbox.events(&worker)[1]["eventId"].as_str().unwrap().to_owned();
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 40);
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let mark = format!("SELECT expired_seq FROM workers WHERE worker_id = '{worker}'");
    wait_until("old events to be marked", LIMIT, || (count(&sandbox, &mark) > 0).then_some(()));
    let base = format!("/api/{}/workers/{worker}", page.place());
    for cursor in [old.as_str(), "ev_0000000fffff"] {
        let mut story = page.stream(&format!("{base}/follow?from={cursor}"));
        let first = story.find("a line", |line| Some(line.clone()));
        assert_eq!(first["expired"], true, "{cursor}: {first}");
        let second = story.find("another line", |line| Some(line.clone()));
        assert_eq!(second["all"], true, "{cursor}: {second}");
    }
    drop(panel);
    sandbox.finish();
}

#[test]
fn changes_are_shown_as_lines() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let base = format!("/api/{}/workers/{worker}", page.place());
    let found = wait_until("a diff", LIMIT, || Some(page.get(&format!("{base}/diff"))));
    assert!(found["files"].is_array() && found["source"].is_string(), "{found}");
    let _ = sandbox.send(&worker, "!edit create made.txt one");
    let found = page.get(&format!("{base}/diff"));
    assert_eq!((&found["count"], &found["added"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(found["files"][0]["patch"]["lines"][1]["v"], "one", "{found}");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_hand_off_whose_answer_was_lost_happens_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hi");
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let path = format!("/api/{}/workers/{worker}/hand-off", page.place());
    let hand_off = |key: &str| {
        let headers = [page.bearer(), format!("Idempotency-Key: {key}")];
        let response = post(panel.port, &path, &headers.each_ref().map(String::as_str), &json!({}));
        assert_eq!(response.status, 200, "{response:?}");
        response.json()["data"].take()
    };
    let workers = || sandbox.run(&["worker", "list"]).data()["count"].clone();
    let first = hand_off("one");
    assert_eq!(hand_off("one"), first);
    assert_eq!(workers(), 2);
    assert_ne!(hand_off("two")["worker"]["workerId"], first["worker"]["workerId"]);
    assert_eq!(workers(), 3);
    drop(panel);
    sandbox.finish();
}
