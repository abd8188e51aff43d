//! Turns of a worker in a pod, while its pod, its stream, the daemon and the API server die.

use std::time::{Duration, Instant};

use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::api::TOKEN;
use super::cluster::{DEADLINE, Kubernetes};

/// Time within which the end of the API server is reported: the ends of its connections are seen here.
const REPORTED: Duration = Duration::from_secs(5);
/// Longer than a daemon on a busy machine takes to dial the runtime that it has just started.
const LEASE: &str = "10s";

/// Returns the `kubectl exec` below the daemon that carries the stream of a worker.
fn client_of_stream(sandbox: &TestSandbox, worker: &str) -> Process {
    let dials = format!(" dial {worker}");
    wait_until("the client of the stream", DEADLINE, || {
        let clients = sandbox.daemon().children();
        clients.into_iter().find(|one| one.command_line().ends_with(&dials))
    })
}

#[test]
fn a_turn_with_a_question_works_in_a_pod_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let demo = sandbox.demo_agent(&[]).env("OF_LAUNCHER", "sent along");
    sandbox.launcher("demo", demo);
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["placement"], json!({"kind": "kubernetes", "name": "pods", "image": "agents:1"}));
    let name = cluster.pod();
    let manifest = cluster.pods.manifest(&name);
    assert_eq!(manifest["metadata"]["labels"]["subagent/worker"], json!(worker), "{manifest}");
    assert_eq!(manifest["metadata"]["labels"]["team"], "blue");
    assert_eq!(manifest["spec"]["restartPolicy"], "Never");
    assert_eq!(sandbox.number("SELECT count(*) FROM workers WHERE placement LIKE '%of the pod%'"), 0);
    // Neither the manifest nor a command line has anything of the environment or of the login.
    let lines: Vec<String> =
        sandbox.processes().iter().map(subagent_tests::harness::process::Process::command_line).collect();
    assert!(lines.iter().any(|line| line.contains("exec")), "{lines:?}");
    for text in [manifest.to_string(), lines.concat()] {
        assert!(!text.contains("sent along") && !text.contains(TOKEN), "{text}");
    }
    let said = sandbox
        .send(&worker, "!shell pwd; echo ${ONLY_HERE:-absent}; echo $OF_LAUNCHER; echo $OF_POD")
        .to_string();
    let work = sandbox.file("in-pods");
    for expected in [work.to_str().unwrap(), "absent", "sent along", "of the pod"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let _ = sandbox.send(&worker, "!stderr of the agent");
    let _ = sandbox.wait_for_log(&worker, "of the agent\n");
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(4);
    let _ = sandbox.run(&["cancel", &worker]);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    sandbox.check();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    cluster.wait_for_none();
    assert_eq!(cluster.pods.created(), [name]);
    let error = sandbox.run(&["logs", &worker]).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "ended", "the log has ended with its pod: {error}");
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_the_pod_again() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let ends = sandbox.number("SELECT count(*) FROM events WHERE type = 'turn.completed'");
    assert_eq!((ends, cluster.pods.created().len()), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_turn_goes_on_while_the_client_of_its_stream_is_killed() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let gate = sandbox.gate("turn");
    let touched = sandbox.file_name("touched");
    let text = format!("!say begun\n!touch {touched}\n{}\n!say done", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &text);
    sandbox.wait_for_prompt(1);
    wait_until("the middle of the turn", DEADLINE, || (sandbox.touches("touched") == 1).then_some(()));
    let killed = client_of_stream(&sandbox, &worker);
    assert!(killed.name.starts_with("kubectl"), "{killed:?}");
    sandbox.kill(&killed);
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_ne!(client_of_stream(&sandbox, &worker).pid, killed.pid);
    let count = |kind: &str| sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
    assert_eq!((count("turn.completed"), count("runtime.turn_dispatching")), (1, 1));
    assert_eq!((sandbox.touches("touched"), cluster.pods.created().len()), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    cluster.wait_for_none();
    sandbox.finish();
}

#[test]
fn a_run_has_a_pod_of_its_own_that_ends_with_it() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    let run = sandbox.run(&["run", "--on", "pods", "demo", "!shell echo in $OF_POD"]).document();
    assert!(run.to_string().contains("in of the pod"), "{run}");
    cluster.wait_for_none();
    assert_eq!(cluster.pods.created().len(), 1);
    sandbox.finish();
}

/// Ends the only pod in the middle of a turn, with these options of `kubectl delete`.
fn deleted_in_a_turn(options: &[&str]) {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let name = cluster.pod();
    let deleted = cluster.run(&[&["delete", "pod", &name, "--wait=false"], options].concat());
    assert!(deleted.status.success(), "{deleted:?}");
    let end = sandbox.turn_end(&accepted);
    let error = &end["data"]["error"];
    assert_eq!((&end["type"], &error["code"]), (&"turn.failed".into(), &"RUNTIME_LOST".into()), "{end}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&name) && message.contains("deleted"), "{end}");
    assert_eq!(error["details"]["dispatched"], "maybe", "{end}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(cluster.pods.created().len(), 2);
    let prompts = sandbox.number("SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'");
    assert_eq!(prompts, 2);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_pod_that_is_deleted_in_a_turn_is_lost_and_another_one_follows() {
    deleted_in_a_turn(&[]);
}

#[test]
fn a_pod_that_is_killed_in_a_turn_is_lost_with_the_rest_of_its_journal() {
    deleted_in_a_turn(&["--grace-period=0", "--force"]);
}

#[test]
fn an_api_server_that_is_down_loses_nothing() {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let cut = Instant::now();
    cluster.cut();
    wait_until("the worker to be unreachable", DEADLINE, || {
        let shown = sandbox.show(&worker);
        assert_ne!(shown["state"], "error", "{shown}");
        shown["unreachable"].is_object().then_some(())
    });
    let noticed = cut.elapsed();
    assert!(noticed < REPORTED, "it took {noticed:?}");
    gate.open();
    cluster.mend();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    wait_until("the worker to be reached", DEADLINE, || {
        (!sandbox.show(&worker)["unreachable"].is_object()).then_some(())
    });
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let ends = sandbox.number("SELECT count(*) FROM events WHERE type = 'turn.completed'");
    assert_eq!((ends, cluster.pods.created().len()), (2, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn without_a_daemon_a_lease_ends_the_turn_and_the_pod_keeps_its_end() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    cluster.place(&sandbox, json!({"lease": LEASE}));
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let name = cluster.pod();
    sandbox.kill_daemon();
    // The pod has the only copy of the journal, so it stays for the next daemon.
    wait_until("the end of runtime and agent", DEADLINE, || {
        sandbox.processes().iter().all(|one| one.name == "subagent-hold").then_some(())
    });
    assert_eq!(cluster.running(), Some(name));
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    let said = json!(sandbox.events(&worker)).to_string();
    assert!(said.contains("no daemon for 10 s, the lease of its placement"), "{said}");
    cluster.wait_for_none();
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(cluster.pods.created().len(), 2);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}
