//! A rate limit with a time of reset parks the worker of a real agent until then.

use serde_json::Value;
use subagent_protocol::time::Timestamp;
use subagent_tests::real_agent::RealAgent;

use super::world::RealAgentWorld;

/// Seconds from the refused request to the end of the limit.
const RESET: i64 = 20;

#[test]
fn the_queue_goes_on_by_itself_after_the_reset() {
    if !RealAgent::is_installed("claude") {
        return;
    }
    // With a subscription Claude Code reports the time of reset, which its API sends in headers.
    let env = [("ANTHROPIC_API_KEY", ""), ("CLAUDE_CODE_OAUTH_TOKEN", "unused")];
    let mut world = RealAgentWorld::with_env("claude", &env);
    world.worker = world.start();
    world.say("before the limit");

    let accepted = world.sandbox.send_no_wait(&world.worker, &format!("FAIL: 429 {RESET}"));
    let failed = world.next(&world.worker, &accepted["acceptedEventId"]);
    assert_eq!(failed["type"], "turn.failed", "{failed}");
    let prompt = "SAY: after the limit";
    let sending = world.sandbox.sending(&world.worker, prompt).args(["--queue", "--no-wait"]);
    let queued = sending.run().data_of("turn.queued");
    let parked = of_type(&world, "worker.parked");
    let time = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap().0;
    let wait = time(&parked["data"]["until"]) - time(&failed["ts"]);
    // The API names whole seconds, and the agent needs some time to report the limit.
    assert!(wait > 0 && wait <= (RESET + 1) * 1000, "{wait} ms: {parked}");

    let end = world.next(&world.worker, &queued["acceptedEventId"]);
    assert_eq!((&end["type"], &end["turnId"]), (&"turn.completed".into(), &queued["turnId"]));
    let unparked = of_type(&world, "worker.unparked");
    assert!(time(&unparked["ts"]) >= time(&parked["data"]["until"]), "{unparked}, {parked}");
    assert_eq!(world.asked(prompt), 1, "it was sent once");
    world.finish();
}

/// Returns the only event of a type.
fn of_type(world: &RealAgentWorld, kind: &str) -> Value {
    let mut events = world.sandbox.events(&world.worker);
    events.retain(|event| event["type"] == kind);
    assert_eq!(events.len(), 1, "{kind}: {events:?}");
    events.remove(0)
}
