//! `subagent doctor` without a workspace: often a user's first command.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{On, Output, TestSandbox, assert_shape};

/// A folder that is in no workspace.
fn outside(sandbox: &TestSandbox) -> PathBuf {
    sandbox.file("home")
}

#[track_caller]
fn report(output: &Output) -> Value {
    let data = output.document()["data"].clone();
    let finding = json!({"id": "str", "group": "str", "status": "str", "seen": "str", "action": "str?"});
    let counts = json!({"problem": "int", "warning": "int", "fixed": "int", "ok": "int"});
    assert_shape(
        &data,
        &json!({"stateDir": "str?", "healthy": "bool", "counts": counts, "findings": [finding]}),
    );
    assert_eq!(output.status.code(), Some(i32::from(data["healthy"] == false)), "{output}");
    data
}

#[track_caller]
fn doctor(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let data = report(&sandbox.subagent(&[&["doctor"], args].concat()).cwd(outside(sandbox)).run());
    assert_eq!(data["stateDir"], Value::Null);
    data
}

fn of<'a>(report: &'a Value, id: &str) -> Vec<&'a Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).collect()
}

fn seen(finding: &Value) -> &str {
    finding["seen"].as_str().unwrap()
}

#[test]
fn it_says_where_a_workspace_would_be_and_how_it_is_made() {
    let sandbox = TestSandbox::new();
    for args in [&[][..], &["--fix"]] {
        let found = doctor(&sandbox, args);
        assert_eq!(found["healthy"], true, "{found:#}");
        // Concurrent tests stop daemons of their own.
        let other = |finding: &Value| seen(finding).contains("/tmp/sandbox-");
        let mut daemons = of(&found, "processes.daemon").into_iter();
        assert!(daemons.all(|finding| finding["status"] == "ok" || other(finding)), "{found:#}");
        for id in [
            "versions.executables",
            "versions.daemon",
            "permissions.socketDir",
            "config.file",
            "machine.pidfd",
        ] {
            assert!(matches!(of(&found, id).as_slice(), [one] if one["status"] == "ok"), "{id}: {found:#}");
        }
        assert!(of(&found, "disk.stateDir").is_empty() && of(&found, "database.sound").is_empty());
        assert_eq!(fs::read_dir(outside(&sandbox)).unwrap().count(), 0, "something was made");
        assert!(sandbox.processes().is_empty());
    }
    let found = doctor(&sandbox, &[]);
    let reported = of(&found, "config.workspace");
    let [finding] = reported.as_slice() else { panic!("{found:#}") };
    assert_eq!(finding["status"], "warning");
    assert!(seen(finding).contains(outside(&sandbox).to_str().unwrap()), "{finding}");
    let command = finding["action"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    let folder = Path::new(&sandbox.executable("subagent")).parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let made = sandbox.command("sh").args(["-c", &command]).env("PATH", path).cwd(outside(&sandbox)).run();
    assert!(made.status.success(), "{made}");
    let inside = report(&sandbox.subagent(&["doctor"]).cwd(outside(&sandbox)).run());
    assert_eq!(inside["stateDir"], outside(&sandbox).join(".subagent/state").to_str().unwrap());
    assert!(of(&inside, "config.workspace").is_empty(), "{inside:#}");
    let _ = sandbox.subagent(&["daemon", "stop"]).cwd(outside(&sandbox)).run().data_of("daemon.stopped");
    sandbox.finish();
}

#[test]
fn a_person_reads_it_first() {
    let sandbox = TestSandbox::new();
    let screen = sandbox
        .command("subagent")
        .args(["doctor"])
        .cwd(outside(&sandbox))
        .at_terminal(200, On::Both)
        .screen();
    let text = screen.text();
    assert!(text.contains("config.workspace") && text.contains("outside of a workspace"), "{text}");
    sandbox.finish();
}

#[test]
fn daemons_of_other_workspaces_and_the_folder_of_the_sockets_are_looked_at() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let state = sandbox.state_dir().to_str().unwrap().to_owned();
    let here = |report: &Value, id: &str| {
        let found = of(report, id);
        found.into_iter().filter(|finding| seen(finding).contains(&state)).cloned().collect::<Vec<_>>()
    };
    let found = doctor(&sandbox, &[]);
    let reported = here(&found, "processes.daemon");
    assert!(
        matches!(reported.as_slice(), [one] if one["status"] == "ok"
            && seen(one).contains(&format!("(pid {})", daemon.pid))),
        "{found:#}"
    );
    for (process, id) in [(&daemon, "processes.daemon"), (&runtime, "processes.runtimes")] {
        process.signal(Signal::SIGSTOP);
        let found = doctor(&sandbox, &[]);
        let reported = here(&found, id);
        assert!(
            reported.iter().any(|one| one["status"] == "warning"
                && one["action"].as_str().unwrap().contains(&format!("`kill -CONT {}`", process.pid))),
            "{found:#}"
        );
        process.signal(Signal::SIGCONT);
    }
    let sockets = sandbox.file("run/subagent");
    fs::set_permissions(&sockets, Permissions::from_mode(0o755)).unwrap();
    let found = doctor(&sandbox, &[]);
    assert!(of(&found, "permissions.socketDir").iter().any(|one| one["status"] == "problem"), "{found:#}");
    let found = doctor(&sandbox, &["--fix"]);
    assert!(of(&found, "permissions.socketDir").iter().any(|one| one["status"] == "fixed"), "{found:#}");
    assert_eq!(fs::metadata(&sockets).unwrap().permissions().mode() & 0o777, 0o700);
    sandbox.finish();
}

#[test]
fn a_command_without_the_other_executables_is_a_problem() {
    let sandbox = TestSandbox::new();
    let alone = sandbox.file_name("subagent");
    let done = sandbox.command("cp").args([&sandbox.executable("subagent"), &alone]).run();
    assert!(done.status.success(), "{done}");
    let found = report(&sandbox.command(&alone).args(["doctor", "--json"]).cwd(outside(&sandbox)).run());
    let reported = of(&found, "versions.executables");
    assert!(
        matches!(reported.as_slice(), [one] if one["status"] == "problem" && seen(one).contains("subagentd")),
        "{found:#}"
    );
    sandbox.finish();
}
