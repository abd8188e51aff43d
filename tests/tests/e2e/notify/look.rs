//! `notify list`, `notify test` and `notify log` for people, and who may call them.

use serde_json::json;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{SOON, configure, fails_test, log, world};

#[test]
fn lists_say_what_to_do_where_nothing_is_configured() {
    let sandbox = TestSandbox::new();
    let said = |command: &str| sandbox.command("subagent").args(["notify", command]).run().stderr;
    assert!(said("list").contains("no sinks; add `notify`"));
    assert!(said("test").contains("no sinks; add `notify`"));
    assert!(said("log").contains("no notifications"));
    sandbox.finish();
}

#[test]
fn a_test_says_which_sink_took_it() {
    let (sandbox, worker) = world(
        "  - {name: good, to: command, command: 'true'}\n  - {name: bad, to: command, command: 'echo no disk >&2; exit 3'}",
    );
    let tested = fails_test(&sandbox);
    let expected = json!([
        {"name": "good", "delivered": true},
        {"name": "bad", "delivered": false, "error": "the command exited with 3: no disk"},
    ]);
    assert_eq!(tested["items"], expected);
    let one = sandbox.run(&["notify", "test", "good"]).data_of("notify.tested");
    assert_eq!(one["count"], 1);
    let _ = sandbox.send_fails(&worker, "!error -32000 no", "BACKEND_RPC_ERROR");
    let failing = || {
        log(&sandbox).into_iter().find(|delivery| delivery["sink"] == "bad" && !delivery["error"].is_null())
    };
    let failing = wait_until("a failed attempt", SOON, failing);
    assert_eq!(failing["error"], "the command exited with 3: no disk", "{failing}");
    let listed = sandbox.run(&["notify", "list"]).data_of("notify.listed");
    assert_eq!(listed["items"][1]["pending"], 1, "{listed}");
    configure(&sandbox, "  []");
    sandbox.finish();
}

#[test]
fn an_agent_may_not_look_or_test() {
    let (sandbox, worker) = world("  - {to: command, command: 'true'}");
    for command in ["list", "log", "test"] {
        let line = format!("!shell {} notify {command} --json", sandbox.executable("subagent"));
        let turn = sandbox.send(&worker, &line);
        let events = sandbox.events(&worker);
        let heard = events.iter().any(|event| event.to_string().contains("FORBIDDEN_FROM_WORKER"));
        assert!(heard, "{command}: {turn}");
    }
    sandbox.finish();
}
