//! Launchers, roles, and the prompt: exact data and text, and the meaning of a command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

const CONFIG: &str = r#"
launchers:
  zed: {command: /nonexistent/zed}
  tool:
    backend: {kind: acp-stdio}
    command: sh -c 'exit 0'
    args: ["a b", "c"]
    env: {ZKEY: secret-z, AKEY: secret-a}
  odd: {command: x, backend: {kind: telepathy}}
roleDefaults: {promptLanguage: de}
roleHints:
  writer: {}
  analyst:
    preferredLauncher: " tool "
    promptLanguage: en
    responseLanguage: fr
    delegationHint: " Finds things out. "
    recommendedSkills: [" skill-creator ", skill-installer]
  blank: {delegationHint: "  "}
defaults: {launcher: tool, role: analyst}
"#;

/// A sandbox with this config file in its workspace, and the file's path.
fn configured(text: &str) -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.config_file(), text).unwrap();
    let path = sandbox.config_file().to_str().unwrap().to_owned();
    (sandbox, path)
}

#[track_caller]
fn text_of(sandbox: &TestSandbox, args: &[&str]) -> String {
    let output = sandbox.command("subagent").args(args).run();
    assert_eq!(output.stderr, "", "{output}");
    output.text().to_owned()
}

#[test]
fn launchers_are_listed_by_name() {
    let (sandbox, path) = configured(CONFIG);
    let data = sandbox.run(&["launcher", "list"]).data_of("launcher.listed");
    let expected = json!({
        "items": [
            {"name": "odd", "backendKind": "telepathy", "command": "x", "handshake": null},
            {"name": "tool", "backendKind": "acp-stdio", "command": "sh -c 'exit 0'", "handshake": null},
            {"name": "zed", "backendKind": "acp-stdio", "command": "/nonexistent/zed", "handshake": null},
        ],
        "count": 3, "configPath": path, "configLoaded": true,
    });
    assert_eq!(data, expected);
    assert_eq!(text_of(&sandbox, &["launcher", "list"]), "odd\ntool\nzed\n");
    fs::write(sandbox.config_file(), "").unwrap();
    assert_eq!(text_of(&sandbox, &["launcher", "list"]), "(no launchers configured)\n");
    sandbox.finish();
}

#[test]
fn a_launcher_is_shown_without_the_values_of_its_variables() {
    let (sandbox, _) = configured(CONFIG);
    let shown = sandbox.run(&["launcher", "show", "tool"]);
    assert!(!shown.stdout.contains("secret"), "{shown}");
    let expected = json!({
        "name": "tool", "backend": {"kind": "acp-stdio"}, "command": "sh -c 'exit 0'", "args": ["a b", "c"],
        "env": {"AKEY": "<set>", "ZKEY": "<set>"}, "handshake": null,
    });
    assert_eq!(shown.data_of("launcher.shown"), expected);
    let expected = "name: tool\nbackend: {\"kind\": \"acp-stdio\"}\ncommand: sh -c 'exit 0'\nargs: [\"a b\", \"c\"]\nenv: {\"AKEY\": \"<set>\", \"ZKEY\": \"<set>\"}\n";
    assert_eq!(text_of(&sandbox, &["launcher", "show", "tool"]), expected);
    sandbox.finish();
}

#[test]
fn a_probe_says_what_would_be_started() {
    let (sandbox, _) = configured(CONFIG);
    let data = sandbox.run(&["launcher", "probe", "tool"]).data_of("launcher.probed");
    let path = data["resolvedCommandPath"].as_str().unwrap().to_owned();
    assert!(path.starts_with('/') && fs::canonicalize(&path).unwrap().to_str() == Some(&path), "{data}");
    let expected = json!({
        "name": "tool", "backendKind": "acp-stdio", "command": "sh -c 'exit 0'", "args": ["a b", "c"],
        "effectiveCommand": "sh", "effectiveArgs": ["-c", "exit 0", "a b", "c"], "commandWasTokenized": true,
        "available": true, "resolvedCommandPath": path, "envKeys": ["AKEY", "ZKEY"],
    });
    assert_eq!(data, expected);
    let expected = format!(
        "tool: available\ncommand: sh -c 'exit 0'\neffectiveCommand: sh\neffectiveArgs: [\"-c\", \"exit 0\", \"a b\", \"c\"]\nresolvedPath: {path}\n"
    );
    assert_eq!(text_of(&sandbox, &["launcher", "probe", "tool"]), expected);
    sandbox.finish();
}

#[test]
fn a_probe_of_what_is_missing_is_a_success_that_says_missing() {
    let (sandbox, _) = configured(CONFIG);
    let data = sandbox.run(&["launcher", "probe", "zed"]).data_of("launcher.probed");
    let expected = json!({
        "name": "=zed", "backendKind": "=acp-stdio", "command": "=/nonexistent/zed", "args": [],
        "effectiveCommand": "=/nonexistent/zed", "effectiveArgs": [], "commandWasTokenized": false,
        "available": false, "resolvedCommandPath": null, "envKeys": [], "problem": "str",
    });
    assert_shape(&data, &expected);
    let text = text_of(&sandbox, &["launcher", "probe", "zed"]);
    let expected = "zed: missing\ncommand: /nonexistent/zed\neffectiveCommand: /nonexistent/zed\neffectiveArgs: []\nresolvedPath:\nproblem: ";
    assert!(text.starts_with(expected), "{text}");
    sandbox.finish();
}

#[test]
fn only_an_executable_file_is_available() {
    let (sandbox, _) = configured("");
    for (name, mode) in [("plain", 0o644), ("run me", 0o755), ("agent", 0o755)] {
        fs::create_dir_all(sandbox.file("bin")).unwrap();
        let path = sandbox.file("bin").join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::copy(sandbox.file("bin/agent"), sandbox.file("home/mine")).unwrap();
    fs::copy(sandbox.file("bin/agent"), sandbox.file("ws/here")).unwrap();
    let bin = sandbox.file_name("bin");
    let config = json!({"launchers": {
        "plain": {"command": format!("{bin}/plain")},
        "folder": {"command": bin},
        "blanks": {"command": format!("{bin}/run me")},
        "own-path": {"command": "agent --x", "env": {"PATH": bin}},
        "callers-path": {"command": "agent"},
        "home": {"command": "~/mine"},
        "relative": {"command": "./here"},
        "unbalanced": {"command": "agent 'x"},
        "number-sign": {"command": "agent #x y # z", "env": {"PATH": bin}},
    }});
    fs::write(sandbox.config_file(), config.to_string()).unwrap();
    for (name, available, command, args, path) in [
        ("plain", false, format!("{bin}/plain"), json!([]), Value::Null),
        ("folder", false, bin.clone(), json!([]), Value::Null),
        ("blanks", true, format!("{bin}/run me"), json!([]), json!(format!("{bin}/run me"))),
        ("own-path", true, "agent".to_owned(), json!(["--x"]), json!(format!("{bin}/agent"))),
        ("callers-path", false, "agent".to_owned(), json!([]), Value::Null),
        ("home", true, "~/mine".to_owned(), json!([]), json!(sandbox.file_name("home/mine"))),
        ("relative", true, "./here".to_owned(), json!([]), json!(sandbox.file_name("ws/here"))),
        (
            "number-sign",
            true,
            "agent".to_owned(),
            json!(["#x", "y", "#", "z"]),
            json!(format!("{bin}/agent")),
        ),
        ("unbalanced", false, "agent 'x".to_owned(), json!([]), Value::Null),
    ] {
        let data = sandbox.run(&["launcher", "probe", name]).data_of("launcher.probed");
        assert_eq!(data["available"], available, "{data}");
        assert_eq!((&data["effectiveCommand"], &data["effectiveArgs"]), (&json!(command), &args), "{data}");
        assert_eq!(data["resolvedCommandPath"], path, "{data}");
    }
    sandbox.finish();
}

#[test]
fn a_relative_command_is_the_workers_not_the_callers() {
    let (sandbox, _) = configured("launchers: {here: {command: ./agent}}\ndefaults: {launcher: here}\n");
    sandbox.init();
    fs::create_dir(sandbox.file("ws/sub")).unwrap();
    let script = format!("#!/bin/sh\nexec {} demo-agent\n", sandbox.executable("subagent"));
    fs::write(sandbox.file("ws/sub/agent"), script).unwrap();
    fs::set_permissions(sandbox.file("ws/sub/agent"), fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.run(&["worker", "start"]).error("BACKEND_LAUNCHER");
    let started = sandbox.run(&["worker", "start", "--cwd", "sub"]).data_of("worker.started");
    assert_eq!(started["cwd"], sandbox.file_name("ws/sub"));
    sandbox.finish();
}

#[test]
fn an_unknown_launcher_is_named_under_both_keys() {
    let (sandbox, _) = configured(CONFIG);
    for command in ["show", "probe"] {
        let error = sandbox.run(&["launcher", command, "nope"]).error("LAUNCHER_NOT_FOUND");
        assert_eq!(error["details"], json!({"name": "nope", "launcher": "nope"}));
        assert_eq!(error["retryable"], false);
        assert!(error["message"].as_str().unwrap().contains("odd, tool, zed"), "{error}");
    }
    sandbox.finish();
}

/// The roles of [`CONFIG`] as data.
fn roles() -> [Value; 3] {
    [
        json!({
            "name": "analyst", "preferredLauncher": "tool", "promptLanguage": "en", "responseLanguage": "fr",
            "delegationHint": "Finds things out.", "recommendedSkills": ["skill-creator", "skill-installer"],
        }),
        json!({"name": "blank", "recommendedSkills": []}),
        json!({"name": "writer", "recommendedSkills": []}),
    ]
}

#[test]
fn roles_are_listed_by_name() {
    let (sandbox, path) = configured(CONFIG);
    let data = sandbox.run(&["role", "list"]).data_of("role.listed");
    assert_eq!(data, json!({"items": roles(), "count": 3, "configPath": path, "configLoaded": true}));
    assert_eq!(text_of(&sandbox, &["role", "list"]), "analyst\nblank\nwriter\n");
    fs::remove_file(sandbox.config_file()).unwrap();
    assert_eq!(text_of(&sandbox, &["role", "list"]), "(no roles configured)\n");
    let data = sandbox.run(&["role", "list"]).data_of("role.listed");
    let user = sandbox.file_name("home/.config/subagent/config.yaml");
    assert_eq!(data, json!({"items": [], "count": 0, "configPath": user, "configLoaded": false}));
    sandbox.finish();
}

#[test]
fn a_role_is_shown_without_what_its_hint_does_not_say() {
    let (sandbox, _) = configured(CONFIG);
    for role in roles() {
        let name = role["name"].as_str().unwrap();
        assert_eq!(sandbox.run(&["role", "show", name]).data_of("role.shown"), role);
    }
    let expected = "name: analyst\npreferredLauncher: tool\npromptLanguage: en\nresponseLanguage: fr\ndelegationHint: Finds things out.\nrecommendedSkills: [\"skill-creator\", \"skill-installer\"]\n";
    assert_eq!(text_of(&sandbox, &["role", "show", "analyst"]), expected);
    assert_eq!(text_of(&sandbox, &["role", "show", "blank"]), "name: blank\nrecommendedSkills: []\n");
    let error = sandbox.run(&["role", "show", "nope"]).error("ROLE_HINT_NOT_FOUND");
    assert_eq!(error["details"], json!({"name": "nope"}));
    sandbox.finish();
}

#[test]
fn the_prompt_has_the_roles_of_the_config() {
    let (sandbox, path) = configured(CONFIG);
    let data = sandbox.run(&["prompt", "render"]).data_of("prompt.rendered");
    assert_shape(&data, &json!({"target": "=manager", "prompt": "str"}));
    let prompt = data["prompt"].as_str().unwrap();
    for part in [
        "Read this quick workflow first",
        "subagent controller init",
        "subagent send --worker-id",
        "--no-wait",
        "--wait-no-progress-timeout-seconds",
        "--text-file",
        "--text-stdin",
        "--include-history",
        "Role hints:",
        "Default role: `analyst`",
        "Fallback launcher: `tool`",
        "promptLanguage=`de`",
        "- `analyst`: preferredLauncher=`tool`, promptLanguage=`en`, responseLanguage=`fr`\n",
        "delegationHint: Finds things out.\n",
        "recommendedSkills: `skill-creator`, `skill-installer`\n",
        "- `writer`: (no overrides)",
    ] {
        assert!(prompt.contains(part), "{part}:\n{prompt}");
    }
    let (analyst, writer) = (prompt.find("- `analyst`").unwrap(), prompt.find("- `writer`").unwrap());
    assert!(analyst < writer);
    assert_eq!(text_of(&sandbox, &["prompt", "render"]), format!("{prompt}\n"));
    fs::remove_file(&path).unwrap();
    let bare = text_of(&sandbox, &["prompt", "render"]);
    assert_eq!(bare.lines().filter(|line| line.contains("none")).count(), 1, "{bare}");
    let error = sandbox.run(&["prompt", "render", "--config", "none.yaml"]).error("CONFIG_PARSE_ERROR");
    assert_eq!(error["details"]["path"], sandbox.file_name("ws/none.yaml"));
    sandbox.finish();
}

/// Returns a prompt's command lines that have arguments.
fn commands(prompt: &str) -> Vec<String> {
    let code = prompt.split('`').skip(1).step_by(2);
    code.filter(|code| code.starts_with("subagent ") && code.contains("--")).map(str::to_owned).collect()
}

#[test]
fn the_prompts_commands_do_the_work() {
    let sandbox = TestSandbox::new();
    let prompt = text_of(&sandbox, &["prompt", "render"]);
    let (_, quick) = prompt.split_once("Read this quick workflow first").unwrap();
    let (quick, rules) = quick.split_once("\n## ").unwrap();
    fs::write(sandbox.file("ws/task.md"), "!ask execute cargo test\n!say done\n").unwrap();
    let (mut worker, mut request, mut event) = (String::new(), String::new(), String::new());
    let mut run = |command: &str| {
        // Everything that a manager fills in.
        let words: Vec<String> = command
            .split_whitespace()
            .skip(1)
            .map(|word| match word {
                "WORKER_ID" => worker.clone(),
                "REQUEST_ID" => request.clone(),
                "EVENT_ID" => event.clone(),
                "NAME" => "demo".to_owned(),
                word => word.to_owned(),
            })
            .collect();
        let data = sandbox.command("subagent").args(&words).run().data();
        let found = |key: &str| data[key].as_str().map(str::to_owned);
        worker = found("workerId").filter(|id| !id.is_empty()).unwrap_or(worker.clone());
        let asked = data["data"]["requestId"].as_str().map(str::to_owned);
        request = found("requestId").or(asked).unwrap_or(request.clone());
        event = found("acceptedEventId").or(found("eventId")).unwrap_or(event.clone());
        data
    };
    let steps = commands(quick);
    let results: Vec<Value> =
        steps.iter().filter(|step| !step.contains(" stop ")).map(|step| run(step)).collect();
    assert_eq!(results[3]["type"], "approval.requested");
    assert_eq!(results[5]["type"], "turn.completed");
    assert!(results[6]["count"].as_u64().unwrap() > 4);
    // The commands in the rules: a refused turn, a canceled one, and read commands.
    let rules = commands(rules);
    let find = |part: &str| rules.iter().find(|rule| rule.contains(part)).unwrap().as_str();
    run(find("--no-wait --json"));
    let asked = run("subagent wait --worker-id WORKER_ID --from-event-id EVENT_ID --json");
    assert_eq!(asked["type"], "approval.requested", "{asked}");
    let asked = asked["data"]["requestId"].as_str().unwrap().to_owned();
    run(&find("--decision deny").replace("REQUEST_ID", &asked));
    run(find("subagent wait --worker-id WORKER_ID --from-event-id"));
    fs::write(sandbox.file("ws/task.md"), "!sleep 60000\n").unwrap();
    run(find("--no-wait --json"));
    assert!(run(find("subagent cancel"))["turnId"].is_string());
    for looks in ["subagent worker list", "subagent launcher list", "subagent launcher probe"] {
        run(find(looks));
    }
    let stopped = run(steps.iter().find(|step| step.contains(" stop ")).unwrap());
    assert_eq!(stopped["state"], "stopped");
    sandbox.finish();
}
