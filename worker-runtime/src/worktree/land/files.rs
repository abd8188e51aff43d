//! `Merge`: applies the changes of a worktree to the files of the main work tree, without a commit.
//! Replaces each file in one step. Can be repeated after a kill: files that equal the worktree's
//! are done.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::worktree::{AfterLanding, Landing, Merged, Worktree, WorktreeResult};

use super::super::keep::Keeping;
use super::super::scratch::{self, Scratch};
use super::super::status::path;
use super::super::work::{OperationContext, step};
use super::super::{errors, retired, usable};
use super::change::{self, PathChange, TreeEntry};
use super::finish;

pub(in super::super) fn merge(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<WorktreeResult, Error> {
    let lock = worktree.repository.join(scratch::FOLDER).join("lock");
    work.locked("merge", &lock, &worktree.repository, |work| {
        merge_locked(work, worktree, landing).map(WorktreeResult::Merged)
    })
}

fn merge_locked(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<Merged, Error> {
    finish::recover(work, &worktree.repository)?;
    if worktree.path.symlink_metadata().is_err() {
        // An earlier attempt was killed after its last step.
        let retired = retired::of(work, worktree, landing.time())?;
        let base = worktree.base.clone();
        return Ok(Merged { base, retired, worktree_removed: true, ..Merged::default() });
    }
    let commit = super::source(work, worktree, landing, None)?;
    let changes = change::between(work, &worktree.repository, &worktree.base, &commit)?;
    let (done, refused) = bring(work, worktree, &changes, &landing.withheld)?;
    let name = |change: &&PathChange| String::from_utf8_lossy(&change.path).into_owned();
    let mut merged = Merged {
        files: done.iter().map(name).collect(),
        refused: refused.iter().map(name).collect(),
        base: base(work, worktree, landing, &done)?,
        retired: None,
        worktree_removed: false,
    };
    if merged.refused.is_empty() && landing.then == AfterLanding::Remove {
        merged.retired = super::retire(work, worktree, landing)?;
        merged.worktree_removed = super::removed(work, worktree)?;
    }
    Ok(merged)
}

/// Writes the files. Returns the changes now present in the main work tree, and those
/// that conflict with it.
fn bring<'a>(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    changes: &'a [PathChange],
    withheld: &[String],
) -> Result<(Vec<&'a PathChange>, Vec<&'a PathChange>), Error> {
    let (repository, top) = (&worktree.repository, &worktree.main);
    let from_before = change::differing(work, repository, top, changes, |change| change.before.as_ref())?;
    let from_after = change::differing(work, repository, top, changes, |change| change.after.as_ref())?;
    let gone: BTreeSet<&[u8]> = changes
        .iter()
        .filter(|change| change.after.is_none() && !from_before.contains(&*change.path))
        .map(|change| &*change.path)
        .collect();
    let (mut done, mut refused, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let name = &*change.path;
        let is_module =
            [&change.before, &change.after].into_iter().any(|entry| TreeEntry::is_module(entry.as_ref()));
        match () {
            () if is_module => refused.push(change),
            () if !from_after.contains(name) => done.push(change),
            () if is_withheld(name, withheld) => refused.push(change),
            () if from_before.contains(name) || is_blocked(top, name, &gone) => refused.push(change),
            () if change.after.is_some() => written.push(change),
            () => {
                step();
                finish::delete(top, path(name))
                    .map_err(|error| errors::file(&top.join(path(name)), &error))?;
                done.push(change);
            }
        }
    }
    write(work, worktree, &written)?;
    done.extend(written);
    done.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((done, refused))
}

/// Whether a changed file or link is in one of the folders, or would be in the place of a folder
/// above them.
pub(in super::super) fn is_withheld(name: &[u8], folders: &[String]) -> bool {
    let name = path(name);
    let is_concerned = |folder: &String| {
        let folder = Path::new(folder);
        let mut above = folder.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        name.ancestors().any(|part| part.ends_with(folder)) || above.any(|above| name.ends_with(above))
    };
    folders.iter().any(is_concerned)
}

/// Whether user data is in the place of the file or one of its folders.
fn is_blocked(top: &Path, name: &[u8], gone: &BTreeSet<&[u8]>) -> bool {
    let folders = path(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let is_file = |folder: &Path| {
        let is_gone = gone.contains(folder.as_os_str().as_encoded_bytes());
        !is_gone && top.join(folder).symlink_metadata().is_ok_and(|meta| !meta.is_dir())
    };
    let is_folder = top.join(path(name)).symlink_metadata().is_ok_and(|meta| meta.is_dir());
    folders.into_iter().any(is_file) || (is_folder && !change::only_deleted(top, name, gone))
}

/// Writes the files to temporary names first, with git's filters, and then moves each to its place.
fn write(work: &OperationContext<'_>, worktree: &Worktree, changes: &[&PathChange]) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let scratch = Scratch::new(&worktree.repository)?;
    let (folder, mut entries, mut names) = (scratch.path("files"), Vec::new(), Vec::new());
    for change in changes {
        entries.extend(TreeEntry::line(change.after.as_ref(), &change.path, ""));
        names.extend_from_slice(&change.path);
        names.push(0);
    }
    let mut git = work.git(&worktree.main);
    git.places = vec![("GIT_INDEX_FILE", scratch.path("index").into())];
    work.feed(&git, &["update-index", "-z", "--add", "--index-info"], &entries)?;
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(&folder);
    prefix.push("/");
    let args = ["checkout-index", "-q", "-z", "--stdin"].map(std::ffi::OsStr::new);
    let args: Vec<_> = args.into_iter().chain([&*prefix]).collect();
    work.feed(&git, &args, &names)?;
    for change in changes {
        let (from, to) = (folder.join(path(&change.path)), worktree.main.join(path(&change.path)));
        step();
        put(&from, &to).map_err(|error| errors::file(&to, &error))?;
    }
    Ok(())
}

/// Moves a file to its place, also across file systems.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut name = to.file_name().unwrap_or_default().to_owned();
            name.push(".subagent-merge");
            let near = to.with_file_name(name);
            let _ = fs::remove_file(&near);
            usable::copy_file(from, &near)?;
            fs::rename(&near, to)
        }
        other => other,
    }
}

/// Returns the new base commit: the old one with the merged files.
fn base(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
    done: &[&PathChange],
) -> Result<String, Error> {
    if done.is_empty() {
        return Ok(worktree.base.clone());
    }
    let repository = &worktree.repository;
    let tree = change::applied(work, repository, &worktree.base, done)?;
    let keeping = Keeping { work, worktree, time: landing.time() };
    let base =
        keeping.commit(&work.git(repository), &tree, [worktree.base.clone()].into_iter(), "Merged files")?;
    match worktree.sandbox {
        // Its branch has no other commits.
        Some(_) => {
            let name = format!("refs/heads/{}", worktree.branch);
            work.run(repository, &["update-ref", &name, &base])?;
        }
        None => drop(retired::keep(work, repository, worktree, landing.time(), &base)?),
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_a_folder_above_a_withheld_one_is_withheld() {
        let folders = [".agents".to_owned(), ".claude/agents".to_owned()];
        let withheld = |name: &str| is_withheld(name.as_bytes(), &folders);
        for name in [".agents", "a/.agents/x", ".claude/agents/x", ".claude/agents", ".claude", "a/.claude"] {
            assert!(withheld(name), "{name}");
        }
        for name in ["a", "agents", ".claude/settings.json", ".claude/x/agents", "x.claude"] {
            assert!(!withheld(name), "{name}");
        }
    }
}
