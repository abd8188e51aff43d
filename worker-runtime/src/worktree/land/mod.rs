//! `Land` and `Recover`: applies the changes of a worktree to another branch, in one step.

pub(super) mod change;
mod checks;
pub(super) mod files;
pub(super) mod finish;
pub(super) mod landed;
mod make;
pub(super) mod merge;
mod target;
mod whole_files;

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{AfterLanding, Landed, Landing, Worktree, WorktreeResult};

use self::landed::LandedRecord;
use self::make::LandingSource;
use self::target::LandingTarget;
use super::checkout::{self, Checkout};
use super::errors::{self, refused};
use super::keep::Keeping;
use super::look;
use super::registration::Registration;
use super::scratch::{self, Scratch};
use super::status::{OwnIndex, parts, refuse_under_way, with_own_index};
use super::work::{OperationContext, line};
use super::{own, remove, retired};

pub(super) use checks::{restore, run as check};

pub(super) fn land(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<WorktreeResult, Error> {
    let lock = worktree.repository.join(scratch::FOLDER).join("lock");
    work.locked("land", &lock, &worktree.repository, |work| land_locked(work, worktree, landing))
}

pub(super) fn recover(
    work: &OperationContext<'_>,
    repository: &std::path::Path,
) -> Result<WorktreeResult, Error> {
    if !repository.is_dir() {
        return Err(errors::not_found(repository, "the repository is gone"));
    }
    let lock = repository.join(scratch::FOLDER).join("lock");
    work.locked("recover", &lock, repository, |work| {
        finish::recover(work, repository).map(WorktreeResult::Recovered)
    })
}

fn land_locked(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<WorktreeResult, Error> {
    finish::recover(work, &worktree.repository)?;
    // The same landing, after it was killed.
    let mut landed = match landed::read(worktree, landing) {
        Some(landed) => landed,
        None => {
            let landed = bring(work, worktree, landing)?;
            landed::write(worktree, landing, &landed)?;
            landed
        }
    };
    follow(work, worktree, landing, &mut landed)?;
    Ok(WorktreeResult::Landed(landed))
}

/// Applies the changes to the target. The worktree stays unchanged.
fn bring(work: &OperationContext<'_>, worktree: &Worktree, landing: &Landing) -> Result<Landed, Error> {
    let target = LandingTarget::find(work, worktree, landing)?;
    let seen = own::ask::BranchTip { branch: target.branch.clone(), commit: target.commit.clone() };
    let commit = source(work, worktree, landing, Some(seen))?;
    let base = base(work, worktree, &target, &commit)?;
    let source = LandingSource { commit, base };
    let mut landed = Landed {
        into: target.branch.clone(),
        commit: target.commit.clone(),
        before: target.commit.clone(),
        files: Vec::new(),
        added: 0,
        removed: 0,
        retired: None,
        worktree_removed: false,
    };
    if let Some(after) = make::commit(work, worktree, landing, &source, &target)? {
        if !landing.checks.is_empty() {
            // The checks may take long. The landing itself looks again.
            let changes = change::between(work, &worktree.repository, &target.commit, &after)?;
            finish::refuse_dirty(work, &worktree.repository, &target, &changes)?;
        }
        match &worktree.sandbox {
            Some(sandbox) => own::check(work, worktree, sandbox, &landing.checks, &after)?,
            None => checks::run(work, worktree, &landing.checks, &after)?,
        }
        let numbers = change::numbers(work, &worktree.repository, &target.commit, &after)?;
        (landed.files, landed.added, landed.removed) = (numbers.files, numbers.added, numbers.removed);
        landed.commit = after;
        let record = LandedRecord::of(worktree, landing, landed.clone());
        let reason = format!("subagent land: {}", worktree.name);
        finish::land(work, &worktree.repository, &target, record, &reason)?;
    }
    Ok(landed)
}

/// Returns the commit of the worktree's content, copied to the main repository.
fn source(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
    target: Option<own::ask::BranchTip>,
) -> Result<String, Error> {
    if let Some(sandbox) = &worktree.sandbox {
        return own::commit(work, worktree, sandbox, landing, target);
    }
    let commit = commit_all(work, worktree, landing)?;
    let place = Checkout::of(worktree, &there(worktree)?);
    Keeping { work, worktree, time: landing.time() }.commits_in_main(&place)?;
    Ok(commit)
}

/// Keeps the commits that only the worktree has under a ref. Returns its name; `None`
/// if there are none.
fn retire(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<Option<String>, Error> {
    let kept = match &worktree.sandbox {
        Some(sandbox) => own::commits(work, worktree, sandbox, landing.time())?,
        None => commits(work, worktree, landing.time())?,
    };
    let keep = |commit: String| retired::keep(work, &worktree.repository, worktree, landing.time(), &commit);
    kept.map(keep).transpose()
}

/// Removes the worktree if nothing would be lost. Returns whether it was removed.
fn removed(work: &OperationContext<'_>, worktree: &Worktree) -> Result<bool, Error> {
    let removed = match &worktree.sandbox {
        Some(sandbox) => own::remove(work, worktree, sandbox)?,
        None => remove::remove(work, worktree)?,
    };
    Ok(matches!(removed, WorktreeResult::Removed))
}

/// Moves the worktree to its state after the landing.
fn follow(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
    landed: &mut Landed,
) -> Result<(), Error> {
    if landing.then == AfterLanding::Keep {
        return Ok(());
    }
    if let Some(name) = retire(work, worktree, landing)? {
        landed.retired = Some(name);
        landed::write(worktree, landing, landed)?;
    }
    match landing.then {
        AfterLanding::Keep => {}
        AfterLanding::Remove => {
            landed.worktree_removed = removed(work, worktree)?;
        }
        AfterLanding::GoOn => {
            let gone_on = match &worktree.sandbox {
                Some(sandbox) => own::go_on(work, worktree, sandbox, &landed.commit),
                None => go_on(work, worktree, &landed.commit),
            };
            gone_on.map_err(|error| {
                error.with("into", landed.into.clone()).with("commit", landed.commit.clone())
            })?;
        }
    }
    Ok(())
}

/// Returns a commit that keeps those which only the worktree has; `None` if there are none.
pub(super) fn commits(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    time: Timestamp,
) -> Result<Option<String>, Error> {
    let _ = look::registered(worktree)?;
    let found = Registration::find(worktree)?;
    let Some(tips) = super::discard::only_of_branch(work, worktree, found.as_ref())? else {
        return Ok(None);
    };
    let git = work.git_of(found.as_ref().map_or(&worktree.repository, |found| &found.admin));
    let head =
        work.asked_of(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.map(|id| line(&id));
    let head = if found.is_some() { head } else { None };
    let parents: Vec<String> = head.into_iter().chain(tips).collect();
    let Some(first) = parents.first() else { return Ok(None) };
    let tree = line(&work.feed(&git, &["rev-parse", &format!("{first}^{{tree}}")], b"")?);
    Keeping { work, worktree, time }.commit(&git, &tree, parents.into_iter(), "Commits").map(Some)
}

/// Moves the branch and its files to a commit.
pub(super) fn go_on(work: &OperationContext<'_>, worktree: &Worktree, commit: &str) -> Result<(), Error> {
    let found = there(worktree)?;
    let args = ["checkout", "--quiet", "--no-overwrite-ignore", "-B", &worktree.branch, commit, "--"];
    work.run(&found.path, &args).map(drop)
}

/// Returns the worktree, whose folder must exist.
fn there(worktree: &Worktree) -> Result<Registration, Error> {
    look::registered(worktree)?
        .ok_or_else(|| errors::not_found(&worktree.path, "the folder of the worktree is gone"))
}

/// Returns the start of the worktree's changes, after the main tree's own changes.
fn base(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    target: &LandingTarget,
    commit: &str,
) -> Result<String, Error> {
    if worktree.with_changes {
        return Ok(worktree.base.clone());
    }
    let found = work.asked(&worktree.repository, &["merge-base", &target.commit, commit])?;
    Ok(found.and_then(|id| change::first(&id)).unwrap_or_else(|| worktree.base.clone()))
}

/// Commits uncommitted changes on top of the checkout. Returns the commit of the worktree.
pub(super) fn commit_all(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
) -> Result<String, Error> {
    let found = &there(worktree)?;
    refuse_under_way(work, &found.path, &found.admin)?;
    let top = &found.path;
    let head = checkout::head(work, top)?
        .ok_or_else(|| refused("noCommit", format!("{} has no commit checked out", top.display())))?;
    let args =
        ["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames"];
    let status = work.run(top, &args)?;
    let (mut names, mut is_staged, mut is_staged_else) = (Vec::new(), false, false);
    for entry in parts(&status) {
        let (&[staged, changed, _, ..], Some(name)) = (entry, entry.get(3..)) else { continue };
        is_staged |= !b" ?".contains(&staged);
        // A separate repository is not a file of this one.
        if changed != b' ' && !name.ends_with(b"/") {
            is_staged_else |= !b" ?".contains(&staged);
            names.extend_from_slice(name);
            names.push(0);
        }
    }
    if names.is_empty() && !is_staged {
        return Ok(head);
    }
    if is_staged_else {
        keep_index(work, worktree, found, landing, &head)?;
    }
    if !names.is_empty() {
        let add = ["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"];
        work.feed(&work.git(top), &add, &names)?;
    }
    let tree = line(&work.run(top, &["write-tree"])?);
    let message = format!("Work of {}\n", worktree.name);
    let message = make::with_trailer(work, worktree, message.as_bytes(), &landing.trailer)?;
    let commit = make::write(work, work.git(top), &tree, &[&head], &message)?;
    work.run(top, &["update-ref", "-m", "subagent land", "HEAD", &commit, &head])?;
    Ok(commit)
}

/// Keeps the staged version of files that have changed again since.
fn keep_index(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
    landing: &Landing,
    head: &str,
) -> Result<(), Error> {
    let scratch = Scratch::new(&worktree.repository)?;
    let OwnIndex { git, is_unmerged, .. } = with_own_index(work, &found.path, &found.admin, &scratch)?;
    let keeping = Keeping { work, worktree, time: landing.time() };
    let index = keeping.index(&git, &scratch, Some(head), is_unmerged)?;
    retired::keep(work, &worktree.repository, worktree, landing.time(), &index).map(drop)
}
