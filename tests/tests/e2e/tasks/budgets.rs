//! Budgets over a task tree: usage below counts above too, even if the daemon dies meanwhile. Also
//! covers the tree's slots for messages of its owner to tasks.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

/// Time limit for asynchronous results.
const SOON: Duration = Duration::from_secs(30);

struct TaskBudgetFixture {
    sandbox: TestSandbox,
    root: String,
}

/// A worker with these flags that can delegate to agents that can delegate too. At most
/// `places` run at once.
fn world(flags: &[&str], places: u32) -> TaskBudgetFixture {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!({"maxActive": places}), flags);
    TaskBudgetFixture { sandbox, root }
}

impl TaskBudgetFixture {
    /// Returns the directive by which an agent delegates this task, and waits for a foreground one.
    fn gives(&self, name: &str, mode: &str, prompt: &str) -> String {
        self.sandbox.gives(&self.sandbox.task_file("nested", name, mode, prompt))
    }

    fn shown(&self, name: &str) -> Value {
        self.sandbox.run(&["task", "show", name]).data_of("task.shown")
    }

    /// Returns the worker of the task with this name.
    fn task(&self, name: &str) -> String {
        self.shown(name)["taskId"].as_str().unwrap().to_owned()
    }

    fn is(&self, name: &str, status: &str) {
        wait_until(&format!("{name} to be {status}"), SOON, || {
            let listed = self.sandbox.run(&["task", "list"]).data();
            let mut tasks = listed["items"].as_array().unwrap().iter();
            tasks.any(|task| task["name"] == name && task["status"] == status).then_some(())
        });
    }

    fn tokens(&self, worker: &str) -> Value {
        self.sandbox.run(&["budget", "show", "--worker-id", worker]).data_of("budget.shown")["tokens"].take()
    }

    fn data_of_type(&self, worker: &str, event_type: &str) -> Vec<Value> {
        let events = self.sandbox.events(worker).into_iter();
        events.filter(|event| event["type"] == event_type).map(|event| event["data"].clone()).collect()
    }

    /// Returns the messages to a worker's agent, in order.
    fn sent(&self, worker: &str) -> Vec<String> {
        let sent = self.data_of_type(worker, "message.sent").into_iter();
        sent.map(|data| data["text"].as_str().unwrap().to_owned()).collect()
    }
}

fn uses(tokens: u64) -> String {
    format!("!tokens {}", json!({"totalTokens": tokens}))
}

#[test]
fn m6_what_the_tasks_of_a_worker_use_up_is_refused_to_all_of_them_also_by_the_next_daemon() {
    let world = world(&["--max-tokens", "100"], 6);
    let third = world.gives("third", "foreground", &uses(60));
    let second = world.gives("second", "foreground", &format!("{third}\n{}", uses(20)));
    let first = world.gives("first", "foreground", &format!("{second}\n{}", uses(20)));
    let (gate, late) = (world.sandbox.gate("used up"), world.gives("late", "foreground", "x"));
    let accepted = world.sandbox.send_no_wait(&world.root, &format!("{first}\n{}\n{late}", gate.directive()));
    world.is("first", "completed");
    world.sandbox.kill_daemon();
    let _ = world.sandbox.run(&["worker", "list"]);
    gate.open();
    let end = world.sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.completed", "an open turn must continue");
    let events = world.sandbox.events(&world.root);
    let said: String = events.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    let refusal = said[said.find("{\"code\"").unwrap()..].to_owned();
    let refusal: Value = serde_json::Deserializer::from_str(&refusal).into_iter().next().unwrap().unwrap();
    assert_eq!(
        (&refusal["code"], &refusal["details"]["workerId"], &refusal["details"]["used"]),
        (&json!("BUDGET_EXCEEDED"), &json!(world.root), &json!(100))
    );
    let data = json!({
        "scope": "worker", "workerId": world.root, "budget": "tokens", "limit": 100, "used": 100, "unit": "tokens",
        "action": "refuse",
    });
    assert_eq!(
        world.data_of_type(&world.task("first"), "budget.exceeded"),
        [data],
        "where the budget was used up"
    );
    for other in ["second", "third"] {
        assert_eq!(world.data_of_type(&world.task(other), "budget.exceeded"), Vec::<Value>::new());
    }
    assert_eq!(world.data_of_type(&world.root, "budget.exceeded"), Vec::<Value>::new());
    let shape = |used: u64, limit: Value, own: Value, unreported: u64| json!({"used": used, "limit": limit, "unit": "=tokens", "unreported": unreported, "own": own});
    assert_shape(&world.tokens(&world.root), &shape(100, json!(100), Value::Null, 1));
    assert_shape(&world.tokens(&world.task("first")), &shape(100, Value::Null, json!(20), 0));
    assert_shape(&world.tokens(&world.task("second")), &shape(80, Value::Null, json!(20), 0));
    assert_eq!(world.tokens(&world.task("third"))["used"], 60);
    assert_eq!(world.shown("first")["tokens"], 20, "a task's own");
    let all = world.sandbox.run(&["budget", "show"]).data_of("budget.shown");
    assert_eq!(all["controller"]["tokens"]["used"], 100);
    let error = world.sandbox.sending(&world.task("third"), "more").run().error("BUDGET_EXCEEDED");
    assert_eq!(
        (&error["details"]["scope"], &error["details"]["workerId"]),
        (&json!("worker"), &json!(world.root))
    );
    let error = world.sandbox.sending(&world.root, "more").run().error("BUDGET_EXCEEDED");
    let message = error["message"].as_str().unwrap();
    assert_eq!(message, "the worker and the tasks below it have used 100 tokens; the limit is 100");
    let set = ["worker", "set", "--worker-id", &world.root, "--max-tokens", "1000"];
    world.sandbox.run(&set).data_of("worker.set");
    let _ = world.sandbox.send(&world.task("third"), "more");
    world.sandbox.finish();
}

#[test]
fn m6_a_budget_that_tasks_use_up_cancels_the_turns_of_all_whose_it_is() {
    let world = world(&["--max-tokens", "50", "--on-budget", "cancel"], 6);
    let (gate, never) = (world.sandbox.gate("eats"), world.sandbox.gate("never"));
    let long = world.gives("long", "background", &never.directive());
    let eater = world.gives("eater", "background", &format!("{}\n{}", gate.directive(), uses(60)));
    let _ = world.sandbox.send(&world.root, &format!("{long}\n{eater}"));
    for name in ["long", "eater"] {
        world.is(name, "running");
    }
    gate.open();
    world.is("long", "cancelled");
    world.is("eater", "completed");
    let canceled = world.data_of_type(&world.task("long"), "turn.canceled");
    let reason = format!(
        "BUDGET_EXCEEDED: the worker {} and the tasks below it have used 60 tokens; the limit is 50",
        world.root
    );
    assert_eq!(canceled[0]["reason"], reason);
    let error = world.shown("long")["error"].take();
    assert_eq!(
        (&error["code"], &error["details"]["workerId"]),
        (&json!("BUDGET_EXCEEDED"), &json!(world.root))
    );
    let data_of_type = |worker: &str| world.data_of_type(worker, "budget.exceeded");
    assert_eq!(data_of_type(&world.task("eater"))[0]["workerId"], world.root);
    assert_eq!(
        data_of_type(&world.task("long")).len() + data_of_type(&world.root).len(),
        0,
        "once for all of them"
    );
    world.sandbox.finish();
}

#[test]
fn m6_a_task_that_waits_fails_when_what_is_above_it_is_used_up() {
    let world = world(&["--max-tokens", "50"], 1);
    let gate = world.sandbox.gate("eats");
    let eater = world.gives("eater", "background", &format!("{}\n{}", gate.directive(), uses(60)));
    let waits = world.gives("waits", "background", "x");
    let _ = world.sandbox.send(&world.root, &format!("{eater}\n{waits}"));
    world.is("eater", "running");
    assert_eq!(world.shown("waits")["status"], "queued");
    gate.open();
    world.is("waits", "failed");
    let error = world.shown("waits")["error"].take();
    assert_eq!(
        (&error["code"], &error["details"]["workerId"]),
        (&json!("BUDGET_EXCEEDED"), &json!(world.root)),
        "{error}"
    );
    world.sandbox.finish();
}

#[test]
fn m6_what_a_task_does_not_report_is_unknown_of_what_its_root_may_use() {
    let world = world(&["--max-tokens", "100", "--on-unknown", "refuse"], 6);
    let (mute, late) = (world.gives("mute", "foreground", "x"), world.gives("late", "foreground", "x"));
    let waited = world.sandbox.send(&world.root, &format!("{mute}\n{late}"));
    let said = waited["assistantText"].as_str().unwrap();
    assert!(said.contains("mute completed"), "{said}");
    assert!(said.contains("BUDGET_UNKNOWN") && said.contains(&world.root), "{said}");
    let error = world.sandbox.sending(&world.task("mute"), "more").run().error("BUDGET_UNKNOWN");
    assert_eq!(error["details"]["workerId"], world.root);
    world.sandbox.finish();
}

#[test]
fn m6_the_time_of_a_task_is_time_of_its_root_although_the_daemon_dies() {
    let world = world(&["--max-wall-time", "4s", "--on-budget", "cancel"], 6);
    let slow = world.gives("slow", "background", "said\n!sleep 600000");
    let _ = world.sandbox.send(&world.root, &slow);
    world.is("slow", "running");
    world.sandbox.kill_daemon();
    world.is("slow", "cancelled");
    let data_of_type = world.data_of_type(&world.task("slow"), "budget.exceeded");
    assert_eq!(
        (data_of_type.len(), &data_of_type[0]["workerId"], &data_of_type[0]["budget"]),
        (1, &json!(world.root), &json!("wallTime"))
    );
    let shown = world.sandbox.run(&["budget", "show", "--worker-id", &world.root]).data_of("budget.shown");
    let time = |key: &str| shown["wallTime"][key].as_f64().unwrap();
    assert!(time("used") >= 4.0 && time("own") < time("used"), "{shown}");
    world.sandbox.finish();
}

#[test]
fn m6_a_second_budget_that_is_used_up_cancels_the_turns_of_those_who_had_nothing_of_the_first() {
    let world = world(&["--max-tokens", "100", "--on-budget", "cancel"], 6);
    world.sandbox.run(&["budget", "set", "--max-tokens", "150", "--on-budget", "cancel"]).data();
    let other = world.sandbox.start("demo");
    let (never, goes, gate) =
        (world.sandbox.gate("n"), world.sandbox.gate("goes"), world.sandbox.gate("eats"));
    let accepted = world.sandbox.send_no_wait(&other, &never.directive());
    // It reports its usage when it is canceled because of the first.
    let late = world.gives("late", "background", &format!("{}\n{}", uses(60), goes.directive()));
    let eater = world.gives("eater", "background", &format!("{}\n{}", gate.directive(), uses(100)));
    let _ = world.sandbox.send(&world.root, &format!("{late}\n{eater}"));
    for name in ["late", "eater"] {
        world.is(name, "running");
    }
    gate.open();
    world.is("late", "cancelled");
    let end = world.sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.canceled", "{end}");
    world.sandbox.finish();
}

#[test]
fn m6_the_time_of_a_task_that_has_ended_is_gone_from_what_its_root_has_left() {
    let world = world(&["--max-wall-time", "4s", "--on-budget", "cancel"], 6);
    let short = world.gives("short", "foreground", "!sleep 1700");
    let accepted = world.sandbox.send_no_wait(&world.root, &format!("{short}\n!sleep 600000"));
    let end = world.sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.canceled", "{end}");
    let shown = world.sandbox.run(&["budget", "show", "--worker-id", &world.root]).data_of("budget.shown");
    let used = shown["wallTime"]["used"].as_f64().unwrap();
    assert!((4.0..5.2).contains(&used), "without the task's it would be 5.7 at least: {shown}");
    world.sandbox.finish();
}

#[test]
fn m7_what_an_owner_sends_to_a_task_waits_for_a_place_as_any_task() {
    let world = world(&[], 1);
    let (fails, runs) = (world.sandbox.gate("fails"), world.sandbox.gate("runs"));
    let broken =
        world.gives("broken", "background", &format!("{}\n!error -32603 no luck", fails.directive()));
    let done = world.gives("done", "foreground", "!say done");
    let _ = world.sandbox.send(&world.root, &format!("{done}\n{broken}"));
    world.is("broken", "running");
    let (done, broken) = (world.task("done"), world.task("broken"));
    world.sandbox.sending(&broken, "after").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    fails.open();
    world.is("broken", "failed");
    let holder = world.gives("holder", "background", &runs.directive());
    // At this moment it receives the end of the other one.
    world.sandbox.sending(&world.root, &holder).args(["--queue", "--no-wait"]).run().data();
    world.is("holder", "running");

    let send = |text: &str, flags: &[&str]| {
        let sent = world.sandbox.sending(&done, text).args(flags).args(["--no-wait"]).run();
        sent.data_of("turn.queued")["position"].clone()
    };
    assert_eq!(send("plain", &[]), 1);
    assert_eq!(send("queued", &["--queue"]), 2);
    assert_eq!(send("steered", &["--if-busy", "steer"]), 1);
    // Ahead of a paused one it would wait forever.
    let before = world.sandbox.sending(&broken, "first").args(["--if-busy", "steer", "--no-wait"]).run();
    before.error("WORKER_BUSY");
    let listed = world.sandbox.run(&["turn", "list", "--worker-id", &broken]).data();
    let failed = listed["items"].as_array().unwrap().iter().find(|turn| turn["status"] == "failed").unwrap();
    let failed = failed["turnId"].as_str().unwrap();
    world.sandbox.run(&["turn", "retry", failed]).error("WORKER_BUSY");
    // Behind it, it waits too, and no other task can continue and end.
    world.sandbox.sending(&broken, "later").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    assert_eq!(world.shown("broken")["status"], "failed");
    assert_eq!(world.data_of_type(&broken, "subagent.failed").len(), 1);
    world.sandbox.run(&["queue", "resume", "--worker-id", &broken]).data_of("queue.resumed");
    world.is("done", "queued");
    world.is("broken", "queued");
    assert_eq!((world.sent(&done).len(), world.sent(&broken).len()), (1, 1), "none of it may have begun");
    runs.open();
    world.is("done", "completed");
    world.is("broken", "completed");
    assert_eq!(world.sent(&done)[1..], ["steered", "plain", "queued"]);
    assert_eq!(world.sent(&broken)[1..], ["after", "later"]);
    assert_eq!(world.shown("broken")["runs"], 2);
    world.sandbox.finish();
}
