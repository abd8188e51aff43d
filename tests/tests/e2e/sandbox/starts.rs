//! Starts of workers in sandboxes: names, parameters, and refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox};

use super::world::{Confinement, has_layers, without_bubblewrap, world};

#[test]
fn a_sandbox_is_named_in_config_launcher_definition_or_command() {
    if !has_layers() {
        return;
    }
    let mut sandbox = world(Confinement::Both);
    let agent =
        sandbox.demo_agent(&[]).key("sandbox", json!({"write": ["allowed", "../sessions", "../pids"]}));
    sandbox.launcher("boxed", agent);
    let file = sandbox.config_file();
    let text = fs::read_to_string(&file).unwrap();
    let profile = "sandboxes:\n  tight:\n    filesystem: shared_ro\n    network: none\n    write: [../sessions, ../pids]\n";
    fs::write(&file, format!("{profile}{text}")).unwrap();
    fs::create_dir_all(sandbox.file("ws/.agents/agents")).unwrap();
    fs::write(
        sandbox.file("ws/.agents/agents/reader.md"),
        "---\ndescription: d\nlauncher: boxed\nfilesystem: shared_ro\nsandbox: {network: none}\n---\nRead.\n",
    )
    .unwrap();
    sandbox.init();
    let started = |args: &[&str]| {
        let data = sandbox.run(&[&["worker", "start"], args].concat()).data_of("worker.started");
        let _ = sandbox.send(data["workerId"].as_str().unwrap(), "hello");
        let _ = sandbox.run(&["worker", "stop", data["workerId"].as_str().unwrap()]);
        data["sandbox"].clone()
    };
    assert_eq!(started(&["--launcher", "demo"]), Value::Null);
    let boxed = started(&["--launcher", "boxed"]);
    assert_eq!((&boxed["filesystem"], &boxed["network"]), (&json!("shared_rw"), &json!("all")), "{boxed}");
    assert!(boxed["write"].as_array().unwrap().contains(&json!(sandbox.file("ws"))), "{boxed}");
    assert!(boxed["layers"]["landlock"].as_u64() == Some(6) && boxed["layers"]["bubblewrap"].is_string());
    let tight = started(&["--launcher", "demo", "--sandbox", "tight"]);
    assert_eq!((&tight["name"], &tight["network"]), (&json!("tight"), &json!("none")), "{tight}");
    let reader = started(&["--agent", "reader"]);
    assert_eq!(
        (&reader["filesystem"], &reader["network"]),
        (&json!("shared_ro"), &json!("none")),
        "{reader}"
    );
    assert!(!reader["write"].as_array().unwrap().contains(&json!(sandbox.file("ws"))), "{reader}");
    assert_eq!(started(&["--launcher", "boxed", "--sandbox", "none"]), Value::Null);
    let error = sandbox.run(&["worker", "start", "--sandbox", "loose"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["available"], json!(["tight", "shared_rw", "isolated", "shared_ro", "none"]));
    sandbox.finish();
}

/// Adds a launcher of an agent whose own folder is known: the scripted agent, which first tries to
/// write the workspace.
fn known_agent(sandbox: &mut TestSandbox) {
    let program = sandbox.file("programs/gemini");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let own = sandbox.file_name("home/.gemini");
    let script = format!(
        "#!/bin/sh\n: > \"$HOME/.gemini/started\"\n(: > {}) 2>/dev/null\nexec {} demo-agent --state {own}/sessions\n",
        sandbox.file_name("ws/made"),
        sandbox.executable("subagent"),
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(&own).unwrap();
    sandbox.launcher("known", TestLauncher::new(program.to_str().unwrap(), Vec::<String>::new()));
}

#[test]
fn explore_and_plan_cannot_write_the_workspace_where_the_machine_can_prevent_it() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        known_agent(&mut sandbox);
        sandbox.init();
        let explore = ["worker", "start", "--launcher", "known", "--agent", "explore"];
        let worker = sandbox.run(&explore).data_of("worker.started");
        let spec = &worker["sandbox"];
        assert_eq!(
            (&spec["filesystem"], &worker["noSandbox"]),
            (&json!("shared_ro"), &Value::Null),
            "{worker}"
        );
        let write = spec["write"].as_array().unwrap();
        assert!(write.contains(&json!(sandbox.file("home/.gemini"))), "{spec}");
        assert!(write.contains(&json!(sandbox.file("tmp"))) && !write.contains(&json!(sandbox.file("ws"))));
        let _ = sandbox.send(worker["workerId"].as_str().unwrap(), "hello");
        let run = ["task", "run", "--agent", "plan", "--launcher", "known", "--text", "hello"];
        let task = sandbox.run(&run).document()["data"]["taskId"].as_str().unwrap().to_owned();
        assert_eq!(sandbox.show(&task)["sandbox"]["filesystem"], "shared_ro");
        assert!(sandbox.file("home/.gemini/started").exists() && !sandbox.file("ws/made").exists());
        let free = sandbox.run(&[&explore[..], &["--sandbox", "none"]].concat()).data_of("worker.started");
        assert_eq!((&free["sandbox"], &free["noSandbox"]), (&Value::Null, &Value::Null), "{free}");
        assert!(sandbox.file("ws/made").exists());
        let delegates = sandbox.run(&[&explore[..], &["--delegate"]].concat()).data_of("worker.started");
        assert!(delegates["noSandbox"].as_str().unwrap().contains("tasks"), "{delegates}");
        sandbox.finish();
    }
}

#[test]
fn explore_runs_without_a_sandbox_where_none_can_be_enforced_and_says_so() {
    let mut sandbox = TestSandbox::new();
    without_bubblewrap(&mut sandbox);
    sandbox.set_env("SUBAGENT_SABOTAGE", "sandbox.no_landlock");
    known_agent(&mut sandbox);
    sandbox.init();
    for (launcher, why) in [("known", "neither Landlock"), ("demo", "folders that this agent must write")] {
        let explore = ["worker", "start", "--launcher", launcher, "--agent", "explore"];
        let worker = sandbox.run(&explore).data_of("worker.started");
        let _ = sandbox.send(worker["workerId"].as_str().unwrap(), "hello");
        let shown = sandbox.show(worker["workerId"].as_str().unwrap());
        assert_eq!(shown["sandbox"], Value::Null, "{shown}");
        assert!(shown["noSandbox"].as_str().unwrap().contains(why), "{shown}");
    }
    let doctor = sandbox.run(&["doctor"]).document();
    assert!(doctor.to_string().contains("`explore` and `plan` run without one"), "{doctor}");
    sandbox.finish();
}

#[test]
fn what_cannot_be_enforced_is_not_started() {
    let mut sandbox = TestSandbox::new();
    without_bubblewrap(&mut sandbox);
    sandbox.set_env("SUBAGENT_SABOTAGE", "sandbox.no_landlock");
    let hosts = sandbox.demo_agent(&[]).key("sandbox", json!({"network": ["api.example.com:443"]}));
    sandbox.launcher("hosts", hosts);
    sandbox.init();
    let refused = |args: &[&str]| {
        let args = [&["worker", "start"], args].concat();
        sandbox.run(&args).error("SANDBOX_UNAVAILABLE")["details"]["missing"].clone()
    };
    for name in ["shared_ro", "shared_rw"] {
        assert_eq!(refused(&["--sandbox", name]), "bubblewrap");
    }
    assert_eq!(refused(&["--sandbox", "isolated"]), "bubblewrap");
    assert_eq!(refused(&["--launcher", "hosts"]), "bubblewrap");
    assert_eq!(refused(&["--sandbox", "shared_ro", "--delegate"]), "delegation");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(listed["count"], 0, "nothing may remain of a refused start: {listed}");
    sandbox.finish();
}

#[test]
fn what_landlock_alone_cannot_enforce_is_not_started() {
    if !has_layers() {
        return;
    }
    let mut sandbox = world(Confinement::Landlock);
    let loopback =
        sandbox.demo_agent(&[]).key("sandbox", json!({"filesystem": "shared_ro", "network": "loopback"}));
    sandbox.launcher("loopback", loopback);
    let hosts = sandbox.demo_agent(&[]).key("sandbox", json!({"network": ["api.example.com:443"]}));
    sandbox.launcher("hosts", hosts);
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "loopback"]).error("SANDBOX_UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("network namespace"), "{error}");
    let error = sandbox.run(&["worker", "start", "--launcher", "hosts"]).error("SANDBOX_UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("hosts and ports"), "{error}");
    // The state directory is in the workspace, so a rule for the workspace would cover it.
    let error = sandbox.run(&["worker", "start", "--sandbox", "shared_rw"]).error("SANDBOX_UNAVAILABLE");
    assert_eq!(error["details"]["hidden"], json!(sandbox.state_dir()), "{error}");
    sandbox.finish();
}

#[test]
fn a_confined_agent_ends_as_any_other_does() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        let agent = sandbox
            .test_agent("sdk-agent", &[])
            .key("sandbox", json!({"filesystem": "shared_ro", "write": ["allowed"]}));
        sandbox.launcher("sdk", agent);
        sandbox.init();
        let worker = sandbox.start("sdk");
        let _ = sandbox.send(&worker, "leave trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000");
        let guard = sandbox.guard(&sandbox.runtime(&worker));
        assert!(guard.children().len() == 1, "{:?}", guard.children());
        // Its guard dies: the runtime ends everything, including processes in their own namespaces.
        sandbox.kill(&guard);
        let _ = sandbox.send(&worker, "leave true");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        sandbox.finish();
    }
}

#[test]
fn a_sandbox_costs_little() {
    if !has_layers() {
        return;
    }
    let mut sandbox = world(Confinement::Both);
    let boxed = sandbox
        .test_agent("fast-agent", &[])
        .key("sandbox", json!({"filesystem": "shared_ro", "write": ["allowed"]}));
    let plain = sandbox.test_agent("fast-agent", &[]);
    sandbox.launcher("boxed", boxed);
    sandbox.launcher("plain", plain);
    sandbox.init();
    let fastest = |launcher: &str| {
        let times = (0..7).map(|_| {
            let begun = Instant::now();
            let worker = sandbox.start(launcher);
            let time = begun.elapsed();
            let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
            time
        });
        times.min().unwrap()
    };
    let (plain, boxed) = (fastest("plain"), fastest("boxed"));
    // The target is 60 ms, measured alone; here other tests run at the same time.
    assert!(boxed < plain + Duration::from_millis(250), "{plain:?} {boxed:?}");
    sandbox.finish();
}
