//! What git knows of a worktree: its folder in `.git/worktrees`.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::errors;

/// The file with the name of the worktree: it is ours, and was made whole.
pub(super) const OURS: &str = "subagent";
/// The file whose time is the end of the setup.
pub(super) const READY: &str = "subagent-ready";
/// The file that says that its removal has begun.
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
    /// Finds a worktree: by its name, which stays when it is moved; by its path before it was made whole.
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

    /// Whether it was made whole by us.
    pub(super) fn is_whole(&self) -> bool {
        self.admin.join(OURS).exists()
    }

    /// The git directory with what all work trees of the repository share.
    pub(super) fn common(&self) -> PathBuf {
        let folder = self.admin.parent().filter(|folder| folder.ends_with("worktrees"));
        folder.and_then(Path::parent).unwrap_or(&self.admin).to_owned()
    }

    /// Reads one of the files in its git directory.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.admin.join(name)).ok()
    }

    /// Writes one, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let path = self.admin.join(name);
        super::work::step();
        write_whole(&path, text).map_err(|error| errors::file(&path, &error))
    }

    /// Why a lock of the user forbids to remove it.
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

/// Replaces a file so that it has its old content or the new one at any time.
pub(super) fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let mut file = fs::File::create(&unfinished)?;
    std::io::Write::write_all(&mut file, text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// The worktree of a folder of `.git/worktrees`; none if that is damaged or unfinished.
fn path_of(admin: &Path) -> Option<PathBuf> {
    let text = fs::read(admin.join("gitdir")).ok()?;
    let path = Path::new(std::ffi::OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)));
    // Newer versions of git can be told to write relative paths.
    admin.join(path).parent().map(Path::to_owned)
}

/// A path whose folder has no links.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Writes the file `.git` of a worktree again that a removal has deleted.
pub(super) fn restore_link(found: &Registration) -> Result<(), Error> {
    let link = found.path.join(".git");
    if link.exists() {
        return Ok(());
    }
    let text = [b"gitdir: ", found.admin.as_os_str().as_encoded_bytes(), b"\n"].concat();
    fs::write(&link, text).map_err(|error| errors::file(&link, &error))
}
