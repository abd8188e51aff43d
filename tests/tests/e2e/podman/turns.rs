//! Turns of a worker in a container, while container, daemon and runtime die.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::engine::{DEADLINE, Podman};

#[test]
fn a_turn_with_a_question_works_in_a_container_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let demo = sandbox.demo_agent(&[]).env("OF_LAUNCHER", "sent along");
    sandbox.launcher("demo", demo);
    sandbox.init();
    let worker = sandbox.start_on("box");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["placement"]["kind"], &shown["placement"]["name"]), (&json!("podman"), &json!("box")));
    assert!(shown["placement"]["image"].as_str().unwrap().ends_with("rootfs"), "{shown}");
    assert_eq!(podman.numbers(&worker), [1]);
    let said = sandbox.send(
        &worker,
        "!shell pwd; echo ${ONLY_HERE:-absent}; echo $OF_LAUNCHER; ls /proc/1/exe && cat /proc/1/comm; echo mine > made",
    );
    let said = said.to_string();
    for expected in ["/work", "absent", "sent along", "subagent-hold"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // The workspace is mounted, without its state.
    let below = sandbox.send(&worker, "!shell ls .subagent/state; ls -A .subagent; echo seen");
    assert!(!below.to_string().contains("state.db") && below.to_string().contains("seen"), "{below}");
    assert!(sandbox.state_dir().join("state.db").exists());
    assert_eq!(std::fs::read_to_string(sandbox.workspace().join("made")).unwrap(), "mine\n");
    let _ = sandbox.send(&worker, "!stderr of the agent");
    let _ = sandbox.wait_for_log(&worker, "of the agent\n");
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    sandbox.check();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    wait_until("the end of the container", DEADLINE, || podman.containers().is_empty().then_some(()));
    let _ = sandbox.run(&["worker", "rm", &worker]);
    let folder = sandbox.workspace().join(".subagent/state/placed").join(&worker);
    wait_until("the removal of the folder", DEADLINE, || (!folder.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_the_container_again() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("box");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(podman.numbers(&worker), [1]);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_process_outside_of_the_container_cannot_command_its_runtime() {
    let mut sandbox = TestSandbox::new();
    let Some(_podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("box");
    let socket = sandbox.state_dir().join("placed").join(&worker).join("socket");
    for token in ["", "0\n"] {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        stranger.set_read_timeout(Some(DEADLINE)).unwrap();
        let hello = r#"{"t":"hello","protocol":1,"generation":99,"desired":"stop"}"#;
        stranger.write_all(format!("{token}{hello}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        // The runtime closes the connection.
        let _ = stranger.read_to_string(&mut answer);
        assert_eq!(answer, "");
    }
    assert_eq!(sandbox.send(&worker, "still here")["assistantText"], "still here");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_between_a_container_and_its_runtime_leaves_no_container() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let once = sandbox.file_name("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    // The container runs, and its runtime is about to be started.
    sandbox.set_env("SUBAGENT_FAILPOINTS", "spawn.before=abort");
    sandbox.init();
    let started = sandbox.try_start_on("box");
    assert!(Path::new(&once).exists(), "{started}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(podman.numbers(&worker).len(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_container_that_appears_after_the_death_of_its_daemon_ends_with_the_worker() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let (gate, begun) = (sandbox.gate("run"), sandbox.file_name("begun"));
    // The first start of a container waits for the gate.
    podman.wrap(
        &sandbox,
        &format!(
            "case \"$*\" in *' run '*) if mkdir {begun} 2>&-; then while [ ! -e {} ]; do sleep 0.1; done; fi ;; esac",
            gate.path().display()
        ),
    );
    sandbox.init();
    let starting = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--on", "box"]).spawn();
    wait_until("the client of the engine", DEADLINE, || Path::new(&begun).exists().then_some(()));
    sandbox.kill_daemon();
    let _ = starting.output();
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    gate.open();
    wait_until("the first container", DEADLINE, || (podman.numbers(&worker).len() == 2).then_some(()));
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    podman.ends_with_its_workers();
    sandbox.finish();
}

#[test]
fn a_container_that_is_killed_is_lost_and_another_one_follows() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("box");
    for (number, words) in [(1, ["kill"].as_slice()), (2, &["stop", "--time=1"]), (3, &["rm", "--force"])] {
        let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
        let dispatched =
            format!("SELECT count(*) >= {number} FROM events WHERE type = 'runtime.turn_dispatching'");
        wait_until("the prompt", DEADLINE, || (sandbox.number(&dispatched) > 0).then_some(()));
        let name =
            podman.containers().into_iter().find(|name| name.ends_with(&format!("-{number}"))).unwrap();
        let _ = podman.run(&[words, &[&name]].concat());
        let end = sandbox.turn_end(&accepted);
        assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST", "{end}");
    }
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_runtime_and_guard_that_are_killed_take_the_container_with_them() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("box");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let dispatched = "SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'";
    wait_until("the prompt", DEADLINE, || (sandbox.number(dispatched) > 0).then_some(()));
    let is_killed =
        |process: &Process| ["subagent-guard", "subagent-runtim"].contains(&process.name.as_str());
    let killed: Vec<Process> = sandbox.processes().into_iter().filter(is_killed).collect();
    assert_eq!(killed.len(), 2, "{killed:?}");
    for process in killed {
        process.signal(Signal::SIGKILL);
    }
    assert_eq!(sandbox.turn_end(&accepted)["data"]["error"]["code"], "RUNTIME_LOST");
    wait_until("the end of the container", DEADLINE, || podman.containers().is_empty().then_some(()));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}
