//! Walks the files of a folder without following links: an agent may replace a folder by a link at
//! any moment.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::fs::{mkdirat, openat, openat2, readlinkat, statat};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Without `NONBLOCK` a pipe with the name of a file would block.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A folder in which names are created and removed.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An entry of a walk.
pub(super) enum Found {
    Folder(Stat),
    File(File, Stat),
    /// A symbolic link with its target.
    Link(Vec<u8>),
}

/// Calls `visit` with the relative path of each folder, file and link below `top`, folders before
/// their content. Leaves out the absolute paths `without`, and sockets, pipes and devices.
pub(super) fn walk(
    top: &Path,
    without: &[PathBuf],
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let folder = openat(CWD, top, FOLDER, Mode::empty())?;
    CopyWalk { top, without, visit }.folder(&folder, Path::new(""))
}

struct CopyWalk<'a> {
    top: &'a Path,
    without: &'a [PathBuf],
    visit: &'a mut dyn FnMut(&Path, Found) -> io::Result<()>,
}

impl CopyWalk<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &Path) -> io::Result<()> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = path.join(name);
            if self.without.contains(&self.top.join(&path)) {
                continue;
            }
            match self.entry(folder.as_fd(), name, &path) {
                // It was removed or replaced meanwhile.
                Err(error) if is_race(&error) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> io::Result<()> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let inner = openat(folder, name, FOLDER, Mode::empty())?;
                (self.visit)(path, Found::Folder(stat))?;
                self.folder(&inner, path)
            }
            FileType::RegularFile => {
                let file = File::from(openat(folder, name, FILE, Mode::empty())?);
                (self.visit)(path, Found::File(file, stat))
            }
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                (self.visit)(path, Found::Link(target.into_bytes()))
            }
            _ => Ok(()),
        }
    }
}

fn is_race(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// What is at one path below a folder.
pub(super) enum At {
    Nothing,
    Here(Found),
    /// A folder, a file in the place of one of its folders, or neither file nor link.
    Blocked,
}

/// Looks at one path below `top`, without following links.
pub(super) fn at(top: &Path, path: &Path) -> io::Result<At> {
    let root = openat(CWD, top, FOLDER, Mode::empty())?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = match parent {
        None => root,
        Some(parent) => {
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match openat2(&root, parent, FOLDER, Mode::empty(), inside) {
                Ok(folder) => folder,
                Err(Errno::NOENT) => return Ok(At::Nothing),
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(At::Blocked),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let name = path.file_name().unwrap_or_default();
    let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(At::Nothing),
        Err(error) => return Err(error.into()),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            At::Here(Found::File(File::from(openat(&folder, name, FILE, Mode::empty())?), stat))
        }
        FileType::Symlink => At::Here(Found::Link(readlinkat(&folder, name, Vec::new())?.into_bytes())),
        _ => At::Blocked,
    })
}

/// Opens the folder that contains a path below `top`, without following links below `top`. Can
/// create the missing folders.
pub(in super::super) fn folder_of(top: &Path, path: &Path, create: bool) -> io::Result<OwnedFd> {
    let mut folder = openat(CWD, top, PLACE, Mode::empty())?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        if create {
            match mkdirat(&folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = openat(&folder, name, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}
