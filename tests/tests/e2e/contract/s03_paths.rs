//! Paths: the config file, the workspace, the state directory and its content.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use subagent_tests::harness::{Command, TestSandbox, assert_shape};

/// Writes a file and creates its folders.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns `subagent ARGS --json` in this folder of the sandbox.
fn within(sandbox: &TestSandbox, folder: &str, args: &[&str]) -> Command {
    sandbox.subagent(args).cwd(sandbox.file(folder))
}

/// Returns the state directory that a command in this folder finds.
#[track_caller]
fn state_dir(sandbox: &TestSandbox, folder: &str) -> Value {
    let output = sandbox.command("subagentd").args(["status", "--json"]).cwd(sandbox.file(folder)).run();
    output.document()["stateDir"].clone()
}

#[track_caller]
fn stop(sandbox: &TestSandbox, folder: &str) {
    let stopped = sandbox.command("subagentd").args(["stop", "--workers"]).cwd(sandbox.file(folder)).run();
    assert!(stopped.status.success(), "{stopped}");
}

#[test]
fn an_empty_path_is_none() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let key = sandbox.workspace().canonicalize().unwrap();
    let run = |args: &[&str]| sandbox.run(args);
    assert_eq!(run(&["controller", "status", "--cwd", ""]).data()["workspaceKey"], key.to_str().unwrap());
    assert_eq!(run(&["controller", "recover", "--cwd", ""]).data()["workspaceFilter"], Value::Null);
    let config = json!(sandbox.config_file());
    assert_eq!(run(&["launcher", "list", "--config", ""]).data()["configPath"], config);
    let started = sandbox.subagent(&["worker", "start", "--cwd", "", "--config", "", "--input", ""]).run();
    assert_eq!(started.data_of("worker.started")["cwd"], json!(key));
    let ready = run(&["worker", "handoff", "--worker-id", &worker, "--handoffs-dir", "", "--cwd", ""]);
    let ready = ready.data_of("worker.handoff.ready");
    let file = Path::new(ready["handoffPath"].as_str().unwrap()).to_owned();
    assert!(file.starts_with(sandbox.state_dir()), "{ready}");
    let go_on =
        ["worker", "continue", "--from-worker", &worker, "--from-handoff", "", "--cwd", "", "--debug-mode"];
    let continued = sandbox.subagent(&go_on).args(["--handoffs-dir", ""]).run().data_of("worker.continued");
    assert_eq!(continued["sourceHandoffPath"], json!(file));
    run(&["worker", "continue", "--from-handoff", ""]).error("INVALID_ARGUMENT");
    let sent = run(&["send", "--worker-id", &worker, "--text", "x", "--text-file", "", "--input", ""]);
    sent.data_of("turn.waited");
    let user = run(&["config", "init", "--path", "", "--cwd", ""]).data_of("config.initialized");
    assert_eq!(user["path"], sandbox.file_name("home/.config/subagent/config.yaml"));
    // A command without a config ignores errors in a file that was not named.
    fs::write(sandbox.config_file(), "launchers: 7").unwrap();
    let worker = worker.as_str();
    for (args, code) in [
        (&["cancel", "--worker-id", worker][..], "WORKER_NOT_RUNNING"),
        (
            &["approve", "--worker-id", worker, "--request", "ap_0123456789", "--decision", "no"],
            "APPROVAL_NOT_FOUND",
        ),
    ] {
        sandbox.subagent(args).args(["--config", ""]).run().error(code);
    }
    // Without a marker, an empty folder counts as none.
    let none = within(&sandbox, "tmp", &["worker", "list", "--cwd", ""]).run();
    none.error("WORKSPACE_ROOT_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn the_config_is_the_flags_then_the_variables_then_the_projects_then_the_users() {
    let sandbox = TestSandbox::new();
    for place in
        ["flag.yaml", "home/variable.yaml", "home/.config/subagent/config.yaml", "p/.subagent/config.yaml"]
    {
        write(&sandbox.file(place), "");
    }
    fs::create_dir_all(sandbox.file("p/sub/deep")).unwrap();
    let list = |folder: &str| within(&sandbox, folder, &["launcher", "list"]);
    for (command, path) in [
        (list("p").args(["--config", "../flag.yaml"]).env("SUBAGENT_CONFIG", "~/variable.yaml"), "flag.yaml"),
        (list("p").env("SUBAGENT_CONFIG", "~/variable.yaml"), "home/variable.yaml"),
        (list("p").env("SUBAGENT_CONFIG", "../home/variable.yaml"), "home/variable.yaml"),
        (list("p/sub/deep").env("SUBAGENT_CONFIG", ""), "p/.subagent/config.yaml"),
        (list("tmp"), "home/.config/subagent/config.yaml"),
    ] {
        let data = command.run().data_of("launcher.listed");
        let expected =
            json!({"items": [], "count": 0, "configPath": sandbox.file_name(path), "configLoaded": true});
        assert_eq!(data, expected);
    }
    sandbox.finish();
}

#[test]
fn no_config_is_an_empty_one_but_one_that_was_named_must_exist() {
    let sandbox = TestSandbox::new();
    let list = || within(&sandbox, "tmp", &["launcher", "list"]);
    let user = sandbox.file_name("home/.config/subagent/config.yaml");
    let expected = json!({"items": [], "count": 0, "configPath": user, "configLoaded": false});
    assert_eq!(list().run().data_of("launcher.listed"), expected);
    let path = sandbox.file_name("tmp/none.yaml");
    for (command, who) in [
        (list().args(["--config", "none.yaml"]), "--config"),
        (list().env("SUBAGENT_CONFIG", "none.yaml"), "SUBAGENT_CONFIG"),
    ] {
        let error = command.run().error("CONFIG_PARSE_ERROR");
        assert_shape(&error["details"], &json!({"path": format!("={path}"), "error": "str"}));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(who) && message.contains("does not exist"), "{message}");
    }
    sandbox.finish();
}

#[test]
fn the_config_is_searched_from_cwd_where_it_is_given() {
    let sandbox = TestSandbox::new();
    let other = sandbox.file_name("other");
    write(&sandbox.file("other/.subagent/config.yaml"), "launchers: {theirs: {command: /nonexistent}}");
    sandbox.run(&["controller", "init", "--cwd", &other]).data_of("controller.initialized");
    let start = |cwd: &str| sandbox.run(&["worker", "start", "--cwd", cwd, "--launcher", "theirs"]);
    assert_eq!(start(&other).error("BACKEND_LAUNCHER")["details"]["command"], "/nonexistent");
    sandbox.init();
    start(".").error("LAUNCHER_NOT_FOUND");
    stop(&sandbox, "other");
    sandbox.finish();
}

#[test]
fn each_marker_makes_a_workspace_for_the_folders_below() {
    let sandbox = TestSandbox::new();
    for (name, marker) in [
        ("a", ".subagent/config.yaml"),
        ("b", ".subagent/controller.json"),
        ("c", ".git/HEAD"),
        ("d", ".git"),
    ] {
        write(&sandbox.file(name).join(marker), "");
        fs::create_dir_all(sandbox.file(name).join("sub/deep")).unwrap();
        for folder in ["", "/sub", "/sub/deep"] {
            let found = state_dir(&sandbox, &format!("{name}{folder}"));
            assert_eq!(found, sandbox.file_name(&format!("{name}/.subagent/state")), "{marker}");
        }
    }
    // The nearest of our markers; a repository inside a workspace is not a separate one.
    write(&sandbox.file("a/sub/.git/HEAD"), "");
    assert_eq!(state_dir(&sandbox, "a/sub/deep"), sandbox.file_name("a/.subagent/state"));
    write(&sandbox.file("c/sub/.subagent/config.yaml"), "");
    assert_eq!(state_dir(&sandbox, "c/sub/deep"), sandbox.file_name("c/sub/.subagent/state"));
    symlink(sandbox.file("a/sub"), sandbox.file("link")).unwrap();
    assert_eq!(state_dir(&sandbox, "link"), sandbox.file_name("a/.subagent/state"));
    sandbox.finish();
}

#[test]
fn without_a_marker_a_command_fails_unless_the_folder_is_typed() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.file("bare")).unwrap();
    for args in [
        &["controller", "init"][..],
        &["controller", "status"],
        &["worker", "start"],
        &["worker", "list"],
        &["worker", "show", "w_0123456789"],
        &["send", "--worker-id", "w_0123456789", "--text", "x"],
        &["wait", "--worker-id", "w_0123456789"],
        &["watch", "--worker-id", "w_0123456789"],
    ] {
        let error = within(&sandbox, "bare", args).run().error("WORKSPACE_ROOT_NOT_FOUND");
        assert_eq!(error["details"], json!({"cwd": sandbox.file_name("bare")}), "{args:?}");
    }
    let data = within(&sandbox, "bare", &["controller", "init", "--cwd", "."]).run();
    let data = data.data_of("controller.initialized");
    assert_eq!(data["workspaceKey"], sandbox.file_name("bare"));
    assert!(sandbox.file("bare/.subagent/state/state.db").is_file());
    stop(&sandbox, "bare");
    sandbox.finish();
}

#[test]
fn a_folder_below_belongs_to_the_workspace_whether_it_is_typed_or_not() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.file("ws/sub/deep")).unwrap();
    let first = sandbox.init();
    assert_eq!(first["workspaceKey"], sandbox.file_name("ws"));
    for (folder, args) in [
        ("ws/sub", &["controller", "status"][..]),
        ("ws/sub", &["controller", "status", "--cwd", "."]),
        ("tmp", &["controller", "status", "--cwd", "../ws/sub/deep"]),
    ] {
        let data = within(&sandbox, folder, args).run().data_of("controller.status");
        assert_eq!(
            (&data["controllerId"], &data["workspaceKey"]),
            (&first["controllerId"], &first["workspaceKey"])
        );
    }
    assert!(!sandbox.file("ws/sub/.subagent").exists(), "no second state tree");
    sandbox.finish();
}

#[test]
fn the_state_dir_variable_beats_cwd_and_empty_is_unset() {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file("moved/state");
    sandbox.set_state_dir(&state);
    fs::create_dir(sandbox.file("bare")).unwrap();
    let error =
        sandbox.run(&["worker", "show", "w_0123456789", "--cwd", "../bare"]).error("WORKER_NOT_FOUND");
    assert_eq!(error["details"]["stateDbPath"], state.join("state.db").to_str().unwrap(), "{error}");
    // It also makes a folder without any marker acceptable.
    let listed = within(&sandbox, "bare", &["worker", "list"]).run().data_of("worker.listed");
    assert_eq!(listed["count"], 0);
    let empty = within(&sandbox, "bare", &["worker", "list"]).env("SUBAGENT_STATE_DIR", "").run();
    empty.error("WORKSPACE_ROOT_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_cwd_that_is_no_folder_is_refused() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.file("ws/file"), "").unwrap();
    for cwd in ["none", "file"] {
        for args in [
            &["controller", "init"][..],
            &["controller", "status"],
            &["worker", "start"],
            &["worker", "list"],
            &["config", "init", "--scope", "project"],
            &["send", "--worker-id", "w", "--text", "x"],
        ] {
            let error = sandbox.subagent(args).args(["--cwd", cwd]).run().error("INVALID_ARGUMENT");
            assert_eq!(error["details"]["cwd"], sandbox.file_name(&format!("ws/{cwd}")), "{args:?}");
        }
    }
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn the_state_dir_has_the_contracts_files() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!stderr a complaint\nx");
    assert!(sandbox.state_dir().join("state.db").is_file());
    let log = fs::read_to_string(sandbox.state_dir().join(format!("runtimes/{worker}.log"))).unwrap();
    assert!(log.contains("a complaint"), "{log}");
    sandbox.finish();
}

#[test]
fn the_hint_is_pretty_and_another_file_is_no_hint() {
    let sandbox = TestSandbox::new();
    let data = sandbox.init();
    let id = data["controllerId"].as_str().unwrap();
    let hint = sandbox.file("ws/.subagent/controller.json");
    assert_eq!(data["hintPath"], hint.to_str().unwrap());
    let text = fs::read_to_string(&hint).unwrap();
    let workspace = sandbox.file_name("ws");
    let expected = format!(
        "{{\n  \"schemaVersion\": \"v1\",\n  \"controllerId\": \"{id}\",\n  \"label\": \"default-manager\",\n  \"workspaceKey\": \"{workspace}\"\n}}"
    );
    assert_eq!(text.trim_end(), expected);
    for content in [&b""[..], b"{", b"[]", b"\"x\"", b"{}", b"{\"controllerId\": 7}", b"\xff\xfe", b"\0"] {
        fs::write(&hint, content).unwrap();
        let status = sandbox.run(&["controller", "status"]).data_of("controller.status");
        assert_eq!(status["controllerId"], id);
    }
    fs::remove_file(&hint).unwrap();
    fs::create_dir(&hint).unwrap();
    assert_eq!(sandbox.run(&["controller", "status"]).data()["controllerId"], id);
    sandbox.finish();
}
