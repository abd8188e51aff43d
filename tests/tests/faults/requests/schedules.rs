//! The requests that change schedules, each with its own schedule.

use serde_json::json;
use subagent_tests::harness::TestSandbox;

use super::Post;

/// Returns a schedule that fires long after the test.
fn added(sandbox: &TestSandbox, number: usize) -> String {
    let name = format!("times-{number}");
    let add = ["schedule", "add", &name, "--every", "25m", "demo", "hello"];
    sandbox.run(&add).data_of("schedule.added");
    name
}

/// Returns the request to this path.
pub(super) fn prepare(sandbox: &TestSandbox, path: &str, number: usize) -> Post {
    match path {
        "/v1/schedules" => {
            let worker = sandbox.start("demo");
            Post::new(
                "/v1/schedules",
                "/v1/schedules",
                json!({
                    "workspaceKey": sandbox.workspace().canonicalize().unwrap(), "name": format!("added-{number}"),
                    "when": {"everySeconds": 1500}, "work": {"send": {"worker": worker, "text": "hello"}},
                }),
                &["name", "createdAt"],
                "SELECT count(*) FROM schedules",
            )
        }
        "/v1/schedules/{schedule}/pause" => Post::new(
            "/v1/schedules/{schedule}/pause",
            &format!("/v1/schedules/{}/pause", added(sandbox, number)),
            json!({}),
            &["name", "paused"],
            "SELECT count(*) FROM schedules WHERE paused IS NOT NULL",
        ),
        "/v1/schedules/{schedule}/resume" => {
            let name = added(sandbox, number);
            sandbox.run(&["schedule", "pause", &name]).data_of("schedule.paused");
            Post::new(
                "/v1/schedules/{schedule}/resume",
                &format!("/v1/schedules/{name}/resume"),
                json!({}),
                &["name"],
                "SELECT -count(*) FROM schedules WHERE paused IS NOT NULL",
            )
        }
        "/v1/schedules/{schedule}/run" => Post::new(
            "/v1/schedules/{schedule}/run",
            &format!("/v1/schedules/{}/run", added(sandbox, number)),
            json!({}),
            &["at"],
            "SELECT count(*) FROM firings",
        ),
        "/v1/schedules/{schedule}/remove" => Post::new(
            "/v1/schedules/{schedule}/remove",
            &format!("/v1/schedules/{}/remove", added(sandbox, number)),
            json!({}),
            &[],
            "SELECT -count(*) FROM schedules",
        ),
        path => panic!("{path} has an effect and is not tested: add its request"),
    }
}
