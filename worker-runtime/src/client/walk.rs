//! Resolves an absolute path to a file within the workspace, without a way out of it.

// Walks one name at a time. Opens each name below the previous folder without following a link,
// and keeps every folder open. Reads links and walks their targets in the same way. `..` returns
// to the folder we came from, not to the parent according to the file system. A process that swaps
// folders and links meanwhile can therefore only change where we end within the roots. The result
// is a descriptor, not a name.
//
// A path that was resolved and allowed before is walked without following any link: it leads there
// or nowhere.
//
// Blocks: for the thread of [`super::files`]. Opens only folders and links for more than an
// inspection.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

/// Maximum number of links followed; the system's own limit.
const MAX_LINKS: u32 = 40;
/// Maximum number of folders open at once.
const MAX_DEPTH: usize = 128;
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The part of the file system that requests may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessScope {
    /// Absolute folders that contain everything reachable.
    pub(crate) roots: Vec<PathBuf>,
    /// Files and folders that are excluded, even within the roots.
    pub(crate) private: Vec<PathBuf>,
    /// Exceptions within private folders: a sandbox lets its agent write there.
    pub(crate) opened: Vec<PathBuf>,
    /// Additional limit of the agent's sandbox: absolute paths without links;
    /// `None` without a sandbox.
    pub(crate) confined: Option<Vec<PathBuf>>,
}

/// Why a path could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WalkError {
    /// The path leaves the roots.
    #[error("{0} is outside of the workspace")]
    Outside(PathBuf),
    /// The path leads into a private folder.
    #[error("it is hidden: subagent's own, or by the sandbox of the agent")]
    Private,
    /// The agent's sandbox forbids this path.
    #[error("{0} is not what the sandbox of the agent allows")]
    Confined(PathBuf),
    /// The path has too many links or folders.
    #[error("the path has too many {0}")]
    TooMany(&'static str),
    /// A path resolved earlier leads elsewhere now.
    #[error("it leads elsewhere now than when it was allowed")]
    Moved,
    /// The path is not UTF-8. Rules apply to text only.
    #[error("it leads to a name that is not UTF-8")]
    NoText,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] Errno),
}

/// How links are treated on the walk.
#[derive(Debug, Clone, Copy)]
pub(super) enum WalkPath<'a> {
    /// A path as the agent named it.
    Named(&'a Path),
    /// A path resolved earlier: it had no links and must have none now.
    Allowed(&'a Path),
}

/// The end of a path: a name in an open folder.
#[derive(Debug)]
pub(super) struct LocatedFile {
    /// The open folder that contains the name.
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    /// The file itself, opened for inspection and not a link. `None` if the name does not exist.
    pub(super) there: Option<(OwnedFd, Stat)>,
}

struct Walk<'a> {
    scope: &'a AccessScope,
    private: Vec<(u64, u64)>,
    /// The current root, without links.
    base: PathBuf,
    /// The open folders, starting at the root.
    folders: Vec<OwnedFd>,
    /// Path of the last open folder, without links.
    at: PathBuf,
    /// Whether links are rejected on this walk.
    allowed: bool,
    /// Names still to be walked, the next one last.
    rest: Vec<OsString>,
    links: u32,
}

/// Creates a folder with this name in an open one.
pub(super) type MakeFolder<'a> = &'a dyn Fn(&OwnedFd, &OsStr) -> Result<(), Errno>;

/// Walks to a file, or to where one could be created. If `make` is given, it creates missing
/// folders on the way.
pub(super) fn to_file(
    scope: &AccessScope,
    walk_path: WalkPath<'_>,
    make: Option<MakeFolder<'_>>,
) -> Result<LocatedFile, WalkError> {
    let mut walk = Walk::begin(scope, walk_path)?;
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
                    // Another process created it first; inspects it as it is.
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

/// Returns the path of a present or future file, without links. Names below missing folders
/// stay as they are.
pub(super) fn where_to(
    scope: &AccessScope,
    path: &Path,
) -> Result<(PathBuf, Option<(OwnedFd, Stat)>), WalkError> {
    let mut walk = Walk::begin(scope, WalkPath::Named(path))?;
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
            // The parent of a missing folder is known only once the folder exists.
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

/// Walks to a folder and returns its path.
pub(super) fn to_folder(
    scope: &AccessScope,
    walk_path: WalkPath<'_>,
) -> Result<(OwnedFd, PathBuf), WalkError> {
    let mut walk = Walk::begin(scope, walk_path)?;
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
    fn begin(scope: &'a AccessScope, walk_path: WalkPath<'_>) -> Result<Self, WalkError> {
        let (path, allowed) = match walk_path {
            WalkPath::Named(path) => (path, false),
            WalkPath::Allowed(path) => (path, true),
        };
        let private = scope.private.iter().filter_map(|path| rustix::fs::stat(path).ok());
        let private = private.map(|stat| (stat.st_dev, stat.st_ino)).collect();
        let mut walk = Walk {
            scope,
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

    /// Restarts at the deepest root that contains the absolute path, by the root's
    /// name or its target.
    fn restart(&mut self, path: &Path) -> Result<(), WalkError> {
        let mut best: Option<(PathBuf, &Path)> = None;
        let mut missing = None;
        for root in &self.scope.roots {
            // The location of a root is the worker's configuration; no agent can have it changed. A
            // missing root says nothing about the others.
            let real = match std::fs::canonicalize(root) {
                Ok(real) => real,
                Err(error) => {
                    missing = missing.or_else(|| path.starts_with(root).then(|| system(&error)));
                    continue;
                }
            };
            // The root's name may lead to another folder by now.
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
            self.scope.opened.iter().any(deeper)
        };
        if self.scope.private.iter().any(|private| base.starts_with(private) && !opens(private)) {
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

    /// Enters a folder within the current one, or a root if `name` is `None`.
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
        if self.links > MAX_LINKS {
            return Err(WalkError::TooMany("links"));
        }
        if self.folders.len() > MAX_DEPTH {
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

    /// Returns to the previous folder. From a root it follows the root's path: another root
    /// may be beside it.
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

    fn found(mut self, name: OsString, there: Option<(OwnedFd, Stat)>) -> Result<LocatedFile, WalkError> {
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
        Ok(LocatedFile { folder, name, there })
    }

    /// Checks a path without links against the agent's sandbox.
    fn confined(&self, path: &Path) -> Result<(), WalkError> {
        let allowed = self.scope.confined.as_ref();
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
