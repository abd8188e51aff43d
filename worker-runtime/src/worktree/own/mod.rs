//! A worktree whose agent is in a sandbox: a separate repository that borrows the main one's
//! objects.

// Paths cannot confine a linked worktree: its branch is moved with a lock file beside other
// branches, a stash belongs to all worktrees, and write access to objects allows deleting them.
// The separate repository belongs to the agent, including its settings, which may name programs.
// Every process that reads its files therefore runs in the agent's sandbox. The outside takes only
// objects, which git verifies, and results, which are trusted for this worktree only.

pub(super) mod ask;
pub(super) mod create;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::sandbox::Sandbox;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Landing, Setup, Worktree, WorktreeResult};

use self::ask::{BranchTip, InsideOperation, InsideResult, ask};
use super::create::tip;
use super::remove::delete_branch;
use super::work::{OperationContext, step};
use super::{errors, retired};

pub(super) fn setup(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    setup: &Setup,
) -> Result<WorktreeResult, Error> {
    match ask(work, worktree, sandbox, InsideOperation::Setup { setup: setup.clone() })? {
        InsideResult::Done => Ok(WorktreeResult::Ready),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn look(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
) -> Result<Contents, Error> {
    if worktree.path.symlink_metadata().is_err() {
        return Ok(Contents::default());
    }
    match ask(work, worktree, sandbox, InsideOperation::Look)? {
        InsideResult::Contents(contents) => Ok(contents),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn remove(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
) -> Result<WorktreeResult, Error> {
    let contents = look(work, worktree, sandbox)?;
    if !contents.is_clean() {
        return Ok(WorktreeResult::Found(contents));
    }
    if worktree.with_changes {
        retired::keep_base(work, worktree)?;
    }
    take_away(work, worktree)?;
    Ok(WorktreeResult::Removed)
}

pub(super) fn discard(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    time: Timestamp,
) -> Result<WorktreeResult, Error> {
    if matches!(remove(work, worktree, sandbox)?, WorktreeResult::Removed) {
        // An earlier attempt was killed after its last step.
        return Ok(WorktreeResult::Discarded(retired::of(work, worktree, time)?));
    }
    let commit = commit_of(work, worktree, sandbox, InsideOperation::All { time })?
        .ok_or_else(|| errors::not_found(&worktree.path, "it has no commit"))?;
    let name = retired::keep(work, &worktree.repository, worktree, time, &commit)?;
    take_away(work, worktree)?;
    Ok(WorktreeResult::Discarded(Some(name)))
}

/// Commits uncommitted changes and copies the commit to the main repository. Updates the worktree's
/// copy of the target.
pub(super) fn commit(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    landing: &Landing,
    target: Option<BranchTip>,
) -> Result<String, Error> {
    let wish = InsideOperation::Commit { landing: Box::new(landing.clone()), target };
    commit_of(work, worktree, sandbox, wish)?
        .ok_or_else(|| errors::refused("noCommit", "the worktree has no commit checked out"))
}

/// Returns a commit that keeps those which only the worktree has, copied to the main repository;
/// `None` if there are none.
pub(super) fn commits(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    time: Timestamp,
) -> Result<Option<String>, Error> {
    commit_of(work, worktree, sandbox, InsideOperation::Commits { time })
}

pub(super) fn check(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    checks: &[String],
    commit: &str,
) -> Result<(), Error> {
    if checks.is_empty() {
        return Ok(());
    }
    done(
        work,
        worktree,
        sandbox,
        InsideOperation::Check { checks: checks.to_vec(), commit: commit.to_owned() },
    )
}

/// Moves the worktree to a commit of the main repository.
pub(super) fn go_on(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    commit: &str,
) -> Result<(), Error> {
    // The branch keeps its first commit.
    let name = format!("refs/heads/{}", worktree.branch);
    work.run(&worktree.repository, &["update-ref", &name, commit])?;
    done(work, worktree, sandbox, InsideOperation::GoOn { commit: commit.to_owned() })
}

pub(super) fn patch(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
) -> Result<Vec<u8>, Error> {
    match ask(work, worktree, sandbox, InsideOperation::Patch)? {
        InsideResult::Patch(bytes) => Ok(bytes),
        other => Err(unexpected(&other)),
    }
}

fn done(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    wish: InsideOperation,
) -> Result<(), Error> {
    match ask(work, worktree, sandbox, wish)? {
        InsideResult::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// Creates a commit inside and copies it to the main repository.
fn commit_of(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    wish: InsideOperation,
) -> Result<Option<String>, Error> {
    let id = match ask(work, worktree, sandbox, wish)? {
        InsideResult::Commit(Some(id)) => id,
        InsideResult::Commit(None) => return Ok(None),
        other => return Err(unexpected(&other)),
    };
    let is_id = id.len() == worktree.base.len() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err(errors::refused("noCommit", "the worktree has no commit checked out"));
    }
    fetch(work, worktree, sandbox, &id)?;
    Ok(Some(id))
}

/// Copies a commit to the main repository. No ref keeps it yet.
fn fetch(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    sandbox: &Sandbox,
    commit: &str,
) -> Result<(), Error> {
    let has = format!("{commit}^{{commit}}");
    if work.asked(&worktree.repository, &["cat-file", "-e", &has])?.is_some() {
        return Ok(());
    }
    let program = work.runtime().map_err(|error| errors::file(&worktree.path, &error))?;
    let arguments =
        subagent_sandbox::arguments(&ask::text(sandbox), None, OsStr::new("git"), &["upload-pack".into()]);
    // Git passes it to a shell.
    let mut serves = OsString::from("--upload-pack=");
    for word in [program.into_os_string()].into_iter().chain(arguments) {
        serves.push(quoted(&word));
        serves.push(" ");
    }
    let (from, checks) = (worktree.from_inside().repository, "fetch.fsckObjects=true");
    let args =
        ["-c", checks, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"];
    let args = args.into_iter().chain(["--no-recurse-submodules"]).map(OsStr::new);
    let args: Vec<&OsStr> = args.chain([&*serves, from.as_os_str(), commit.as_ref()]).collect();
    work.run(&worktree.repository, &args).map(drop)
}

/// Quotes a word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let mut quoted = OsString::from("'");
    for (index, part) in word.as_encoded_bytes().split(|byte| *byte == b'\'').enumerate() {
        if index > 0 {
            quoted.push("'\\''");
        }
        quoted.push(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(part));
    }
    quoted.push("'");
    quoted
}

/// Removes the folder and the branch that kept its first commit. Can be repeated.
fn take_away(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let leaving = leaving(worktree);
    let failed = |path: &Path, error: &io::Error| errors::file(path, error);
    step();
    // In one step: a half removed repository looks like another one.
    match fs::rename(&worktree.path, &leaving) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            fs::remove_dir_all(&leaving).map_err(|error| failed(&leaving, &error))?;
            fs::rename(&worktree.path, &leaving).map_err(|error| failed(&worktree.path, &error))?;
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&worktree.path, &error)),
        _ => {}
    }
    step();
    match fs::remove_dir_all(&leaving) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&leaving, &error)),
        _ => {}
    }
    let at = tip(work, worktree)?;
    delete_branch(work, worktree, at.as_deref())
}

/// Returns the folder's name during its removal.
fn leaving(worktree: &Worktree) -> PathBuf {
    let folder = worktree.path.parent().unwrap_or(Path::new("/"));
    folder.join(format!(".{}.removed", worktree.name))
}

fn unexpected(result: &InsideResult) -> Error {
    errors::refused("noAnswer", format!("a process in the sandbox returned an unexpected result: {result:?}"))
}
