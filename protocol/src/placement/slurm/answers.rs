//! What an answer of Slurm's clients means, and what to do about it.

use super::super::places::PlaceStatus;
use super::{ENDED, WAITING};

/// Returns what `squeue` or `sacct` says about the jobs of a name. The first one that can have
/// processes counts, as later ones wait for its end.
#[must_use]
pub fn status(printed: &str) -> PlaceStatus {
    let mut jobs: Vec<(u64, String, &str, &str)> = printed.lines().filter_map(job).collect();
    jobs.sort_by_key(|(number, ..)| *number);
    let live = jobs.iter().find(|(_, _, state, _)| !ENDED.contains(state));
    let Some((_, handle, state, reason)) = live.or(jobs.last()) else { return PlaceStatus::Absent };
    let handle = handle.clone();
    if ENDED.contains(state) {
        return PlaceStatus::Gone { handle, state: (*state).to_owned() };
    }
    let reason = if matches!(*reason, "" | "None") { state } else { reason };
    match *state {
        "RUNNING" => PlaceStatus::Ready { handle },
        state if WAITING.contains(&state) => PlaceStatus::Waiting { handle, reason: (*reason).to_owned() },
        state => PlaceStatus::Held { handle, state: state.to_owned() },
    }
}

/// Returns the name of the cluster in what [`super::SlurmCluster::identify`] printed.
#[must_use]
pub fn cluster_name(printed: &str) -> Option<&str> {
    printed
        .lines()
        .find_map(|line| Some(line.trim().strip_prefix("ClusterName")?.trim().strip_prefix('=')?.trim()))
}

/// Parses a line with the id, the state and the reason of a job.
fn job(line: &str) -> Option<(u64, String, &str, &str)> {
    let mut fields = line.trim().splitn(3, '|');
    let (id, state, reason) = (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
    // `CANCELLED by 1000` in the accounting.
    let state = state.split_whitespace().next()?;
    // Also one of a part of a job, which must not be taken for none.
    let number = id.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((number.parse().ok()?, id.to_owned(), state, reason.trim()))
}

/// Whether a client of Slurm itself failed, and not the command in the job.
#[must_use]
pub fn is_of_client(said: &[u8]) -> bool {
    const OF_CLIENT: [&str; 9] = [
        "srun: error: Unable to",
        "srun: error: Task launch",
        "srun: error: Invalid job",
        // It has ended since it was looked at.
        "srun: error: Slurm job",
        "srun: fatal",
        "sbatch: ",
        "squeue: ",
        "scancel: ",
        "slurm_",
    ];
    let said = String::from_utf8_lossy(said);
    said.lines().any(|line| OF_CLIENT.iter().any(|begin| line.starts_with(begin)))
}

/// Whether the engine says that it does not know a job.
#[must_use]
pub fn is_unknown(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).contains("Invalid job id")
}

/// Whether the node has no such program.
pub(in crate::placement) fn is_program_missing(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).contains("error: execve(): ")
}

/// Returns why a client failed, as a word, and what to do.
pub(in crate::placement) fn reason_of(said: &str, check: &str) -> (&'static str, String) {
    const SILENT: [&str; 5] = [
        "Unable to contact slurm controller",
        "Socket timed out",
        "Zero Bytes were transmitted",
        "configuration source",
        "Connection refused",
    ];
    let texts = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    if texts(&SILENT) {
        return ("engine", format!("check that `scontrol ping` answers on this machine, then {check}"));
    }
    if said.contains("sbatch: ") {
        return ("job", format!("correct `args` of the placement, then {check}"));
    }
    ("client", check.to_owned())
}
