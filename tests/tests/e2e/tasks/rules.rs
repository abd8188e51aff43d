//! Rules over a task tree, from outside: a denial above holds below, requests name the path of the
//! asking task, and an advance approval neither exceeds the parent's permissions nor asks.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

/// Time limit for asynchronous results.
const SOON: Duration = Duration::from_secs(30);

struct TaskRulesFixture {
    sandbox: TestSandbox,
    root: String,
}

/// A worker with these flags that can delegate to these agents: name, and definition.
fn world(flags: &[&str], agents: &[(&str, &str)]) -> TaskRulesFixture {
    let mut sandbox = TestSandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    for (name, says) in agents {
        let text = format!("---\ndescription: d\n{says}\n---\nDo it.\n");
        fs::write(folder.join(format!("{name}.md")), text).unwrap();
    }
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--delegate", "--label", "Release"];
    let started = sandbox.run(&[&start, flags].concat()).data_of("worker.started");
    TaskRulesFixture { root: started["workerId"].as_str().unwrap().to_owned(), sandbox }
}

impl TaskRulesFixture {
    /// Returns the directive by which an agent delegates this task, and waits for a foreground one.
    fn gives(&self, name: &str, agent: &str, mode: &str, prompt: &str) -> String {
        self.sandbox.gives(&self.sandbox.task_file(agent, name, mode, prompt))
    }

    fn items(&self, command: &[&str], kind: &str) -> Vec<Value> {
        self.sandbox.run(command).data_of(kind)["items"].as_array().unwrap().clone()
    }

    /// Returns the worker of the task with this name, once it exists.
    fn task(&self, name: &str) -> String {
        wait_until(name, SOON, || {
            let workers = self.items(&["worker", "list"], "worker.listed");
            let found = workers.iter().find(|worker| worker["label"] == name)?;
            Some(found["workerId"].as_str().unwrap().to_owned())
        })
    }

    /// Returns the decisions on requests of a worker.
    fn decided(&self, worker: &str) -> Vec<Value> {
        let events = self.sandbox.events(worker).into_iter();
        events
            .filter(|event| event["type"] == "approval.decided")
            .map(|event| event["data"].clone())
            .collect()
    }

    /// Returns the next question.
    fn asked(&self) -> Value {
        wait_until("a question", SOON, || self.items(&["approval", "list"], "inbox.listed").pop())
    }
}

const LEAD: (&str, &str) = ("lead", "permission: {task: allow, execute: allow}");

#[test]
fn m2_a_denial_of_the_root_holds_for_any_definition_of_its_grandchild() {
    let world = world(&["--deny", "execute(rm *)", "--ask", "execute(sudo *)"], &[LEAD]);
    let last = world.gives("Unit", "lead", "foreground", "!ask execute rm -rf build\n!ask execute make");
    let first = world.gives("Test Runner", "lead", "foreground", &last);
    let waited = world.sandbox.send(&world.root, &first);
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    let decided = world.decided(&world.task("Unit"));
    assert_eq!(
        (&decided[0]["decision"], &decided[1]["decision"]),
        (&json!("deny"), &json!("allow")),
        "{decided:?}"
    );
    let denied = &decided[0]["policy"];
    assert_eq!(
        (&denied["rule"], &denied["layer"], &denied["path"]),
        (&json!("execute(rm *)"), &json!("owner"), &json!(["Release"]))
    );
    let allowed = &decided[1]["policy"];
    assert_eq!(
        (&allowed["layer"], &allowed["path"]),
        (&json!("definition"), &json!(["Release", "Test Runner"]))
    );
    world.sandbox.finish();
}

#[test]
fn m2_a_question_has_the_names_from_the_root_and_its_answer_loosens_nothing_above() {
    let world = world(&["--ask", "execute(make*)"], &[LEAD]);
    let last = world.gives("Unit", "lead", "foreground", "!ask execute make all");
    let first = world.gives("Test Runner", "lead", "foreground", &last);
    let accepted = world.sandbox.send_no_wait(&world.root, &first);
    let asked = world.asked();
    assert_eq!(asked["path"], json!(["Release", "Test Runner", "Unit"]), "{asked}");
    assert_eq!(
        (&asked["rule"]["rule"], &asked["rule"]["path"]),
        (&json!("execute(make*)"), &json!(["Release"]))
    );
    let (request, unit) = (asked["requestId"].as_str().unwrap(), world.task("Unit"));
    let list = world.sandbox.command("subagent").args(["approval", "list"]).run();
    assert!(list.text().contains("Release › Test Runner › Unit"), "{list}");
    assert!(list.text().contains("owner rule execute(make*) of Release"), "{list}");
    let show = world.sandbox.command("subagent").args(["approval", "show", request]).run();
    assert!(show.text().contains("task: Release › Test Runner › Unit"), "{show}");
    let approve = ["approve", "--worker-id", &unit, "--request", request, "--decision", "allow"];
    let refused = world.sandbox.run(&[&approve[..], &["--always"]].concat()).error("RULE_NOT_DERIVABLE");
    let reason = refused["details"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("`execute(make*): ask` of the owner of Release, above it, still holds"),
        "{reason}"
    );
    let decided = world.sandbox.run(&[&approve[..], &["--always", "controller"]].concat());
    assert_eq!(decided.data_of("approval.decided")["always"]["rule"], "execute(make all)");
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    world.sandbox.finish();
}

#[test]
fn m2_a_rule_that_the_root_was_given_later_holds_for_tasks_that_run() {
    let world = world(&["--allow", "execute(ls *)"], &[LEAD]);
    let gate = world.sandbox.gate("task");
    let prompt = format!("{}\n!ask execute rm x", gate.directive());
    let gives = world.gives("Cleaner", "lead", "background", &prompt);
    let given = world.sandbox.send(&world.root, &gives);
    assert_eq!(given["matchedEvent"]["type"], "turn.completed", "{given}");
    let cleaner = world.task("Cleaner");
    let asked = world.sandbox.send(&world.root, "!ask execute rm x");
    let request = asked["requestId"].as_str().unwrap();
    let deny =
        ["approve", "--worker-id", &world.root, "--request", request, "--decision", "deny", "--always"];
    let rule = world.sandbox.run(&deny).data_of("approval.decided")["always"]["ruleId"].clone();
    gate.open();
    let decided = wait_until("a decision", SOON, || world.decided(&cleaner).pop());
    assert_eq!((&decided["decision"], &decided["by"]), (&json!("deny"), &json!("rule")), "{decided}");
    assert_eq!((&decided["policy"]["source"], &decided["policy"]["path"]), (&rule, &json!(["Release"])));
    world.sandbox.finish();
}

#[test]
fn m3_approvals_beforehand_are_no_more_than_the_parent_has_and_no_question_is_asked() {
    let says =
        "background: true\npermission: {execute: ask}\npreApproved: [execute(cargo *), execute(git push)]";
    let world = world(&["--allow", "execute(cargo test*)"], &[("tester", says)]);
    let asks =
        ["cargo test --all", "cargo publish", "git push", "make"].map(|line| format!("!ask execute {line}"));
    let gives = world.gives("Tests", "tester", "background", &asks.join("\n"));
    let given = world.sandbox.send(&world.root, &gives);
    assert_eq!(given["matchedEvent"]["type"], "turn.completed", "{given}");
    let tests = world.task("Tests");
    let decided =
        wait_until("all to be decided", SOON, || Some(world.decided(&tests)).filter(|all| all.len() == 4));
    let words: Vec<&str> = decided.iter().map(|one| one["decision"].as_str().unwrap()).collect();
    assert_eq!(words, ["allow", "deny", "deny", "deny"], "{decided:?}");
    assert_eq!(decided[0]["policy"]["note"], "it was approved beforehand");
    assert!(decided.iter().all(|one| one["by"] == "rule"), "{decided:?}");
    assert_eq!(world.items(&["approval", "list"], "inbox.listed"), Vec::<Value>::new());
    world.sandbox.finish();
}

#[test]
fn m4_the_tools_of_the_task_server_are_judged_by_the_rules_for_tasks() {
    let flags = ["--allow", "mcp__subagent__*", "--allow", "task(reviewer)", "--deny", "task(writer)"];
    let world = world(&flags, &[]);
    let asks = |tool: &str, input: Value| {
        let name = format!("mcp__subagent__{tool}");
        let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
        let call =
            json!({"toolCallId": tool, "name": name, "title": name, "kind": "other", "rawInput": input});
        let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
        let ask =
            json!({"jsonrpc": "2.0", "id": 4242, "method": "session/request_permission", "params": params});
        let before = world.decided(&world.root).len();
        let _ = world.sandbox.send(&world.root, &format!("!raw {ask}"));
        let decided = wait_until("a decision", SOON, || world.decided(&world.root).get(before).cloned());
        (decided["decision"].as_str().unwrap().to_owned(), decided["policy"].clone())
    };
    let (word, rule) = asks("task", json!({"agent": "reviewer", "prompt": "x"}));
    assert_eq!(
        (word.as_str(), &rule["kind"], &rule["rule"]),
        ("allow", &json!("task"), &json!("task(reviewer)"))
    );
    let (word, rule) =
        asks("spawn_subagent", json!({"name": "n", "task": "x", "config": {"agent_id": "writer"}}));
    assert_eq!((word.as_str(), &rule["rule"]), ("deny", &json!("task(writer)")));
    assert_eq!(asks("task", json!({"agent": "other", "prompt": "x"})).0, "deny", "no rule applies to it");
    assert_eq!(asks("get_subagents", json!({})).0, "allow");
    world.sandbox.finish();
}

#[test]
fn a_task_keeps_no_list_of_what_is_to_do_and_is_not_canceled_for_one() {
    let world = world(&["--allow", "todo", "--allow", "task"], &[("plain", "permission: {todo: allow}")]);
    let call = json!({
        "toolCallId": "t", "name": "TodoWrite", "title": "TodoWrite", "kind": "other", "rawInput": {"todos": []},
    });
    let options = json!([
        {"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
    let ask = json!({"jsonrpc": "2.0", "id": 4242, "method": "session/request_permission", "params": params});
    let mut update = call;
    update["sessionUpdate"] = "tool_call".into();
    update["toolCallId"] = "unasked".into();
    update["status"] = "completed".into();
    update["content"] = json!([{"type": "content", "content": {"type": "text", "text": "written"}}]);
    let params = json!({"sessionId": "SESSION", "update": update});
    let reported = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let prompt = format!("!raw {ask}\n!raw {reported}\n!say done");
    for agent in ["plain", "explore"] {
        let waited = world.sandbox.send(&world.root, &world.gives(agent, agent, "foreground", &prompt));
        let said = waited["assistantText"].as_str().unwrap();
        assert!(said.contains(&format!("{agent} completed")), "{said}");
        let decided = world.decided(&world.task(agent));
        assert_eq!((&decided[0]["decision"], &decided[0]["by"]), (&json!("deny"), &json!("rule")), "{agent}");
        assert_eq!(decided[0]["policy"]["note"], "a task keeps no list of what is to do", "{agent}");
        let shown = world.sandbox.run(&["task", "show", agent]).data_of("task.shown");
        assert_eq!((&shown["status"], &shown["error"]), (&json!("completed"), &Value::Null), "{shown}");
    }
    // A worker that is not a task keeps one.
    let _ = world.sandbox.send(&world.root, &format!("!raw {ask}"));
    let decided = wait_until("a decision", SOON, || world.decided(&world.root).pop());
    assert_eq!(decided["decision"], "allow", "{decided}");
    world.sandbox.finish();
}

#[test]
fn the_agents_of_titles_and_summaries_have_no_tools() {
    let world = world(&["--allow", "*"], &[]);
    for agent in ["title", "summary"] {
        for kind in ["read", "execute"] {
            let name = format!("{agent} {kind}");
            let gives = world.gives(&name, agent, "foreground", &format!("!ask {kind} x\n!say named"));
            let given = world.sandbox.send(&world.root, &gives);
            assert_eq!(given["matchedEvent"]["type"], "turn.completed", "{given}");
            // They are in no list of tasks.
            let events = world.sandbox.events(&world.root);
            let spawned = events.iter().rfind(|event| event["type"] == "subagent.spawned").unwrap();
            assert_eq!(spawned["data"]["name"], name, "{spawned}");
            let [decided] = &world.decided(spawned["data"]["id"].as_str().unwrap())[..] else {
                panic!("{name}: {given}")
            };
            let rule = (&decided["decision"], &decided["by"], &decided["policy"]["layer"]);
            assert_eq!(rule, (&json!("deny"), &json!("rule"), &json!("definition")), "{name}: {decided}");
        }
    }
    assert_eq!(world.items(&["approval", "list"], "inbox.listed"), Vec::<Value>::new());
    world.sandbox.finish();
}
