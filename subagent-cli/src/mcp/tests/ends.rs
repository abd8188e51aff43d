//! Tests of notifications about ended background tasks.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::mcp::ends::TASKS;

/// A manager's background task.
fn background(status: &str) -> Value {
    let mut task = task(status, 1);
    task["parent"] = Value::Null;
    task["mode"] = "background".into();
    task
}

/// A fake daemon with one such task, which ends at the second request.
fn fake(status: &'static str) -> Fake {
    let mut waits = 0;
    Fake::playing(move |seen| match seen.line.as_str() {
        "GET /v1/tasks" => ok(json!({"items": [background("running")], "count": 1})),
        "POST /v1/tasks/w_0123456789/messages" => {
            waits = 0;
            let mut messaged = background("running");
            messaged["message"] = "queued".into();
            ok(messaged)
        }
        "POST /v1/tasks/w_0123456789/wait" => {
            waits += 1;
            if waits == 1 {
                return refused("WAIT_TIMEOUT", "nothing has changed");
            }
            let mut ended = background(status);
            ended["result"] = "The result.".into();
            ended["resultMaxTokens"] = json!(100);
            ok(ended)
        }
        _ => ordinary(seen),
    })
}

#[tokio::test]
async fn a_manager_hears_of_the_end_of_a_task_that_it_watches() {
    let fake = fake("completed");
    let mut session = McpSession::begin(submitter(&fake, &[])).await;
    let listed = session.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], TASKS, "{listed}");
    let read = session.ask("resources/read", json!({"uri": TASKS})).await;
    let content = &read["result"]["contents"][0];
    let tasks: Value =
        serde_json::from_str(content["text"].as_str().unwrap_or_else(|| panic!("{read}"))).unwrap();
    assert_eq!((&tasks[0]["name"], &tasks[0]["status"]), (&json!("Look around"), &json!("running")));
    assert_eq!(content["mimeType"], "application/json");
    // A read does not start a watch.
    assert!(!lines(&fake).iter().any(|line| line.ends_with("/wait")));
    let subscribed = session.ask("resources/subscribe", json!({"uri": TASKS})).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let reported = session.hear("notifications/message").await;
    assert_eq!(
        (&reported["params"]["level"], &reported["params"]["logger"]),
        (&json!("info"), &json!("subagent"))
    );
    let data = &reported["params"]["data"];
    assert_eq!((&data["id"], &data["status"]), (&json!("w_0123456789"), &json!("completed")), "{data}");
    assert_eq!(data["message"], "Look around: completed, 1 tool call");
    assert!(!reported.to_string().contains("The result."), "{reported}");
    assert_eq!(session.hear("notifications/resources/updated").await["params"]["uri"], TASKS);
    session.end().await;
}

#[tokio::test]
async fn a_task_that_goes_on_is_watched_and_what_is_not_wanted_is_not_reported() {
    let fake = fake("failed");
    let mut session = McpSession::begin(submitter(&fake, &[])).await;
    let message = json!({"name_or_id": "w_0123456789", "message": "more"});
    session.call("message_subagent", message.clone()).await;
    assert_eq!(session.hear("notifications/message").await["params"]["level"], "warning");
    // Without a subscription the client gets no resource notification.
    assert!(session.heard.iter().all(|heard| heard["method"] != "notifications/resources/updated"));
    session.ask("logging/setLevel", json!({"level": "error"})).await;
    session.ask("resources/subscribe", json!({"uri": TASKS})).await;
    session.hear("notifications/resources/updated").await;
    session.ask("resources/unsubscribe", json!({"uri": TASKS})).await;
    assert!(
        session.heard.iter().all(|heard| heard["method"] != "notifications/message"),
        "{:?}",
        session.heard
    );
    session.end().await;
}

#[tokio::test]
async fn an_agent_has_no_resources_and_hears_of_no_ends() {
    let waited = std::sync::Arc::new(AtomicBool::new(false));
    let seen_wait = waited.clone();
    let fake = Fake::playing(move |seen| match seen.line.as_str() {
        "POST /v1/tasks" => ok(background("queued")),
        "POST /v1/tasks/w_0123456789/wait" => {
            seen_wait.store(true, Ordering::Relaxed);
            Act::Hang
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let listed = session.ask("resources/list", json!({})).await;
    assert!(listed["result"]["resources"].as_array().is_none_or(Vec::is_empty), "{listed}");
    for method in ["resources/read", "resources/subscribe"] {
        assert!(session.ask(method, json!({"uri": TASKS})).await["error"].is_object(), "{method}");
    }
    let mut arguments = call();
    arguments["background"] = true.into();
    session.call("task", arguments).await;
    session.end().await;
    assert!(!waited.load(Ordering::Relaxed));
}
