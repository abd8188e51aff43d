//! Who a worker is, and where its files are. Nothing of it changes while its actor lives.

use std::path::PathBuf;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};

use crate::store::{ControllerRow, RowId, WorkerRow};
use crate::supervisor::runtimes::place;
use crate::supervisor::shared::DaemonSettings;

/// The ids, the owner and the paths of a worker.
pub(super) struct WorkerIdentity {
    pub(super) id: RowId,
    pub(super) worker_id: WorkerId,
    pub(super) controller: ControllerRow,
    pub(super) cwd: PathBuf,
    /// The folder of the journal, and of the locks of a runtime that is not placed.
    pub(super) directory: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) environment: PathBuf,
    pub(super) log: PathBuf,
}

impl WorkerIdentity {
    pub(super) fn of(setup: &DaemonSettings, row: &WorkerRow, controller: ControllerRow) -> Result<Self> {
        let id = row.worker_id.as_str();
        Ok(Self {
            id: row.id,
            worker_id: row.worker_id.clone(),
            controller,
            cwd: PathBuf::from(&row.cwd),
            directory: setup.state_dir.join("runtimes").join(id),
            socket: place::socket_path(setup, row.placement.as_ref(), id)?,
            environment: setup.runtime_dir.worker_environment(id),
            log: place::log_path(setup, row.placement.as_ref(), id),
        })
    }

    /// Adds file locations to the error of a failed start.
    pub(super) fn located(&self, error: Error, launcher: &str) -> Error {
        if !error.code.as_str().starts_with("BACKEND_") {
            return error;
        }
        let permission = error.code == Code::BackendPermissionDenied;
        let login = error.facts().reason_category.0 == Some("auth");
        let error = error
            .with("workerId", self.worker_id.as_str())
            .with("socketPath", self.socket.display().to_string())
            .with("logPath", self.log.display().to_string());
        if login {
            // A runtime that knows its launcher sets the command itself.
            let command = format!("subagent launcher login {launcher}");
            let said = error.facts().recommended_command.0.map(str::to_owned);
            return error.with("recommendedCommand", said.unwrap_or(command));
        }
        if !permission {
            return error;
        }
        error.with("recommendedCommand", format!("subagent launcher probe {launcher} --json"))
    }
}
