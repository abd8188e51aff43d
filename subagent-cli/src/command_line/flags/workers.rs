//! The workers that a command is about, as they are typed.

use clap::{ArgGroup, Args};

use super::{CwdFlag, JsonFlag};

/// The workers that a command shows, and what all such commands take.
///
/// The first one has an argument of its own: the contract's errors name it alone.
#[derive(Debug, Args)]
pub(crate) struct ShownWorkers {
    /// The worker: its name, its id, the beginning of its id, or @last; more can follow
    #[arg(value_name = "WORKER_ID", required_unless_present = "worker_id", conflicts_with = "worker_id")]
    worker: Option<String>,
    /// More workers
    // Hidden, because clap puts it into the usage of errors.
    #[arg(value_name = "WORKER", hide = true)]
    others: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER", hide = true)]
    worker_id: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl ShownWorkers {
    /// Returns the workers as they were typed, at least one.
    pub(crate) fn all(&self) -> Vec<String> {
        let first = self.worker.as_ref().or(self.worker_id.as_ref());
        first.into_iter().chain(&self.others).cloned().collect()
    }
}

/// Workers that were typed, in either form.
#[derive(Debug, Args)]
pub(crate) struct Addresses {
    /// The workers: names, ids, beginnings of ids, or @last
    #[arg(value_name = "WORKER", conflicts_with = "worker_id")]
    workers: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER", hide = true)]
    worker_id: Vec<String>,
}

impl Addresses {
    /// The workers as they were typed.
    pub(crate) fn all(&self) -> &[String] {
        if self.workers.is_empty() { &self.worker_id } else { &self.workers }
    }
}

/// The workers that a command is about, and what all such commands take.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id"])))]
pub(crate) struct SeveralWorkers {
    #[command(flatten)]
    pub(crate) workers: Addresses,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
