//! Submodules of a worktree. Each has its own repository in `.git/worktrees/ID/modules`, cloned
//! from the main work tree's copy without network access.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::errors;
use super::registration::{OURS, Registration};
use super::status::{parts, path, split_at_tab};
use super::work::{OperationContext, line, step};

/// A folder of a work tree that is a separate repository.
#[derive(Debug)]
pub(super) struct Submodule {
    /// Its folder in the work tree.
    pub(super) path: PathBuf,
    /// The commit that the index names.
    pub(super) commit: String,
}

/// Returns the submodules in a work tree's index, with and without a repository.
pub(super) fn all(work: &OperationContext<'_>, top: &Path) -> Result<Vec<Submodule>, Error> {
    Ok(listed(parts(&work.run(top, &["ls-files", "-z", "--stage"])?)))
}

/// Returns the submodules among entries of `ls-files --stage`.
pub(super) fn listed<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Vec<Submodule> {
    let mut found: Vec<Submodule> = Vec::new();
    for (facts, name) in entries.filter_map(split_at_tab) {
        let facts = String::from_utf8_lossy(facts).into_owned();
        let mut facts = facts.split(' ');
        if let (Some("160000"), Some(commit)) = (facts.next(), facts.next())
            && found.last().is_none_or(|last| last.path != path(name))
        {
            found.push(Submodule { path: path(name).to_owned(), commit: commit.to_owned() });
        }
    }
    found
}

/// Returns the git directory of the repository with this top folder.
pub(super) fn git_dir(work: &OperationContext<'_>, top: &Path) -> Result<Option<PathBuf>, Error> {
    // Without its own git directory, git would find that of a parent folder.
    if top.join(".git").symlink_metadata().is_err() {
        return Ok(None);
    }
    let found = work.asked(top, &["rev-parse", "--absolute-git-dir"])?;
    Ok(found.map(|mut bytes| {
        let _ = bytes.pop();
        PathBuf::from(OsString::from_vec(bytes))
    }))
}

/// Initializes the submodules that the main work tree has.
pub(super) fn initialise(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
) -> Result<(), Error> {
    below(work, &worktree.main, &found.path, &found.admin)
}

fn below(work: &OperationContext<'_>, main: &Path, top: &Path, git_dir_of_top: &Path) -> Result<(), Error> {
    for module in all(work, top)? {
        let (main, top) = (main.join(&module.path), top.join(&module.path));
        let Some(from) = git_dir(work, &main)? else { continue };
        let place = git_dir_of_top.join("modules").join(&module.path);
        if !place.join(OURS).exists() {
            clone(work, &from, &main, &place, &top, &module.commit)?;
        }
        below(work, &main, &top, &place)?;
    }
    Ok(())
}

/// Clones from the local disk and checks out the commit.
fn clone(
    work: &OperationContext<'_>,
    from: &Path,
    main: &Path,
    place: &Path,
    top: &Path,
    commit: &str,
) -> Result<(), Error> {
    // A killed attempt has left it; no agent has used it.
    for folder in [place, top] {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(errors::file(folder, &error));
            }
            _ => step(),
        }
    }
    let made = fs::create_dir_all(top).and_then(|()| place.parent().map_or(Ok(()), fs::create_dir_all));
    made.map_err(|error| errors::file(top, &error))?;
    let separate = [b"--separate-git-dir=", place.as_os_str().as_bytes()].concat();
    let args = ["clone", "--quiet", "--no-checkout", "--template="].map(AsRef::as_ref);
    let separate = OsString::from_vec(separate);
    let mut args: Vec<&std::ffi::OsStr> = args.into_iter().collect();
    args.extend([&*separate, "--".as_ref(), from.as_os_str(), top.as_os_str()]);
    work.run(main, &args)?;
    // The commit may be on no branch; all objects are present.
    work.run(top, &["update-ref", "--no-deref", "HEAD", commit])?;
    work.run(top, &["reset", "--quiet", "--hard"])?;
    match work.asked(main, &["config", "--get", "remote.origin.url"])? {
        Some(url) => work.run(top, &["config", "remote.origin.url", &line(&url)])?,
        None => work.run(top, &["remote", "remove", "origin"])?,
    };
    let ours = place.join(OURS);
    step();
    fs::write(&ours, b"").map_err(|error| errors::file(&ours, &error))
}
