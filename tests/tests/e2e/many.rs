//! Several workers at once: tags, a wait for many, the events of all, and
//! workers in other workspaces.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox, assert_shape};

/// Starts a worker with these tags.
fn tagged(sandbox: &TestSandbox, tags: &[&str]) -> String {
    let mut args = vec!["worker", "start", "--launcher", "demo"];
    tags.iter().for_each(|tag| args.extend(["--tag", tag]));
    let data = sandbox.run(&args).data_of("worker.started");
    data["workerId"].as_str().unwrap().to_owned()
}

/// Returns the outcomes of a wait, in order.
fn outcomes(data: &Value) -> Vec<(&str, &str)> {
    let items = data["items"].as_array().unwrap();
    assert_eq!(data["count"], items.len());
    items
        .iter()
        .map(|item| (item["outcome"].as_str().unwrap(), item["matchedEvent"]["type"].as_str().unwrap_or("-")))
        .collect()
}

fn ids(data: &Value) -> Vec<&str> {
    data["items"].as_array().unwrap().iter().map(|item| item["workerId"].as_str().unwrap()).collect()
}

#[test]
fn workers_are_chosen_by_their_tags() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let one = tagged(&sandbox, &["job=review", "pr=17"]);
    let two = tagged(&sandbox, &["job=review", "pr=18"]);
    let other = sandbox.start("demo");
    assert_eq!(sandbox.show(&one)["tags"], json!({"job": "review", "pr": "17"}));
    assert!(sandbox.show(&other).get("tags").is_none());
    let list = |selector: &str| sandbox.run(&["worker", "list", "-l", selector]).data_of("worker.listed");
    assert_eq!(ids(&list("job=review")), [&*two, &*one]);
    assert_eq!(ids(&list("job,pr=17")), [&*one]);
    assert_eq!((&list("job=fix")["items"], &list("job=fix")["selector"]), (&json!([]), &json!("job=fix")));
    // Tags are part of the stored state.
    sandbox.kill_daemon();
    assert_eq!(ids(&list("pr=18")), [&*two]);

    let position = |args: &[&str]| sandbox.run(args).error("INVALID_ARGUMENT")["details"]["position"].take();
    assert_eq!(position(&["worker", "list", "-l", "job=review,=x"]), 11);
    assert_eq!(position(&["worker", "start", "--tag", "a b=c"]), 1);
    assert_eq!(position(&["wait", "-l", ""]), 0);
    assert_eq!(position(&["worker", "stop", "-l", "a=b c"]), 3);
    for args in [&["worker", "stop", "-l", "job=fix"][..], &["wait", "-l", "job=fix", "--all"]] {
        let error = sandbox.run(args).error("WORKER_NOT_FOUND");
        assert_eq!(error["details"]["selector"], "job=fix");
    }
    let stopped = sandbox.run(&["worker", "stop", "-l", "job=review"]).data_of("workers.stopped");
    assert_eq!((&stopped["count"], &stopped["selector"]), (&json!(2), &json!("job=review")));
    assert_eq!(sandbox.show(&one)["state"], "stopped");
    assert_eq!(sandbox.show(&other)["state"], "idle");
    sandbox.run(&["worker", "stop", "-l", "job=review"]).error("WORKER_NOT_FOUND");
    let both = sandbox.command("subagent").args(["worker", "stop", &other, "-l", "job"]).run();
    assert_eq!(both.status.code(), Some(2), "{both}");
    sandbox.finish();
}

#[test]
fn a_wait_for_many_misses_nothing_that_happened_before_it() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let [quick, asks, new] =
        ["quick", "asks", "new"].map(|name| tagged(&sandbox, &[&format!("name={name}")]));
    let _ = sandbox.send(&quick, "done");
    let asked = sandbox.send(&asks, "!ask execute it");
    let wait = ["wait", "--worker-id", &quick, "--worker-id", &asks, "--worker-id", &new, "--all"];
    let data = sandbox.run(&wait).data_of("workers.waited");
    assert_shape(
        &data["items"][0],
        &json!({"workerId": "w", "name": "=demo-1", "label": "str", "outcome": "str", "state": "str", "matchedEvent": "object"}),
    );
    assert_eq!((&data["mode"], &data["done"]), (&json!("all"), &json!(3)));
    assert_eq!(ids(&data), [&*quick, &*asks, &*new]);
    assert_eq!(
        outcomes(&data),
        [("matched", "turn.completed"), ("matched", "approval.requested"), ("idle", "-")]
    );
    assert_eq!(data["items"][1]["matchedEvent"]["data"]["requestId"], asked["requestId"]);

    // An answered question no longer counts: the wait ends with its turn.
    sandbox.approve(&asks, &asked["requestId"], "allow").data_of("approval.decided");
    let data = sandbox.run(&["wait", "-l", "name", "--all"]).data_of("workers.waited");
    assert_eq!(data["items"][1]["matchedEvent"]["type"], "turn.completed", "{data}");
    sandbox.run(&["worker", "stop", &new]).data_of("worker.stopped");
    let data = sandbox.run(&["wait", "--worker-id", &new, "--all"]).data_of("workers.waited");
    assert_eq!(outcomes(&data), [("stopped", "-")]);
    sandbox.finish();
}

#[test]
fn a_wait_for_many_ends_with_the_first_or_the_last_and_says_what_each_has() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init();
    let [one, two] = ["one", "two"].map(|name| tagged(&sandbox, &[&format!("name={name}")]));
    let gates = ["one", "two"].map(|name| sandbox.gate(name));
    for (worker, gate) in [&one, &two].into_iter().zip(&gates) {
        let _ = sandbox.send_no_wait(worker, &gate.directive());
    }
    let named = ["wait", "--worker-id", &one, "--worker-id", &two];
    let error = sandbox.run(&[&named[..], &["--timeout-seconds", "0.1"]].concat()).error("WAIT_TIMEOUT");
    assert_eq!(
        (&error["details"]["mode"], &error["details"]["items"][1]["outcome"]),
        (&json!("all"), &json!("waiting"))
    );
    assert_eq!(error["details"]["timeoutSeconds"], 0.1);

    let any = sandbox.subagent(&[&named[..], &["--any"]].concat()).spawn();
    let all =
        sandbox.subagent(&["wait", "--controller", controller["controllerId"].as_str().unwrap()]).spawn();
    let events = sandbox
        .subagent(&[&named[..], &["--all", "--until", "turn.completed", "--include-history"]].concat())
        .spawn();
    gates[1].open();
    let data = any.output().data_of("workers.waited");
    assert_eq!(outcomes(&data), [("waiting", "-"), ("matched", "turn.completed")]);
    assert_eq!((&data["mode"], &data["done"]), (&json!("any"), &json!(1)));
    // A wait continues after the death of the daemon.
    sandbox.kill_daemon();
    gates[0].open();
    let ends = [("matched", "turn.completed"), ("matched", "turn.completed")];
    assert_eq!(outcomes(&all.output().data_of("workers.waited")), ends);
    assert_eq!(outcomes(&events.output().data_of("workers.waited")), ends);
    sandbox.finish();
}

#[test]
fn a_wait_says_of_each_worker_that_is_done_that_it_is() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let names: Vec<String> = (1..=8).map(|number| format!("demo-{number}")).collect();
    for _ in &names {
        sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started");
    }
    let args: Vec<&str> = ["wait", "--any"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let data = sandbox.run(&args).data_of("workers.waited");
    assert_eq!(outcomes(&data), [("idle", "-"); 8]);
    assert_eq!(data["done"], 8);

    let gate = sandbox.gate("turn");
    sandbox.run(&["send", "demo-3", &gate.directive(), "-d"]).data_of("turn.accepted");
    let error = sandbox.run(&["wait", "demo-1", "demo-3", "--timeout", "1s"]);
    assert_eq!(error.status.code(), Some(13), "{error}");
    let error = error.document()["error"].take();
    assert_eq!(error["message"], "1 of 2 workers were done in time; not yet: demo-3");
    assert_eq!(error["details"]["items"][0]["outcome"], "idle", "{error}");
    let waiting = sandbox.command("subagent").args(["wait", "demo-1", "demo-3"]).at_terminal(80, On::Both);
    waiting.wait_for("waiting for 1 of 2 workers");
    gate.open();
    assert!(waiting.screen().text().contains("demo-3  completed"));
    sandbox.finish();
}

#[test]
fn a_wait_for_many_without_a_limit_ends_with_the_last_turn() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let workers: Vec<String> = (0..3).map(|_| sandbox.start("demo")).collect();
    let gate = sandbox.gate("turn");
    workers.iter().for_each(|worker| drop(sandbox.send_no_wait(worker, &gate.directive())));
    let mut args = vec!["wait", "--all", "--timeout-seconds", "0"];
    workers.iter().for_each(|worker| args.extend(["--worker-id", worker.as_str()]));
    let wait = sandbox.subagent(&args).spawn();
    gate.open();
    let data = wait.output().data_of("workers.waited");
    assert_eq!(outcomes(&data), [("matched", "turn.completed"); 3]);
    sandbox.finish();
}

#[test]
fn what_a_wait_for_many_cannot_mean_is_refused() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let refused = |args: &[&str], code: &str| sandbox.run(&[&["wait"], args].concat()).error(code);
    refused(&["--any"], "INVALID_INPUT");
    refused(&["--all", "--worker-id", &worker, "-l", "a=b"], "INVALID_ARGUMENT");
    refused(&["--all", "--worker-id", &worker, "--from-event-id", "ev_000000000001"], "INVALID_ARGUMENT");
    refused(&["--all", "--worker-id", &worker, "--no-progress-timeout-seconds", "1"], "INVALID_ARGUMENT");
    refused(&["--worker-id", &worker, "--worker-id", &worker], "INVALID_ARGUMENT");
    refused(&["--worker-id", &worker, "--worker-id", "w_0000000000"], "WORKER_NOT_FOUND");
    refused(&["--all", "--worker-id", &worker, "--until", "soon"], "INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn the_events_of_all_workers_come_in_one_order() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let one = tagged(&sandbox, &["job=a"]);
    let args = ["watch", "--all", "--follow", "--timeout-seconds", "0"];
    let follower = sandbox.command("subagent").args(args).deadline(Duration::from_secs(120)).spawn();
    let says = |worker: String, text: &'static str| {
        move |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["workerId"] == worker.as_str() && event["data"]["text"] == text).then_some(())
        }
    };
    let _ = sandbox.send(&one, "first");
    follower.wait_line("what the first says", says(one.clone(), "first"));
    // A worker and a daemon that did not exist when the follower started.
    sandbox.kill_daemon();
    let two = tagged(&sandbox, &["job=b"]);
    let _ = sandbox.send(&two, "second");
    follower.wait_line("what the second says", says(two.clone(), "second"));
    let _ = follower.kill();

    let watch = |args: &[&str]| {
        let output = sandbox.command("subagent").args(["watch"]).args(args).run();
        let _ = output.text();
        output.lines()
    };
    let all = watch(&["--all"]);
    let numbers: Vec<&str> = all.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.len() == sandbox.events(&one).len() + sandbox.events(&two).len());
    assert_eq!(watch(&["-l", "job=b"]), sandbox.events(&two));
    assert_eq!(watch(&["--all", "--from-event-id", numbers[numbers.len() - 2]]).len(), 1);
    assert_eq!(watch(&["--controller-id", "ctl_0000000000"]), Vec::<Value>::new());
    let listed = sandbox.run(&["watch", "--all"]).data_of("events.watched");
    assert_eq!((&listed["workerId"], &listed["count"]), (&Value::Null, &json!(all.len())));
    sandbox.run(&["watch", "--all", "--from-event-id", "x"]).error("EVENT_NOT_FOUND");
    let screen = sandbox.command("subagent").args(["watch", "--all"]).on_screen();
    for (name, worker) in [("demo-1", &one), ("demo-2", &two)] {
        let heading = format!("== {name}  {worker}");
        assert!(screen.lines().iter().any(|line| line.trim_end() == heading), "{heading}: {screen:?}");
    }
    let none = sandbox.command("subagent").args(["watch"]).run();
    assert_eq!(none.status.code(), Some(2), "{none}");
    sandbox.finish();
}

#[test]
fn daemons_and_workers_of_all_workspaces_are_listed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let mut there = TestSandbox::new();
    there.set_env("XDG_RUNTIME_DIR", sandbox.file("run"));
    there.init();
    let other = there.start("demo");
    let states = [sandbox.state_dir(), there.state_dir()].map(std::path::Path::to_owned);
    let of_test = |data: &Value| -> Vec<Value> {
        let items = data["items"].as_array().unwrap().iter();
        // Daemons of other tests without their own folder may be included.
        let ours = |item: &&Value| states.iter().any(|state| item["stateDir"] == state.to_str().unwrap());
        items.filter(ours).cloned().collect()
    };
    let daemons = of_test(&sandbox.run(&["daemon", "list"]).data_of("daemons.listed"));
    assert_eq!(daemons.len(), 2, "{daemons:?}");
    assert!(daemons.iter().all(|daemon| daemon["liveWorkers"] == 1));
    // From any folder.
    let anywhere = sandbox.subagent(&["worker", "list", "--all-workspaces"]).cwd("/").run();
    let workers = of_test(&anywhere.data_of("workers.listed"));
    let found: Vec<&Value> = workers.iter().map(|item| &item["workerId"]).collect();
    assert!(found.len() == 2 && found.contains(&&json!(other)) && found.contains(&&json!(worker)));
    there.finish();
    let daemons = of_test(&sandbox.run(&["daemon", "list"]).data_of("daemons.listed"));
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    sandbox.finish();
}
