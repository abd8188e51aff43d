//! Jobs without a runtime: a client was killed after it had submitted one, or a second one waited for
//! the end of the first. They end by themselves, and hold no node for as long as another runtime lives.
//! And clients without a daemon.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::{env, fs};

use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

/// Lets the process of a job hold the place of this runtime, until it ends.
fn hold(sandbox: &TestSandbox, worker: &str, number: u64) {
    let mut job = Command::new(sandbox.executable("subagent-runtime"))
        .arg("hold")
        .arg(Slurm::placed(sandbox).join(worker))
        .arg(number.to_string())
        .envs([("SLURM_JOB_ID", "4711"), ("SLURM_CLUSTER_NAME", "test")])
        .spawn()
        .unwrap();
    let ended = wait_until("the end of an empty job", DEADLINE / 4, || job.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_job_whose_runtime_has_ended_does_not_wait_for_a_newer_one() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    hold(&sandbox, &worker, 0);
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    hold(&sandbox, &worker, 1);
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    sandbox.finish();
}

#[test]
fn a_job_whose_client_was_killed_is_not_left_behind() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let (bin, once) = (sandbox.file("bin"), sandbox.file_name("killed-once"));
    fs::create_dir_all(&bin).unwrap();
    let killed =
        format!("/usr/bin/sbatch \"$@\" || exit 1\nif mkdir {once} 2>/dev/null; then kill -9 $$; fi\n");
    fs::write(bin.join("sbatch"), format!("#!/bin/sh\n{killed}")).unwrap();
    fs::set_permissions(bin.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = env::var("PATH").unwrap();
    sandbox.set_env("PATH", format!("{}:{path}", bin.display()));
    sandbox.init();
    let started = sandbox.try_start_on("cluster");
    assert!(fs::exists(&once).unwrap(), "{started}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the end of all jobs", DEADLINE / 4, || slurm.jobs().is_empty().then_some(()));
    sandbox.finish();
}

#[test]
fn a_client_that_hears_nothing_after_the_death_of_its_daemon_is_ended_by_the_next_one() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let is_client =
        |one: &Process| one.name == "srun" && one.command_line().contains(&format!("dial {worker}"));
    let clients: Vec<Process> = sandbox.processes().into_iter().filter(is_client).collect();
    assert!(!clients.is_empty());
    for client in &clients {
        client.signal(Signal::SIGSTOP);
    }
    sandbox.kill_daemon();
    assert!(clients.iter().all(Process::lives), "{clients:?}");
    // A job does not end before they do.
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert!(clients.iter().all(|one| !one.lives()), "{clients:?}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    sandbox.finish();
}

#[test]
fn a_start_in_a_job_that_has_ended_meanwhile_does_not_blame_the_program() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.file_name("w_0123456789");
    fs::create_dir(&folder).unwrap();
    let relay = ["relay", &folder, "1"];
    let ended = sandbox.command("subagent-runtime").args(relay).deadline(DEADLINE).run();
    assert_eq!(ended.status.code(), Some(129), "{ended}");
    assert!(ended.stderr.contains("hold-1"), "{ended}");
    sandbox.finish();
}
