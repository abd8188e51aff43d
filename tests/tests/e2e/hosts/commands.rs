//! Commands with `--host`: each does there what it does here.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{On, Running, SshHost, TestSandbox, executables, wait_until};

use super::far_client::{at_lap, away, host};
use crate::docs::session;

const DEADLINE: Duration = Duration::from_secs(60);

/// Starts a worker in the workspace.
fn worker(sandbox: &TestSandbox) -> String {
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--name", "one"]);
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

/// Follows the worker from there.
fn watching(sandbox: &TestSandbox) -> Running {
    let watch = ["--host", "lap", "watch", "one", "--follow", "--ndjson"];
    sandbox.command("subagent").args(watch).cwd(sandbox.file("away")).spawn()
}

#[test]
fn a_worker_there_is_used_from_here() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let id = worker(&sandbox);
    let far = |args: &[&str]| at_lap(&sandbox, args).run();
    assert_eq!(far(&["ls"]).data_of("workers.overview")["items"][0]["workerId"], json!(id));
    assert_eq!(far(&["daemon", "status"]).data_of("daemon.shown")["running"], true);
    let text = sandbox.file("away/task.md");
    fs::write(&text, "!shell echo from-a-file > made.txt").unwrap();
    // A file of this side is read here.
    let sent = far(&["send", "one", "--text-file", "task.md"]).data_of("turn.waited");
    assert_eq!(sent["state"], "idle", "{sent}");
    assert_eq!(fs::read_to_string(sandbox.workspace().join("made.txt")).unwrap(), "from-a-file\n");
    let _ = far(&["send", "one", "--no-wait", "!ask edit notes.md\n!say done"]).data_of("turn.accepted");
    let asked = far(&["wait", "one"]).document();
    let inbox = far(&["approval", "list"]).data_of("inbox.listed");
    assert_eq!(inbox["items"][0]["subject"], "notes.md", "{inbox} {asked}");
    let _ = far(&["approve", "one"]).data_of("approval.decided");
    let _ = far(&["wait", "one"]).data();
    assert_eq!(far(&["show", "one"]).data()["name"], "one");
    assert_eq!(far(&["diff", "one"]).data_of("worker.diff")["workerId"], json!(id));
    let _ = far(&["logs", "one"]).data_of("worker.logs");
    // A stream, and a wait that another command ends.
    let watching = watching(&sandbox);
    watching.wait_line("the start", |line| line.contains("worker.started").then_some(()));
    let _ = far(&["stop", "one"]).data();
    let watched = watching.output();
    assert!(watched.status.success() && watched.stdout.contains("worker.stopped"), "{watched}");
    sandbox.finish();
}

#[test]
fn a_command_connects_once_for_each_conversation() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    let text = format!("{}\n!say done", sandbox.gate("task").directive());
    let run = ["task", "run", "--background", "--launcher", "demo", "--name", "slow", "--text", &text];
    let _ = sandbox.run(&run).data_of("task.spawned");
    let log = sandbox.file("connections");
    host.profile(&format!("echo one >> {}\n", log.display()));
    let count = || fs::read_to_string(&log).map_or(0, |log| log.lines().count());
    let waiting = at_lap(&sandbox, &["task", "wait", "slow"]).spawn();
    // One for the end of the task, one for its questions.
    wait_until("its connections", DEADLINE, || (count() >= 2).then_some(()));
    sandbox.gate("task").open();
    assert_eq!(waiting.output().data_of("task.waited")["status"], "completed");
    assert_eq!(count(), 2);
    let _ = at_lap(&sandbox, &["task", "show", "slow"]).run().data_of("task.shown");
    assert_eq!(count(), 3);
    sandbox.finish();
}

#[test]
fn the_commands_of_the_page_work() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let _ = sandbox.run(&["worker", "start", "--launcher", "demo", "--name", "reviewer"]).data();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/fleet.md");
    let typed = session(&fs::read_to_string(page).unwrap());
    assert!(typed.contains("--host lap") && typed.contains("--all-hosts"), "{typed}");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    let command = sandbox.command("bash").args(["-euxo", "pipefail", "-c", &typed]).env("PATH", path);
    let output = command.cwd(sandbox.file("away")).run();
    assert!(output.status.success(), "{output}");
    assert!(output.stdout.contains("lap/reviewer"), "{output}");
    let _ = sandbox.run(&["worker", "stop", "reviewer"]).data();
    sandbox.finish();
}

#[test]
fn the_variable_counts_as_the_flag_which_overrides_it() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let id = worker(&sandbox);
    let by_variable = away(&sandbox, &["ls"]).env("SUBAGENT_HOST", "lap").run();
    assert_eq!(by_variable.data_of("workers.overview")["items"][0]["workerId"], json!(id));
    let here = sandbox.subagent(&["ls", "--host", "local"]).env("SUBAGENT_HOST", "nowhere").run();
    assert_eq!(here.data_of("workers.overview")["count"], 1);
    let unknown = at_lap(&sandbox, &["ls", "--host", "nowhere"]).env("SUBAGENT_HOST", "lap").run();
    let error = unknown.error("HOST_NOT_FOUND");
    assert_eq!(error["details"]["available"], json!(["lap"]), "{error}");
    // Commands about this machine ignore the variable.
    let _ = away(&sandbox, &["launcher", "list"]).env("SUBAGENT_HOST", "nowhere").run().data();
    let config = sandbox.file("home/.config/subagent/config.yaml");
    let with_config = ["cancel", "one", "--config", config.to_str().unwrap()];
    let error = at_lap(&sandbox, &with_config).run().error("HOST_UNSUPPORTED");
    assert_eq!(error["details"]["host"], "lap", "{error}");
    let panel = sandbox.command("subagent").args(["panel", "--host", "lap"]).run();
    assert!(!panel.status.success() && panel.stderr.contains("subagent panel --all-hosts"), "{panel}");
    let _ = sandbox.run(&["worker", "stop", &id]).data();
    sandbox.finish();
}

#[test]
fn an_unused_workspace_there_stays_unused_until_it_is_used() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    let folder = host.home().join("app");
    fs::create_dir_all(&folder).unwrap();
    let mut entry = host.entry(&sandbox);
    entry["cwd"] = json!("~/app");
    SshHost::offer(&sandbox, &json!({"lap": entry}));
    assert_eq!(at_lap(&sandbox, &["ls"]).run().data_of("workers.overview")["count"], 0);
    assert!(!folder.join(".subagent").exists());
    assert_eq!(at_lap(&sandbox, &["daemon", "status"]).run().data_of("daemon.shown")["running"], false);
    // `--cwd` is a folder there.
    let other = at_lap(&sandbox, &["ls", "--cwd", "~/nothing"]).run();
    let error = other.error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["host"], "lap", "{error}");
    let workspace = sandbox.workspace();
    sandbox.init();
    let id = worker(&sandbox);
    let listed = at_lap(&sandbox, &["ls", "--cwd", workspace.to_str().unwrap()]).run();
    assert_eq!(listed.data_of("workers.overview")["items"][0]["workerId"], json!(id));
    let _ = sandbox.run(&["worker", "stop", &id]).data();
    sandbox.finish();
}

#[test]
fn a_stream_goes_on_after_its_connection_and_the_daemon_died() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    let id = worker(&sandbox);
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&id, &format!("!say begun\n{}\n!say finished", gate.directive()));
    let watching = watching(&sandbox);
    watching.wait_line("the beginning", |line| line.contains("begun").then_some(()));
    host.cut();
    sandbox.kill_daemon();
    let _ = sandbox.run(&["ls"]).data();
    gate.open();
    watching.wait_line("the end", |line| line.contains("finished").then_some(()));
    let _ = sandbox.run(&["worker", "stop", &id]).data();
    let ended = watching.output();
    assert!(ended.status.success(), "{ended}");
    assert_eq!(ended.stdout.matches("\"text\": \"begun\"").count(), 1, "{ended}");
    sandbox.finish();
}

#[test]
fn dial_daemon_passes_bytes_and_ends_with_its_input() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let mut dialed = std::process::Command::new(sandbox.executable("subagent"))
        .arg("dial-daemon")
        .env("TEST_SANDBOX_ID", sandbox.path().file_name().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({"cwd": sandbox.workspace(), "policy": "running"});
    let mut input = dialed.stdin.take().unwrap();
    writeln!(input, "{{\"policy\": \"unheard\"}}").unwrap();
    writeln!(input, "{request}").unwrap();
    write!(input, "GET /v1/daemon HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let said = dialed.wait_with_output().unwrap();
    assert!(said.status.success());
    let text = String::from_utf8(said.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("subagent-dial-daemon"), "{text}");
    assert!(lines[1].contains("DAEMON_TOO_OLD"), "{text}");
    assert!(lines[2].contains("\"daemon\""), "{text}");
    assert!(text.contains("200 OK") && text.contains("daemon.shown"), "{text}");
    drop(input);
    sandbox.finish();
}

#[test]
fn what_follows_is_for_the_same_host_and_needs_no_file_of_this_machine() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let id = worker(&sandbox);
    let asked = sandbox.send(&id, "!ask edit notes.md\n!say done");
    assert!(asked["requestId"].is_string(), "{asked}");
    let ls = sandbox.command("subagent").args(["--host", "lap", "ls"]).cwd(sandbox.file("away"));
    let seen = ls.at_terminal(120, On::Both).screen().bytes;
    assert!(seen.contains("subagent --host lap approve"), "{seen}");
    let _ = sandbox.approve(&id, &asked["requestId"], "allow").data_of("approval.decided");
    fs::write(sandbox.file("away/report.pdf"), b"%PDF-1.7 \0").unwrap();
    let send = ["send", &id, "look", "--attach", "report.pdf"];
    let error = at_lap(&sandbox, &send).run().error("HOST_UNSUPPORTED");
    assert!(error["message"].as_str().unwrap().contains("report.pdf"), "{error}");
    let _ = sandbox.run(&["worker", "stop", &id]).data();
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_looked_at_is_not_started() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let status = || at_lap(&sandbox, &["daemon", "status"]).run().data_of("daemon.shown");
    assert_eq!(status()["running"], true);
    let stop = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert!(stop.status.success(), "{stop}");
    assert_eq!(status()["running"], false);
    let listed = at_lap(&sandbox, &["ls"]).env("SUBAGENT_NO_AUTOSTART", "1").run();
    listed.error("DAEMON_NOT_RUNNING");
    assert_eq!(status()["running"], false);
    let _ = at_lap(&sandbox, &["ls"]).run().data_of("workers.overview");
    assert_eq!(status()["running"], true);
    sandbox.finish();
}

#[test]
fn an_agent_cannot_use_other_hosts() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let id = worker(&sandbox);
    let program = sandbox.executable("subagent");
    for words in ["--host lap ls", "ls --all-hosts"] {
        let said = sandbox.send(&id, &format!("!shell {program} {words} --json; true"));
        assert!(said.to_string().contains("FORBIDDEN_FROM_WORKER"), "{words}: {said}");
    }
    // Below a worker, the other end is a process of that worker for the daemon.
    let request = json!({"cwd": sandbox.workspace(), "policy": "running"});
    let stop = format!(
        "POST /v1/workers/{id}/stop HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
    );
    let script = format!("(printf '%s\\n' '{request}'; printf '{stop}'; sleep 1) | {program} dial-daemon");
    let said = sandbox.send(&id, &format!("!shell {script}; true"));
    assert!(said.to_string().contains("FORBIDDEN_FROM_WORKER"), "{said}");
    let _ = sandbox.run(&["worker", "stop", &id]).data();
    sandbox.finish();
}

#[test]
fn a_shared_connection_and_a_printing_login_shell_change_nothing() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    host.share_connections();
    host.profile("echo 'Welcome!'; printf 'no line end'\n");
    sandbox.init();
    let id = worker(&sandbox);
    for _ in 0..2 {
        let listed = at_lap(&sandbox, &["ls"]).run().data_of("workers.overview");
        assert_eq!(listed["items"][0]["workerId"], json!(id));
    }
    let _ = at_lap(&sandbox, &["stop", "one"]).run().data();
    wait_until("the end of the shared connection", DEADLINE, || {
        host.shared_connections().is_empty().then_some(())
    });
    sandbox.finish();
}
