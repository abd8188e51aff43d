//! Jobs that the cluster has forgotten, with `sacct` switched off.

use std::fs;

use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

#[test]
fn a_job_that_the_cluster_has_forgotten_has_ended_if_it_is_the_same_cluster() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    slurm.forget_soon();
    sandbox.init();
    let worker = sandbox.start_on("cluster");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let name = slurm.job_of(&worker, 1);
    sandbox.kill_daemon();
    let _ = slurm.run(&["scancel", "--signal=KILL", "--full", "--name", &name]);
    let _ = slurm.run(&["scancel", "--name", &name]);
    wait_until("the cluster to forget the job", 3 * DEADLINE, || slurm.past_jobs().is_empty().then_some(()));
    // The name of the cluster tells whether an unknown job is a forgotten one.
    let file = Slurm::placed(&sandbox).join(&worker).join("job-1");
    let named = fs::read_to_string(&file).unwrap();
    let (job, _) = named.trim().split_once(' ').unwrap();
    fs::write(&file, format!("{job} another\n")).unwrap();
    let reason = wait_until("the worker to be unreachable", DEADLINE, || {
        let shown = sandbox.show(&worker)["unreachable"]["reason"]["message"].clone();
        shown.as_str().filter(|said| said.contains("cluster another")).map(str::to_owned)
    });
    assert!(reason.contains("clients reach"), "{reason}");
    fs::write(&file, named).unwrap();
    let end = sandbox.turn_end(&accepted);
    assert_eq!(
        (&end["type"], &end["data"]["error"]["code"]),
        (&"turn.failed".into(), &"RUNTIME_LOST".into())
    );
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert!(slurm.job_of(&worker, 2) != name);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}
