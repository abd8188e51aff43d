//! The visible steps of a landing: first the branch, then files and index of the work tree where it
//! is checked out. A record describes the landing, so that the next operation can finish it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, unlinkat};
use serde::{Deserialize, Serialize};
use subagent_protocol::{Code, Error};

use super::super::copy::tree;
use super::super::errors::refused;
use super::super::registration::write_whole;
use super::super::scratch::{self, Scratch};
use super::super::status::path;
use super::super::work::{OperationContext, line, step};
use super::super::{errors, waiting};
use super::change::{self, IndexEntries, PathChange, TreeEntry};
use super::landed::LandedRecord;
use super::target::LandingTarget;
use crate::git::{Git, GitFailure};
use crate::work_tree::record::copy_index;

/// Written before the first step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LandingIntent {
    branch: String,
    before: String,
    after: String,
    /// The paths, as bytes.
    top: Vec<u8>,
    git_dir: Vec<u8>,
    /// Inode number of our own `index.lock`.
    lock: u64,
    /// The result, which is stored once the branch has moved.
    #[serde(default)]
    landed: Option<LandedRecord>,
}

impl LandingIntent {
    fn write(&self, repository: &Path) -> Result<(), Error> {
        let file = record_of(repository);
        let failed = |error: io::Error| errors::file(&file, &error);
        fs::create_dir_all(repository.join(scratch::FOLDER)).map_err(failed)?;
        let text = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        step();
        write_whole(&file, &text).map_err(failed)
    }

    fn store_result(&self, repository: &Path) -> Result<(), Error> {
        self.landed.as_ref().map_or(Ok(()), |landed| landed.store(repository))
    }
}

fn remove_record(repository: &Path) -> Result<(), Error> {
    let file = record_of(repository);
    step();
    fs::remove_file(&file).map_err(|error| errors::file(&file, &error))
}

fn record_of(repository: &Path) -> PathBuf {
    repository.join(scratch::FOLDER).join("landing.json")
}

/// Moves the branch and updates the work tree where it is checked out.
pub(super) fn land(
    work: &OperationContext<'_>,
    repository: &Path,
    target: &LandingTarget,
    landed: LandedRecord,
    reason: &str,
) -> Result<(), Error> {
    let after = &*landed.landed.commit.clone();
    let text_of = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let mut record = LandingIntent {
        branch: target.branch.clone(),
        before: target.commit.clone(),
        after: after.to_owned(),
        top: target.tree.as_ref().map(|tree| text_of(&tree.top)).unwrap_or_default(),
        git_dir: target.tree.as_ref().map(|tree| text_of(&tree.git_dir)).unwrap_or_default(),
        lock: 0,
        landed: Some(landed),
    };
    let Some(tree) = &target.tree else {
        record.write(repository)?;
        let moved = move_branch(work, repository, target, after, reason);
        if moved.is_ok() {
            record.store_result(repository)?;
        }
        return remove_record(repository).and(moved);
    };
    let changes = change::between(work, repository, &target.commit, after)?;
    let lock = IndexLock::take(work, repository, &tree.git_dir, &mut record)?;
    let begun = refuse_dirty(work, repository, target, &changes)
        .and_then(|()| move_branch(work, &tree.top, target, after, reason));
    if let Err(error) = begun {
        lock.release(repository)?;
        return Err(error);
    }
    // After an error the record stays, so that the next operation finishes. The lock is released
    // for the user's git.
    let left = update(work, repository, &record, &changes).inspect_err(|_| drop(lock.unlock()))?;
    record.store_result(repository).inspect_err(|_| drop(lock.unlock()))?;
    lock.release(repository)?;
    say(&record, left)
}

/// Finishes a landing that was killed. Returns the branch, if there was one.
pub(in super::super) fn recover(
    work: &OperationContext<'_>,
    repository: &Path,
) -> Result<Option<String>, Error> {
    let file = record_of(repository);
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(errors::file(&file, &error)),
    };
    let record: LandingIntent =
        serde_json::from_slice(&text).map_err(|error| errors::file(&file, &io::Error::other(error)))?;
    let name = format!("refs/heads/{}", record.branch);
    let now = work.asked(repository, &["rev-parse", "--verify", "--quiet", &name])?.map(|id| line(&id));
    let (top, git_dir) = (folder(&record.top), folder(&record.git_dir));
    let lock = IndexLock { own: own_of(repository), path: git_dir.join("index.lock"), inode: record.lock };
    if now.as_ref() != Some(&record.after) {
        lock.release(repository)?;
        return Ok(None);
    }
    if !top.is_dir() {
        record.store_result(repository)?;
        lock.release(repository)?;
        return Ok(Some(record.branch));
    }
    // Another git may have started since.
    let lock = if lock.is_held() { lock } else { IndexLock::take_again(work, repository)? };
    let changes = change::between(work, repository, &record.before, &record.after);
    let left = changes.and_then(|changes| update(work, repository, &record, &changes));
    let left = left.inspect_err(|_| drop(lock.unlock()))?;
    record.store_result(repository).inspect_err(|_| drop(lock.unlock()))?;
    lock.release(repository)?;
    say(&record, left)?;
    Ok(Some(record.branch))
}

fn folder(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// Our own name of the lock file. It exists until the record is removed.
fn own_of(repository: &Path) -> PathBuf {
    repository.join(scratch::FOLDER).join("landing.lock")
}

/// The error for files that changed during the landing.
fn say(record: &LandingIntent, left: Vec<String>) -> Result<(), Error> {
    if left.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} is at {} now, but these files were changed meanwhile and were left as they are: {}",
        record.branch,
        record.after,
        left.join(", ")
    );
    Err(Error::new(Code::GitFailed, message)
        .with("into", record.branch.clone())
        .with("commit", record.after.clone())
        .with("files", left)
        .recommend("compare them with `git diff`, and take what you need with `git checkout -- FILE`"))
}

/// Refuses a landing that would change the user's files.
pub(super) fn refuse_dirty(
    work: &OperationContext<'_>,
    repository: &Path,
    target: &LandingTarget,
    changes: &[PathChange],
) -> Result<(), Error> {
    let Some(tree) = &target.tree else { return Ok(()) };
    let scratch = Scratch::new(repository)?;
    let git = own_index(work, &tree.top, &tree.git_dir, &scratch)?;
    let files = change::dirty(work, repository, &tree.top, &git, &target.commit, changes)?;
    if files.is_empty() {
        return Ok(());
    }
    let message = format!("{} has changes of yours in {}", tree.top.display(), files.join(", "));
    Err(refused("dirty", message)
        .with("files", files)
        .with("path", tree.top.display().to_string())
        .recommend("commit or stash them, and land again"))
}

fn move_branch(
    work: &OperationContext<'_>,
    folder: &Path,
    target: &LandingTarget,
    after: &str,
    reason: &str,
) -> Result<(), Error> {
    let name = format!("refs/heads/{}", target.branch);
    let args = ["update-ref", "-m", reason, &name, after, &target.commit];
    match work.ask(&work.git(folder), &args, b"")? {
        Err(GitFailure::Refused { stderr, .. }) if stderr.contains("but expected") => {
            let message = format!("the branch {} has moved meanwhile", target.branch);
            Err(refused("moved", message).with("branch", target.branch.clone()).retryable())
        }
        other => Ok(other.map(drop)?),
    }
}

/// Returns git with a copy of a work tree's index.
fn own_index<'a>(
    work: &'a OperationContext<'_>,
    top: &'a Path,
    git_dir: &Path,
    scratch: &Scratch,
) -> Result<Git<'a>, Error> {
    let (from, to) = (git_dir.join("index"), scratch.path("index"));
    match copy_index(&from, &to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(errors::file(&from, &error)),
        _ => {}
    }
    let mut git = work.git(top);
    git.places = vec![("GIT_INDEX_FILE", to.into())];
    Ok(git)
}

/// Moves only the index and the files that differ from one commit to the other.
/// Can be repeated. Returns the files that equal neither version.
fn update(
    work: &OperationContext<'_>,
    repository: &Path,
    record: &LandingIntent,
    changes: &[PathChange],
) -> Result<Vec<String>, Error> {
    let (top, git_dir) = (folder(&record.top), folder(&record.git_dir));
    let scratch = Scratch::new(repository)?;
    let git = own_index(work, &top, &git_dir, &scratch)?;
    let index = IndexEntries::read(work, &git)?;
    let from_before = change::differing(work, repository, &top, changes, |change| change.before.as_ref())?;
    let from_after = change::differing(work, repository, &top, changes, |change| change.after.as_ref())?;
    let gone: BTreeSet<&[u8]> =
        changes.iter().filter(|change| change.after.is_none()).map(|change| &*change.path).collect();
    let (mut written, mut deleted, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let name = &*change.path;
        if TreeEntry::is_module(change.after.as_ref()) || TreeEntry::is_module(change.before.as_ref()) {
            continue;
        }
        let is_left_out = index.sparse.contains(name) && top.join(path(name)).symlink_metadata().is_err();
        if !from_after.contains(name) || is_left_out {
            continue;
        }
        if from_before.contains(name) && !is_unfinished(work, &top, change, &gone)? {
            left.push(String::from_utf8_lossy(name).into_owned());
        } else if change.after.is_some() {
            written.push(name);
        } else {
            deleted.push(name);
        }
    }
    for name in deleted {
        step();
        delete(&top, path(name)).map_err(|error| errors::file(&top.join(path(name)), &error))?;
    }
    move_index(work, &git, changes, &index, &top)?;
    let mut input = Vec::new();
    for name in written {
        // Git writes a file only where none exists.
        input.extend_from_slice(name);
        input.push(0);
    }
    if !input.is_empty() {
        work.feed(&git, &["checkout-index", "-f", "-q", "-z", "--stdin"], &input)?;
    }
    match work.ask(&git, &["update-index", "-q", "--refresh"], b"")? {
        Ok(_) | Err(GitFailure::Refused { code: Some(1), .. }) => {}
        Err(failure) => return Err(failure.into()),
    }
    step();
    let index = git_dir.join("index");
    fs::rename(scratch.path("index"), &index).map_err(|error| errors::file(&index, &error))?;
    Ok(left)
}

/// Moves index entries from the old to the new version, if they still have the old one.
fn move_index(
    work: &OperationContext<'_>,
    git: &Git<'_>,
    changes: &[PathChange],
    index: &IndexEntries,
    top: &Path,
) -> Result<(), Error> {
    let IndexEntries { entries, sparse } = index;
    let (mut gone, mut there, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes.iter().filter(|change| entries.get(&*change.path) == change.before.as_ref()) {
        let id = change.before.as_ref().or(change.after.as_ref()).map_or(40, |entry| entry.id.len());
        let lines = if change.after.is_none() { &mut gone } else { &mut there };
        lines.extend(TreeEntry::line(change.after.as_ref(), &change.path, &"0".repeat(id)));
        let is_left_out =
            sparse.contains(&change.path) && top.join(path(&change.path)).symlink_metadata().is_err();
        if is_left_out && change.after.is_some() {
            left_out.extend_from_slice(&change.path);
            left_out.push(0);
        }
    }
    // Deletions first: a folder may become a file.
    gone.extend(there);
    if !gone.is_empty() {
        work.feed(git, &["update-index", "-z", "--add", "--replace", "--index-info"], &gone)?;
    }
    if !left_out.is_empty() {
        work.feed(git, &["update-index", "--skip-worktree", "-z", "--stdin"], &left_out)?;
    }
    Ok(())
}

/// Whether git was writing this file: it is missing, or contains the beginning of the new content.
fn is_unfinished(
    work: &OperationContext<'_>,
    top: &Path,
    change: &PathChange,
    gone: &BTreeSet<&[u8]>,
) -> Result<bool, Error> {
    let file = top.join(path(&change.path));
    let Ok(meta) = file.symlink_metadata() else { return Ok(true) };
    let Some(after) = &change.after else { return Ok(false) };
    if !meta.is_file() {
        // A folder that becomes a file is removed with its last file.
        return Ok(change::only_deleted(top, &change.path, gone));
    }
    let mut with_path = b"--path=".to_vec();
    with_path.extend_from_slice(&change.path);
    let with_path = std::ffi::OsString::from_vec(with_path);
    let args = [std::ffi::OsStr::new("cat-file"), "--filters".as_ref(), &with_path, after.id.as_ref()];
    let whole = work.feed(&work.git(top), &args, b"")?;
    let part = fs::read(&file).map_err(|error| errors::file(&file, &error))?;
    Ok(whole.starts_with(&part))
}

/// Deletes a file and its folders that become empty. Follows no links below `top`.
pub(in super::super) fn delete(top: &Path, name: &Path) -> io::Result<()> {
    let remove = |path: &Path, flags: AtFlags| -> io::Result<()> {
        let folder = tree::folder_of(top, path, false)?;
        Ok(unlinkat(folder, path.file_name().unwrap_or_default(), flags)?)
    };
    remove(name, AtFlags::empty())?;
    for folder in name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        if remove(folder, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}

/// Our `index.lock` of a work tree: a link to our own file, whose inode number no other lock has.
struct IndexLock {
    own: PathBuf,
    path: PathBuf,
    inode: u64,
}

impl IndexLock {
    /// Writes the record and takes the lock that the record declares as ours.
    fn take(
        work: &OperationContext<'_>,
        repository: &Path,
        git_dir: &Path,
        record: &mut LandingIntent,
    ) -> Result<Self, Error> {
        let file = record_of(repository);
        let failed = |error: io::Error| errors::file(&file, &error);
        let own = own_of(repository);
        let _ = fs::remove_file(&own);
        fs::create_dir_all(repository.join(scratch::FOLDER)).map_err(failed)?;
        fs::write(&own, "subagent land\n").map_err(failed)?;
        record.lock = fs::metadata(&own).map_err(failed)?.ino();
        record.write(repository)?;
        let lock = Self { own, path: git_dir.join("index.lock"), inode: record.lock };
        lock.link(work).inspect_err(|_| drop(fs::remove_file(&file)))?;
        Ok(lock)
    }

    /// Takes the lock for an existing record.
    fn take_again(work: &OperationContext<'_>, repository: &Path) -> Result<Self, Error> {
        let file = &record_of(repository);
        let text = fs::read(file).map_err(|error| errors::file(file, &error))?;
        let mut record: LandingIntent =
            serde_json::from_slice(&text).map_err(|error| errors::file(file, &io::Error::other(error)))?;
        let git_dir = folder(&record.git_dir);
        // The record stays if the lock is not available.
        let taken = Self::take(work, repository, &git_dir, &mut record);
        taken.inspect_err(|_| drop(write_whole(file, &text)))
    }

    fn link(&self, work: &OperationContext<'_>) -> Result<(), Error> {
        let until = Instant::now() + work.patience_with_git();
        loop {
            step();
            match fs::hard_link(&self.own, &self.path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !waiting::until_gone(&self.path, until) {
                        return Err(errors::locked(&self.path));
                    }
                }
                Err(error) => return Err(errors::file(&self.path, &error)),
            }
        }
    }

    fn is_held(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode)
    }

    /// Releases the lock and removes the record.
    fn release(&self, repository: &Path) -> Result<(), Error> {
        step();
        self.unlock()?;
        remove_record(repository)?;
        let _ = fs::remove_file(&self.own);
        Ok(())
    }

    fn unlock(&self) -> Result<(), Error> {
        match self.is_held() {
            true => fs::remove_file(&self.path).map_err(|error| errors::file(&self.path, &error)),
            false => Ok(()),
        }
    }
}
