//! Path of the recorded base of a worker's diff.

use std::path::{Path, PathBuf};

use subagent_protocol::work_tree::FOLDER;

/// Returns the folder that holds a worker's base.
pub(crate) fn base_folder(state_dir: &Path, worker: &str) -> PathBuf {
    state_dir.join(FOLDER).join(worker)
}
