//! `subagent-runtime logs WORKER BYTES [ROOT]`: prints the end of the log of a worker's agents where the
//! daemon has no such file. Must not change anything.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use subagent_protocol::placement::PLACED_LOG;
use subagent_protocol::stream::MAGIC;

use super::there;

/// Prints [`MAGIC`], then at most this many bytes. A log that does not exist yet is empty.
///
/// # Errors
///
/// The log cannot be read, or the arguments are wrong.
pub(crate) fn run(
    worker: Option<OsString>,
    bytes: Option<OsString>,
    root: Option<OsString>,
) -> io::Result<()> {
    let worker = super::worker_id(worker)?;
    let bytes: Option<u64> = bytes.and_then(|bytes| bytes.to_str()?.parse().ok());
    let bytes = bytes.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the second argument must be a number of bytes")
    })?;
    let log = there::root(root.map(PathBuf::from))?.join(worker.as_str()).join(PLACED_LOG);
    let end = match end_of(&log, bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        end => end.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", log.display())))?,
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(MAGIC)?;
    stdout.write_all(&end)?;
    stdout.flush()
}

fn end_of(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    // A pipe with this name must not block us.
    let mut file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    let known = file.metadata()?;
    if !known.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    file.seek(SeekFrom::Start(known.len().saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_end_of_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PLACED_LOG);
        fs::write(&path, b"one\ntwo\n").unwrap();
        assert_eq!(end_of(&path, 4).unwrap(), b"two\n");
        assert_eq!(end_of(&path, 100).unwrap(), b"one\ntwo\n");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(end_of(&link, 4).is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(end_of(&pipe, 4).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
