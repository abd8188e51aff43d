//! Opens the paths of a sandbox without following links, and finds what surrounds hidden ones. The
//! paths were free of links when they were resolved. A link that exists now was created later, and
//! is not followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file or folder that is held open.
pub(crate) struct HeldPath {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: FileType,
}

/// Opens a path, if it exists.
pub(crate) fn open(path: &Path) -> io::Result<Option<HeldPath>> {
    let opened = match openat2(CWD, path, LOOK, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Kernels before 5.6: ensures only that the last name is not a link.
        Err(Errno::NOSYS) => openat(CWD, path, LOOK, Mode::empty()),
        opened => opened,
    };
    match opened {
        Ok(fd) => Ok(Some(HeldPath { kind: kind(&fd)?, fd })),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP) => Err(io::Error::other(format!("{} now leads through a link", path.display()))),
        Err(error) => Err(error.into()),
    }
}

fn kind(fd: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Calls `grant` for a path and everything below it that is neither hidden nor above something
/// hidden. Together this is everything that exists now and is not hidden.
pub(crate) fn around(
    path: &Path,
    hidden: &[PathBuf],
    grant: &mut dyn FnMut(&Path, HeldPath) -> io::Result<()>,
) -> io::Result<()> {
    match open(path)? {
        Some(held) => walk(path, held, hidden, grant),
        None => Ok(()),
    }
}

fn walk(
    path: &Path,
    held: HeldPath,
    hidden: &[PathBuf],
    grant: &mut dyn FnMut(&Path, HeldPath) -> io::Result<()>,
) -> io::Result<()> {
    if super::within(path, hidden) || held.kind == FileType::Symlink {
        return Ok(());
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return grant(path, held);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = openat(&held.fd, ".", flags, Mode::empty());
    let listed = match listed {
        Ok(listed) => listed,
        // Folders that the user may not list, and other files, are not granted.
        Err(Errno::ACCESS | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in Dir::read_from(&listed)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match openat(listed.as_fd(), name, LOOK, Mode::empty()) {
            Ok(fd) => {
                let kind = kind(&fd)?;
                walk(&path.join(name), HeldPath { fd, kind }, hidden, grant)?;
            }
            // It was removed meanwhile, or the user may not inspect it.
            Err(Errno::NOENT | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn everything_around_hidden_paths_is_found_and_nothing_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["a/b/secret", "a/c", "d"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("a/netrc"), "").unwrap();
        symlink(base.join("a/b/secret"), base.join("way-in")).unwrap();
        let hidden = [base.join("a/b/secret"), base.join("a/netrc"), base.join("a/not-there-yet")];
        let mut found = Vec::new();
        let mut grant = |path: &Path, _: HeldPath| {
            found.push(path.strip_prefix(&base).unwrap().to_owned());
            Ok(())
        };
        around(&base, &hidden, &mut grant).unwrap();
        found.sort();
        assert_eq!(found, [PathBuf::from("a/c"), PathBuf::from("d")]);
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/target")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert!(open(&base.join("link/target")).is_err());
        assert!(open(&base.join("real/target")).unwrap().is_some());
        assert!(open(&base.join("real/none")).unwrap().is_none());
    }
}
