//! Names of workers: how they are assigned, and what can be typed instead of an id.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// Starts a worker with the short form. Returns its data.
#[track_caller]
fn start(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let all: Vec<&str> = ["worker", "start"].iter().chain(args).copied().collect();
    sandbox.run(&all).data_of("worker.started")
}

#[track_caller]
fn id(data: &Value) -> &str {
    data["workerId"].as_str().unwrap()
}

#[test]
fn a_worker_is_addressed_by_its_name_the_beginning_of_its_id_and_as_the_last() {
    let sandbox = TestSandbox::new();
    let first = start(&sandbox, &["demo"]);
    let second = start(&sandbox, &["demo", "--name", "auth"]);
    assert_eq!((&first["name"], &second["name"]), (&json!("demo-1"), &json!("auth")));
    let scripted = start(&sandbox, &["--launcher", "demo"]);
    assert_eq!(scripted.get("name"), None, "the contract's form must have the contract's keys");
    assert_eq!(sandbox.run(&["worker", "show", "demo-2"]).data()["workerId"], scripted["workerId"]);
    // Long enough to be unique among the ids of this test.
    let beginning = &id(&first)[..11];
    for address in ["demo-1", "DEMO-1", beginning, "@last", id(&first)] {
        let shown = sandbox.run(&["worker", "show", address]).data_of("worker.shown");
        assert_eq!(shown["workerId"], first["workerId"], "{address}");
    }
    let shown = sandbox.run(&["worker", "show", "--worker-id", "auth"]).data_of("worker.shown");
    assert_eq!(shown["workerId"], second["workerId"]);
    assert_eq!(sandbox.run(&["worker", "show", "@last"]).data()["name"], "auth", "it was addressed last");
    let sent = sandbox.send("auth", "Hello");
    assert_eq!((&sent["workerId"], &sent["assistantText"]), (&second["workerId"], &json!("Hello")));
    let input = json!({"workerId": "auth", "text": "Once more"}).to_string();
    let sent = sandbox.command("subagent").args(["send", "--input", "-", "--json"]).stdin(input).run();
    assert_eq!(sent.data_of("turn.waited")["workerId"], second["workerId"]);
    sandbox.run(&["worker", "show", "demo-3"]).error("WORKER_NOT_FOUND");
    sandbox.run(&["worker", "show", "w_"]).error("WORKER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn the_beginning_of_two_ids_is_ambiguous() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let mut seen = BTreeMap::<String, String>::new();
    // Two of 150 ids begin alike with a probability of 0.99998.
    let (beginning, ids) = (0..150)
        .find_map(|_| {
            let worker = sandbox.start("demo");
            let beginning = worker[..4].to_owned();
            let twin = seen.insert(beginning.clone(), worker.clone());
            if twin.is_none() {
                sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
            }
            twin.map(|twin| (beginning, BTreeSet::from([twin, worker])))
        })
        .expect("two ids that begin alike");
    for command in [&["worker", "show"][..], &["show"], &["send", "--text", "no", "--worker-id"]] {
        let error = sandbox.run(&[command, &[&beginning]].concat()).error("AMBIGUOUS_WORKER");
        let candidates = error["details"]["candidates"].as_array().unwrap();
        let named = candidates.iter().map(|worker| worker["workerId"].as_str().unwrap().to_owned());
        assert_eq!(named.collect::<BTreeSet<_>>(), ids, "{error}");
    }
    sandbox.finish();
}

#[test]
fn the_last_worker_stays_the_same_for_all_of_a_command() {
    let sandbox = TestSandbox::new();
    for name in ["busy", "other"] {
        start(&sandbox, &["demo", "--name", name]);
    }
    sandbox.run(&["send", "other", "Done"]).data_of("turn.waited");
    sandbox.run(&["send", "busy", "!sleep 600000", "-d"]).data_of("turn.accepted");
    // Two rounds: the first one ends with the idle worker, which becomes `@last`.
    let wait = sandbox.run(&["wait", "@last", "other", "--timeout", "1s"]);
    assert_eq!(wait.status.code(), Some(13), "{wait}");
    let items = &wait.document()["error"]["details"]["items"];
    assert_eq!((&items[0]["name"], &items[0]["outcome"]), (&json!("busy"), &json!("waiting")), "{wait}");
    sandbox.run(&["show", "busy"]).data_of("worker.overview");
    let any = sandbox.run(&["wait", "other", "@last", "--any"]);
    let any = any.data_of("workers.waited");
    let found: Vec<&str> = any["items"].as_array().unwrap().iter().map(|item| id(item)).collect();
    assert_eq!(found, [id(&sandbox.show("other")), id(&sandbox.show("busy"))]);
    let watch = sandbox.command("subagent").args(["watch", "@last", "other", "--tail", "50"]).run();
    for worker in ["busy", "other"] {
        let shown = sandbox.show(worker);
        assert!(watch.text().contains(id(&shown)), "{worker}: {watch}");
    }
    // Neither has a worktree or is a task; the errors name the worker that `@last` was.
    sandbox.run(&["show", "busy"]).data_of("worker.overview");
    let busy = id(&sandbox.show("busy")).to_owned();
    let worktree = sandbox.run(&["worktree", "show", "@last"]).error("WORKTREE_NOT_FOUND");
    assert!(worktree["message"].as_str().unwrap().contains(&busy), "{worktree}");
    let task = sandbox.run(&["task", "show", "@last"]).error("TASK_NOT_FOUND");
    assert_eq!(task["details"]["task"], busy, "{task}");
    let stopped = sandbox.run(&["stop", "other", "@last"]).data_of("workers.stopped");
    let ids: Vec<&str> = stopped["items"].as_array().unwrap().iter().map(|item| id(item)).collect();
    assert_eq!(ids, [id(&sandbox.show("other")), id(&sandbox.show("busy"))]);
    sandbox.finish();
}

#[test]
fn a_name_is_taken_once_and_can_be_changed() {
    let sandbox = TestSandbox::new();
    let auth = start(&sandbox, &["demo", "--name", "auth"]);
    let taken = sandbox.run(&["worker", "start", "demo", "--name", "Auth"]).error("NAME_TAKEN");
    assert_eq!(taken["details"]["workerId"], auth["workerId"]);
    for wrong in ["", "a b", "w_0123456789", "@last", "-x"] {
        let wrong = ["worker", "set", "auth", "--name", wrong];
        let code = if wrong[4].is_empty() { "INVALID_INPUT" } else { "INVALID_ARGUMENT" };
        sandbox.run(&wrong).error(code);
    }
    let set = sandbox.run(&["worker", "set", "auth", "--name", "login"]).data_of("worker.set");
    assert_eq!((&set["workerId"], &set["name"]), (&auth["workerId"], &json!("login")));
    sandbox.run(&["worker", "show", "auth"]).error("WORKER_NOT_FOUND");
    let shown = sandbox.run(&["worker", "show", "login"]).data_of("worker.shown");
    assert_eq!((&shown["workerId"], &shown["name"]), (&auth["workerId"], &json!("login")));
    sandbox.kill_daemon();
    assert_eq!(sandbox.run(&["worker", "show", "login"]).data()["workerId"], auth["workerId"]);
    sandbox.run(&["worker", "stop", "login"]).data_of("worker.stopped");
    sandbox.run(&["worker", "rm", "login"]).data_of("worker.removed");
    assert_eq!(start(&sandbox, &["demo", "--name", "login"])["name"], "login", "it is free again");
    sandbox.finish();
}

#[test]
fn several_workers_are_changed_by_one_command() {
    let sandbox = TestSandbox::new();
    for name in ["one", "two", "three"] {
        start(&sandbox, &["demo", "--name", name]);
    }
    let canceled = sandbox.run(&["cancel", "one", "two"]).error("WORKER_NOT_RUNNING");
    assert_eq!(canceled["details"]["canceled"], json!([]));
    let restarted = sandbox.run(&["worker", "restart", "one", "two"]).data_of("workers.restarted");
    assert_eq!(restarted["count"], 2);
    let set = sandbox.run(&["worker", "set", "one", "two", "--max-turns", "5"]).data_of("workers.set");
    assert_eq!(set["items"][1]["budget"]["turns"]["limit"], 5, "{set}");
    assert!(set["items"][0]["workerId"].as_str().unwrap().starts_with("w_"), "{set}");
    sandbox.run(&["worker", "set", "one", "two", "--name", "x"]).error("INVALID_INPUT");
    for (command, kind) in
        [(&["worker", "handoff"][..], "workers.handoff.ready"), (&["logs"], "workers.logs")]
    {
        let output = sandbox.run(&[command, &["one", "three"]].concat()).data_of(kind);
        assert_eq!(output["count"], 2, "{output}");
        let items = output["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["workerId"].is_string()), "{output}");
        let text = sandbox.command("subagent").args(command).args(["one", "three"]).run();
        assert!(text.text().lines().count() >= 2, "{text}");
        let heads: Vec<&str> = text.text().lines().filter(|line| line.starts_with("== ")).collect();
        assert_eq!(heads, if command == ["logs"] { vec!["== one", "== three"] } else { vec![] }, "{text}");
    }
    let refused = sandbox.run(&["stop", "one", "absent", "two"]).error("WORKER_NOT_FOUND");
    assert_eq!(refused["details"]["stopped"].as_array().unwrap().len(), 2, "the others are stopped");
    let stopped = sandbox.run(&["stop", "one", "three"]).data_of("workers.stopped");
    assert_eq!(stopped["items"][1]["state"], "stopped");
    let removed = sandbox.run(&["rm", "one", "two"]).data_of("workers.removed");
    assert_eq!(removed["count"], 2);
    sandbox.run(&["rm", "three"]).data_of("worker.removed");
    sandbox.finish();
}

#[test]
fn what_stands_below_a_list_answers_the_question_of_its_kind() {
    let sandbox = TestSandbox::new();
    start(&sandbox, &["demo"]);
    let form = r#"!elicit {"mode": "form", "message": "Go?", "requestedSchema": {"type": "object", "properties": {}}}"#;
    for (script, command) in [(form, "answer"), ("!ask execute make", "approve")] {
        sandbox.run(&["send", "demo-1", script, "-d"]).data_of("turn.accepted");
        assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(15));
        let screen = sandbox.command("subagent").args(["ls"]).on_screen().text();
        assert!(screen.contains(&format!("Answer:  subagent {command} demo-1")), "{screen}");
        sandbox.run(&["cancel", "demo-1"]).data_of("turn.canceled");
    }
    sandbox.finish();
}

#[test]
fn what_is_missing_is_named_in_words_that_can_be_typed() {
    let sandbox = TestSandbox::new();
    start(&sandbox, &["demo"]);
    for command in ["wait", "send"] {
        let error = sandbox.run(&[command]).error("INVALID_INPUT");
        let example = format!("subagent {command} codex-1");
        assert!(error["message"].as_str().unwrap().contains(&example), "{error}");
    }
    sandbox.run(&["answer", "gone-1"]).error("WORKER_NOT_FOUND");
    sandbox.run(&["answer", "demo-1"]).error("APPROVAL_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_list_has_a_form_for_each_reader() {
    let sandbox = TestSandbox::new();
    let demo = start(&sandbox, &["demo"]);
    let ls = |form: &str| sandbox.command("subagent").args(["ls", "-o", form]).run();
    assert_eq!(ls("name").text(), "demo-1\n");
    let tsv = ls("tsv").text().to_owned();
    let cells: Vec<&str> = tsv.trim_end().split('\t').collect();
    assert_eq!((&cells[..3], cells[4]), (&["demo-1", "idle", "demo"][..], id(&demo)));
    let json = ls("json").data_of("workers.overview");
    assert_eq!((&json["count"], &json["items"][0]["workerId"]), (&json!(1), &demo["workerId"]));
    let lines = ls("ndjson").lines();
    assert_eq!((lines.len(), &lines[0]["name"]), (1, &json!("demo-1")));
    assert_eq!(ls("table").text(), tsv, "a pipe has no columns");
    let at_terminal = |form: &str| sandbox.command("subagent").args(["ls", "-o", form]).on_screen().text();
    assert!(at_terminal("table").starts_with("NAME"), "{}", at_terminal("table"));
    assert!(at_terminal("tsv").starts_with("demo-1\tidle\t") || at_terminal("tsv").starts_with("demo-1  "));
    assert_eq!(sandbox.run(&["ls", "-o", "xml"]).status.code(), Some(2));
    sandbox.finish();
}

#[test]
fn a_task_gives_its_worker_its_name() {
    let sandbox = TestSandbox::new();
    let task = |name: &str| {
        let all = ["task", "run", "--name", name, "--launcher", "demo", "--text", "Hello"];
        sandbox.run(&all).data();
    };
    task("Test Runner");
    task("login");
    let list = sandbox.run(&["ls", "-a"]).data_of("workers.overview");
    let mut names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Test-Runner", "login"]);
    let last = sandbox.show("login")["workerId"].clone();
    for address in ["@last", "login", &last.as_str().unwrap()[..11]] {
        assert_eq!(
            sandbox.run(&["task", "show", address]).data_of("task.shown")["taskId"],
            last,
            "{address}"
        );
    }
    // Workers in filters are addressed in the same way. A wrong address leaves `@last` as it is.
    sandbox.run(&["show", "login"]).data_of("worker.overview");
    sandbox.run(&["show", "lgoin"]).error("WORKER_NOT_FOUND");
    assert_eq!(sandbox.run(&["show", "@last"]).data_of("worker.overview")["name"], "login");
    for filter in ["--parent", "--root"] {
        let none = sandbox.run(&["task", "list", filter, "Test-Runner"]).data_of("task.listed");
        assert_eq!(none["count"], 0, "it has given no task");
        sandbox.run(&["task", "list", filter, "nosuch"]).error("WORKER_NOT_FOUND");
        let removed = sandbox.run(&["task", "list", filter, "w_0123456789"]).data_of("task.listed");
        assert_eq!(removed["count"], 0, "tasks of a removed worker are listed by its id");
    }
    sandbox.finish();
}
