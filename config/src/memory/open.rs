//! Opens files below a trusted folder. Never follows links, and never blocks on a pipe or device.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_root, openat};
use nix::sys::stat::{Mode, mkdirat};

/// The action for missing folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// Do not create them.
    Nothing,
    /// Create them with their parents.
    Missing,
}

const FOLDER: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
/// Without `O_NONBLOCK`, opening a pipe waits for its other end.
const FILE: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY).union(OFlag::O_CLOEXEC);

/// Opens the folder with these names below `root`; `root` itself may contain links. Returns `None` if it is
/// missing.
///
/// # Errors
/// `NotADirectory` for a link or a file in the path, and other errors of the system.
pub(super) fn folder(root: &Path, names: &[&str], make: Make) -> io::Result<Option<OwnedFd>> {
    if make == Make::Missing {
        std::fs::create_dir_all(root)?;
    }
    let mut at = match open_root(root, FOLDER, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(None),
        opened => opened?,
    };
    for name in names {
        if make == Make::Missing {
            match mkdirat(&at, *name, Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        at = match openat(&at, *name, FOLDER | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let what = format!("`{name}` is a link or not a folder");
                return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(at))
}

/// Opens a regular file of an open folder for reading. Returns `None` if it is missing.
///
/// # Errors
/// `InvalidInput` if it is not a regular file, and other errors of the system.
pub(super) fn file(folder: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    match regular(folder, name, OFlag::O_RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens a regular file of an open folder for appending and creates it if it is missing.
///
/// # Errors
/// Those of [`file`].
pub(super) fn append(folder: &OwnedFd, name: &str) -> io::Result<File> {
    regular(folder, name, OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT)
}

fn regular(folder: &OwnedFd, name: &str, flags: OFlag) -> io::Result<File> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "it is a link or not a regular file");
    let mode = Mode::from_bits_truncate(0o666);
    let file = match openat(folder, name, FILE | flags, mode) {
        Ok(file) => File::from(file),
        // These mean a link, a socket, a pipe without a reader, or a folder.
        Err(Errno::ELOOP | Errno::ENXIO | Errno::EISDIR) => return Err(wrong()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(wrong()) }
}

/// Reads at most `most` bytes from the beginning of a file.
pub(super) fn first_bytes(file: &File, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
