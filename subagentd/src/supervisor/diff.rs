//! The diff of a worker, by `subagent-runtime diff`. Must not run git or compare texts in this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::user_command;
use subagent_protocol::api::{DiffSource, WorkerDiff, WorkerOverview};
use subagent_protocol::command_run::CommandEnd;
use subagent_protocol::work_tree::{Compared, DiffTask, NO_REPOSITORY};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::Semaphore;

use super::inspect::InspectQuery;
use super::{Supervisor, command_run};

/// Time after which `subagent-runtime diff` is killed. It has a shorter limit of its own.
const TIMEOUT: Duration = Duration::from_secs(50);
/// Maximum size of its answer, in bytes. An answer within its own limits is smaller.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Number of tool calls to take changes from where git cannot compare: the newest updates of them.
const MAX_EVENTS: u32 = 1000;
const TYPES: [&str; 2] = ["progress.update:tool_call", "progress.update:tool_call_update"];
/// Comparisons at a time: each reads a whole work tree.
static COMPARING: Semaphore = Semaphore::const_new(2);

impl Supervisor {
    /// Returns the changes of a worker's folder since its first turn.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND`, `STORAGE_ERROR`; `INTERNAL_ERROR` if the changes cannot be computed.
    pub async fn diff(&self, worker: &str) -> Result<WorkerDiff> {
        let overview = self.worker_overview(worker).await?;
        let _place = COMPARING.acquire().await;
        let reason = match &overview.base {
            None => NO_REPOSITORY.to_owned(),
            Some(_) => match self.compared(&task(&overview)).await {
                None => "git did not finish in time".to_owned(),
                Some(Compared { reason: Some(reason), .. }) => reason,
                Some(compared) => return Ok(view(overview, compared, None)),
            },
        };
        let query = InspectQuery {
            limit: MAX_EVENTS,
            since: None,
            turn_id: None,
            event_types: Some(TYPES.map(str::to_owned).to_vec()),
        };
        let events = self.inspect(worker, query).await?.events;
        let unreadable = |error: &str| Error::new(Code::Internal, format!("no diff can be made: {error}"));
        let events = events.iter().map(serde_json::to_value).collect::<serde_json::Result<_>>();
        let events = events.map_err(|error| unreadable(&error.to_string()))?;
        let compared = self.compared(&DiffTask { events: Some(events), ..task(&overview) }).await;
        let compared =
            compared.ok_or_else(|| unreadable("the comparison did not finish in time").retryable())?;
        Ok(view(overview, compared, Some(reason)))
    }

    /// Runs a comparison; `None` if it does not finish.
    async fn compared(&self, task: &DiffTask) -> Option<Compared> {
        let program = &self.shared.setup.runtime_program;
        let argv = vec![program.to_str()?.to_owned(), "diff".to_owned()];
        let millis = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let stdin = serde_json::to_string(task).ok()?;
        let mut run = user_command::of(argv, Path::new("/"), std::env::vars_os(), stdin, millis);
        run.max_output_bytes = MAX_ANSWER_BYTES;
        let result = command_run::run(program, run).await;
        if !matches!(result.end, CommandEnd::Exited { code: 0 }) {
            tracing::warn!(end = ?result.end, error = result.stderr, "a diff was not made");
            return None;
        }
        serde_json::from_str(&result.stdout).ok()
    }
}

fn task(overview: &WorkerOverview) -> DiffTask {
    DiffTask {
        folder: PathBuf::from(&overview.base_folder),
        cwd: PathBuf::from(&overview.shown.worker.cwd),
        events: None,
    }
}

fn view(overview: WorkerOverview, compared: Compared, reason: Option<String>) -> WorkerDiff {
    let is_git = reason.is_none();
    WorkerDiff {
        worker_id: overview.shown.worker.worker_id,
        source: if is_git { DiffSource::Git } else { DiffSource::Events },
        reason,
        base: overview.base.filter(|_| is_git),
        files: compared.files,
        count: compared.count,
        added: compared.added,
        deleted: compared.deleted,
        truncated: compared.truncated,
    }
}
