//! From an absolute path to a file within the workspace, without a way out of it.
//!
//! The path is walked one name at a time, each opened below the folder before it without following a link, and every
//! folder on the way stays open. A link is read and its target walked in the same way; `..` goes back to the folder that
//! we came from, never to what the file system says is above. So whoever exchanges folders and links meanwhile changes
//! where we get to within the roots, and nothing else. What is found is held by its descriptor, not by its name.
//! A path that was found before, and allowed, is walked without following any link: it leads there or nowhere.
//!
//! Blocks: for the thread of [`super::files`]. Must not open anything but folders and links for more than a look.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

/// How many links are followed, as many as the system does.
const MOST_LINKS: u32 = 40;
/// How many folders stay open at once.
const MOST_DEPTH: usize = 128;
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where files may be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The folders that everything is in, absolute.
    pub(crate) roots: Vec<PathBuf>,
    /// Files and folders in which nothing is, also within the roots.
    pub(crate) private: Vec<PathBuf>,
    /// Folders in private ones that are not private: a sandbox lets its agent write there.
    pub(crate) opened: Vec<PathBuf>,
    /// Where a sandbox keeps its agent besides, absolute and without links; `None` without one.
    pub(crate) confined: Option<Vec<PathBuf>>,
}

/// Why a path was not walked to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WalkError {
    /// It leads out.
    #[error("{0} is outside of the workspace")]
    Outside(PathBuf),
    /// It leads into what is ours.
    #[error("it is hidden: subagent's own, or by the sandbox of the agent")]
    Private,
    /// The sandbox of the agent forbids it.
    #[error("{0} is not what the sandbox of the agent allows")]
    Confined(PathBuf),
    /// It has too many links or folders.
    #[error("the path has too many {0}")]
    TooMany(&'static str),
    /// A path that was found leads elsewhere by now.
    #[error("it leads elsewhere by now than when it was allowed")]
    Moved,
    /// Rules cannot be about a name that is no text.
    #[error("it leads to a name that is not UTF-8")]
    NoText,
    /// The system's.
    #[error(transparent)]
    System(#[from] Errno),
}

/// A way to walk.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'a> {
    /// A path as the agent names it.
    Named(&'a Path),
    /// A path that was found: without links, and none may be there now.
    Allowed(&'a Path),
}

/// The end of a path: a name in an open folder.
#[derive(Debug)]
pub(super) struct Found {
    /// The folder.
    pub(super) folder: OwnedFd,
    /// The name in it.
    pub(super) name: OsString,
    /// What it is: no link. Opened for a look. `None` when there is nothing of that name.
    pub(super) there: Option<(OwnedFd, Stat)>,
}

struct Walk<'a> {
    place: &'a Place,
    private: Vec<(u64, u64)>,
    /// The root in which we are, without links.
    base: PathBuf,
    /// The folders from the root on.
    folders: Vec<OwnedFd>,
    /// Where the last of them is, without links.
    at: PathBuf,
    /// Whether no link is followed.
    allowed: bool,
    /// Names that are still to be walked, the next one last.
    rest: Vec<OsString>,
    links: u32,
}

/// Makes a folder of this name in an open one.
pub(super) type Make<'a> = &'a dyn Fn(&OwnedFd, &OsStr) -> Result<(), Errno>;

/// Walks to a file, or to where one could be made. With `make` given, folders that are missing on the way are made by
/// it.
pub(super) fn to_file(place: &Place, way: Way<'_>, make: Option<Make<'_>>) -> Result<Found, WalkError> {
    let mut walk = Walk::begin(place, way)?;
    loop {
        let Some(name) = walk.rest.pop() else { return Err(Errno::ISDIR.into()) };
        if is_upwards(&name) {
            walk.up()?;
            continue;
        }
        let looked = walk.look(&name);
        let is_last = walk.rest.is_empty();
        match (looked, make) {
            (Ok((link, stat)), _) if kind(&stat) == FileType::Symlink => walk.follow(&link)?,
            (Ok(there), _) if is_last => return walk.found(name, Some(there)),
            (Err(Errno::NOENT), _) if is_last => return walk.found(name, None),
            (Ok((folder, stat)), _) => walk.enter(folder, &stat, Some(&name))?,
            (Err(Errno::NOENT), Some(make)) => {
                walk.confined(&walk.at.join(&name))?;
                match make(walk.here()?, &name) {
                    // Somebody was faster: it is looked at as it is.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                walk.links += 1;
                walk.within_bounds()?;
                walk.rest.push(name);
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
}

/// Where a file is or would be made, without links. Of folders that are not there yet the names count as they stand.
pub(super) fn where_to(place: &Place, path: &Path) -> Result<(PathBuf, Option<(OwnedFd, Stat)>), WalkError> {
    let mut walk = Walk::begin(place, Way::Named(path))?;
    loop {
        let Some(name) = walk.rest.pop() else { return Err(Errno::ISDIR.into()) };
        if is_upwards(&name) {
            walk.up()?;
            continue;
        }
        match walk.look(&name) {
            Ok((link, stat)) if kind(&stat) == FileType::Symlink => walk.follow(&link)?,
            Ok(there) if walk.rest.is_empty() => {
                let path = walk.at.join(&name);
                return Ok((path, walk.found(name, Some(there))?.there));
            }
            Ok((folder, stat)) => walk.enter(folder, &stat, Some(&name))?,
            // What is above a folder that is to be made is known only then.
            Err(Errno::NOENT) if walk.rest.iter().any(|name| is_upwards(name)) => {
                return Err(Errno::NOENT.into());
            }
            Err(Errno::NOENT) => {
                let mut path = walk.at.join(&name);
                path.extend(walk.rest.iter().rev());
                walk.confined(&path)?;
                return Ok((path, None));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Walks to a folder, and says where it is.
pub(super) fn to_folder(place: &Place, way: Way<'_>) -> Result<(OwnedFd, PathBuf), WalkError> {
    let mut walk = Walk::begin(place, way)?;
    while let Some(name) = walk.rest.pop() {
        if is_upwards(&name) {
            walk.up()?;
            continue;
        }
        let (found, stat) = walk.look(&name)?;
        if kind(&stat) == FileType::Symlink {
            walk.follow(&found)?;
        } else {
            walk.enter(found, &stat, Some(&name))?;
        }
    }
    walk.confined(&walk.at)?;
    let folder = walk.folders.pop().ok_or(WalkError::System(Errno::NOTDIR))?;
    Ok((folder, walk.at))
}

impl<'a> Walk<'a> {
    fn begin(place: &'a Place, way: Way<'_>) -> Result<Self, WalkError> {
        let (path, allowed) = match way {
            Way::Named(path) => (path, false),
            Way::Allowed(path) => (path, true),
        };
        let private = place.private.iter().filter_map(|path| rustix::fs::stat(path).ok());
        let private = private.map(|stat| (stat.st_dev, stat.st_ino)).collect();
        let mut walk = Walk {
            place,
            private,
            base: PathBuf::new(),
            folders: Vec::new(),
            at: PathBuf::new(),
            allowed,
            rest: Vec::new(),
            links: 0,
        };
        walk.restart(path)?;
        Ok(walk)
    }

    /// Begins at the root that an absolute path is in, by its name or by what that leads to; the deepest counts.
    fn restart(&mut self, path: &Path) -> Result<(), WalkError> {
        let mut best: Option<(PathBuf, &Path)> = None;
        let mut missing = None;
        for root in &self.place.roots {
            // Where a root is, is the worker's own affair: no agent can ask for that to be changed. One that is not
            // there says nothing about the others.
            let real = match std::fs::canonicalize(root) {
                Ok(real) => real,
                Err(error) => {
                    missing = missing.or_else(|| path.starts_with(root).then(|| system(&error)));
                    continue;
                }
            };
            // By its name it may be another folder by now.
            let names = if self.allowed { [real.as_path(); 2] } else { [root.as_path(), &real] };
            let rest = names.into_iter().filter_map(|root| path.strip_prefix(root).ok());
            let Some(rest) = rest.min_by_key(|rest| rest.as_os_str().len()) else { continue };
            if best.as_ref().is_none_or(|(_, other)| rest.as_os_str().len() < other.as_os_str().len()) {
                best = Some((real, rest));
            }
        }
        let Some((base, rest)) = best else {
            return Err(missing.unwrap_or_else(|| WalkError::Outside(path.to_owned())));
        };
        let opens = |private: &PathBuf| {
            let deeper = |opened: &PathBuf| base.starts_with(opened) && opened.starts_with(private);
            self.place.opened.iter().any(deeper)
        };
        if self.place.private.iter().any(|private| base.starts_with(private) && !opens(private)) {
            return Err(WalkError::Private);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&base, flags, Mode::empty())?;
        self.folders.clear();
        self.push(rest);
        self.at.clone_from(&base);
        self.base = base;
        let stat = fstat(&folder)?;
        self.enter(folder, &stat, None)
    }

    fn push(&mut self, path: &Path) {
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        let names: Vec<OsString> = names.collect();
        self.rest.extend(names.into_iter().rev());
    }

    fn here(&self) -> Result<&OwnedFd, WalkError> {
        self.folders.last().ok_or(WalkError::System(Errno::NOTDIR))
    }

    fn look(&self, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
        let folder = self.folders.last().ok_or(Errno::NOTDIR)?;
        let found = openat(folder, name, LOOK, Mode::empty())?;
        let stat = fstat(&found)?;
        Ok((found, stat))
    }

    /// Goes into a folder of the last one; without a name it is a root.
    fn enter(&mut self, folder: OwnedFd, stat: &Stat, name: Option<&OsStr>) -> Result<(), WalkError> {
        if kind(stat) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        if self.private.contains(&(stat.st_dev, stat.st_ino)) {
            return Err(WalkError::Private);
        }
        self.folders.push(folder);
        self.at.extend(name);
        self.within_bounds()
    }

    fn within_bounds(&self) -> Result<(), WalkError> {
        if self.links > MOST_LINKS {
            return Err(WalkError::TooMany("links"));
        }
        if self.folders.len() > MOST_DEPTH {
            return Err(WalkError::TooMany("folders"));
        }
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd) -> Result<(), WalkError> {
        if self.allowed {
            return Err(WalkError::Moved);
        }
        self.links += 1;
        self.within_bounds()?;
        let target = readlinkat(link, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.restart(&target)
        } else {
            self.push(&target);
            Ok(())
        }
    }

    /// The folder that we came from. From a root on it goes by the root's name: another root may be beside it.
    fn up(&mut self) -> Result<(), WalkError> {
        if self.folders.len() > 1 {
            self.folders.pop();
            self.at.pop();
            return Ok(());
        }
        self.links += 1;
        self.within_bounds()?;
        let mut path = self.base.parent().unwrap_or(&self.base).to_owned();
        path.extend(self.rest.drain(..).rev());
        self.restart(&path)
    }

    fn found(mut self, name: OsString, there: Option<(OwnedFd, Stat)>) -> Result<Found, WalkError> {
        if let Some((_, stat)) = &there {
            if kind(stat) == FileType::Directory {
                return Err(Errno::ISDIR.into());
            }
            if self.private.contains(&(stat.st_dev, stat.st_ino)) {
                return Err(WalkError::Private);
            }
        }
        self.confined(&self.at.join(&name))?;
        let folder = self.folders.pop().ok_or(Errno::NOTDIR)?;
        Ok(Found { folder, name, there })
    }

    /// Whether the sandbox of the agent lets it have this path, which has no links.
    fn confined(&self, path: &Path) -> Result<(), WalkError> {
        let allowed = self.place.confined.as_ref();
        if allowed.is_none_or(|allowed| allowed.iter().any(|allowed| path.starts_with(allowed))) {
            return Ok(());
        }
        Err(WalkError::Confined(path.to_owned()))
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_upwards(name: &OsStr) -> bool {
    name == ".."
}

fn system(error: &std::io::Error) -> WalkError {
    WalkError::System(Errno::from_io_error(error).unwrap_or(Errno::IO))
}
