//! A job of a Slurm cluster: the command lines of Slurm's clients, and what they print. A job belongs
//! to one runtime, and ends with it. Its name is its handle.

mod answers;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::places::{ClientCommand, PlaceStart};
use super::podman::HOLD;
use super::ssh::line;
pub use answers::{cluster_name, is_of_client, is_unknown, status};
pub(super) use answers::{is_program_missing, reason_of};

/// The client that a message names if none of them can be started.
pub(super) const CLIENT: &str = "sbatch";
/// The command that passes standard input and output on to a process that [`HOLD`] starts.
pub const RELAY: &str = "relay";
/// Begin of the name of the file in the worker's folder in which a job names itself and its cluster.
/// The number of the runtime follows.
pub const JOB_FILE: &str = "job-";
/// The file in the worker's folder with the output of its jobs.
pub const JOB_LOG: &str = "job.log";

/// The state of a job whose script has ended by itself.
pub const COMPLETED: &str = "COMPLETED";
/// The state of a job whose script has failed.
pub const FAILED: &str = "FAILED";
/// The state of a job whose processes are being ended.
pub const COMPLETING: &str = "COMPLETING";
/// States after which no process of a job runs. Each other one may have processes, also `NODE_FAIL`: the
/// controller has only lost the node.
const ENDED: [&str; 8] =
    ["BOOT_FAIL", "CANCELLED", COMPLETED, "DEADLINE", FAILED, "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"];
/// Short options of `sbatch` without a value, which may stand before others in one word.
const WITHOUT_VALUE: &str = "HIOQVWhkosv";
/// States in which a job has not begun.
const WAITING: [&str; 6] =
    ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"];
/// Options of `sbatch` that take the job away from us, with their short forms.
const REFUSED: [(&str, &str); 11] = [
    ("--array", "-a"),
    ("--clusters", "-M"),
    ("--dependency", "-d"),
    ("--help", "-h"),
    ("--job-name", "-J"),
    ("--requeue", ""),
    ("--test-only", ""),
    ("--usage", ""),
    ("--version", "-V"),
    ("--wait", "-W"),
    ("--wrap", ""),
];

/// The cluster of the Slurm clients on this machine, and how jobs are submitted to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlurmCluster {
    /// Further options of the client `sbatch`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Folder of the placed workers, at the same path here and on the nodes; `~/...` only in a config
    /// file.
    pub folder: String,
}

impl SlurmCluster {
    /// Returns the command that shows the jobs of a name, also those that have ended lately.
    #[must_use]
    pub fn look(&self, name: &str) -> ClientCommand {
        ClientCommand::new("squeue", jobs().chain(["--me".to_owned(), format!("--name={name}")]))
    }

    /// Returns the command that shows a job, also if it was renamed.
    #[must_use]
    pub fn look_at(&self, job: &str) -> ClientCommand {
        ClientCommand::new("squeue", jobs().chain([format!("--jobs={job}")]))
    }

    /// Returns the command that shows the accounting of the jobs of a name. A cluster may have none.
    #[must_use]
    pub fn look_back(&self, name: &str) -> ClientCommand {
        let options = ["--allocations", "--noheader", "--parsable2", "--format=JobID,State,Reason"];
        let since = "--starttime=now-30days".to_owned();
        let rest = [since, format!("--name={name}")];
        ClientCommand::new("sacct", options.map(str::to_owned).into_iter().chain(rest))
    }

    /// Returns the command that shows the name of the cluster, among other things.
    #[must_use]
    pub fn identify(&self) -> ClientCommand {
        ClientCommand::new("scontrol", ["show", "config"].map(str::to_owned))
    }

    /// Returns the command that submits the job of a runtime. `sbatch` takes no second one of this name
    /// before the first one has ended.
    #[must_use]
    pub fn start(&self, start: &PlaceStart<'_>) -> ClientCommand {
        let log = start.folder.join(JOB_LOG);
        // The environment of this process may have secrets, and Slurm stores that of a job.
        let first = [
            format!("--output={}", log.display()),
            "--open-mode=append".to_owned(),
            "--export=NONE".to_owned(),
            "--dependency=singleton".to_owned(),
        ];
        let last = ["--parsable".to_owned(), "--no-requeue".to_owned(), format!("--job-name={}", start.name)];
        let words = first.into_iter().chain(self.args.iter().cloned()).chain(last);
        let mut command = ClientCommand::new("sbatch", words);
        command.input = Some(script(start.program, start.folder, start.number));
        command
    }

    /// Returns the command that runs a program in a job, with standard input and output as they are.
    #[must_use]
    pub fn exec(&self, job: &str, program: &str, words: &[&str]) -> ClientCommand {
        let options = [
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            // The node on which the batch script runs.
            "--relative=0",
            "--unbuffered",
            "--quiet",
            "--mpi=none",
            "--export=NONE",
            "--chdir=/",
        ];
        let rest = [program].into_iter().chain(words.iter().copied()).map(str::to_owned);
        let job = [format!("--jobid={job}")];
        ClientCommand::new("srun", job.into_iter().chain(options.map(str::to_owned)).chain(rest))
    }

    /// Returns the command that ends all jobs of a name. It succeeds if there are none.
    #[must_use]
    pub fn end(&self, name: &str) -> ClientCommand {
        ClientCommand::new("scancel", ["--me".to_owned(), format!("--name={name}")])
    }

    /// Returns the key that is wrong, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let has_nul = self.args.iter().any(|arg| arg.contains('\0'));
        let refused = self.args.iter().any(|arg| is_refused(arg));
        let script = self.args.iter().any(|arg| arg == "--" || arg == ":");
        if has_nul {
            return Some(("args", "must not contain a NUL"));
        }
        if refused || script {
            return Some((
                "args",
                "must not have `--array`, `--clusters`, `--dependency`, `--job-name`, `--requeue`, \
                 `--test-only`, `--wait`, `--wrap` or `:`: each runtime has one job of its own name, which \
                 starts once",
            ));
        }
        super::path_problem(&self.folder).map(|problem| ("folder", problem))
    }
}

/// Returns where `placement prepare` puts a runtime below the folder of placed workers. `sha256` has
/// the hash of the file in hexadecimal digits.
#[must_use]
pub fn prepared_program(folder: &str, version: &str, sha256: &str) -> String {
    let short = sha256.get(..16).unwrap_or(sha256);
    format!("{folder}/runtime/{version}-{short}/subagent-runtime")
}

/// Returns whether an option takes the job away from us. Long ones may be abbreviated.
fn is_refused(arg: &str) -> bool {
    let word = arg.split_once('=').map_or(arg, |(word, _)| word);
    REFUSED.iter().any(|(long, short)| match word.starts_with("--") {
        // Not `--w`, which is also the begin of other options: Slurm refuses it.
        true => *long == word || (word.len() >= "--no".len() && long.starts_with(word)),
        false => short.strip_prefix('-').is_some_and(|short| is_in_group(arg, short)),
    })
}

/// Returns whether a word of short options has this one. The first one with a value is the last.
fn is_in_group(arg: &str, short: &str) -> bool {
    let Some(group) = arg.strip_prefix('-') else { return false };
    let first_with_value = group.find(|letter| !WITHOUT_VALUE.contains(letter));
    let end = first_with_value.map_or(group.len(), |at| (at + 1).min(group.len()));
    group.get(..end).is_some_and(|letters| letters.contains(short))
}

/// The options with which `squeue` prints what [`status`] reads, also of hidden partitions.
fn jobs() -> impl Iterator<Item = String> {
    ["--all", "--noheader", "--states=all", "--format=%i|%T|%r"].into_iter().map(str::to_owned)
}

/// Returns the script of a job, which becomes the process that holds it. A login shell starts it, so
/// that agents have the environment of the node.
fn script(program: &str, folder: &Path, number: u64) -> String {
    let (folder, number) = (folder.display().to_string(), number.to_string());
    let held = line(program, &[HOLD, &folder, &number], true);
    format!("#!/bin/sh\n: \"${{SHELL:=/bin/sh}}\"\n{held}\n")
}

/// Returns the variables of this process that change what the clients do: those of a job, and options.
pub fn variables_about_jobs() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_about_job(name))
}

fn is_about_job(name: &OsStr) -> bool {
    const PREFIXES: [&str; 6] = ["SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_", "SACCT_"];
    let name = name.to_string_lossy();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && name != "SLURM_CONF"
}

#[cfg(test)]
mod tests {
    use super::super::client::ClientFailure;
    use super::super::places::PlaceStatus;
    use super::super::{Engine, Placement};
    use super::*;
    use crate::error::Code;

    fn cluster(args: &[&str]) -> SlurmCluster {
        SlurmCluster {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            folder: "/scratch/me/placed".into(),
        }
    }

    #[test]
    fn a_job_is_that_of_one_runtime_and_has_nothing_secret() {
        let cluster = cluster(&["--mem=4G"]);
        let name = super::super::places::place_name("0a1b2c3d", "w_1", 3);
        let started = cluster.start(&PlaceStart {
            name: &name,
            worker: "w_1",
            number: 3,
            folder: Path::new("/scratch/me/placed/w_1"),
            program: "/scratch/me/it's/subagent-runtime",
            request: "",
            manifest: super::super::kubernetes::manifest::PodManifest::default(),
        });
        assert_eq!(
            started.line(),
            "sbatch --output=/scratch/me/placed/w_1/job.log --open-mode=append --export=NONE \
             --dependency=singleton --mem=4G --parsable --no-requeue \
             --job-name=subagent-0a1b2c3d-w_1-3"
        );
        let script = started.input.unwrap();
        assert!(script.starts_with("#!/bin/sh\n"), "{script}");
        assert!(script.contains("subagent-runtime'\\'' hold /scratch/me/placed/w_1 3"), "{script}");
        assert_eq!(cluster.end(&name).line(), "scancel --me --name=subagent-0a1b2c3d-w_1-3");
        assert!(
            cluster.look(&name).line().ends_with("--format=%i|%T|%r --me --name=subagent-0a1b2c3d-w_1-3")
        );
        let dial = cluster.exec("7", "/p", &["dial", "w_1"]).line();
        assert!(dial.starts_with("srun --jobid=7 --overlap") && dial.ends_with("/p dial w_1"), "{dial}");
    }

    #[test]
    fn only_a_terminal_state_is_the_end() {
        let text = |value: &str| value.to_owned();
        for (printed, expected) in [
            ("", PlaceStatus::Absent),
            ("squeue: error: x\n", PlaceStatus::Absent),
            ("7|RUNNING|None\n", PlaceStatus::Ready { handle: text("7") }),
            ("7|PENDING|Resources\n", PlaceStatus::Waiting { handle: text("7"), reason: text("Resources") }),
            ("7|PENDING|None", PlaceStatus::Waiting { handle: text("7"), reason: text("PENDING") }),
            ("7|COMPLETING|None", PlaceStatus::Held { handle: text("7"), state: text("COMPLETING") }),
            ("7|A_LATER_STATE|None", PlaceStatus::Held { handle: text("7"), state: text("A_LATER_STATE") }),
            ("7|TIMEOUT|None", PlaceStatus::Gone { handle: text("7"), state: text("TIMEOUT") }),
            ("7|CANCELLED by 1000|None", PlaceStatus::Gone { handle: text("7"), state: text("CANCELLED") }),
            ("10|PENDING|Dependency\n9|RUNNING|None", PlaceStatus::Ready { handle: text("9") }),
            ("7|NODE_FAIL|NodeDown", PlaceStatus::Held { handle: text("7"), state: text("NODE_FAIL") }),
            ("5+1|RUNNING|None", PlaceStatus::Ready { handle: text("5+1") }),
            ("10|RUNNING|None\n9|FAILED|None", PlaceStatus::Ready { handle: text("10") }),
            (
                "9|FAILED|x\n10|OUT_OF_MEMORY|x",
                PlaceStatus::Gone { handle: text("10"), state: text("OUT_OF_MEMORY") },
            ),
        ] {
            assert_eq!(status(printed), expected, "{printed}");
        }
    }

    #[test]
    fn a_cluster_has_a_name() {
        assert_eq!(cluster_name("Configuration data\nClusterName             = c1\nx = y\n"), Some("c1"));
        assert_eq!(cluster_name("slurm_load_ctl_conf error"), None);
    }

    #[test]
    fn options_that_take_the_job_away_are_refused() {
        let problem = |args: &[&str]| cluster(args).problem().map(|(key, _)| key);
        for bad in [
            "--array=1-3",
            "-a1-3",
            "--arr=1",
            "--wrap=x",
            "--job-name=x",
            "-Jx",
            "--wait",
            "-W",
            "--requeue",
            "-M",
            "--",
            "a\0",
            "--test-only",
            "--te",
            "--ar=1-2",
            "-QW",
            "--dependency=afterok:1",
            ":",
        ] {
            assert_eq!(problem(&[bad]), Some("args"), "{bad}");
        }
        let good = [
            "--mem=4G",
            "-p",
            "gpu",
            "--time=8:00:00",
            "--no-requeue",
            "--wckey=x",
            "--account=me",
            "-n1",
            "-c2",
            "-Qpweb",
            "-Chaswell",
        ];
        assert_eq!(problem(&good), None);
        let relative = SlurmCluster { folder: "x".into(), ..cluster(&[]) };
        assert_eq!(relative.problem().unwrap().0, "folder");
    }

    #[test]
    fn each_failure_of_a_client_has_advice() {
        let engine = Engine::Slurm(cluster(&[]));
        let placement = Placement {
            name: "cluster".into(),
            cwd: "/x".into(),
            program: None,
            lease_ms: None,
            git: None,
            engine,
        };
        for (said, reason) in [
            (
                "squeue: error: x\nslurm_load_jobs error: Unable to contact slurm controller (connect failure)",
                "engine",
            ),
            ("sbatch: error: Batch job submission failed: Invalid partition name specified", "job"),
            ("srun: error: Unable to confirm allocation for job 1: Job is pending execution", "client"),
            ("srun: error: Slurm job 3 has expired", "client"),
        ] {
            let error = ClientFailure::Exited(Some(1), said.as_bytes()).error(&placement, "/p");
            assert_eq!((error.code, &error.details["reason"]), (Code::PlacementUnreachable, &reason.into()));
        }
        let missing = b"slurmstepd-n1: error: execve(): /p: No such file or directory";
        let missing = ClientFailure::Exited(Some(2), missing).error(&placement, "/p");
        assert!(missing.details["recommendedAction"].as_str().unwrap().contains("prepare cluster"));
        let there =
            ClientFailure::Exited(Some(3), b"srun: error: n1: task 0: Exited").error(&placement, "/p");
        assert_eq!(there.code, Code::PlacementNotPrepared);
        let ended =
            ClientFailure::Exited(Some(143), b"error: *** STEP 8.0 ON n1 CANCELLED").error(&placement, "/p");
        assert_eq!((ended.code, &ended.details["reason"]), (Code::PlacementUnreachable, &"signal".into()));
    }
}
