//! The requests that change triggers, each with its own trigger.

use serde_json::json;
use subagent_tests::harness::TestSandbox;

use super::Post;

/// Returns a trigger that only requests fire.
fn added(sandbox: &TestSandbox, number: usize) -> String {
    let name = format!("occurs-{number}");
    sandbox.run(&["trigger", "add", &name, "demo", "hello {{payload}}"]).data_of("trigger.added");
    name
}

/// Returns the request to this path.
pub(super) fn prepare(sandbox: &TestSandbox, path: &str, number: usize) -> Post {
    match path {
        "/v1/triggers" => {
            let worker = sandbox.start("demo");
            Post::new(
                "/v1/triggers",
                "/v1/triggers",
                json!({
                    "workspaceKey": sandbox.workspace().canonicalize().unwrap(), "name": format!("new-{number}"),
                    "source": {"request": {}}, "work": {"send": {"worker": worker, "text": "hello"}},
                }),
                &["name", "createdAt"],
                "SELECT count(*) FROM schedules",
            )
        }
        "/v1/triggers/{trigger}/pause" => Post::new(
            "/v1/triggers/{trigger}/pause",
            &format!("/v1/triggers/{}/pause", added(sandbox, number)),
            json!({}),
            &["name", "paused"],
            "SELECT count(*) FROM schedules WHERE paused IS NOT NULL",
        ),
        "/v1/triggers/{trigger}/resume" => {
            let name = added(sandbox, number);
            sandbox.run(&["trigger", "pause", &name]).data_of("trigger.paused");
            Post::new(
                "/v1/triggers/{trigger}/resume",
                &format!("/v1/triggers/{name}/resume"),
                json!({}),
                &["name"],
                "SELECT -count(*) FROM schedules WHERE paused IS NOT NULL",
            )
        }
        "/v1/triggers/{trigger}/run" => Post::new(
            "/v1/triggers/{trigger}/run",
            &format!("/v1/triggers/{}/run", added(sandbox, number)),
            json!({}),
            &["at"],
            "SELECT count(*) FROM firings",
        ),
        "/v1/triggers/{trigger}/fire" => Post::new(
            "/v1/triggers/{trigger}/fire",
            &format!("/v1/triggers/{}/fire", added(sandbox, number)),
            json!({"payload": "data"}),
            &["at"],
            "SELECT count(*) FROM firings",
        ),
        "/v1/triggers/{trigger}/deliver" => {
            let name = format!("hook-{number}");
            let add = ["trigger", "add", &name, "--webhook", "demo", "hello {{payload}}"];
            let hook = sandbox.run(&add).data_of("trigger.added");
            Post::new(
                "/v1/triggers/{trigger}/deliver",
                &format!("/v1/triggers/{name}/deliver"),
                json!({"token": hook["token"], "payload": "data"}),
                &["at"],
                "SELECT count(*) FROM firings",
            )
        }
        "/v1/triggers/{trigger}/remove" => Post::new(
            "/v1/triggers/{trigger}/remove",
            &format!("/v1/triggers/{}/remove", added(sandbox, number)),
            json!({}),
            &[],
            "SELECT -count(*) FROM schedules",
        ),
        path => panic!("{path} has an effect and is not tested: add its request"),
    }
}
