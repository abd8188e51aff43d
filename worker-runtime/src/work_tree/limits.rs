//! Bounds of what git does for us.

use std::time::{Duration, Instant};

/// The longest that recording a base holds up a worker's first turn.
const DEADLINE: Duration = Duration::from_secs(5);

/// How much is taken of changed and untracked files.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Files.
    pub files: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// When git is ended.
    pub until: Instant,
}

impl Limits {
    /// Those of a base.
    pub(super) fn of_base() -> Self {
        Self { files: 20_000, bytes: 64 * 1024 * 1024, until: Instant::now() + DEADLINE }
    }
}
