//! The state of a git work tree: recorded when a worker's first turn begins, for later comparison.
//! Must not change the user's repository (index, objects, refs, stash, work tree), and must not run
//! programs named there.

// Everything is therefore written to our own git directory, which borrows the repository's
// objects.

mod answer;
mod changes;
mod find;
mod limits;
pub(crate) mod record;
mod reported;
mod snapshot;

use std::path::Path;

pub(crate) use answer::answer;
pub use changes::{Changes, compare, total};
pub use limits::WorkTreeLimits;
pub use record::{read, record};
pub use reported::reported;

/// `subagent-runtime base CWD FOLDER`: records the state of the work tree around CWD in FOLDER.
pub(crate) fn main(cwd: &Path, folder: &Path) {
    let env: Vec<_> = std::env::vars_os().collect();
    record(cwd, folder, &env, WorkTreeLimits::of_base());
}

#[cfg(test)]
mod tests;
