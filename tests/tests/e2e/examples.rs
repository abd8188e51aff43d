//! The scripts in `examples/` work unchanged with the scripted agent. `ci.rs` runs that for CI, and
//! `real_agents` that with a real agent.

mod on_time;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_tests::harness::{Command, TestSandbox, executables, say};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples").join(name)
}

fn bash(sandbox: &TestSandbox) -> Command {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    sandbox.command("bash").env("PATH", path)
}

#[test]
fn three_reviewers_work_at_the_same_time_and_make_one_review() {
    if !Path::new("/usr/bin/jq").exists() && !Path::new("/usr/local/bin/jq").exists() {
        return say("SKIPPED, NOTHING WAS TESTED: examples/three-reviewers needs jq");
    }
    let sandbox = TestSandbox::new();
    sandbox.init();
    let tasks = sandbox.file("tasks");
    fs::create_dir(&tasks).unwrap();
    // Each continues only when all have begun: in sequence they would never end.
    let begun: Vec<String> =
        ["a", "b", "c"].iter().map(|name| sandbox.file_name(&format!("begun-{name}"))).collect();
    let all: String = begun.iter().map(|file| format!("!wait-file {file}\n")).collect();
    for (name, own, last) in [
        ("correctness", &begun[0], "a.rs:1 \"one\" is too many"),
        ("tests", &begun[1], "!ask execute make install\nnothing"),
        ("words", &begun[2], "!ask edit README.md\na\\b.rs:2: ünclear"),
    ] {
        fs::write(tasks.join(format!("{name}.md")), format!("!touch {own}\n{all}{last}\n")).unwrap();
    }
    let review = || {
        bash(&sandbox)
            .args([example("three-reviewers/review.sh").as_os_str(), "demo".as_ref(), tasks.as_os_str()])
            .run()
    };
    let output = review();
    let expected = "## correctness\n\na.rs:1 \"one\" is too many\n\n## tests\n\npermission: reject-oncenothing\n\n\
                    ## words\n\npermission: reject-oncea\\b.rs:2: ünclear\n\n";
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(0), expected), "{output}");
    assert_eq!(sandbox.run(&["worker", "list", "-l", "role=reviewer"]).data_of("worker.listed")["count"], 3);
    for item in sandbox.run(&["worker", "list"]).data_of("worker.listed")["items"].as_array().unwrap() {
        assert_eq!(item["state"], "stopped", "{item}");
    }

    fs::write(tasks.join("tests.md"), "!error -32000 no luck").unwrap();
    let output = review();
    assert_eq!(output.status.code(), Some(1), "{output}");
    assert!(output.stdout.contains("## tests\n\nno answer: turn.failed\n\n## words\n"), "{output}");
    for task in fs::read_dir(example("three-reviewers/tasks")).unwrap() {
        assert!(fs::read_to_string(task.unwrap().path()).unwrap().contains("Do not edit anything."));
    }
    sandbox.finish();
}

#[test]
fn an_agent_works_under_rules() {
    let sandbox = TestSandbox::new();
    let script = example("policy-with-a-real-agent/work.sh");
    let work = |task: &str| {
        let file = sandbox.file("task.md");
        fs::write(&file, task).unwrap();
        bash(&sandbox).args([script.as_os_str(), "demo".as_ref(), file.as_os_str()]).run()
    };
    let output = work("!ask execute git commit -m x\nIt is done.");
    assert_eq!(output.text(), "permission: allow-onceIt is done.\n");
    assert!(output.stderr.contains("execute(git push *)"), "{output}");
    for denied in ["execute git push", "execute rm -rf /", "execute make"] {
        assert_eq!(work(&format!("!ask {denied}")).status.code(), Some(12), "{denied}");
    }
    sandbox.finish();
}

#[test]
fn the_definitions_for_delegation_are_valid_and_let_their_agents_do_what_they_are_for_and_no_more() {
    let mut sandbox = TestSandbox::new();
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    for file in fs::read_dir(example("delegation/.agents/agents")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let valid = sandbox.run(&["agent", "validate"]).data_of("agent.validated");
    assert_eq!((&valid["valid"], &valid["problems"]), (&json!(true), &json!([])), "{valid}");
    // The reviewer has its own launcher.
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("codex", demo);
    sandbox.init();
    let answers = |agent: &str, asked: &[&str]| {
        let prompt: String = asked.iter().map(|ask| format!("!ask {ask}\n")).collect();
        let run = ["task", "run", "--agent", agent, "--text", &prompt];
        let task = sandbox.run(&run).data_of("task.waited")["taskId"].take();
        let events = sandbox.events(task.as_str().unwrap()).into_iter();
        let decided = events.filter(|event| event["type"] == "approval.decided");
        decided.map(|event| event["data"]["decision"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let allowed = ["read src/lib.rs", "execute git diff HEAD~1 -- src", "execute git log -3 | head -n 5"];
    let denied = [
        "edit src/lib.rs",
        "execute git push",
        "execute git diff --output=x",
        "execute cat a > b",
        "fetch x",
    ];
    for agent in ["reviewer", "researcher"] {
        let more = if agent == "reviewer" { &allowed[..] } else { &["fetch x", "execute git log -3"] };
        assert_eq!(answers(agent, more), vec!["allow"; more.len()], "{agent}");
        let less = if agent == "reviewer" { &denied[..] } else { &denied[..4] };
        assert_eq!(answers(agent, less), vec!["deny"; less.len()], "{agent}");
    }
    let report =
        json!({"passed": false, "command": "cargo test", "failures": [{"test": "a", "reason": "b"}]});
    let run =
        ["task", "run", "--agent", "test-runner", "--text", &format!("!tool read a\n{report}"), "--json"];
    let result = sandbox.command("subagent").args(run).run().data();
    assert_eq!(result["mode"], "background", "{result}");
    let task = result["taskId"].as_str().unwrap();
    let ended = sandbox.run(&["task", "wait", task]).data_of("task.waited");
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!(report.to_string())));
    sandbox.finish();
}

#[test]
fn an_architect_plans_and_an_editor_builds_what_was_approved_with_a_form() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    let example = example("architect-and-editor");
    for file in fs::read_dir(example.join(".agents/agents")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let valid = sandbox.run(&["agent", "validate"]).data_of("agent.validated");
    assert_eq!((&valid["valid"], &valid["problems"]), (&json!(true), &json!([])), "{valid}");
    sandbox.init();
    let tasks = sandbox.file("tasks");
    fs::create_dir(&tasks).unwrap();
    let form = json!({
        "mode": "form", "message": "One step: a.rs",
        "requestedSchema": {"type": "object", "properties": {"build": {"type": "boolean"}}, "required": ["build"]},
    });
    fs::write(tasks.join("plan.md"), format!("!ask execute make\n!elicit {form}\nStep one: a.rs")).unwrap();
    fs::write(tasks.join("build.md"), "!ask execute make\n!ask execute git push origin\nBuilt.").unwrap();
    let build = |session: &str, answer: &str| {
        let args =
            [example.join("build.sh").as_os_str(), "demo".as_ref(), session.as_ref(), tasks.as_os_str()]
                .map(ToOwned::to_owned);
        bash(&sandbox).args(args).stdin(answer).run()
    };
    let said = |list: &str, id: &str, name: &str| -> String {
        let listed = sandbox.run(&[list, "list"]).data();
        let items = listed["items"].as_array().unwrap();
        let named = |item: &&Value| {
            let label = item["name"].as_str().or(item["label"].as_str());
            label.is_some_and(|label| label.starts_with(name))
        };
        let newest = items.iter().find(named).unwrap();
        let events = sandbox.events(newest[id].as_str().unwrap());
        events.iter().filter_map(|event| event["data"]["text"].as_str()).collect()
    };
    for session in ["fresh", "same"] {
        let refused = build(session, "n\n");
        assert_eq!(refused.status.code(), Some(1), "{refused}");
        assert!(refused.stdout.contains("One step: a.rs"), "{refused}");
        assert!(refused.stdout.ends_with("nothing was built.\n"), "{refused}");
        let built = build(session, "y\n");
        assert_eq!(built.status.code(), Some(0), "{session}: {built}");
    }
    let (plan, built) = (said("task", "taskId", "Plan"), said("task", "taskId", "Build"));
    assert!(plan.contains("permission: reject-once"), "an architect must change nothing: {plan}");
    let ends = "permission: allow-oncepermission: reject-onceBuilt.";
    assert!(built.contains(ends) && built.contains("Step one: a.rs"), "{built}");
    let both = said("worker", "workerId", "architect and editor");
    assert!(both.contains("permission: reject-once") && both.contains(ends), "{both}");
    sandbox.finish();
}

#[test]
fn an_orchestrator_knows_nothing_but_names_and_json() {
    let sandbox = TestSandbox::new();
    let tasks = sandbox.file("tasks");
    fs::create_dir(&tasks).unwrap();
    let task = |name: &str, prompt: &str| {
        let file = tasks.join(name);
        fs::write(&file, prompt).unwrap();
        file
    };
    let files = [
        task("docs.md", "!ask edit README.md\nThe README is up to date."),
        task("clean.md", "!ask execute rm -rf build\nNothing to clean."),
        task("plan.md", "One step."),
    ];
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    let python = sandbox.command("python3").env("PATH", path).args([example("orchestrator/orchestrate.py")]);
    let output = python.args(["demo"]).args(files).run();
    assert_eq!(output.status.code(), Some(12), "a permission was denied: {output}");
    for part in
        ["## docs: completed\n", "The README is up to date.", "## clean: permission_denied\n", "One step."]
    {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    let alive = sandbox.run(&["ls"]).data_of("workers.overview");
    assert_eq!(alive["count"], 0);
    sandbox.finish();
}
