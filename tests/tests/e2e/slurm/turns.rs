//! Turns of a worker in a job, while its job, its stream, the daemon and the cluster's daemons die.

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

/// Returns the client of Slurm below the daemon that carries the stream of a worker.
pub(super) fn client_of_stream(sandbox: &TestSandbox, worker: &str) -> Process {
    let dials = format!(" dial {worker}");
    wait_until("the client of the stream", DEADLINE, || {
        let clients = sandbox.daemon().children();
        clients.into_iter().find(|one| one.command_line().ends_with(&dials))
    })
}

#[test]
fn a_turn_with_a_question_works_in_a_job_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let demo = sandbox.demo_agent(&[]).env("OF_LAUNCHER", "sent along");
    sandbox.launcher("demo", demo);
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["placement"], json!({"kind": "slurm", "name": "cluster"}));
    let name = slurm.job_of(&worker, 1);
    // Neither the command line nor the script of the job has anything of the environment.
    let job = slurm.run(&["squeue", "--noheader", "--format=%i", "--name", &name]);
    let script = slurm.run(&["scontrol", "write", "batch_script", job.trim(), "-"]);
    assert!(script.contains("hold") && !script.contains("sent along"), "{script}");
    let said = sandbox.send(
        &worker,
        "!shell pwd; echo ${ONLY_HERE:-absent}; echo $OF_LAUNCHER; echo job $SLURM_JOB_NAME; echo mine > made",
    );
    let said = said.to_string();
    let work = sandbox.file("scratch");
    for expected in [work.to_str().unwrap(), "absent", "sent along", &name] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(std::fs::read_to_string(work.join("made")).unwrap(), "mine\n");
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
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    assert_eq!(slurm.past_jobs(), [(name, "COMPLETED".to_owned())]);
    let folder = Slurm::placed(&sandbox).join(&worker);
    assert!(folder.exists());
    let _ = sandbox.run(&["worker", "rm", &worker]);
    wait_until("the removal of the folder", DEADLINE, || (!folder.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_the_job_again() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let ends = sandbox.number("SELECT count(*) FROM events WHERE type = 'turn.completed'");
    assert_eq!((ends, slurm.past_jobs().len()), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_turn_that_ended_while_no_daemon_was_there_is_read_after_the_end_of_its_job() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    sandbox.kill_daemon();
    gate.open();
    let folder = Slurm::placed(&sandbox).join(&worker);
    wait_until("the end of the turn in the job", DEADLINE, || {
        let files = std::fs::read_dir(&folder).unwrap().flatten().map(|file| file.path());
        let journals = files.filter(|path| path.extension().is_some_and(|end| end == "journal"));
        let has_end = |text: Vec<u8>| String::from_utf8_lossy(&text).contains("\"t\":\"turnEnd\"");
        journals.filter_map(|path| std::fs::read(path).ok()).any(has_end).then_some(())
    });
    let _ = slurm.run(&["scancel", "--name", &slurm.job_of(&worker, 1)]);
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    // The next command starts a daemon, which finds only the folder.
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(slurm.past_jobs().len(), 2);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_turn_goes_on_while_the_client_of_its_stream_is_killed() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let gate = sandbox.gate("turn");
    let touched = sandbox.file_name("touched");
    let text = format!("!say begun\n!touch {touched}\n{}\n!say done", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &text);
    sandbox.wait_for_prompt(1);
    wait_until("the middle of the turn", DEADLINE, || (sandbox.touches("touched") == 1).then_some(()));
    let runtime = sandbox.runtime(&worker);
    let killed = client_of_stream(&sandbox, &worker);
    assert_eq!(killed.name, "srun", "{killed:?}");
    sandbox.kill(&killed);
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_ne!(client_of_stream(&sandbox, &worker).pid, killed.pid);
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let count = |kind: &str| sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
    assert_eq!((count("turn.completed"), count("runtime.turn_dispatching")), (1, 1));
    assert_eq!((sandbox.touches("touched"), slurm.past_jobs().len()), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // It has the step of the killed client too.
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    sandbox.finish();
}

#[test]
fn a_run_has_a_job_of_its_own_that_ends_with_it() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let run = sandbox.run(&["run", "--on", "cluster", "demo", "!shell echo in $SLURM_JOB_NAME"]).document();
    assert!(run.to_string().contains("in subagent-"), "{run}");
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    assert_eq!(slurm.past_jobs().len(), 1);
    sandbox.finish();
}

#[test]
fn a_job_that_is_canceled_from_outside_during_a_question_is_lost_and_another_one_follows() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    assert!(asked["requestId"].is_string(), "{asked}");
    let _ = slurm.run(&["scancel", "--name", &slurm.job_of(&worker, 1)]);
    let end = sandbox.wait_after(&worker, &asked["acceptedEventId"], "turn.failed");
    let error = &end["data"]["error"];
    assert_eq!(error["code"], "RUNTIME_LOST", "{end}");
    assert!(error["message"].as_str().unwrap().contains("CANCELLED"), "{end}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(slurm.past_jobs().len(), 2);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_job_at_its_time_limit_is_lost_with_its_state() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let job = slurm.run(&["squeue", "--noheader", "--format=%i"]);
    // A limit has at least a minute. The controller looks at it each half minute.
    let _ = slurm.run(&["scontrol", "update", &format!("JobId={}", job.trim()), "EndTime=now+1seconds"]);
    let end = sandbox.turn_end(&accepted);
    let error = &end["data"]["error"];
    assert_eq!(error["code"], "RUNTIME_LOST", "{end}");
    for said in [&error["message"], &error["details"]["place"]] {
        assert!(said.as_str().unwrap().contains("TIMEOUT"), "{end}");
    }
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("limit"), "{end}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_cluster_that_does_not_answer_loses_nothing() {
    let mut sandbox = TestSandbox::new();
    let Some(mut slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    slurm.restart_node();
    slurm.kill_controller();
    // The stream is new, and nothing says where the job is.
    sandbox.kill_daemon();
    wait_until("the worker to be unreachable", DEADLINE, || {
        let shown = sandbox.show(&worker);
        assert_ne!(shown["state"], "error", "{shown}");
        shown["unreachable"].is_object().then_some(())
    });
    gate.open();
    slurm.start_controller();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    wait_until("the worker to be reached", DEADLINE, || {
        (!sandbox.show(&worker)["unreachable"].is_object()).then_some(())
    });
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(slurm.past_jobs().len(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // The job ends soon after its runtime.
    wait_until("the end of the job", DEADLINE, || {
        sandbox.processes().iter().all(|one| one.name != "subagent-hold").then_some(())
    });
    sandbox.finish();
}

#[test]
fn a_runtime_and_guard_that_are_killed_take_the_job_with_them() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let is_killed =
        |process: &Process| ["subagent-guard", "subagent-runtim"].contains(&process.name.as_str());
    let killed: Vec<Process> = sandbox.processes().into_iter().filter(is_killed).collect();
    assert_eq!(killed.len(), 2, "{killed:?}");
    for process in killed {
        process.signal(Signal::SIGKILL);
    }
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST", "{end}");
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}
