//! File names used by a restore: for the prepared copy, the replaced database, and SQLite's files
//! beside each.
//! It must not open a database.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use subagent_config::state_dir::{REPLACED_DATABASE, RESTORING_DATABASE as RESTORING};
use subagent_protocol::time::Timestamp;

use crate::store::database::files::{self, INDEX, SUFFIXES, beside};

/// The prepared copy. Dropping it deletes the file, unless it was released.
pub(super) struct Unfinished(pub(super) PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            discard(&self.0);
        }
    }
}

impl Unfinished {
    /// Renames the file to include its own inode number. After a crash this shows whether the name
    /// holds the new database or, after the exchange, the old one.
    pub(super) fn name_by_number(&mut self) -> io::Result<()> {
        let number = fs::metadata(&self.0)?.ino();
        let named = self.0.with_file_name(format!("{RESTORING}-{number}"));
        fs::rename(&self.0, &named)?;
        self.0 = named;
        Ok(())
    }

    pub(super) fn let_go(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

/// Removes the files of a killed restore. A file whose inode differs from its name is a replaced
/// database and is kept.
pub(super) fn clear(state_dir: &Path, now: Timestamp) -> io::Result<()> {
    discard(&state_dir.join(RESTORING));
    for entry in fs::read_dir(state_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_prefix(RESTORING)?.strip_prefix('-')?.parse().ok());
        match number {
            Some(number) if entry.metadata()?.ino() == number => discard(&entry.path()),
            Some(_) => fs::rename(entry.path(), free_name(state_dir, now))?,
            None => {}
        }
    }
    Ok(())
}

/// Returns an unused name for the replaced database.
pub(super) fn free_name(state_dir: &Path, now: Timestamp) -> PathBuf {
    let time = now.to_string().replace([':', '+'], "-");
    let name = |again: u32| match again {
        0 => state_dir.join(format!("{REPLACED_DATABASE}{time}")),
        again => state_dir.join(format!("{REPLACED_DATABASE}{time}.{again}")),
    };
    (0..).map(name).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| name(0))
}

/// Renames SQLite's files beside a database to match another database name. The WAL index is
/// deleted: SQLite rebuilds it.
pub(super) fn move_beside(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_file(files::index(from));
    for end in SUFFIXES.into_iter().filter(|end| *end != INDEX) {
        match fs::rename(beside(from, end), beside(to, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Deletes an unused database and the files beside it.
fn discard(path: &Path) {
    let _ = fs::remove_file(path);
    discard_beside(path);
}

pub(super) fn discard_beside(path: &Path) {
    for end in SUFFIXES {
        let _ = fs::remove_file(beside(path, end));
    }
}
