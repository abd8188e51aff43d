//! A new user's first result with a real agent: from an empty home to a visible change, with little
//! typing and without ids.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use subagent_tests::harness::{TestSandbox, Typist};
use subagent_tests::model_server::ModelServer;
use subagent_tests::real_agent::RealAgent;

/// Installs its adapter: in the PATH, and logged in.
fn install(sandbox: &TestSandbox, agent: &RealAgent, program: &str) {
    let settings = agent.env.iter().map(|(name, value)| format!("{name}={value}"));
    let command = agent.command.to_str().unwrap().to_owned();
    let words: Vec<String> =
        ["env".to_owned(), "-i".to_owned()].into_iter().chain(settings).chain([command]).collect();
    let words = shell_words::join(words.iter().chain(&agent.args));
    script(sandbox, program, &format!("exec {words}"));
}

fn script(sandbox: &TestSandbox, name: &str, line: &str) {
    let file = sandbox.file("bin").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Answers the question of the newest worker, and looks at what it has changed.
fn approves_and_looks(person: &mut Typist<'_>, name: &str) {
    let listed = person.types("subagent ls", 0);
    assert!(listed.stdout.contains(name), "{listed}");
    let asked = person.types(&format!("subagent wait {name}"), 15);
    assert!(asked.stderr.contains(&format!("answer with: subagent approve {name}")), "{asked}");
    let _ = person.types("subagent approve", 0);
    let ended = person.types(&format!("subagent wait {name}"), 0);
    assert!(ended.stdout.starts_with(&format!("{name}\tcompleted")), "{ended}");
    let shown = person.types("subagent show", 0);
    assert!(shown.stdout.contains("filesChanged: 1 +1 -0"), "{shown}");
    let diff = person.types("subagent diff", 0);
    assert!(diff.stdout.contains("+Fixed."), "{diff}");
}

#[test]
fn a_first_change_is_landed_with_little_typing_and_no_id() {
    if !RealAgent::is_installed("codex") {
        return;
    }
    let models = ModelServer::start().unwrap();
    let agent = RealAgent::new("codex", &models);
    let sandbox = newcomer(&agent);
    let mut person = Typist::new(&sandbox);
    let found = person.types("subagent init --yes", 0);
    assert!(found.stdout.contains("codex"), "{found}");
    let started = person.types("subagent run -d --worktree codex 'WRITE: fix.txt=Fixed.'", 0);
    assert_eq!(started.stdout, "codex-1\n");
    approves_and_looks(&mut person, "codex-1");
    let file = sandbox.workspace().join("fix.txt");
    assert!(!file.exists(), "the change is in the worktree alone");
    let _ = person.types("subagent land codex-1", 0);
    assert_eq!(fs::read_to_string(file).unwrap().trim_end(), "Fixed.");
    person.assert_little_typed();
    let _ = person.types("subagent stop codex-1", 0);
    sandbox.finish();
}

#[test]
fn with_nothing_configured_five_commands_give_a_result() {
    if !RealAgent::is_installed("codex") {
        return;
    }
    let models = ModelServer::start().unwrap();
    let agent = RealAgent::new("codex", &models);
    let sandbox = newcomer(&agent);
    let mut person = Typist::new(&sandbox);
    let answered = person.types("subagent run codex 'hello'", 0);
    assert!(answered.stdout.contains("hello"), "{answered}");
    let started = person.types("subagent run -d codex 'WRITE: fix.txt=Fixed.'", 0);
    assert_eq!(started.stdout, "codex-2\n");
    approves_and_looks(&mut person, "codex-2");
    person.assert_little_typed();
    let config =
        ["home/.config/subagent", "ws/.subagent/config.yaml"].map(|file| sandbox.file(file).exists());
    assert_eq!(config, [false, false], "nothing is configured");
    let _ = person.types("subagent stop codex-2", 0);
    sandbox.finish();
}

/// A person with an empty home, a repository, and this agent in the PATH.
fn newcomer(agent: &RealAgent) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    fs::remove_file(sandbox.config_file()).unwrap();
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    sandbox.set_state_dir(sandbox.workspace().join(".subagent/state"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", sandbox.file_name("bin"));
    sandbox.set_env("PATH", path);
    install(&sandbox, agent, "codex-acp");
    script(&sandbox, "subagent", &format!("exec '{}' \"$@\"", sandbox.executable("subagent")));
    for who in ["AUTHOR", "COMMITTER"] {
        sandbox.set_env(format!("GIT_{who}_NAME"), "me");
        sandbox.set_env(format!("GIT_{who}_EMAIL"), "me@example.com");
    }
    for args in [&["init", "-q", "."][..], &["commit", "-q", "--allow-empty", "-m", "first"]] {
        let git = sandbox.command("git").args(args).run();
        assert!(git.status.success(), "{git}");
    }
    let home = fs::read_dir(sandbox.file("home")).into_iter().flatten().count();
    assert_eq!(home, 0, "the home is empty");
    sandbox
}
