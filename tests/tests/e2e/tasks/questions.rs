//! A question of a task reaches every client that waits for a worker above it, or shows one.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

/// Time limit for asynchronous results.
pub(super) const SOON: Duration = Duration::from_secs(30);

pub(super) struct TaskQuestionsFixture {
    pub(super) sandbox: TestSandbox,
    pub(super) root: String,
}

/// A worker `Release` that can delegate, and an agent `lead` that can too and asks before commands.
pub(super) fn world(flags: &[&str]) -> TaskQuestionsFixture {
    let sandbox = defined();
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--delegate", "--label", "Release"];
    let started = sandbox.run(&[&start, flags].concat()).data_of("worker.started");
    TaskQuestionsFixture { root: started["workerId"].as_str().unwrap().to_owned(), sandbox }
}

pub(super) fn defined() -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("lead.md"),
        "---\ndescription: d\npermission: {task: allow, execute: {'*': ask, 'ls *': allow}}\n---\nDo it.\n",
    )
    .unwrap();
    sandbox
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

impl TaskQuestionsFixture {
    /// Returns the directive by which an agent delegates this task to a `lead`.
    pub(super) fn gives(&self, name: &str, mode: &str, prompt: &str) -> String {
        self.sandbox.gives(&self.sandbox.task_file("lead", name, mode, prompt))
    }

    /// Returns a foreground task of a foreground task, which asks.
    pub(super) fn two_below(&self, prompt: &str) -> String {
        self.gives("Tests", "foreground", &self.gives("Unit", "foreground", prompt))
    }

    fn approve(&self, event: &Value) {
        let request = &event["data"]["requestId"];
        self.sandbox.approve(text(&event["workerId"]), request, "allow").data_of("approval.decided");
    }

    fn inbox(&self, flags: &[&str]) -> Vec<Value> {
        let listed = self.sandbox.run(&[&["approval", "list"], flags].concat());
        listed.data_of("inbox.listed")["items"].as_array().unwrap().clone()
    }

    /// Returns the questions, once there are `count` of them.
    pub(super) fn asked(&self, count: usize) -> Vec<Value> {
        wait_until("questions", SOON, || Some(self.inbox(&[])).filter(|asked| asked.len() == count))
    }
}

#[test]
fn a_send_returns_the_question_of_a_task_and_the_wait_goes_on_after_the_answer() {
    let world = world(&[]);
    let gives = world.two_below("!ask execute ls -l\n!ask execute make all\n!ask execute make test");
    let waited = world.sandbox.send(&world.root, &gives);
    let asked = &waited["matchedEvent"];
    assert_eq!(
        (&asked["type"], &waited["state"]),
        (&json!("approval.requested"), &json!("running")),
        "{waited}"
    );
    assert_eq!(asked["path"], json!(["Release", "Tests", "Unit"]), "{asked}");
    assert_ne!(asked["workerId"], *world.root);
    assert_eq!(asked["data"]["title"], "make all", "a decision by a rule must not be a question: {asked}");
    world.approve(asked);
    let default = "turn.completed,turn.failed,turn.canceled,approval.requested";
    let next = world.sandbox.wait_after(&world.root, &asked["eventId"], default);
    assert_eq!((&next["data"]["title"], &next["workerId"]), (&json!("make test"), &asked["workerId"]));
    world.approve(&next);
    let end = world.sandbox.wait_after(&world.root, &next["eventId"], default);
    assert_eq!((&end["type"], &end["workerId"]), (&json!("turn.completed"), &json!(world.root)));
    assert!(end.get("path").is_none(), "{end}");
    world.sandbox.finish();
}

#[test]
fn a_wait_for_other_events_does_not_end_at_a_question_and_names_it_when_the_time_is_over() {
    let world = world(&[]);
    let form =
        "!elicit {\"mode\": \"form\", \"message\": \"Which?\", \"requestedSchema\": {\"type\": \"object\"}}";
    let both = world.two_below(&format!("!ask execute make all\n{form}"));
    let accepted = world.sandbox.send_no_wait(&world.root, &both);
    let asked = world.asked(1).remove(0);
    let wait = ["wait", "--worker-id", &world.root, "--from-event-id", text(&accepted["acceptedEventId"])];
    let ends = ["--until", "turn.completed", "--timeout-seconds", "0.2"];
    let failed = world.sandbox.run(&[&wait[..], &ends].concat()).error("WAIT_TIMEOUT");
    let details = &failed["details"];
    assert_eq!(details["questionsBelow"][0]["requestId"], asked["requestId"], "{details}");
    let diagnosis = text(&details["diagnosis"]);
    assert!(diagnosis.contains("the task Release › Tests › Unit asks: make all"), "{diagnosis}");
    let matched = world.sandbox.run(&wait).data_of("event.matched");
    assert_eq!(matched["data"]["requestId"], asked["requestId"], "{matched}");
    world.approve(&matched);
    // From the same cursor: skips the question before it.
    let form = world.sandbox.wait_after(&world.root, &accepted["acceptedEventId"], "elicitation.requested");
    let request = text(&form["data"]["requestId"]);
    let decline = ["answer", "--worker-id", text(&form["workerId"]), "--request", request, "--decline"];
    world.sandbox.run(&decline).data_of("elicitation.answered");
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    let failed = world.sandbox.run(&[
        "wait",
        "--worker-id",
        &world.root,
        "--until",
        "turn.started",
        "--timeout-seconds",
        "0.1",
    ]);
    assert!(failed.error("WAIT_TIMEOUT")["details"].get("questionsBelow").is_none());
    world.sandbox.finish();
}

#[test]
fn a_wait_for_several_workers_ends_with_a_question_below_one_of_them() {
    let world = world(&["--tag", "job=release"]);
    let accepted = world.sandbox.send_no_wait(&world.root, &world.two_below("!ask execute make all"));
    // Both end with the question, whether started before or after it.
    for _ in 0..2 {
        for flags in [&["--all", "-l", "job=release"][..], &["--any", "-l", "job=release"]] {
            let waited = world.sandbox.run(&[&["wait"], flags].concat()).data_of("workers.waited");
            let item = &waited["items"][0];
            assert_eq!((&item["outcome"], &item["workerId"]), (&json!("matched"), &json!(world.root)));
            assert_eq!(item["matchedEvent"]["path"], json!(["Release", "Tests", "Unit"]), "{waited}");
        }
    }
    world.approve(&world.sandbox.wait_after(&world.root, &accepted["acceptedEventId"], "approval.requested"));
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    let waited = world.sandbox.run(&["wait", "--all", "-l", "job=release"]).data_of("workers.waited");
    assert_eq!(waited["items"][0]["matchedEvent"]["type"], "turn.completed", "{waited}");
    world.sandbox.finish();
}

#[test]
fn a_question_of_a_background_task_is_a_question_of_an_idle_worker() {
    let world = world(&[]);
    let gate = world.sandbox.gate("task");
    let prompt = format!(
        "{}\n!elicit {{\"mode\": \"form\", \"message\": \"Which?\", \
        \"requestedSchema\": {{\"type\": \"object\", \"properties\": {{}}}}}}",
        gate.directive()
    );
    let given = world.sandbox.send(&world.root, &world.gives("Poll", "background", &prompt));
    assert_eq!(given["matchedEvent"]["type"], "turn.completed", "{given}");
    let latest = given["matchedEvent"]["eventId"].clone();
    gate.open();
    let asked = world.sandbox.wait_after(&world.root, &latest, "turn_end");
    assert_eq!(
        (&asked["type"], &asked["path"]),
        (&json!("elicitation.requested"), &json!(["Release", "Poll"]))
    );
    let request =
        ["answer", "--worker-id", text(&asked["workerId"]), "--request", text(&asked["data"]["requestId"])];
    world.sandbox.run(&[&request[..], &["--decline"]].concat()).data_of("elicitation.answered");
    let reported = world.sandbox.wait_after(&world.root, &asked["eventId"], "turn.completed");
    assert_eq!(reported["workerId"], *world.root, "the end of the task must be reported: {reported}");
    world.sandbox.finish();
}

#[test]
fn the_inbox_and_the_views_of_a_worker_have_the_questions_below_it() {
    let world = world(&["--tag", "job=release"]);
    let other = text(
        &world.sandbox.run(&["worker", "start", "--launcher", "demo"]).data_of("worker.started")["workerId"],
    )
    .to_owned();
    let accepted = world.sandbox.send_no_wait(&world.root, &world.two_below("!ask2 execute make all"));
    assert_eq!(world.sandbox.send(&other, "!ask execute make")["matchedEvent"]["type"], "approval.requested");
    world.asked(3);
    let commands = |asked: &[Value]| -> Vec<String> {
        asked.iter().map(|question| text(&question["subject"]).to_owned()).collect()
    };
    for flags in [["--worker-id", &world.root], ["-l", "job=release"]] {
        let asked = world.inbox(&flags);
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked.iter().all(|one| one["path"] == json!(["Release", "Tests", "Unit"])), "{asked:?}");
    }
    assert_eq!(commands(&world.inbox(&["--worker-id", &other])), ["make"]);
    let shown = world.sandbox.run(&["worker", "show", &world.root]).data_of("worker.shown");
    let inspected = world.sandbox.run(&["worker", "inspect", &world.root]);
    let inspected = inspected.data_of("worker.inspected")["worker"]["questionsBelow"].clone();
    assert_eq!(
        (shown["questionsBelow"].as_array().unwrap().len(), &shown["questionsBelow"]),
        (2, &inspected)
    );
    let shown = world.sandbox.run(&["worker", "show", &other]).data_of("worker.shown");
    assert!(shown.get("questionsBelow").is_none(), "{shown}");

    let approve = ["approve", "--worker-id", &world.root, "--all", "--decision", "allow"];
    assert_eq!(world.sandbox.run(&approve).data_of("approvals.decided")["count"], 0, "its own alone");
    let decided = world.sandbox.run(&[&approve[..], &["--tree"]].concat()).data_of("approvals.decided");
    assert_eq!((&decided["count"], &decided["decided"]), (&json!(2), &json!(2)), "{decided}");
    assert!(decided["items"].as_array().unwrap().iter().all(|item| item["workerId"].is_string()));
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(world.asked(1)[0]["workerId"], other, "another worker's question must stay");
    world.sandbox.finish();
}

#[test]
fn the_stream_of_a_worker_has_the_questions_below_it_with_their_paths() {
    let world = world(&[]);
    let waited = world.sandbox.send(&world.root, &world.two_below("!ask execute make all"));
    world.approve(&waited["matchedEvent"]);
    let accepted = json!({"workerId": world.root, "acceptedEventId": waited["matchedEvent"]["eventId"]});
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    let events = world.sandbox.events(&world.root);
    let of_unit: Vec<&Value> = events.iter().filter(|event| event.get("path").is_some()).collect();
    let types: Vec<&str> = of_unit.iter().map(|event| text(&event["type"])).collect();
    assert_eq!(types, ["approval.requested", "approval.decided"], "{of_unit:?}");
    assert_eq!(of_unit[0], &waited["matchedEvent"]);
    let ends = format!(
        "!shell {} wait --worker-id {} --include-history --until approval.requested --timeout-seconds 0.1 --json",
        world.sandbox.executable("subagent"),
        world.root
    );
    let said = world.sandbox.send(&world.root, &ends)["assistantText"].to_string();
    assert!(said.contains("WAIT_TIMEOUT"), "a process below a worker must see only its own events: {said}");
    let own = world.sandbox.events(text(&of_unit[0]["workerId"]));
    assert!(own.iter().all(|event| event.get("path").is_none()), "in its own stream: {own:?}");
    world.sandbox.finish();
}

#[test]
fn a_run_answers_for_the_tasks_below_it_and_says_what_it_denied() {
    let sandbox = defined();
    sandbox.init();
    // The run's agent submits its task to this daemon.
    sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let task = sandbox.task_file("lead", "Unit", "foreground", "!ask execute make all");
    let output = sandbox
        .command("subagent")
        .args([
            "run",
            "--text-stdin",
            "--launcher",
            "demo",
            "--delegate",
            "--timeout",
            "60s",
            "--output",
            "json",
        ])
        .stdin(sandbox.gives(&task))
        .run();
    assert_eq!(output.status.code(), Some(12), "{output}");
    let finished: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let denied = &finished["data"]["denied"];
    assert_eq!(denied.as_array().unwrap().len(), 1, "{denied}");
    assert_eq!((&denied[0]["path"], &denied[0]["title"]), (&json!(["run", "Unit"]), &json!("make all")));
    sandbox.finish();
}

#[test]
fn a_command_that_waits_for_a_task_says_how_to_answer_its_question() {
    let sandbox = defined();
    sandbox.init();
    let run = ["task", "run", "--agent", "lead", "--name", "Unit", "--text", "!ask execute make all"];
    let output = sandbox.command("subagent").args(run).args(["--no-wait-for-answers", "--json"]).run();
    assert_eq!(output.status.code(), Some(15), "{output}");
    let waited = &output.document()["data"];
    assert_eq!(waited["questions"][0]["subject"], "make all", "{waited}");
    let (command, task) = (answer_of(&output.stderr), text(&waited["taskId"]).to_owned());
    assert!(output.stderr.contains("Unit asks: make all"), "{output}");
    let again = sandbox.command("subagent").args(["task", "wait", "Unit", "--no-wait-for-answers"]).run();
    assert_eq!((again.status.code(), answer_of(&again.stderr)), (Some(15), command.clone()), "{again}");

    let waiting = sandbox.command("subagent").args(["task", "wait", &task, "--json"]).deadline(SOON).spawn();
    sandbox.run(&command.iter().map(String::as_str).collect::<Vec<_>>()).data_of("approval.decided");
    let ended = waiting.output();
    assert_eq!(ended.data_of("task.waited")["status"], "completed", "{ended}");
    sandbox.finish();
}

/// Returns the arguments of the command that a line on stderr suggests.
pub(super) fn answer_of(stderr: &str) -> Vec<String> {
    let (_, command) = stderr.split_once("answer with: subagent ").unwrap_or_else(|| panic!("{stderr}"));
    command.lines().next().unwrap().split(' ').map(str::to_owned).collect()
}
