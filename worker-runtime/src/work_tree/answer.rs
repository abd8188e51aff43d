//! `subagent-runtime diff`: one comparison for the daemon, which must not run git or compare texts itself.

use std::io::{self, Write as _};
use std::time::Duration;

use subagent_protocol::work_tree::{Compared, DiffTask};

use super::{Changes, WorkTreeLimits, compare, reported, total};
use crate::worktree;

/// Maximum time of a comparison, below that of a request.
const PATIENCE: Duration = Duration::from_secs(40);
/// Maximum number of files in an answer.
const MAX_FILES: usize = 5_000;
/// Maximum size of all patches in an answer, in bytes.
const MAX_PATCH_BYTES: usize = 4 * 1024 * 1024;

/// Reads a [`DiffTask`] from standard input, and writes a [`Compared`].
///
/// # Errors
///
/// The input is not a task, or the output is closed.
pub(crate) fn answer() -> io::Result<()> {
    let task: DiffTask = serde_json::from_reader(io::stdin().lock())?;
    let env: Vec<_> = std::env::vars_os().collect();
    let compared = match (&task.events, &task.copy) {
        (Some(events), _) => Ok(reported(events, &task.cwd)),
        (None, Some(copy)) => worktree::changed_files(copy, &env).map_err(|error| error.message),
        (None, None) => compare(&task.folder, &env, true, WorkTreeLimits::of_diff(PATIENCE)),
    };
    let compared = match compared {
        Ok(changes) => bounded(changes),
        Err(reason) => Compared { reason: Some(reason), ..Compared::default() },
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &compared)?;
    out.flush()
}

/// Leaves out files and patches that are too many for an answer. The numbers are of all files.
fn bounded(mut files: Changes) -> Compared {
    let (added, deleted) = total(&files);
    let count = files.len();
    files.truncate(MAX_FILES);
    let mut truncated = files.len() < count;
    let mut room = MAX_PATCH_BYTES;
    for file in &mut files {
        match room.checked_sub(file.patch.len()) {
            Some(left) => room = left,
            None => {
                file.patch.clear();
                truncated = true;
            }
        }
    }
    Compared { reason: None, files, count: count as u64, added, deleted, truncated }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::FileChange;

    use super::*;

    fn file(number: usize, patch: usize) -> FileChange {
        FileChange {
            path: number.to_string(),
            old_path: None,
            status: "modified".to_owned(),
            added: Some(1),
            deleted: Some(2),
            patch: "x".repeat(patch),
        }
    }

    #[test]
    fn an_answer_is_bounded_and_counts_everything() {
        let small = bounded(vec![file(0, 10), file(1, 10)]);
        assert_eq!((small.count, small.added, small.deleted, small.truncated), (2, 2, 4, false));
        // One patch that is too large does not take the room of those after it.
        let large = bounded(vec![file(0, 10), file(1, MAX_PATCH_BYTES), file(2, 10)]);
        let patches: Vec<usize> = large.files.iter().map(|file| file.patch.len()).collect();
        assert_eq!((patches, large.truncated), (vec![10, 0, 10], true));
        let many = bounded((0..=MAX_FILES).map(|number| file(number, 0)).collect());
        assert_eq!((many.files.len(), many.truncated), (MAX_FILES, true));
        assert_eq!((many.count, many.added), (MAX_FILES as u64 + 1, MAX_FILES as u64 + 1));
    }
}
