//! Where the base of a worker's diff is.

use std::path::{Path, PathBuf};

use subagent_protocol::work_tree::FOLDER;

/// The folder with a worker's base.
pub(super) fn base_folder(state_dir: &Path, worker: &str) -> PathBuf {
    state_dir.join(FOLDER).join(worker)
}
