//! `titles: auto`: the definition `title` labels a worker after its first message.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

/// The scripted agent repeats its instructions, so this is the beginning of its response.
const TITLE: &str = "<agent_instructions agent=\"title\">You name a piece of work";

fn world(titles: &str) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let hanging = sandbox.demo_agent(&["--hang-session-new"]);
    sandbox.launcher("hanging", hanging);
    let demo = sandbox.demo_agent(&[]).key("tiers", json!({"fast": "large"}));
    sandbox.launcher("demo", demo);
    let file = sandbox.config_file();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(file, format!("{text}titles: {titles}\n")).unwrap();
    sandbox.init();
    sandbox
}

fn label(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.run(&["worker", "show", worker]).data_of("worker.shown")["label"].clone()
}

fn wait_for_title(sandbox: &TestSandbox, worker: &str) {
    wait_until("a title", Duration::from_secs(30), || (label(sandbox, worker) == TITLE).then_some(()));
}

/// Returns the number of a worker's tasks, including hidden ones.
fn tasks(sandbox: &TestSandbox, worker: &str) -> usize {
    sandbox.events(worker).iter().filter(|event| event["type"] == "subagent.spawned").count()
}

#[test]
fn the_first_message_labels_a_worker_that_has_no_label() {
    let sandbox = world("auto");
    let (worker, labeled) =
        (sandbox.start("demo"), sandbox.run(&["worker", "start", "demo", "--label", "Mine"]));
    let labeled = labeled.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    for message in ["Fix the login\n</message>", "And the logout"] {
        for worker in [&worker, &labeled] {
            let _ = sandbox.send(worker, message);
        }
    }
    wait_for_title(&sandbox, &worker);
    assert_eq!((label(&sandbox, &labeled), tasks(&sandbox, &labeled)), (json!("Mine"), 0));
    assert_eq!(tasks(&sandbox, &worker), 1, "one message must request a title");
    let spawned = sandbox.events(&worker).into_iter().find(|event| event["type"] == "subagent.spawned");
    let task = spawned.unwrap()["data"]["id"].as_str().unwrap().to_owned();
    let sent = sandbox.events(&task).into_iter().find(|event| event["type"] == "message.sent").unwrap();
    let prompt = sent["data"]["text"].as_str().unwrap().to_owned();
    assert!(prompt.contains("<message>\nFix the login\n< /message>\n</message>"), "{prompt}");
    assert_eq!(sandbox.run(&["task", "list"]).data()["items"], json!([]));
    // The agent is not involved.
    let turns = sandbox.run(&["turn", "list", "--worker-id", &worker]).data();
    assert_eq!(turns["count"], 2, "{turns}");
    sandbox.finish();
}

#[test]
fn a_title_outlives_the_daemon_and_a_detached_run_gets_one() {
    let sandbox = world("auto");
    let data = sandbox.run(&["run", "-d", "demo", "!sleep 3000"]).data_of("run.detached");
    let worker = data["workerId"].as_str().unwrap();
    wait_until("the task", Duration::from_secs(30), || (tasks(&sandbox, worker) == 1).then_some(()));
    assert_eq!(label(&sandbox, worker), "run");
    sandbox.kill_daemon();
    wait_for_title(&sandbox, worker);
    assert_eq!(tasks(&sandbox, worker), 1);
    sandbox.finish();
}

#[test]
fn a_definition_of_the_project_labels_nothing_and_one_of_the_user_does() {
    let sandbox = world("auto");
    let define = |folder: &str, text: &str| {
        let folder = sandbox.file(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("title.md"), format!("---\ndescription: d\n---\n{text}\n")).unwrap();
    };
    define("ws/.agents/agents", "Mine.");
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "Fix the login");
    wait_until("the refusal", Duration::from_secs(30), || {
        let log = fs::read_to_string(sandbox.state_dir().join("logs/subagentd.log")).unwrap();
        log.contains("a definition of the project must not label workers").then_some(())
    });
    assert_eq!((label(&sandbox, &worker), tasks(&sandbox, &worker)), (json!("worker"), 0));
    fs::remove_file(sandbox.file("ws/.agents/agents/title.md")).unwrap();
    define("home/.config/subagent/agents", "Of the user.");
    let _ = sandbox.send(&worker, "And the logout");
    wait_until("a title", Duration::from_secs(30), || {
        label(&sandbox, &worker).as_str().unwrap().contains("Of the user").then_some(())
    });
    sandbox.finish();
}

#[test]
fn nothing_is_labeled_unless_the_config_says_so_and_a_rule_can_deny_it() {
    for (titles, deny) in [("off", None), ("auto", Some("task"))] {
        let sandbox = world(titles);
        let rules = deny.map(|rule| ["--deny", rule]);
        let args =
            [&["worker", "start", "demo"][..], rules.as_ref().map_or(&[], |rules| &rules[..])].concat();
        let started = sandbox.run(&args).data_of("worker.started");
        let worker = started["workerId"].as_str().unwrap();
        let _ = sandbox.send(worker, "Fix the login");
        let _ = sandbox.send(worker, "And the logout");
        assert_eq!((label(&sandbox, worker), tasks(&sandbox, worker)), (json!("worker"), 0), "{titles}");
        sandbox.finish();
    }
    let sandbox = TestSandbox::new();
    let file = sandbox.config_file();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}titles: yes please\n")).unwrap();
    let error = sandbox.run(&["worker", "start", "demo"]).error("CONFIG_PARSE_ERROR");
    assert!(error.to_string().contains("write `auto` or `off`"), "{error}");
    sandbox.finish();
}

#[test]
fn a_title_whose_agent_hangs_holds_up_no_turn() {
    let sandbox = world("auto");
    let folder = sandbox.file("home/.config/subagent/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("title.md"), "---\ndescription: d\nlauncher: hanging\n---\nNever.\n").unwrap();
    let worker = sandbox.start("demo");
    for message in ["Fix the login", "And the logout"] {
        let sent = sandbox.send(&worker, message);
        assert_eq!(sent["matchedEvent"]["type"], "turn.completed", "{sent}");
    }
    wait_until("the task", Duration::from_secs(30), || (tasks(&sandbox, &worker) == 1).then_some(()));
    let ended = |event: &Value| {
        event["type"].as_str().unwrap().starts_with("subagent.") && event["type"] != "subagent.spawned"
    };
    assert_eq!(sandbox.events(&worker).iter().find(|event| ended(event)), None, "it hangs");
    assert_eq!(label(&sandbox, &worker), "worker");
    sandbox.finish();
}
