//! Finds the other executables of this program, which are installed into one folder.

use std::path::PathBuf;

use subagent_protocol::Code;

use crate::failure::{Failure, Result};

/// Returns the path of the executable with this name in the folder of the running one.
///
/// The result need not exist.
///
/// # Errors
/// `DAEMON_START_FAILED` if the system does not tell the path of the running executable.
pub(crate) fn sibling_executable(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::new(Code::DaemonStartFailed, format!("cannot find out where this program is: {error}"))
    })?;
    Ok(own.with_file_name(name))
}
