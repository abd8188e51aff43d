//! Tests of the server while the daemon is absent or does not answer.

use std::sync::{Arc, Mutex};

use super::*;

#[tokio::test]
async fn a_daemon_that_dies_meanwhile_gets_the_task_once_and_is_waited_for() {
    let deaths = Arc::new(Mutex::new(vec!["spawn", "leave", "wait"]));
    let fake = Fake::playing(move |seen| {
        let dies = |when| {
            let mut deaths = deaths.lock().unwrap();
            let at = deaths.iter().position(|death| *death == when);
            at.map(|at| deaths.remove(at)).is_some()
        };
        match seen.line.as_str() {
            "POST /v1/tasks" if dies("spawn") => Act::Close,
            "POST /v1/tasks" => ok(task("queued", 0)),
            "POST /v1/tasks/w_0123456789/wait" if dies("leave") => Act::Leave,
            "POST /v1/tasks/w_0123456789/wait" if dies("wait") => Act::Close,
            "POST /v1/tasks/w_0123456789/wait" => ok(shown("completed", 0, Some("Done."))),
            _ => ordinary(seen),
        }
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    assert!(text(&session.call("task", call()).await).contains(">Done.<"));
    let keys: Vec<_> =
        fake.seen().iter().filter_map(|seen| seen.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1], "it is the same task");
    session.end().await;
}

#[tokio::test]
async fn a_daemon_that_is_away_is_asked_again_however_late_it_comes() {
    let mut dies = true;
    let fake = Fake::playing(move |seen| match seen.line.as_str() {
        "POST /v1/tasks/done/messages" if std::mem::take(&mut dies) => Act::Die,
        "POST /v1/tasks/done/messages" => {
            let mut answer = task("queued", 0);
            answer["message"] = "resumed".into();
            ok(answer)
        }
        _ => ordinary(seen),
    });
    let submitter = submitter(&fake, &[(TASK_TOKEN, "t")]);
    for path in ["/v1/tasks", "/v1/tasks/done/messages"] {
        assert_eq!(
            submitter.change(path, &json!({})).unwrap().limit,
            None,
            "{path}: its end would be unknown"
        );
    }
    let mut session = McpSession::begin(submitter).await;
    let arguments = json!({"name_or_id": "done", "message": "Go on."});
    let id = session.request("tools/call", json!({"name": "message_subagent", "arguments": arguments})).await;
    until(|| fake.is_away().then_some(())).await;
    fake.come_back();
    assert!(text(&session.answer(id).await).contains("it had ended"));
    let seen = fake.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
    session.end().await;
}

#[tokio::test]
async fn agents_that_could_not_be_found_out_are_announced_as_soon_as_they_can_be() {
    let mut lists = 0;
    let fake = Fake::playing(move |seen| match seen.line.as_str() {
        "GET /v1/tasks/agents" => {
            lists += 1;
            if lists == 1 { refused("STORE_UNWRITABLE", "not now") } else { ok(agents(&["explore"])) }
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    assert_eq!(names(&session.ask("tools/list", json!({})).await), ["get_subagents", "message_subagent"]);
    session.hear("notifications/tools/list_changed").await;
    assert_eq!(names(&session.ask("tools/list", json!({})).await)[0], "task");
    session.end().await;
}

#[tokio::test]
async fn an_agents_server_waits_for_a_daemon_that_it_may_not_start() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "GET /v1/tasks" => ok(json!({"items": [], "count": 0})),
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    std::fs::remove_file(fake.dir.path().join("daemon.json")).unwrap();
    let id = session.request("tools/call", json!({"name": "get_subagents", "arguments": {}})).await;
    session.ask("ping", json!({})).await;
    assert!(session.heard.is_empty(), "{:?}", session.heard);
    fake.come_back();
    assert_eq!(text(&session.answer(id).await), "[]");
    session.end().await;
}
