//! Commands of people that wait for a worker: they show, ask and answer the questions of its tasks.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Command, On, TestSandbox, wait_until};

use super::questions::{SOON, TaskQuestionsFixture, answer_of, defined, text, world};

const FORM: &str =
    "!elicit {\"mode\": \"form\", \"message\": \"Which?\", \"requestedSchema\": {\"type\": \"object\"}}";
const TASK: [&str; 4] = ["task", "run", "--agent", "lead"];

/// A worker `rel`, shown as `Release`.
fn named() -> TaskQuestionsFixture {
    world(&["--name", "rel"])
}

#[test]
fn send_and_wait_name_the_question_of_a_task_and_its_answer() {
    let world = named();
    let prompt = world.two_below("!ask execute make all\n!ask execute make test");
    let mut output = world.sandbox.command("subagent").args(["send", "rel", &prompt]).run();
    for subject in ["make all", "make test"] {
        assert_eq!(output.status.code(), Some(15), "{output}");
        let line = format!("Release › Tests › Unit asks: Permission requested for execute: {subject}; ");
        assert!(output.stderr.contains(&line), "{output}");
        let answer = answer_of(&output.stderr);
        world.sandbox.run(&answer.iter().map(String::as_str).collect::<Vec<_>>()).data_of("approval.decided");
        output = world.sandbox.command("subagent").args(["wait", "rel"]).run();
    }
    assert_eq!(output.status.code(), Some(0), "{output}");
    world.sandbox.finish();
}

#[test]
fn people_see_the_questions_below_a_worker() {
    let world = named();
    let accepted = world.sandbox.send_no_wait(&world.root, &world.two_below("!ask execute make all"));
    let request = world.asked(1)[0]["requestId"].take();
    for args in [&["worker", "show", "rel"][..], &["worker", "inspect", "rel"], &["show", "rel"]] {
        let shown = world.sandbox.command("subagent").args(args).at_terminal(120, On::Both).screen();
        for part in ["Release › Tests › Unit", "make all", &format!("subagent approve {}", text(&request))]
        {
            assert!(shown.text().contains(part), "{args:?}: {part}: {}", shown.text());
        }
    }
    world.sandbox.run(&["approve", text(&request)]).data_of("approval.decided");
    assert_eq!(world.sandbox.turn_end(&accepted)["type"], "turn.completed");
    world.sandbox.finish();
}

#[test]
fn the_line_of_a_wait_names_the_task_that_asks() {
    let world = named();
    let prompt = world.two_below("!ask execute make all");
    world.sandbox.run(&["send", "rel", &prompt, "-d"]).data_of("turn.accepted");
    // Only the end of the turn ends this wait.
    let wait = ["wait", "--worker-id", &world.root, "--until", "turn.completed"];
    let terminal = world.sandbox.command("subagent").args(wait).at_terminal(120, On::Both);
    terminal.wait_for("s · Release › Tests › Unit asks");
    world.sandbox.run(&["approve", text(&world.asked(1)[0]["requestId"])]).data_of("approval.decided");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    assert!(!screen.text().contains(" asks"), "the line is erased: {}", screen.text());
    world.sandbox.finish();
}

#[test]
fn a_question_of_a_task_is_asked_in_place_with_its_path() {
    let world = named();
    // Each command has a task of its own.
    let asks = ["One", "Two", "Three"].map(|name| world.gives(name, "foreground", "!ask execute make all"));
    let type_in = |args: &[&str]| world.sandbox.command("subagent").args(args).at_terminal(120, On::All);
    let commands = [&["send", "rel", &asks[0]][..], &["wait", "rel"], &["watch", "-f", "rel"]];
    for ((args, asks), name) in commands.into_iter().zip(&asks).zip(["One", "Two", "Three"]) {
        if args[0] != "send" {
            world.sandbox.run(&["send", "rel", asks, "-d"]).data_of("turn.accepted");
        }
        let terminal = type_in(args);
        terminal.wait_for("[y] allow once");
        let path = format!("Release › {name}");
        assert!(terminal.bytes().contains(&path), "{args:?}: {}", terminal.bytes());
        terminal.types("y");
        if args[0] == "watch" {
            wait_until("the end of the turn", SOON, || {
                world.sandbox.run(&["wait", "rel"]).status.success().then_some(())
            });
            terminal.signal(Signal::SIGINT);
            let _ = terminal.screen();
        } else {
            let screen = terminal.screen();
            assert_eq!(screen.status.code(), Some(0), "{args:?}: {}", screen.text());
        }
    }
    world.sandbox.finish();
}

/// Runs an agent that delegates this prompt to a task `Unit`.
fn run(sandbox: &TestSandbox, prompt: &str, flags: &[&str]) -> Command {
    run_of(sandbox, "lead", prompt, flags)
}

fn run_of(sandbox: &TestSandbox, agent: &str, prompt: &str, flags: &[&str]) -> Command {
    let task = sandbox.task_file(agent, "Unit", "foreground", prompt);
    let text = sandbox.gives(&task);
    sandbox
        .command("subagent")
        .args(["run", "--launcher", "demo", "--delegate", "--text", &text])
        .args(flags.iter().copied())
}

/// A workspace with a daemon, to which the agent of a run gives its task.
fn ready() -> TestSandbox {
    let sandbox = defined();
    sandbox.init();
    sandbox.run(&["worker", "list"]).data_of("worker.listed");
    sandbox
}

#[test]
fn a_run_asks_in_place_for_a_task() {
    let sandbox = ready();
    let terminal = run(&sandbox, "!ask execute make all", &[]).at_terminal(120, On::All);
    terminal.wait_for("[y] allow once");
    assert!(terminal.bytes().contains("run › Unit"), "{}", terminal.bytes());
    terminal.types("y");
    let screen = terminal.screen();
    assert_eq!(screen.status.code(), Some(0), "{}", screen.text());
    sandbox.finish();
}

#[test]
fn a_run_turns_a_form_of_a_task_away() {
    let sandbox = ready();
    let output = run(&sandbox, FORM, &["--json"]).run();
    assert_eq!(output.status.code(), Some(19), "{output}");
    let data = &output.document()["data"];
    assert_eq!((&data["turnedAway"], &data["outcome"]), (&json!(1), &json!("turned_away")), "{data}");
    sandbox.finish();
}

#[test]
fn the_rules_of_a_run_decide_for_its_tasks() {
    let sandbox = ready();
    let definition = "---\ndescription: d\npermission: {execute: allow}\n---\nDo it.\n";
    fs::write(sandbox.workspace().join(".agents/agents/builder.md"), definition).unwrap();
    let deny = ["--json", "--deny", "execute(rm *)"];
    let _ = run_of(&sandbox, "builder", "!ask execute make all\n!ask execute rm x", &deny).run();
    let task = sandbox.run(&["task", "show", "Unit"]).data_of("task.shown")["taskId"].take();
    let events = sandbox.events(text(&task));
    let decided: Vec<&Value> = events.iter().filter(|event| event["type"] == "approval.decided").collect();
    let options: Vec<&str> = decided.iter().map(|event| text(&event["data"]["optionId"])).collect();
    assert_eq!(options, ["allow-once", "reject-once"], "{decided:?}");
    assert_eq!(decided[1]["data"]["policy"]["rule"], "execute(rm *)", "{decided:?}");
    sandbox.finish();
}

#[test]
fn the_time_of_a_run_ends_its_tasks_too() {
    let sandbox = ready();
    let output = run(&sandbox, "!sleep 600000", &["--json", "--timeout", "3s"]).deadline(SOON).run();
    assert_eq!(output.status.code(), Some(13), "{output}");
    let tasks = sandbox.run(&["task", "list", "--all"]).data_of("task.listed");
    let open = |task: &&Value| task["status"] == "running" || task["status"] == "pending";
    assert_eq!(tasks["items"].as_array().unwrap().iter().find(open), None, "{tasks}");
    sandbox.finish();
}

#[test]
fn without_a_terminal_a_wait_for_a_task_says_how_to_answer_and_goes_on() {
    let sandbox = ready();
    let run = ["--name", "Unit", "--text", "!ask execute make all"];
    let running = sandbox.command("subagent").args(TASK).args(run).deadline(SOON).spawn();
    let asked = wait_until("the question", SOON, || {
        let listed = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
        listed["items"].as_array()?.first().cloned()
    });
    let task = text(&asked["workerId"]);
    let waiting = sandbox.command("subagent").args(["task", "wait", task]).deadline(SOON).spawn();
    for command in [&running, &waiting] {
        wait_until("the line", SOON, || {
            command.stderr().contains("Unit asks: make all; answer with: subagent approve ").then_some(())
        });
    }
    sandbox.run(&["approve", text(&asked["requestId"])]).data_of("approval.decided");
    for command in [running, waiting] {
        let output = command.output();
        assert_eq!(output.status.code(), Some(0), "{output}");
        assert_eq!(output.stderr.matches(" asks: ").count(), 1, "{output}");
    }
    sandbox.finish();
}
