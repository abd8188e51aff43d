//! A control plane that an engine starts on another node: a job goes on, and its worker serves the
//! daemon that was started last.

use std::{fs, thread};

use nix::sys::signal::Signal;
use subagent_tests::harness::{TestSandbox, say, wait_until};

use super::cluster::{DEADLINE, Slurm};
use super::turns::client_of_stream;
use crate::placements::fence::the_last_daemon_is_served;
use crate::ssh::moved::{move_to_another_node, with_descendants};

fn a_turn_in_a_job_goes_on() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let (first, second) = (sandbox.gate("without-a-daemon"), sandbox.gate("on-the-other-node"));
    let text = format!(
        "!say begun\n{}\n!touch {}\n{}\n!say finished",
        first.directive(),
        sandbox.file_name("touched"),
        second.directive()
    );
    let accepted = sandbox.send_no_wait(&worker, &text);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let runtime = sandbox.runtime(&worker);
    // The node dies: the daemon, and Slurm's clients beside it.
    let dead = with_descendants(sandbox.daemon());
    assert!(dead.iter().any(|one| one.name == "srun"), "{dead:?}");
    sandbox.kill_daemon();
    dead.iter().skip(1).for_each(|one| one.signal(Signal::SIGKILL));
    wait_until("the end of the node", DEADLINE, || dead.iter().all(|one| !one.lives()).then_some(()));
    // In memory: the sockets, and the environment of its agents.
    fs::remove_dir_all(sandbox.file("run/subagent")).unwrap();
    first.open();
    wait_until("the turn to go on", DEADLINE, || (sandbox.touches("touched") == 1).then_some(()));
    if let Err(error) = move_to_another_node(&mut sandbox) {
        let _ = slurm.run(&["scancel", "--name", &slurm.job_of(&worker, 1)]);
        let missing = format!("this user may not mount ({error}), so no control plane is moved");
        assert!(std::env::var_os("SUBAGENT_REQUIRE_NETWORKS").is_none(), "{missing}");
        return say(&format!("SKIPPED, NOTHING WAS TESTED: {missing}"));
    }
    // That node has the volume at another path, which gives other names to later jobs.
    let volume = sandbox.file("volume-of-the-other-node");
    fs::rename(sandbox.state_dir(), &volume).unwrap();
    sandbox.set_state_dir(volume);
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], shown.get("unreachable")), (&"running".into(), None), "{shown}");
    // It has found the job, and not only its folder.
    assert_eq!(client_of_stream(&sandbox, &worker).name, "srun");
    second.open();
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!((sandbox.runtime(&worker).pid, sandbox.touches("touched")), (runtime.pid, 1));
    let said = sandbox.send(&worker, "!say on the other node");
    assert!(said["assistantText"].as_str().unwrap().contains("on the other node"), "{said}");
    let count = |kind: &str| sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
    assert_eq!((count("turn.completed"), count("runtime.turn_dispatching")), (2, 2));
    assert_eq!(slurm.past_jobs().len(), 1, "{:?}", slurm.past_jobs());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the end of the job and its runtime", DEADLINE, || {
        (slurm.jobs().is_empty() && !runtime.lives()).then_some(())
    });
    sandbox.finish();
}

#[test]
fn a_control_plane_on_another_node_goes_on_with_the_worker_in_a_job() {
    thread::spawn(a_turn_in_a_job_goes_on).join().unwrap();
}

#[test]
fn a_job_serves_the_daemon_that_was_started_last() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    the_last_daemon_is_served(&sandbox, &worker);
    assert_eq!(slurm.past_jobs().len(), 1, "{:?}", slurm.past_jobs());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the end of the job", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    sandbox.finish();
}
