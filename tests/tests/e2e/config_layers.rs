//! The config in practice: built-in launchers, the user's file below the project's, unknown keys,
//! all errors at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox};

pub(crate) const USER: &str = "home/.config/subagent/config.yaml";

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a program in the sandbox's `bin` with this script.
pub(crate) fn program(sandbox: &TestSandbox, name: &str, script: &str) {
    let path = sandbox.file("bin").join(name);
    write(&path, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A sandbox without a config, whose PATH contains only its own `bin` and the tools
/// of a shell script.
pub(crate) fn bare() -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    fs::remove_file(sandbox.config_file()).unwrap();
    fs::create_dir_all(sandbox.file("ws/.git")).unwrap();
    fs::create_dir_all(sandbox.file("bin")).unwrap();
    let path = sandbox.file_name("bin");
    sandbox.set_env("PATH", path);
    sandbox
}

/// Installs the demo agent as this program.
pub(crate) fn agent(sandbox: &TestSandbox, name: &str, flags: &str) {
    let state = sandbox.file_name(&format!("sessions-{name}"));
    let script = format!("exec {} demo-agent --state {state} {flags}", sandbox.executable("subagent"));
    program(sandbox, name, &script);
}

fn of<'a>(data: &'a Value, list: &str, name: &str) -> &'a Value {
    data[list].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn an_installed_agent_works_without_any_config() {
    let sandbox = bare();
    agent(&sandbox, "codex-acp", "");
    let data = sandbox.run(&["launcher", "list", "--all"]).data_of("launcher.listed");
    assert_eq!((&data["items"], &data["count"]), (&json!([]), &json!(0)));
    let codex = of(&data, "builtIn", "codex");
    assert_eq!(
        (&codex["origin"], &codex["state"], &codex["file"]),
        (&json!("built-in"), &json!("available"), &Value::Null)
    );
    assert_eq!(of(&data, "builtIn", "gemini")["state"], "missing");
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "codex"]).data_of("worker.started");
    assert_eq!(started["launcher"], "codex");
    // The only installed one is the default.
    let started = sandbox.run(&["worker", "start"]).data_of("worker.started");
    assert_eq!(started["launcher"], "codex");
    let ran = sandbox.command("subagent").args(["run", "--launcher", "codex", "--text", "hello"]).run();
    assert!(ran.status.success() && ran.text().contains("hello"), "{ran}");
    sandbox.finish();
}

#[test]
fn without_a_choice_the_error_names_what_there_is() {
    let sandbox = bare();
    sandbox.init();
    let start = || sandbox.run(&["worker", "start"]).error("LAUNCHER_NOT_FOUND")["message"].to_string();
    let none = start();
    assert!(
        none.contains("subagent init") && none.contains("claude-code") && none.contains("opencode"),
        "{none}"
    );
    agent(&sandbox, "opencode", "");
    agent(&sandbox, "gemini", "");
    let several = start();
    assert!(several.contains("gemini, opencode") && several.contains("subagent init"), "{several}");
    sandbox.finish();
}

#[test]
fn what_npx_would_fetch_is_not_called_available() {
    let sandbox = bare();
    program(&sandbox, "npx", "exit 1");
    let probe = || sandbox.run(&["launcher", "probe", "gemini"]).data_of("launcher.probed");
    let data = probe();
    assert_eq!(
        (&data["available"], &data["state"]),
        (&json!(true), &json!("fetchable")),
        "the command can be started"
    );
    assert_eq!(data["package"], "@google/gemini-cli");
    let text = sandbox.command("subagent").args(["launcher", "probe", "gemini"]).run();
    assert!(text.text().starts_with("gemini: fetchable\n"), "{text}");
    let found = sandbox.run(&["doctor"]).data();
    let seen = found["data"]["findings"].as_array().unwrap_or(found["findings"].as_array().unwrap());
    let launchers = seen.iter().find(|finding| finding["id"] == "config.launchers").unwrap();
    assert!(
        launchers["seen"].as_str().unwrap().contains("fetchable: claude-code, cline, codex"),
        "{launchers}"
    );
    write(&sandbox.file("ws/node_modules/@google/gemini-cli/package.json"), "{}");
    assert_eq!(probe()["state"], "available");
    let screen = sandbox.command("subagent").args(["launcher", "list"]).at_terminal(120, On::Both).screen();
    let lines = screen.lines();
    let line = |name: &str| lines.iter().find(|line| line.starts_with(name)).unwrap().clone();
    assert!(line("codex").contains("fetchable") && line("codex").contains("built-in"), "{lines:?}");
    assert!(line("gemini").contains("available"), "{lines:?}");
    sandbox.finish();
}

#[test]
fn a_project_file_with_two_rules_takes_nothing_away() {
    let sandbox = bare();
    agent(&sandbox, "mine", "");
    let mine = sandbox.file_name("bin/mine");
    let user = format!(
        "launchers:\n  mine: {{command: {mine}, env: {{KEY: very-secret}}}}\ndefaults: {{launcher: mine}}\n\
         permissions:\n  execute: {{'rm *': deny, 'ls *': ask}}\n"
    );
    write(&sandbox.file(USER), &user);
    write(&sandbox.config_file(), "permissions:\n  execute: allow\n  read: allow\n");
    let started = {
        sandbox.init();
        sandbox.run(&["worker", "start"]).data_of("worker.started")
    };
    assert_eq!(started["launcher"], "mine");
    let item = sandbox.run(&["launcher", "list", "--all"]).data_of("launcher.listed")["items"][0].take();
    assert_eq!((&item["origin"], &item["file"]), (&json!("user"), &json!(sandbox.file_name(USER))));
    let action = |subject: &str| {
        let data = sandbox.run(&["policy", "test", "execute", subject]).data_of("policy.tested");
        (data["action"].as_str().unwrap().to_owned(), data["judged"][0]["by"]["layer"].clone())
    };
    assert_eq!(
        action("rm -rf x"),
        ("deny".to_owned(), json!("user")),
        "no project may override the user's deny"
    );
    assert_eq!(action("ls x"), ("allow".to_owned(), json!("config")));
    // The worker has the same rules.
    let worker = started["workerId"].as_str().unwrap();
    let turn = sandbox.send(worker, "!ask execute rm -rf x");
    assert_eq!(turn["matchedEvent"]["type"], "turn.completed", "{turn}");
    // A file named explicitly is used alone.
    let named = sandbox.config_file().to_str().unwrap().to_owned();
    let alone =
        sandbox.run(&["policy", "test", "execute", "rm -rf x", "--config", &named]).data_of("policy.tested");
    assert_eq!(alone["action"], "allow");
    sandbox.finish();
}

#[test]
fn a_projects_launcher_gets_nothing_of_the_users() {
    let sandbox = bare();
    write(&sandbox.file(USER), "launchers:\n  codex: {command: mine, env: {KEY: very-secret}}\n");
    write(&sandbox.config_file(), "launchers:\n  codex: {env: {BASE_URL: evil}}\n");
    let shown = sandbox.run(&["launcher", "show", "codex"]).data_of("launcher.shown");
    assert_eq!(shown["command"], "npx");
    assert_eq!(shown["env"], json!({"BASE_URL": "<set>"}));
    sandbox.finish();
}

#[test]
fn config_show_says_where_each_value_is_from_and_hides_secrets() {
    let sandbox = bare();
    write(&sandbox.file(USER), "launchers:\n  codex:\n    env: {KEY: very-secret}\n");
    write(&sandbox.config_file(), "defaults:\n  launcher: codex\n");
    let show = |args: &[&str]| {
        let output = sandbox.command("subagent").args(["config", "show"]).args(args).run();
        assert!(!output.stdout.contains("very-secret"), "{output}");
        output.text().to_owned()
    };
    assert!(show(&[]).contains("KEY: "), "{}", show(&[]));
    let lines = show(&["--origin"]);
    let user = sandbox.file_name(USER);
    for line in [
        format!("launchers.codex.env.KEY\t<set>\t{user}:3"),
        "launchers.codex.command\tnpx\tbuilt-in".to_owned(),
        format!("defaults.launcher\tcodex\t{}:2", sandbox.config_file().display()),
    ] {
        assert!(lines.lines().any(|shown| shown == line), "{line}\n{lines}");
    }
    let data = sandbox.run(&["config", "show", "--origin"]).data_of("config.shown");
    assert_eq!(data["config"]["defaults"]["launcher"], "codex");
    assert_eq!(data["files"].as_array().unwrap().len(), 2);
    sandbox.finish();
}

#[test]
fn config_check_names_all_problems_and_unknown_keys_are_warnings() {
    let sandbox = bare();
    write(&sandbox.config_file(), "launchers:\n  a: {command: a, args: x}\n  b: {comand: b}\ndefalts: {}\n");
    let check = sandbox.command("subagent").args(["config", "check"]).run();
    assert_eq!(check.status.code(), Some(1), "{check}");
    let file = sandbox.config_file().display().to_string();
    for part in [
        format!("problem: {file}:2: `launchers.a.args` must be a list"),
        format!("problem: {file}:3: `launchers.b.command` is missing"),
        format!("warning: {file}:3: unknown key `launchers.b.comand`; did you mean `command`?"),
        format!("warning: {file}:4: unknown key `defalts`; did you mean `defaults`?"),
    ] {
        assert!(check.stdout.contains(&part), "{part}\n{check}");
    }
    write(&sandbox.config_file(), "permissions: {reed: allow, Read: allow}\n");
    let check = sandbox.command("subagent").args(["config", "check"]).run();
    let warning = format!("warning: {file}:1: unknown key `permissions.reed`; did you mean `read`?");
    assert_eq!(check.stdout.trim(), warning, "the rule counts for a tool of this name: {check}");
    let test = sandbox.command("subagent").args(["policy", "test", "reed", "src/a.rs"]).run();
    assert!(test.stdout.contains("`reed` is not a kind of tool") && test.stdout.contains("`read`"), "{test}");
    write(&sandbox.config_file(), "defalts: {}\n");
    let data = sandbox.run(&["config", "check"]).data_of("config.checked");
    assert_eq!((&data["ok"], &data["warnings"][0]["line"]), (&json!(true), &json!(1)));
    // Warnings are shown to people, and not to programs.
    let list = ["launcher", "list", "--all"];
    assert_eq!(sandbox.command("subagent").args(list).run().stderr, "");
    let screen = sandbox.command("subagent").args(list).at_terminal(200, On::Both).screen();
    assert!(screen.text().contains("did you mean `defaults`?"), "{}", screen.text());
    let doctor = sandbox.command("subagent").args(["doctor"]).run();
    assert!(doctor.stdout.contains("config.unknownKey"), "{doctor}");
    sandbox.finish();
}
