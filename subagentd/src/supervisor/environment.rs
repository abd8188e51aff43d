//! The environment of a worker's agent, kept for restarts: a 0600 file beside the sockets, on a file system that
//! does not outlive a reboot, never inside a checkout. Removed when the worker stops.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::{Code, Error, Result};

pub(super) type Variables = Vec<(Bytes64, Bytes64)>;

/// Writes the file anew.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn write(path: &Path, variables: &Variables) -> Result<()> {
    let failed = |error: io::Error| {
        Error::new(
            Code::StorageError,
            format!("cannot write the worker's environment {}: {error}", path.display()),
        )
    };
    let text = serde_json::to_vec(variables).map_err(|error| failed(error.into()))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(&text).map_err(failed)
}

/// Reads the file.
///
/// # Errors
/// `ENV_REQUIRED` when it is gone, as after a reboot.
pub(super) fn read(path: &Path) -> Result<Variables> {
    let required = |why: String| {
        Error::new(
            Code::EnvRequired,
            format!(
                "the worker's environment is not kept any more ({why}); start a new worker from the right shell"
            ),
        )
    };
    let text = fs::read(path).map_err(|error| required(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| required(error.to_string()))
}

/// Removes the file.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a worker's environment could not be removed");
        }
        _ => {}
    }
}
