//! Trust on first use: who may trust a file, and for how long.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{On, TestSandbox};

use super::{command, define, project_hooks};

const STOP: &str = "hooks: {Stop: [{hooks: [{type: command, command: 'true'}]}]}\n";

fn stop(sandbox: &TestSandbox) {
    project_hooks(sandbox, &json!({"Stop": command("true")}));
}

fn runs(sandbox: &TestSandbox) -> Vec<String> {
    let listed = sandbox.run(&["hook", "list"]).data_of("hook.list");
    let runs = |item: &serde_json::Value| item["runs"].as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(runs).collect()
}

#[test]
fn a_content_is_trusted_until_it_changes() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    stop(&sandbox);
    let file = sandbox.config_file();
    let name = file.to_str().unwrap();
    let started = sandbox.run(&["worker", "start", "--launcher", "demo"]).data_of("worker.started");
    assert_eq!(started["untrustedHooks"], json!([name]));
    let reported = sandbox.command("subagent").args(["worker", "start", "--launcher", "demo"]).run();
    assert!(reported.to_string().contains(&format!("subagent hook trust {name}")), "{reported}");
    let trusted = sandbox.run(&["hook", "trust", ".subagent/config.yaml", "--yes"]).data_of("hook.trusted");
    assert_eq!((&trusted["file"], &trusted["hooks"][0]["command"]), (&json!(name), &json!("true")));
    assert_eq!(runs(&sandbox), ["yes"]);
    let started = sandbox.run(&["worker", "start", "--launcher", "demo"]).data_of("worker.started");
    assert_eq!(started.get("untrustedHooks"), None, "{started}");
    let listed = sandbox.run(&["hook", "trust", "--list"]).data_of("hook.trust");
    assert_eq!(listed["items"][0]["sha256"], trusted["sha256"]);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}# changed\n")).unwrap();
    assert_eq!(runs(&sandbox), ["untrusted"]);
    fs::write(&file, text).unwrap();
    assert_eq!(runs(&sandbox), ["yes"], "the same content is trusted again");
    let removed = sandbox.run(&["hook", "trust", "--remove", name]).data_of("hook.distrusted");
    assert_eq!(removed, json!({"file": name, "removed": 1}));
    assert_eq!(runs(&sandbox), ["untrusted"]);
    sandbox.finish();
}

#[test]
fn a_definition_is_trusted_like_a_file_of_the_project() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let file = define(&sandbox, "reviewer", STOP);
    assert_eq!(runs(&sandbox), ["untrusted"]);
    let _ = sandbox.run(&["hook", "trust", file.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
    assert_eq!(runs(&sandbox), ["yes"]);
    sandbox.finish();
}

#[test]
fn trust_needs_a_file_with_hooks_and_an_answer() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let no_hooks =
        sandbox.run(&["hook", "trust", ".subagent/config.yaml", "--yes"]).error("INVALID_ARGUMENT");
    assert!(no_hooks["message"].as_str().unwrap().contains("has no hooks"), "{no_hooks}");
    sandbox.run(&["hook", "trust", "nothing.yaml", "--yes"]).error("CONFIG_PARSE_ERROR");
    project_hooks(&sandbox, &json!({"Stop": command("rm\u{1b}[2J -rf x")}));
    let args = ["hook", "trust", ".subagent/config.yaml"];
    sandbox.run(&args).error("TERMINAL_REQUIRED");
    let asked = sandbox.command("subagent").args(args).at_terminal(200, On::All);
    asked.wait_for("Trust them? [y/N]");
    let shown = asked.bytes();
    assert!(shown.contains("-rf x") && !shown.contains("\u{1b}[2J"), "{shown:?}");
    asked.types("n\n");
    let screen = asked.screen();
    assert!(screen.text().contains("were not trusted"), "{}", screen.text());
    assert_eq!(runs(&sandbox), ["untrusted"]);
    let asked = sandbox.command("subagent").args(args).at_terminal(200, On::All);
    asked.wait_for("Trust them? [y/N]");
    asked.types("y\n");
    let _ = asked.screen();
    assert_eq!(runs(&sandbox), ["yes"]);
    sandbox.finish();
}

#[test]
fn an_agent_cannot_trust_what_it_wrote() {
    let (sandbox, worker) = TestSandbox::with_worker();
    stop(&sandbox);
    let program = sandbox.executable("subagent");
    for command in
        ["trust .subagent/config.yaml --yes", "trust --list", "trust --remove .subagent/config.yaml"]
    {
        for shell in
            [format!("{program} hook {command} --json"), format!("setsid -w {program} hook {command} --json")]
        {
            let waited =
                sandbox.send(&worker, &format!("!shell cd {}; {shell}", sandbox.workspace().display()));
            let said = waited["assistantText"].as_str().unwrap();
            assert!(said.contains("FORBIDDEN_FROM_WORKER"), "{said}");
        }
    }
    assert_eq!(runs(&sandbox), ["untrusted"]);
    sandbox.finish();
}

#[test]
fn run_and_continue_say_which_file_to_trust() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    stop(&sandbox);
    let advice = format!("subagent hook trust {}", sandbox.config_file().display());
    let ran = sandbox.command("subagent").args(["run", "--launcher", "demo", "--text", "hello"]).run();
    assert!(ran.status.success() && ran.stderr.contains(&advice), "{ran}");
    let worker = sandbox.start("demo");
    let went_on = sandbox.command("subagent").args(["worker", "continue", "--from-worker", &worker]).run();
    assert!(went_on.status.success() && went_on.stderr.contains(&advice), "{went_on}");
    sandbox.finish();
}
