//! Jobs that the cluster has forgotten: without accounting, and with a script for `sacct`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::{env, fs};

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

/// Number of answers of `sacct` that must not end a turn.
const LOOKS: usize = 3;

/// A turn whose job has ended without a daemon, and is forgotten.
struct ForgottenTurn {
    worker: String,
    accepted: Value,
    /// The name of the job.
    name: String,
    /// The id of the job.
    job: String,
    /// The file that names the job and its cluster.
    file: PathBuf,
    /// The original text of this file.
    named: String,
}

impl ForgottenTurn {
    fn start(sandbox: &TestSandbox, slurm: &Slurm) -> Self {
        slurm.forget_soon();
        sandbox.init();
        let worker = sandbox.start_on("cluster");
        let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
        sandbox.wait_for_prompt(1);
        let name = slurm.job_of(&worker, 1);
        sandbox.kill_daemon();
        let _ = slurm.run(&["scancel", "--signal=KILL", "--full", "--name", &name]);
        let _ = slurm.run(&["scancel", "--name", &name]);
        wait_until("the cluster to forget the job", 3 * DEADLINE, || {
            slurm.past_jobs().is_empty().then_some(())
        });
        let file = Slurm::placed(sandbox).join(&worker).join("job-1");
        let named = fs::read_to_string(&file).unwrap();
        let job = named.split_once(' ').unwrap().0.to_owned();
        Self { worker, accepted, name, job, file, named }
    }

    /// Lets the job be one of another cluster. Then its absence proves nothing.
    fn name_another_cluster(&self) {
        fs::write(&self.file, format!("{} another\n", self.job)).unwrap();
    }

    /// Waits until the worker is unreachable, and returns the message with its reason.
    fn unreachable(&self, sandbox: &TestSandbox, part: &str) -> String {
        wait_until("the worker to be unreachable", DEADLINE, || {
            let shown = sandbox.show(&self.worker)["unreachable"]["reason"]["message"].clone();
            shown.as_str().filter(|said| said.contains(part)).map(str::to_owned)
        })
    }

    /// Asserts that the turn is lost, and that the worker goes on in another job.
    fn is_lost(&self, sandbox: &TestSandbox, slurm: &Slurm) -> Value {
        let end = sandbox.turn_end(&self.accepted);
        assert_eq!(
            (&end["type"], &end["data"]["error"]["code"]),
            (&"turn.failed".into(), &"RUNTIME_LOST".into()),
            "{end}"
        );
        assert_eq!(sandbox.send(&self.worker, "again")["assistantText"], "again");
        assert!(slurm.job_of(&self.worker, 2) != self.name);
        let _ = sandbox.run(&["worker", "stop", &self.worker]).data_of("worker.stopped");
        end
    }
}

/// A script in place of the client `sacct`. Without an answer for a job it fails, as a cluster without
/// accounting does.
struct Accounting {
    folder: PathBuf,
}

impl Accounting {
    fn install(sandbox: &mut TestSandbox) -> Self {
        let (bin, folder) = (sandbox.file("bin"), sandbox.file("accounting"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {} || exit 1\nfor word; do case $word in --name=*) name=${{word#--name=}} ;; esac; done\n\
             cat \"$name\" || exit 1\necho \"$*\" >> calls\n",
            folder.display()
        );
        fs::write(bin.join("sacct"), script).unwrap();
        fs::set_permissions(bin.join("sacct"), fs::Permissions::from_mode(0o755)).unwrap();
        sandbox.set_env("PATH", format!("{}:{}", bin.display(), env::var("PATH").unwrap()));
        Self { folder }
    }

    /// Sets what it prints of the job: its state and the reason.
    fn says(&self, turn: &ForgottenTurn, state: &str, reason: &str) {
        // Whole or not at all, as the script may run.
        let new = self.folder.join("new");
        fs::write(&new, format!("{}|{state}|{reason}\n", turn.job)).unwrap();
        fs::rename(new, self.folder.join(&turn.name)).unwrap();
    }

    /// The command lines of the calls that got an answer.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_job_that_the_cluster_has_forgotten_has_ended_if_it_is_the_same_cluster() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let turn = ForgottenTurn::start(&sandbox, &slurm);
    turn.name_another_cluster();
    let reason = turn.unreachable(&sandbox, "cluster another");
    assert!(reason.contains("clients reach"), "{reason}");
    fs::write(&turn.file, &turn.named).unwrap();
    let _ = turn.is_lost(&sandbox, &slurm);
    sandbox.finish();
}

#[test]
fn a_forgotten_job_that_has_ended_in_the_accounting_is_lost() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let accounting = Accounting::install(&mut sandbox);
    let turn = ForgottenTurn::start(&sandbox, &slurm);
    // Then only the accounting proves the end.
    turn.name_another_cluster();
    accounting.says(&turn, "CANCELLED by 0", "None");
    let end = turn.is_lost(&sandbox, &slurm);
    let message = end["data"]["error"]["message"].as_str().unwrap();
    assert!(message.contains(&turn.job) && message.contains("CANCELLED"), "{end}");
    let calls = accounting.calls();
    assert!(calls[0].contains("--allocations --noheader --parsable2"), "{calls:?}");
    sandbox.finish();
}

#[test]
fn a_forgotten_job_that_runs_in_the_accounting_is_lost_only_once_it_has_ended_there() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let accounting = Accounting::install(&mut sandbox);
    let turn = ForgottenTurn::start(&sandbox, &slurm);
    // The absence of the job in its cluster would prove the end.
    accounting.says(&turn, "RUNNING", "None");
    let _ = turn.unreachable(&sandbox, "");
    let before = accounting.calls().len();
    wait_until("more answers of the accounting", 2 * DEADLINE, || {
        let shown = sandbox.show(&turn.worker);
        assert!(shown["state"] == "running" && shown["unreachable"].is_object(), "{shown}");
        (accounting.calls().len() >= before + LOOKS).then_some(())
    });
    let ends = "SELECT count(*) FROM events WHERE type IN ('turn.failed', 'worker.lost')";
    assert_eq!(sandbox.number(ends), 0);
    accounting.says(&turn, "NODE_FAIL", "None");
    // A job of a node that does not answer may run on.
    let _ = turn.unreachable(&sandbox, "NODE_FAIL");
    accounting.says(&turn, "TIMEOUT", "TimeLimit");
    let end = turn.is_lost(&sandbox, &slurm);
    assert!(end["data"]["error"]["message"].as_str().unwrap().contains("TIMEOUT"), "{end}");
    sandbox.finish();
}
