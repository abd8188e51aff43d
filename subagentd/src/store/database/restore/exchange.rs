//! Exchanges the old database for the new one.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use subagent_config::state_dir::RESTORING_DATABASE;

/// Exchanges two files atomically, so that the name holds a complete database at any time. Without
/// file system support, `kept` becomes a copy of the old database and `new` is moved.
pub(super) fn exchange(new: &Path, database: &Path, kept: &Path) -> io::Result<()> {
    let exchanged = subagent_failpoint::check("restore.before_rename").and_then(|()| {
        renameat_with(CWD, new, CWD, database, RenameFlags::EXCHANGE).map_err(io::Error::from)
    });
    match exchanged {
        Err(error) if is_not_offered(&error) => replace(new, database, kept),
        exchanged => exchanged,
    }
}

fn is_not_offered(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Copies the old database first, under a name that the next restore clears, so `kept` is always
/// complete.
fn replace(new: &Path, database: &Path, kept: &Path) -> io::Result<()> {
    let unfinished = database.with_file_name(RESTORING_DATABASE);
    let copied = subagent_failpoint::check("restore.before_copy")
        .and_then(|()| fs::copy(database, &unfinished))
        .and_then(|_| File::open(&unfinished)?.sync_all())
        .and_then(|()| fs::rename(&unfinished, kept));
    subagent_failpoint::hit("restore.after_copy");
    let replaced = copied.and_then(|()| fs::rename(new, database));
    if replaced.is_err() {
        let _ = fs::remove_file(unfinished);
        let _ = fs::remove_file(kept);
    }
    replaced
}
