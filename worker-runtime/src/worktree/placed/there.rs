//! What `subagent-runtime worktree` does on the machine of a placed worker. Its repository is bare,
//! and has nothing but worktrees of placed workers.

use std::fs;
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{EXCHANGE_REFS, Setup, Worktree, WorktreeResult};

use super::state::{SHA256_DIGITS, WorktreeState};
use crate::placement::there;
use crate::worktree::commits::OwnCommits;
use crate::worktree::keep::Keeping;
use crate::worktree::registration::{READY, Registration};
use crate::worktree::work::{OperationContext, line};
use crate::worktree::{create, discard, errors, exclusively, look, remove, usable};

/// The folder of refs for the states that the other side has had.
const KNOWN_REFS: &str = "refs/subagent/known/";

/// Returns the ref of a worktree for states on their way.
pub(super) fn exchange_ref(worktree: &Worktree) -> String {
    format!("{EXCHANGE_REFS}{}", worktree.name)
}

/// Returns the ref of a worktree for the states that the other side has had.
fn known_ref(worktree: &Worktree) -> String {
    format!("{KNOWN_REFS}{}", worktree.name)
}

/// Puts the state of the worktree under its ref. Returns it; `None` without a worktree. One that `is_new`
/// may be incomplete.
pub(in crate::worktree) fn pack(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    is_new: bool,
) -> Result<WorktreeResult, Error> {
    let worktree = &expanded(worktree)?;
    init(work, worktree)?;
    exclusively(work, "pack", worktree, |work| {
        let Some(found) = look::registered(worktree)?.filter(Registration::is_whole) else {
            if !is_new && create::tip(work, worktree)?.is_some() {
                return Err(errors::not_found(&worktree.path, "the folder of the worktree was removed"));
            }
            return Ok(WorktreeResult::Packed(None));
        };
        let state = WorktreeState { work, worktree, found: &found };
        state.recover()?;
        let packed = state.pack()?;
        work.run(&worktree.repository, &["update-ref", &exchange_ref(worktree), &packed.state])?;
        Ok(WorktreeResult::Packed(Some(packed)))
    })
}

/// Gives the worktree a state that was sent, if it still has the state `before`. Creates the worktree,
/// and makes it usable, if that was not done. Returns the state that it has then.
pub(in crate::worktree) fn unpack(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    state: &str,
    before: Option<&str>,
    setup: &Setup,
) -> Result<WorktreeResult, Error> {
    let worktree = &expanded(worktree)?;
    exclusively(work, "unpack", worktree, |work| {
        let is_new = look::registered(worktree)?.filter(Registration::is_whole).is_none();
        if is_new {
            // Its branch begins with the first parent of the state.
            let base = work.run(&worktree.repository, &["rev-parse", "--verify", &format!("{state}^1")])?;
            create::create(work, &Worktree { base: line(&base), ..worktree.clone() })?;
        }
        let found = look::registered(worktree)?
            .ok_or_else(|| errors::not_found(&worktree.path, "git does not know the worktree it has made"))?;
        let there = WorktreeState { work, worktree, found: &found };
        there.recover()?;
        let mut packed = there.pack()?;
        let is_unused = found.read(READY).is_none();
        if packed.state != state && !is_unused && before != Some(&packed.state) {
            return Err(errors::busy("moved", "the worktree has changed meanwhile"));
        }
        if packed.state != state {
            keep_known(work, worktree, &packed.state)?;
            there.change(&packed.state, state)?;
            packed.state = there.after_change(state)?;
        }
        if is_unused {
            // What it makes is work, as in any worktree.
            let _ = usable::make(work, worktree, setup)?;
        }
        Ok(WorktreeResult::Packed(Some(packed)))
    })
}

/// Keeps a state, which the other side has, beside those before it: its commits are not lost with the
/// worktree.
fn keep_known(work: &OperationContext<'_>, worktree: &Worktree, state: &str) -> Result<(), Error> {
    let (name, repository) = (known_ref(worktree), &worktree.repository);
    let before = work.asked(repository, &["rev-parse", "--verify", "--quiet", &name])?;
    let parents = before.map(|id| line(&id)).into_iter().chain([state.to_owned()]);
    let keeping = Keeping { work, worktree, time: Timestamp(0) };
    let git = work.git(repository);
    let tree = line(&work.feed(&git, &["mktree"], b"")?);
    let known = keeping.commit(&git, &tree, parents, "States")?;
    work.run(repository, &["update-ref", &name, &known]).map(drop)
}

/// Removes the worktree if it has nothing but a known state. One with more is kept under a ref first, or
/// stays.
pub(in crate::worktree) fn forget(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    state: &str,
    time: Option<Timestamp>,
) -> Result<WorktreeResult, Error> {
    let worktree = &expanded(worktree)?;
    if !worktree.repository.is_dir() {
        return Ok(WorktreeResult::Removed);
    }
    exclusively(work, "forget", worktree, |work| {
        let Some(found) = look::registered(worktree)? else { return forget_gone(work, worktree, time) };
        if is_known(work, worktree, &found, state)? {
            found.refuse_if_locked()?;
            let args = ["worktree", "remove", "--force"].map(AsRef::<std::ffi::OsStr>::as_ref);
            let args: Vec<_> = args.into_iter().chain([found.path.as_os_str()]).collect();
            work.run(&worktree.repository, &args)?;
            return forget_refs(work, worktree);
        }
        keep(work, worktree, time)
    })
}

/// Keeps a worktree with more than a known state under a ref of this time, and removes it. Without a
/// time, it stays.
fn keep(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    time: Option<Timestamp>,
) -> Result<WorktreeResult, Error> {
    let Some(time) = time else { return look::look(work, worktree).map(WorktreeResult::Found) };
    let kept = discard::discard(work, worktree, time)?;
    let _ = forget_refs(work, worktree)?;
    Ok(kept)
}

/// Forgets a worktree without a folder, whose commits may be known nowhere else.
fn forget_gone(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    time: Option<Timestamp>,
) -> Result<WorktreeResult, Error> {
    if !look::look(work, worktree)?.is_clean() {
        return keep(work, worktree, time);
    }
    if let Some(gone) = Registration::find(worktree)? {
        remove::forget(&gone)?;
    }
    forget_refs(work, worktree)
}

/// Whether all of the worktree is in this state, which is known elsewhere.
fn is_known(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
    state: &str,
) -> Result<bool, Error> {
    let packed = match (WorktreeState { work, worktree, found }).pack() {
        Ok(packed) => packed,
        // An operation of git is under way.
        Err(_) => return Ok(false),
    };
    if packed.state != state || packed.stays > 0 {
        return Ok(false);
    }
    // What only its reflogs have.
    work.run(&worktree.repository, &["update-ref", &exchange_ref(worktree), state])?;
    Ok(OwnCommits::find(work, worktree, Some(found))?.unique.is_empty())
}

/// Removes the branch and the refs of a worktree that is gone.
fn forget_refs(work: &OperationContext<'_>, worktree: &Worktree) -> Result<WorktreeResult, Error> {
    let tip = create::tip(work, worktree)?;
    remove::delete_branch(work, worktree, tip.as_deref())?;
    for name in [exchange_ref(worktree), known_ref(worktree)] {
        work.run(&worktree.repository, &["update-ref", "-d", &name])?;
    }
    Ok(WorktreeResult::Removed)
}

/// Makes the repository, if there is none.
fn init(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let repository = &worktree.repository;
    if repository.exists() {
        return Ok(());
    }
    let (lock, new) = (repository.with_extension("lock"), repository.with_extension("new"));
    work.locked("init", &lock, repository, |work| {
        if repository.exists() {
            return Ok(());
        }
        let failed = |error: std::io::Error| errors::file(&new, &error);
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => fs::create_dir_all(&new).map_err(failed)?,
        }
        let format = if worktree.base.len() == SHA256_DIGITS { "sha256" } else { "sha1" };
        let git = work.git_of(&new);
        let args = ["init", "--quiet", "--bare", "--template=", &format!("--object-format={format}")];
        work.feed(&git, &args, b"")?;
        // A repository here may have a part of the history only.
        work.feed(&git, &["config", "receive.shallowUpdate", "true"], b"")?;
        fs::rename(&new, repository).map_err(failed)
    })
}

/// The same with the home of this process.
pub(super) fn expanded(worktree: &Worktree) -> Result<Worktree, Error> {
    let home = |path: &Path| there::path(path.as_os_str()).map_err(|error| errors::file(path, &error));
    Ok(Worktree {
        repository: home(&worktree.repository)?,
        main: home(&worktree.main)?,
        path: home(&worktree.path)?,
        ..worktree.clone()
    })
}
