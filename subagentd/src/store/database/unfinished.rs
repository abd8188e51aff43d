//! Temporary files for copies of the database, and the check for files that a copy may replace.
//! Several daemons may copy into one folder. The name identifies the process, so only files of dead
//! processes are removed.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use subagent_config::proc;

use super::schema;

/// Prefix and suffix of the file name.
const BEGIN: &str = ".subagent-backup.";
const END: &str = ".unfinished";
/// Header of a database file: <https://sqlite.org/fileformat2.html#the_database_header>.
const MAGIC: &[u8] = b"SQLite format 3\0";
const APPLICATION_ID: std::ops::Range<usize> = 68..72;

/// Creates an empty file with mode 0600 and a unique name. SQLite would apply the umask instead.
pub(super) fn make(folder: &Path) -> io::Result<PathBuf> {
    remove_left(folder);
    let pid = nix::unistd::getpid().as_raw();
    let mut chance = [0; 8];
    getrandom::fill(&mut chance).map_err(|error| io::Error::other(error.to_string()))?;
    let (start, chance) = (proc::start_time(pid)?, u64::from_ne_bytes(chance));
    let path = folder.join(format!("{BEGIN}{pid}-{start}-{chance:016x}{END}"));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok(path)
}

/// Whether this regular file is empty or one of our databases. Never blocks, even if the file is
/// replaced by a pipe.
pub(super) fn is_empty_or_ours(file: &Path) -> io::Result<bool> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(file)?;
    let meta = opened.metadata()?;
    let mut head = Vec::new();
    opened.take(APPLICATION_ID.end as u64).read_to_end(&mut head)?;
    let is_ours = || {
        let id = head.get(APPLICATION_ID).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        head.starts_with(MAGIC) && id.map(i64::from) == Some(schema::APPLICATION_ID)
    };
    Ok(meta.is_file() && (head.is_empty() || is_ours()))
}

/// Removes unfinished copies of dead processes.
fn remove_left(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(maker).is_some_and(is_gone)
            && is_empty_or_ours(&entry.path()).unwrap_or(false)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns pid and start time of the process that created a file with this name.
fn maker(name: &str) -> Option<(i32, u64)> {
    let mut parts = name.strip_prefix(BEGIN)?.strip_suffix(END)?.split('-');
    let maker = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let chance = parts.next()?;
    (chance.len() == 16 && parts.next().is_none()).then_some(maker)
}

fn is_gone((pid, start_time): (i32, u64)) -> bool {
    match proc::process(pid) {
        Ok(process) => process.ended || process.start_time != start_time,
        Err(error) => proc::is_gone(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_that_is_gone_has_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = make(dir.path()).unwrap();
        let gone = dir.path().join(".subagent-backup.1-0-00000000000000ff.unfinished");
        let texts = [".copy.db.unfinished", ".subagent-backup.1-0-00000000000000fe.unfinished"];
        fs::write(&gone, "").unwrap();
        for name in texts {
            fs::write(dir.path().join(name), "mine").unwrap();
        }
        let other = make(dir.path()).unwrap();
        assert!(own.exists() && other.exists() && own != other && !gone.exists());
        for name in texts {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "mine");
        }
    }
}
