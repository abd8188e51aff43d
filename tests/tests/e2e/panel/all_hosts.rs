//! The panel of all hosts: their workers beside those of this machine, and hosts that do not answer.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Command, SshHost, TestSandbox};
use subagent_tests::invariants::Recorder;

use super::doors::from_below;
use super::{Panel, error};
use crate::hosts::host;

/// Offers the host with a workspace that is not that of the sandbox, and starts a worker there that has
/// the same name as one here. Returns its id.
fn other_workspace(sandbox: &TestSandbox, host: &SshHost, more: Value) -> String {
    fs::create_dir_all(sandbox.file("other/.git")).unwrap();
    let mut entry = host.entry(sandbox);
    entry["cwd"] = json!(sandbox.file("other"));
    let mut hosts = more;
    hosts["lap"] = entry;
    SshHost::offer(sandbox, &hosts);
    let _ = there(sandbox, &["controller", "init"]).run().data_of("controller.initialized");
    let config = sandbox.config_file();
    let flags = ["--name", "same", "--config", config.to_str().unwrap()];
    let words = [&["worker", "start", "demo"][..], &flags].concat();
    let started = there(sandbox, &words).run().data_of("worker.started");
    started["workerId"].as_str().unwrap().to_owned()
}

/// A command in the workspace of the host, on its machine.
fn there(sandbox: &TestSandbox, args: &[&str]) -> Command {
    // Its workers are not those of the sandbox's own state dir.
    sandbox.subagent(args).cwd(sandbox.file("other")).recorded_by(&Recorder::default())
}

#[test]
fn a_page_shows_and_answers_workers_of_hosts_beside_one_that_does_not_answer() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = host(&sandbox) else { return };
    sandbox.init();
    let own_worker = sandbox.run(&["worker", "start", "demo", "--name", "same"]).data_of("worker.started");
    let own_worker = own_worker["workerId"].as_str().unwrap();
    let dead = json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]});
    let worker = other_workspace(&sandbox, &host, json!({"dead": dead}));
    assert_ne!(worker, own_worker);
    let panel = Panel::start(&sandbox, &["--all-hosts"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let (mut lap, mut is_dead, mut own) = (None, false, None);
    live.find("all places", |line| {
        let title = line["title"].as_str().unwrap_or_default();
        match (title.starts_with("lap: "), title.starts_with("dead: ")) {
            (true, _) if line["all"] == true => {
                assert!(line.to_string().contains(&worker), "{line}");
                assert!(!line.to_string().contains(own_worker), "{line}");
                lap = line["place"].as_str().map(str::to_owned);
            }
            (_, true) => is_dead |= line["down"]["code"] == "HOST_UNREACHABLE",
            _ if line["own"] == true => own = line["place"].as_str().map(str::to_owned),
            _ => {}
        }
        (lap.is_some() && is_dead && own.is_some()).then_some(())
    });
    let lap = lap.unwrap();
    assert_ne!(Some(&lap), own.as_ref());
    let events = sandbox.events(own_worker).len();
    let sent =
        page.post(&format!("/api/{lap}/workers/{worker}/turns"), &json!({"text": "!ask execute make"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let asked = live.find("the question there", |line| {
        let is_asked = line["place"] == lap.as_str() && line["questions"][0]["id"].is_string();
        is_asked.then(|| line["questions"][0].clone())
    });
    let request = asked["id"].as_str().unwrap();
    let path = format!("/api/{lap}/workers/{worker}/approvals/{request}");
    let decided = page.post(&path, &json!({"decision": "allow"}));
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(page.get(&format!("/api/{lap}/workers/{worker}"))["workerId"], worker.as_str());
    // The worker of this machine is none of that host.
    let missing = page.post(&format!("/api/{lap}/workers/{own_worker}/stop"), &json!({}));
    assert_eq!(missing.json()["error"]["details"]["host"], "lap", "{missing:?}");
    assert_eq!(sandbox.events(own_worker).len(), events, "the daemon here is unchanged");
    let started = page.post(&format!("/api/{lap}/workers"), &json!({"launcher": "demo"}));
    assert_eq!(error(&started), "HOST_UNSUPPORTED", "{started:?}");
    // The host dies, and comes back.
    host.end_server();
    live.find("the lost host", |line| {
        (line["place"] == lap.as_str() && line["down"]["message"].as_str()?.contains("last answer"))
            .then_some(())
    });
    host.restart_server(&sandbox);
    live.find("the host again", |line| (line["place"] == lap.as_str() && line["all"] == true).then_some(()));
    let stopped = page.post(&format!("/api/{lap}/workers/{worker}/stop"), &json!({}));
    assert_eq!(stopped.status, 200, "{stopped:?}");
    drop((live, panel));
    assert_eq!(sandbox.show(own_worker)["state"], "idle");
    let _ = there(&sandbox, &["daemon", "stop"]).run().data();
    let _ = sandbox.run(&["worker", "stop", own_worker]).data();
    sandbox.finish();
}

#[test]
fn a_daemon_there_that_hangs_is_down_and_a_look_starts_none_that_was_stopped() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    let worker = other_workspace(&sandbox, &host, json!({}));
    let _ = there(&sandbox, &["worker", "stop", &worker]).run().data();
    let panel = Panel::start(&sandbox, &["--all-hosts"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let lap_of = |line: &Value| {
        let is_lap = line["title"].as_str().is_some_and(|title| title.starts_with("lap: "));
        (is_lap && line["all"] == true).then(|| line["place"].as_str().unwrap().to_owned())
    };
    let lap = live.find("the host", lap_of);
    // The daemon there hangs, and connections with the host go on.
    let other = sandbox.file("other").display().to_string();
    let is_there = |one: &Process| one.name == "subagentd" && one.command_line().contains(&other);
    let daemon = sandbox.processes().into_iter().find(is_there).unwrap();
    daemon.signal(Signal::SIGSTOP);
    let down = live.find("that it is down", |line| line.get("down").cloned());
    assert_eq!(down["code"], "HOST_UNREACHABLE", "{down}");
    assert!(down["message"].as_str().unwrap().contains("last answer"), "{down}");
    daemon.signal(Signal::SIGCONT);
    live.find("the host again", lap_of);
    let _ = there(&sandbox, &["daemon", "stop"]).run().data();
    let is_stopped = |line: &Value| {
        (line["place"] == lap.as_str() && line["down"]["code"] == "DAEMON_NOT_RUNNING").then_some(())
    };
    live.find("that it is stopped", is_stopped);
    let looked = super::get(panel.port, &format!("/api/{lap}/usage"), &[&page.bearer()]);
    assert_eq!(error(&looked), "DAEMON_NOT_RUNNING", "{looked:?}");
    live.find("that it is still stopped", is_stopped);
    assert_eq!(there(&sandbox, &["daemon", "status"]).run().data_of("daemon.shown")["running"], false);
    // A change starts it.
    let changed = page.post(&format!("/api/{lap}/workers/{worker}/queue/resume"), &json!({}));
    assert_ne!(error(&changed), "DAEMON_NOT_RUNNING", "{changed:?}");
    assert_eq!(there(&sandbox, &["daemon", "status"]).run().data_of("daemon.shown")["running"], true);
    drop((live, panel));
    let _ = there(&sandbox, &["daemon", "stop"]).run().data();
    sandbox.finish();
}

#[test]
fn an_agent_does_nothing_at_hosts_through_the_panel() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start("demo");
    let panel = Panel::start(&sandbox, &["--all-hosts"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let lap = live.find("the host", |line| {
        let is_lap = line["title"].as_str().is_some_and(|title| title.starts_with("lap: "));
        is_lap.then(|| line["place"].as_str().unwrap().to_owned())
    });
    for path in [format!("/api/{lap}/usage"), format!("/api/{lap}/workers/{worker}")] {
        // The page itself may.
        page.get(&path);
        let port = panel.port;
        let text = format!(
            "GET {path} HTTP/1.1\\nHost: 127.0.0.1:{port}\\n{}\\nConnection: close\\n\\n",
            page.bearer()
        );
        let said = from_below(&sandbox, &worker, port, &text);
        assert!(said.contains("403 Forbidden") && said.contains("FORBIDDEN_FROM_WORKER"), "{path}: {said}");
    }
    drop((live, panel));
    let _ = sandbox.run(&["worker", "stop", &worker]).data();
    sandbox.finish();
}
