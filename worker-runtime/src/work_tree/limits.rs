//! Limits of git's work for us.

use std::time::{Duration, Instant};

/// Maximum time that recording a base may delay a worker's first turn.
const DEADLINE: Duration = Duration::from_secs(5);

/// Limits on changed and untracked files.
#[derive(Debug, Clone, Copy)]
pub struct WorkTreeLimits {
    /// Maximum number of files.
    pub files: usize,
    /// Maximum total size, in bytes.
    pub bytes: u64,
    /// Deadline after which git is ended.
    pub until: Instant,
}

impl WorkTreeLimits {
    /// The limits for a comparison, which may take this long.
    #[must_use]
    pub fn of_diff(patience: Duration) -> Self {
        Self { files: 200_000, bytes: 1 << 30, until: Instant::now() + patience }
    }

    /// The limits for recording a base.
    pub(super) fn of_base() -> Self {
        Self { files: 20_000, bytes: 64 * 1024 * 1024, until: Instant::now() + DEADLINE }
    }
}
