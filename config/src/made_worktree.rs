//! Folders in git worktrees that were made for workers: they belong to the workspace of the main work tree.
//!
//! Must not run git. Looks at a few small files.

use std::path::{Path, PathBuf};

use subagent_protocol::worktree::MARKER;

/// Where a folder of a worker's worktree is in the main work tree; `None` for every other folder.
///
/// A folder that only the worktree has stands for the top of the main work tree.
pub(crate) fn in_main(start: &Path) -> Option<PathBuf> {
    let top = start.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let link = std::fs::read_to_string(top.join(".git")).ok()?;
    let admin = top.join(link.strip_prefix("gitdir:")?.trim());
    if !admin.join(MARKER).is_file() {
        return None;
    }
    // `.git/worktrees/ID` of the main work tree.
    let git_dir = admin.ancestors().nth(2)?;
    let main = git_dir.parent().filter(|_| git_dir.ends_with(".git"))?.canonicalize().ok()?;
    let inside = main.join(start.strip_prefix(top).ok()?);
    Some(if inside.is_dir() { inside } else { main })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_of_a_workers_worktree_stands_for_one_of_the_main_tree() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (main, tree) = (base.join("main"), base.join("tree"));
        let admin = main.join(".git/worktrees/auth");
        for folder in [&admin, &main.join("src"), &tree.join("src"), &tree.join("new")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        assert_eq!(in_main(&tree), None, "it is the user's own");
        fs::write(admin.join(MARKER), "auth").unwrap();
        assert_eq!(in_main(&tree), Some(main.clone()));
        assert_eq!(in_main(&tree.join("src")), Some(main.join("src")));
        assert_eq!(in_main(&tree.join("new")), Some(main.clone()));
        assert_eq!(in_main(&main.join("src")), None);
        assert_eq!(in_main(&base), None);
    }
}
