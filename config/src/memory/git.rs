//! The git repository of a workspace: its main work tree and ignored files. Must not run git.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::open::{self, Make};
use crate::{markers, regular};

/// A repository with a work tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemoryRepository {
    /// The folder that contains `.git`.
    top: PathBuf,
    /// The git directory that all work trees share.
    common: PathBuf,
    linked: bool,
}

impl MemoryRepository {
    /// Returns the repository that contains an absolute folder without links. A `.git` that git rejects
    /// gives `None`.
    pub(super) fn around(folder: &Path) -> Option<Self> {
        let top = markers::nearest(folder, &[PathBuf::from(".git")])?;
        let dot_git = top.join(".git");
        let own = match dot_git.is_dir() {
            true => dot_git.canonicalize().ok()?,
            false => path_in(&dot_git, "gitdir: ", top)?,
        };
        let shared = path_in(&own.join("commondir"), "", &own);
        // A forged `.git` can name a worktree whose `gitdir` names another folder.
        let linked = shared.is_some();
        if linked && path_in(&own.join("gitdir"), "", &own) != dot_git.canonicalize().ok() {
            return None;
        }
        let common = shared.unwrap_or_else(|| own.clone());
        // Both files can be forged. Git stores the data of a worktree inside its repository.
        if linked && own.parent() != Some(&common.join("worktrees")) {
            return None;
        }
        (common.join("objects").is_dir() && common.join("HEAD").exists()).then(|| Self {
            top: top.to_owned(),
            common,
            linked,
        })
    }

    /// Returns the path of a folder of this linked worktree in the main one; `None` in any other work tree.
    pub(super) fn in_main(&self, folder: &Path) -> Option<PathBuf> {
        let main = self.common.parent().filter(|_| self.linked && self.common.ends_with(".git"))?;
        let rest = folder.strip_prefix(&self.top).ok()?;
        // `join` of an empty path would append a slash.
        Some(if rest.as_os_str().is_empty() { main.to_owned() } else { main.join(rest) })
    }

    /// Adds this pattern to `info/exclude`, which applies to all work trees. An existing line is not
    /// repeated.
    ///
    /// # Errors
    /// The error of the system; `InvalidInput` if `exclude` is not a regular file.
    pub(super) fn ignore(&self, pattern: &str) -> io::Result<()> {
        let file = self.common.join("info/exclude");
        let there = match regular::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if there.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == pattern.as_bytes()) {
            return Ok(());
        }
        let Some(info) = open::folder(&self.common, &["info"], Make::Missing)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let ends = there.last().is_none_or(|byte| *byte == b'\n');
        let line = format!("{}{pattern}\n", if ends { "" } else { "\n" });
        // One write call keeps concurrent appends intact.
        open::append(&info, "exclude")?.write_all(line.as_bytes())
    }
}

/// Reads a path behind a prefix from a small git file and resolves it relative to `folder`, without links.
fn path_in(file: &Path, prefix: &str, folder: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(regular::read(file).ok()?).ok()?;
    let path = text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r']);
    fs::canonicalize(folder.join(path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a repository with a linked worktree in git's layout.
    fn world() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("main/.git/objects")).unwrap();
        fs::create_dir_all(base.join("main/.git/worktrees/tree")).unwrap();
        fs::create_dir_all(base.join("main/sub")).unwrap();
        fs::create_dir_all(base.join("tree/sub")).unwrap();
        fs::write(base.join("main/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let own = base.join("main/.git/worktrees/tree");
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", base.join("tree/.git").display())).unwrap();
        fs::write(base.join("tree/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        (dir, base)
    }

    #[test]
    fn a_linked_worktree_leads_to_the_main_one() {
        let (_dir, base) = world();
        let of = |folder: &str| {
            let folder = base.join(folder);
            MemoryRepository::around(&folder).and_then(|repository| repository.in_main(&folder))
        };
        assert_eq!(of("tree"), Some(base.join("main")));
        assert_eq!(of("tree/sub"), Some(base.join("main/sub")));
        assert_eq!(of("main/sub"), None);
        assert_eq!(of("."), None);
    }

    #[test]
    fn a_made_up_worktree_leads_nowhere() {
        let (_dir, base) = world();
        fs::create_dir(base.join("trap")).unwrap();
        fs::copy(base.join("tree/.git"), base.join("trap/.git")).unwrap();
        assert_eq!(MemoryRepository::around(&base.join("trap")), None);
        fs::write(base.join("trap/.git"), format!("gitdir: {}\n", base.join("tree").display())).unwrap();
        assert_eq!(MemoryRepository::around(&base.join("trap")), None, "that is no git directory");
        let own = base.join("trap/x");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("commondir"), format!("{}\n", base.join("main/.git").display())).unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", base.join("trap/.git").display())).unwrap();
        fs::write(base.join("trap/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(MemoryRepository::around(&base.join("trap")), None, "the repository does not know it");
    }

    #[test]
    fn a_pattern_is_added_once_and_for_all_work_trees() {
        let (_dir, base) = world();
        let exclude = base.join("main/.git/info/exclude");
        for folder in ["main/sub", "tree", "main"] {
            MemoryRepository::around(&base.join(folder)).unwrap().ignore("**/x/").unwrap();
            assert_eq!(fs::read_to_string(&exclude).unwrap(), "**/x/\n");
        }
        fs::write(&exclude, "# own").unwrap();
        MemoryRepository::around(&base.join("main")).unwrap().ignore("**/x/").unwrap();
        assert_eq!(fs::read_to_string(&exclude).unwrap(), "# own\n**/x/\n");
    }

    #[test]
    fn no_link_is_written_through() {
        let (_dir, base) = world();
        fs::create_dir(base.join("main/.git/info")).unwrap();
        fs::write(base.join("target"), "own\n").unwrap();
        std::os::unix::fs::symlink(base.join("target"), base.join("main/.git/info/exclude")).unwrap();
        assert!(MemoryRepository::around(&base.join("main")).unwrap().ignore("**/x/").is_err());
        assert_eq!(fs::read_to_string(base.join("target")).unwrap(), "own\n");
    }
}
