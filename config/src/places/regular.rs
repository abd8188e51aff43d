//! Opens regular files of the state dir. A pipe or device under such a name must not block the caller.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc::{ENXIO, O_NOCTTY, O_NONBLOCK};

/// Maximum size of a file that is read as a whole, in bytes. Real ones have a few hundred.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Opens a regular file without blocking. `flags` are added to those of the options.
///
/// # Errors
/// The error of the system; `InvalidInput` if it is not a regular file.
pub fn open(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    opened(path, options, flags).map(|(file, _)| file)
}

fn opened(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<(File, Metadata)> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; move it away");
    let file = match options.custom_flags(flags | O_NONBLOCK | O_NOCTTY).open(path) {
        // A pipe without a reader, or a socket.
        Err(error) if error.raw_os_error() == Some(ENXIO) => return Err(no_file()),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(no_file()) }
}

/// Opens a regular file for reading.
///
/// # Errors
/// Those of [`open`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true), 0)
}

/// Reads a small regular file.
///
/// # Errors
/// Those of [`open`]; `FileTooLarge`.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, metadata) = opened(path, OpenOptions::new().read(true), 0)?;
    if metadata.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // Avoids repeated growth of the buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn only_a_file_is_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read(&at("file")).unwrap(), b"text");
        assert_eq!(read(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        for name in ["pipe", "socket", "."] {
            assert_eq!(read(&at(name)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        for name in ["pipe", "socket"] {
            for options in
                [OpenOptions::new().append(true).create(true), OpenOptions::new().read(true).write(true)]
            {
                let error = open(&at(name), options, 0).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
            }
        }
        assert!(open(&at("new"), OpenOptions::new().append(true).create(true), 0).is_ok());
    }
}
