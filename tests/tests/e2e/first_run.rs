//! `subagent init` and `completions --install`: the result for a new user, whose
//! existing files stay unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox};

use crate::config_layers::{self, USER, agent, bare, write};

/// Returns all files below the home with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

fn states(data: &Value) -> Vec<(String, String)> {
    let word = |step: &Value, key: &str| step[key].as_str().unwrap().to_owned();
    data["steps"].as_array().unwrap().iter().map(|step| (word(step, "step"), word(step, "state"))).collect()
}

/// A bare sandbox with one installed agent, and a home of a user of Claude Code and bash.
fn newcomer(flags: &str) -> TestSandbox {
    let mut sandbox = bare();
    agent(&sandbox, "codex-acp", flags);
    fs::create_dir_all(sandbox.file("home/.claude")).unwrap();
    sandbox.set_env("SHELL", "/bin/bash");
    sandbox
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_changed() {
    let sandbox = newcomer("");
    let before = files(&sandbox.file("home"));
    let data = sandbox.run(&["init"]).data_of("init.done");
    assert_eq!(data["changed"], false);
    let would = |step: &str| (step.to_owned(), "would do".to_owned());
    assert_eq!(states(&data), [would("config"), would("completions"), would("skill")]);
    let text = sandbox.command("subagent").args(["init"]).run();
    assert!(text.text().contains("--yes") && text.text().contains(&sandbox.file_name(USER)), "{text}");
    assert_eq!(files(&sandbox.file("home")), before);
    assert!(!sandbox.file("sessions-codex-acp").exists(), "no agent was started");
    sandbox.finish();
}

#[test]
fn with_yes_all_is_there_and_a_second_time_changes_nothing() {
    let sandbox = newcomer("");
    let data = sandbox.run(&["init", "--yes"]).data_of("init.done");
    let codex = data["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "codex").unwrap();
    assert_eq!(codex, &json!({"name": "codex", "state": "available", "loggedIn": true, "error": null}));
    let done = |step: &str| (step.to_owned(), "done".to_owned());
    assert_eq!(states(&data), [done("config"), done("completions"), done("skill")]);
    let config = fs::read_to_string(sandbox.file(USER)).unwrap();
    assert!(config.contains("defaults:\n  launcher: \"codex\"\n"), "{config}");
    let script = sandbox.file("home/.local/share/bash-completion/completions/subagent");
    assert!(fs::read_to_string(script).unwrap().contains("complete"));
    let skill = sandbox.file("home/.claude/skills/subagent-manager/SKILL.md");
    assert!(fs::read_to_string(skill).unwrap().contains("name: subagent-manager"));
    let before = files(&sandbox.file("home"));
    let again = sandbox.run(&["init", "--yes"]).data_of("init.done");
    assert_eq!(again["changed"], false, "{again}");
    assert_eq!(files(&sandbox.file("home")), before);
    sandbox.init();
    assert_eq!(sandbox.run(&["worker", "start"]).data_of("worker.started")["launcher"], "codex");
    sandbox.finish();
}

#[test]
fn without_a_controller_the_error_names_the_form_that_needs_none() {
    let sandbox = TestSandbox::new();
    let refused = |more: &[&str]| {
        sandbox.run(&[&["worker", "start"], more].concat()).error("CONTROLLER_NOT_FOUND")["details"].clone()
    };
    let command = |details: &Value| details["recommendedCommand"].as_str().unwrap().to_owned();
    let other = sandbox.workspace().join("my folder").display().to_string();
    fs::create_dir_all(&other).unwrap();
    assert_eq!(command(&refused(&["--launcher", "none"])), "subagent worker start none");
    assert_eq!(
        command(&refused(&["--launcher", "none", "--cwd", &other])),
        format!("subagent worker start none --cwd '{other}'")
    );
    let details = refused(&[]);
    assert!(
        details["recommendedAction"].as_str().unwrap().contains("`subagent controller init`"),
        "{details}"
    );
    let command = command(&details);
    assert_eq!(command, "subagent worker start demo");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    sandbox.run(&words).data_of("worker.started");
    sandbox.finish();
}

#[test]
fn what_is_there_stays_as_it_is() {
    let sandbox = newcomer("");
    let skill = "home/.claude/skills/subagent-manager/SKILL.md";
    for file in [USER, skill, "home/.local/share/bash-completion/completions/subagent"] {
        write(&sandbox.file(file), "# mine\n");
    }
    let before = files(&sandbox.file("home"));
    let data = sandbox.run(&["init", "--yes"]).data_of("init.done");
    let kept = |step: &str| (step.to_owned(), "kept".to_owned());
    assert_eq!(states(&data), [kept("config"), kept("completions"), kept("skill")]);
    assert_eq!(files(&sandbox.file("home")), before);
    sandbox.finish();
}

/// Returns what `init` found out about an agent.
fn found<'a>(data: &'a Value, name: &str) -> &'a Value {
    data["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == name).unwrap()
}

/// Only the config file, not the completions and the skill.
const CONFIG_ALONE: [&str; 4] = ["init", "--yes", "--no-completions", "--no-skill"];

#[test]
fn an_agent_that_wants_a_login_is_named_with_the_command() {
    // Some agents refuse a session without a login; others open it and report the missing login.
    for flag in ["--needs-auth", "--late-auth"] {
        let sandbox = newcomer(flag);
        let data = sandbox.run(&CONFIG_ALONE).data_of("init.done");
        assert_eq!(found(&data, "codex")["loggedIn"], false, "{flag}: {data}");
        assert_eq!(states(&data)[1], ("login".to_owned(), "would do".to_owned()));
        let what = data["steps"][1]["what"].as_str().unwrap();
        assert!(what.contains("subagent launcher login codex"), "{data}");
        let probe = ["launcher", "probe", "codex", "--handshake"];
        let probed = || sandbox.run(&probe).data_of("launcher.probed")["handshake"].clone();
        let wants = || probed()["loginWanted"] == true || probed()["error"]["code"] == "AUTH_REQUIRED";
        assert!(wants(), "{flag}");
        let _ = sandbox.run(&["launcher", "login", "codex"]).data_of("launcher.login");
        assert!(!wants(), "{flag}");
        let data = sandbox.run(&CONFIG_ALONE).data_of("init.done");
        assert_eq!(found(&data, "codex")["loggedIn"], true, "{flag}: {data}");
        sandbox.run(&["init", "--yes", "--launcher", "absent"]).error("LAUNCHER_NOT_FOUND");
        sandbox.finish();
    }
}

/// The names of three built-in launchers and their programs.
const AGENTS: [(&str, &str); 3] =
    [("claude-code", "claude-agent-acp"), ("codex", "codex-acp"), ("opencode", "opencode")];

#[test]
fn agents_are_asked_at_once_and_not_for_long() {
    let sandbox = bare();
    let started = |program: &str| sandbox.file_name(&format!("started-{program}"));
    for (_, program) in AGENTS {
        // Each answers only when all have been started, and ignores the end of its input and SIGTERM.
        let all = AGENTS.map(|(_, program)| format!("[ -e {} ]", started(program))).join(" && ");
        let demo = sandbox.executable("subagent");
        let state = sandbox.file_name(&format!("sessions-{program}"));
        let script = format!(
            "trap '' TERM\n: > {}\nuntil {all}; do /bin/sleep 0.02; done\n{demo} demo-agent --state {state}\nexec /bin/sleep 600",
            started(program),
        );
        config_layers::program(&sandbox, program, &script);
    }
    let data = sandbox.run(&CONFIG_ALONE).data_of("init.done");
    for (name, _) in AGENTS {
        assert_eq!(found(&data, name)["loggedIn"], true, "{data}");
        let shown = sandbox.run(&["launcher", "show", name]).data_of("launcher.shown");
        let phases = shown["handshake"]["phases"].as_array().unwrap();
        let end = phases.iter().find(|phase| phase["phase"] == "end").unwrap();
        // Two steps of 300 ms. A worker's grace would make 4 s of them.
        assert!(end["millis"].as_u64().unwrap() < 4000, "{shown}");
    }
    sandbox.finish();
}

#[test]
fn an_agent_that_fails_is_no_default_if_another_one_can_be_used() {
    let sandbox = newcomer("--needs-auth");
    config_layers::program(&sandbox, "claude-agent-acp", "exit 1");
    let data = sandbox.run(&CONFIG_ALONE).data_of("init.done");
    assert_eq!(found(&data, "claude-code")["loggedIn"], Value::Null, "{data}");
    let config = fs::read_to_string(sandbox.file(USER)).unwrap();
    assert!(config.contains("launcher: \"codex\"\n"), "{config}");
    sandbox.finish();
}

#[test]
fn at_a_terminal_each_step_is_a_question() {
    let sandbox = newcomer("");
    let asked = sandbox.command("subagent").args(["init"]).at_terminal(200, On::All);
    asked.wait_for("default launcher codex");
    asked.types("y\n");
    asked.wait_for("completions for bash");
    asked.types("n\n");
    asked.wait_for("for Claude Code");
    asked.types("\n");
    let screen = asked.screen();
    assert!(screen.text().contains("skipped: completions for bash"), "{}", screen.text());
    assert!(sandbox.file(USER).exists());
    assert!(!sandbox.file("home/.local").exists() && !sandbox.file("home/.claude/skills").exists());
    sandbox.finish();
}

#[test]
fn completions_are_installed_into_folders_that_do_not_exist() {
    let sandbox = bare();
    for (shell, file) in [
        ("bash", ".local/share/bash-completion/completions/subagent"),
        ("zsh", ".zfunc/_subagent"),
        ("fish", ".config/fish/completions/subagent.fish"),
    ] {
        let install = || sandbox.run(&["completions", "--install", shell]);
        let data = install().data_of("completions.installed");
        let path = sandbox.file("home").join(file);
        assert_eq!((&data["path"], &data["state"]), (&json!(path), &json!("done")));
        let script = sandbox.command("subagent").args(["completions", shell]).run();
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end(), script.text().trim_end());
        assert_eq!(install().data_of("completions.installed")["state"], "unchanged");
        fs::write(&path, "mine\n").unwrap();
        install().error("INVALID_ARGUMENT");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n");
    }
    fs::remove_dir_all(sandbox.file("home/.zfunc")).unwrap();
    let own = sandbox.subagent(&["completions", "--install"]).env("SHELL", "/usr/bin/zsh").run();
    assert_eq!(own.data_of("completions.installed")["shell"], "zsh");
    sandbox.run(&["completions", "--install"]).error("INVALID_ARGUMENT");
    sandbox.finish();
}
