//! Git's data about a worktree: its folder in `.git/worktrees`.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::errors;

/// The file that contains the worktree's name and marks it as ours and complete.
pub(super) const OURS: &str = "subagent";
/// The file whose time is the end of the setup.
pub(super) const READY: &str = "subagent-ready";
/// The file that marks the beginning of its removal.
pub(super) const REMOVING: &str = "subagent-removing";

/// A worktree that git knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registration {
    /// Its own git directory.
    pub(super) admin: PathBuf,
    /// Its top folder, which `git worktree move` may have changed.
    pub(super) path: PathBuf,
}

impl Registration {
    /// Finds a worktree by its name, which stays when it is moved, or by its path
    /// while it is incomplete.
    pub(super) fn find(worktree: &Worktree) -> Result<Option<Self>, Error> {
        if worktree.is_inside() {
            let found = Self { admin: worktree.repository.clone(), path: worktree.path.clone() };
            return Ok(Some(found).filter(|found| found.admin.is_dir()));
        }
        let wanted = resolved(&worktree.path);
        let (mut by_path, folder) = (None, worktree.repository.join("worktrees"));
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(errors::file(&folder, &error)),
        };
        for entry in entries {
            let admin = entry.map_err(|error| errors::file(&folder, &error))?.path();
            let Some(path) = path_of(&admin) else { continue };
            let found = Self { admin, path };
            if found.read(OURS).is_some_and(|name| name == worktree.name.as_bytes()) {
                return Ok(Some(found));
            }
            if resolved(&found.path) == wanted {
                by_path = Some(found);
            }
        }
        Ok(by_path)
    }

    /// Whether we created it completely.
    pub(super) fn is_whole(&self) -> bool {
        self.admin.join(OURS).exists()
    }

    /// Returns the git directory shared by all work trees of the repository.
    pub(super) fn common(&self) -> PathBuf {
        let folder = self.admin.parent().filter(|folder| folder.ends_with("worktrees"));
        folder.and_then(Path::parent).unwrap_or(&self.admin).to_owned()
    }

    /// Reads a file in its git directory.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.admin.join(name)).ok()
    }

    /// Writes such a file atomically.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let path = self.admin.join(name);
        super::work::step();
        write_whole(&path, text).map_err(|error| errors::file(&path, &error))
    }

    /// Returns an error if the user has locked the worktree.
    pub(super) fn refuse_if_locked(&self) -> Result<(), Error> {
        match self.read("locked") {
            Some(reason) => {
                let reason = String::from_utf8_lossy(&reason).trim().to_owned();
                let message = format!("{} is locked by `git worktree lock`", self.path.display());
                Err(errors::busy("locked", message)
                    .with("path", self.path.display().to_string())
                    .with("lockReason", reason)
                    .recommend("unlock it with `git worktree unlock`"))
            }
            None => Ok(()),
        }
    }
}

/// Replaces a file atomically: it always has its old or its new content.
pub(super) fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let mut file = fs::File::create(&unfinished)?;
    std::io::Write::write_all(&mut file, text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Returns the worktree of a folder in `.git/worktrees`; `None` if that is damaged or incomplete.
fn path_of(admin: &Path) -> Option<PathBuf> {
    let text = fs::read(admin.join("gitdir")).ok()?;
    let path = Path::new(std::ffi::OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)));
    // Newer versions of git can write relative paths.
    admin.join(path).parent().map(Path::to_owned)
}

/// Resolves links in the path's folder.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Restores a worktree's `.git` file that a removal has deleted.
pub(super) fn restore_link(found: &Registration) -> Result<(), Error> {
    let link = found.path.join(".git");
    if link.exists() {
        return Ok(());
    }
    let text = [b"gitdir: ", found.admin.as_os_str().as_encoded_bytes(), b"\n"].concat();
    fs::write(&link, text).map_err(|error| errors::file(&link, &error))
}
