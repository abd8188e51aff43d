//! A client with forms: its user answers what tasks ask.

use serde_json::{Value, json};

use super::{McpClient, sandbox, scout};

#[test]
fn the_user_of_a_client_with_forms_is_asked_what_a_task_asks() {
    let sandbox = sandbox();
    let mut client = McpClient::with_forms(&sandbox);
    let task = client.call("task", scout("!ask execute make all\n!ask execute make test\nbuilt"));
    let asked = client.next("elicitation/create");
    assert_eq!(asked["params"]["message"], "Look around asks: make all", "{asked}");
    let options = &asked["params"]["requestedSchema"]["properties"]["decision"]["oneOf"];
    assert_eq!(options[2], json!({"const": "reject-once", "title": "Reject"}), "{asked}");
    let chosen = json!({"action": "accept", "content": {"decision": "reject-once"}});
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": chosen}));
    // The second one is answered elsewhere: its form is withdrawn.
    let asked = client.next("elicitation/create");
    assert_eq!(asked["params"]["message"], "Look around asks: make test", "{asked}");
    let open = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
    let question = &open["items"][0];
    sandbox.approve(question["workerId"].as_str().unwrap(), &question["requestId"], "allow").data();
    assert_eq!(client.next("notifications/cancelled")["params"]["requestId"], asked["id"]);
    let text = client.text(task).0;
    assert!(text.contains("built"), "{text}");
    let decided = sandbox.events(question["workerId"].as_str().unwrap());
    let decided: Vec<&Value> = decided.iter().filter(|event| event["type"] == "approval.decided").collect();
    assert_eq!(decided[0]["data"]["note"], "the client's user decided", "{decided:?}");
    client.end();
    sandbox.finish();
}

#[test]
fn the_user_of_a_client_with_forms_is_asked_what_a_spawned_subagent_asks() {
    let sandbox = sandbox();
    let mut client = McpClient::with_forms(&sandbox);
    let spawn = json!({
        "name": "Builder", "task": "!ask execute make all\nbuilt", "mode": "foreground",
        "config": {"agent_id": "scout"},
    });
    let spawned = client.call("spawn_subagent", spawn);
    let asked = client.next("elicitation/create");
    assert_eq!(asked["params"]["message"], "Builder asks: make all", "{asked}");
    let chosen = json!({"action": "accept", "content": {"decision": "reject-once"}});
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": chosen}));
    let text = client.text(spawned).0;
    assert!(text.contains("permission: reject-once") && text.contains("built"), "{text}");
    client.end();
    sandbox.finish();
}

#[test]
fn the_user_of_a_client_with_forms_fills_in_the_form_of_a_task() {
    let sandbox = sandbox();
    let mut client = McpClient::with_forms(&sandbox);
    let schema = json!({
        "type": "object", "required": ["color"], "properties": {"color": {"type": "string", "enum": ["red", "blue"]}},
    });
    let form = json!({"mode": "form", "message": "Which color?", "requestedSchema": schema});
    let task = client.call("task", scout(&format!("!elicit {form}\n!elicit {form}\npainted")));
    for (action, content) in [("accept", json!({"color": "blue"})), ("decline", Value::Null)] {
        let asked = client.next("elicitation/create");
        let params = &asked["params"];
        assert_eq!(params["message"], "Look around: Which color?", "{asked}");
        assert_eq!(
            params["requestedSchema"]["properties"]["color"]["enum"],
            json!(["red", "blue"]),
            "{asked}"
        );
        let mut answer = json!({"action": action});
        if !content.is_null() {
            answer["content"] = content;
        }
        client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    }
    let text = client.text(task).0;
    assert!(text.contains("blue") && text.contains("decline") && text.contains("painted"), "{text}");
    client.end();
    sandbox.finish();
}
