//! A question of a task: from its agent's step before it until `send` to the root has returned.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::BenchWorld;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("question", "a question of a task, until `send` to its root returns");
    let mut world = BenchWorld::empty();
    let root = world.sandbox.delegating(&json!({"maxTasks": 100}), &[]);
    let asked = world.sandbox.file("asked");
    let prompt = format!("!shell date +%s%N > '{}'\n!ask execute make all", asked.display());
    let mut times = Vec::new();
    for number in 0..bench.pick(30, 3) {
        // Each task has an agent of its own, whose start is before the question.
        let task = world.sandbox.task_file("nested", &format!("Task {number}"), "foreground", &prompt);
        let gives = world.sandbox.gives(&task);
        let (_, sent) = world.timed(&["send", "--worker-id", &root, "--text", &gives]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let event = &sent["matchedEvent"];
        assert_eq!(event["type"], "approval.requested", "{sent}");
        assert_ne!(event["workerId"], root.as_str(), "{sent}");
        let before: u128 = fs::read_to_string(&asked).unwrap().trim().parse().unwrap();
        times.push(now.saturating_sub(before) as f64 / 1e6);
        let worker = event["workerId"].as_str().unwrap();
        let _ = world.sandbox.approve(worker, &event["data"]["requestId"], "allow").data();
        let end = world.sandbox.wait_after(&root, &event["eventId"], "turn.completed");
        assert_eq!(end["workerId"], root.as_str(), "{end}");
    }
    let what = "from the last step of the task's agent before it asks";
    let found = row.figure(what, Unit::Millis, &times);
    row.at_most("each within 100 ms", Unit::Millis, 100.0, found.max);
    world.finish();
    row
}
