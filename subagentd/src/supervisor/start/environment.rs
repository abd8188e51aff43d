//! The environment of a worker's agent, kept for restarts in a file of mode 0600 beside the
//! sockets. The file system does not survive a reboot. Removed when the worker stops. After a crash
//! or an error, the daemon removes it when it ends or starts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_config::regular;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::mcp::McpServers;
use subagent_protocol::{Code, Error, Result};

use super::delegation::TaskToken;
use super::places;
use crate::store::workers;
use crate::supervisor::shared::SupervisorState;

pub(crate) type Variables = Vec<(Bytes64, Bytes64)>;

/// The agent's variables and MCP servers. The values of both are secrets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentEnvironment {
    pub(crate) variables: Variables,
    pub(crate) mcp_servers: McpServers,
    /// The variables of the tasks of a worker on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task_variables: Option<Variables>,
    /// The token with which the agent creates tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task_token: Option<TaskToken>,
}

impl AgentEnvironment {
    /// Moves the environment out of a request. The idempotency check ignores it: a repeated request
    /// may come with or without it.
    ///
    /// # Errors
    /// Those of [`places::check_servers`].
    pub(crate) fn taken(variables: &mut Option<Variables>, servers: &mut McpServers) -> Result<Option<Self>> {
        let mcp_servers = std::mem::take(servers);
        places::check_servers(&mcp_servers)?;
        Ok(variables.take().map(|variables| Self { variables, mcp_servers, ..Self::default() }))
    }
}

/// Content of the file. Without servers and token it is only the list of variables, the format of
/// version 0.1.0.
#[derive(Deserialize)]
#[serde(untagged)]
enum EnvironmentFile {
    Variables(Variables),
    Kept(AgentEnvironment),
}

/// Writes the file, replacing an existing one.
pub(crate) fn write(path: &Path, kept: &AgentEnvironment) -> Result<()> {
    let failed = |error: io::Error| {
        Error::new(
            Code::StorageError,
            format!("cannot write the worker's environment {}: {error}", path.display()),
        )
    };
    let text = if kept.mcp_servers.is_empty() && kept.task_token.is_none() && kept.task_variables.is_none() {
        serde_json::to_vec(&kept.variables)
    } else {
        serde_json::to_vec(kept)
    };
    let text = text.map_err(|error| failed(error.into()))?;
    subagent_failpoint::check("environment.before_write").map_err(failed)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(&text).map_err(failed)?;
    subagent_failpoint::hit("environment.after_write");
    Ok(())
}

/// Reads the file.
///
/// # Errors
/// `ENV_REQUIRED` if it is missing, for example after a reboot.
pub(crate) fn read(path: &Path) -> Result<AgentEnvironment> {
    let required = |why: &str| {
        let message = format!("the worker's environment is lost{why}, as after a reboot");
        Error::new(Code::EnvRequired, message)
            .recommend("send a message or restart the worker from the right shell, or start a new worker")
    };
    let text = regular::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => required(""),
        _ => required(&format!(" ({error})")),
    })?;
    match serde_json::from_slice(&text).map_err(|error| required(&format!(" ({error})")))? {
        EnvironmentFile::Variables(variables) => {
            Ok(AgentEnvironment { variables, ..AgentEnvironment::default() })
        }
        EnvironmentFile::Kept(kept) => Ok(kept),
    }
}

/// Removes files from the socket folder that belong to workers that are stopped or were never
/// stored. Call it only before requests are served or after the store is closed: the environment of
/// a new worker is written before its row.
pub(crate) async fn remove_strays(shared: &SupervisorState) {
    let files = match shared.setup.runtime_dir.worker_files() {
        Ok(files) if files.is_empty() => return,
        Ok(files) => files,
        Err(error) => {
            let path = shared.setup.runtime_dir.path().display();
            return tracing::warn!(%path, %error, "the folder of the sockets cannot be read");
        }
    };
    let strays = shared.store.read(move |connection| {
        let is_stray = |worker_id: &str| match workers::get(connection, worker_id) {
            Ok(row) => row.is_none_or(|row| row.state == "stopped"),
            // The worker exists, although its row is damaged.
            Err(error) => {
                tracing::warn!(worker = worker_id, %error, "the files of a worker are kept");
                false
            }
        };
        let strays = files.into_iter().filter(|(worker_id, _)| is_stray(worker_id));
        Ok(strays.map(|(_, path)| path).collect::<Vec<PathBuf>>())
    });
    match strays.await {
        Ok(strays) => strays.iter().for_each(|path| remove(path)),
        Err(error) => tracing::warn!(%error, "the leftover files of workers cannot be determined"),
    }
}

pub(crate) fn remove(path: &Path) {
    match subagent_failpoint::check("environment.before_unlink").and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a worker's file could not be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Supervisor;
    use crate::supervisor::testing::{folder, setup};

    #[tokio::test]
    async fn what_workers_left_that_were_never_stored_is_removed_at_the_start() {
        let dir = folder();
        let setup = setup(dir.path());
        let folder = &setup.runtime_dir;
        let strays =
            [folder.worker_environment("w_0000000001"), folder.worker_socket("w_0000000001").unwrap()];
        let kept = [folder.daemon_socket(), folder.path().join("0000000000000000-w_0000000001.env")];
        for path in strays.iter().chain(&kept) {
            write(path, &AgentEnvironment::default()).unwrap();
        }
        let supervisor = Supervisor::open(setup.clone()).await.unwrap();
        for path in strays {
            assert!(!path.exists(), "{}", path.display());
        }
        for path in kept {
            assert!(path.exists(), "{}", path.display());
        }
        supervisor.shutdown(false).await.unwrap();
    }
}
