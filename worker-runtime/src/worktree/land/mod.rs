//! `Land` and `Recover`: brings the changes of a worktree to another branch, in one step.

pub(super) mod change;
mod checks;
pub(super) mod finish;
mod make;
pub(super) mod merge;
mod target;

use subagent_protocol::worktree::{AfterLanding, Answer, Landed, Landing, Worktree};
use subagent_protocol::{Code, Error};

use self::make::Source;
use self::target::Target;
use super::keep::Keeping;
use super::look::{self, Place};
use super::registration::Registration;
use super::scratch;
use super::status::{parts, refuse_under_way};
use super::work::{Work, line};
use super::{errors, remove, retired};

pub(super) use checks::restore;

pub(super) fn land(work: &Work<'_>, worktree: &Worktree, landing: &Landing) -> Result<Answer, Error> {
    let lock = worktree.repository.join(scratch::FOLDER).join("lock");
    work.locked("land", &lock, &worktree.repository, |work| alone(work, worktree, landing))
}

pub(super) fn recover(work: &Work<'_>, repository: &std::path::Path) -> Result<Answer, Error> {
    if !repository.is_dir() {
        return Err(errors::not_found(repository, "the repository is gone"));
    }
    let lock = repository.join(scratch::FOLDER).join("lock");
    work.locked("recover", &lock, repository, |work| finish::recover(work, repository).map(Answer::Recovered))
}

fn alone(work: &Work<'_>, worktree: &Worktree, landing: &Landing) -> Result<Answer, Error> {
    finish::recover(work, &worktree.repository)?;
    let found = look::registered(worktree)?
        .ok_or_else(|| errors::not_found(&worktree.path, "the folder of the worktree is gone"))?;
    refuse_under_way(work, &found.path, &found.admin)?;
    let target = Target::find(work, worktree, landing)?;
    let commit = commit_all(work, worktree, &found, landing)?;
    let base = base(work, worktree, &target, &commit)?;
    let source = Source { commit, base };
    let keeping = Keeping { work, worktree, time: landing.time };
    let place = place(worktree, &found);
    keeping.commits_in_main(&place)?;
    let after = make::commit(work, worktree, landing, &source, &target)?;
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
    if let Some(after) = after {
        finish::refuse_dirty(work, &worktree.repository, &target, &after)?;
        checks::run(work, worktree, &found, &landing.checks, &after)?;
        let reason = format!("subagent land: {}", worktree.name);
        finish::land(work, &worktree.repository, &target, &after, &reason)?;
        let numbers = change::numbers(work, &worktree.repository, &target.commit, &after)?;
        (landed.files, landed.added, landed.removed) = (numbers.files, numbers.added, numbers.removed);
        landed.commit = after;
    }
    follow(work, worktree, landing, &found, &source, &mut landed)?;
    Ok(Answer::Landed(landed))
}

/// What the worktree becomes.
fn follow(
    work: &Work<'_>,
    worktree: &Worktree,
    landing: &Landing,
    found: &Registration,
    source: &Source,
    landed: &mut Landed,
) -> Result<(), Error> {
    if landing.then == AfterLanding::Keep {
        return Ok(());
    }
    let contents = look::look(work, worktree)?;
    let mut kept = None;
    if contents.commits > 0 {
        let keeping = Keeping { work, worktree, time: landing.time };
        let tips = super::discard::of_branch(work, worktree, Some(found))?;
        let git = work.git(&worktree.repository);
        let tree = format!("{}^{{tree}}", source.commit);
        let tree = line(&work.feed(&git, &["rev-parse", &tree], b"")?);
        let parents = [source.commit.clone()].into_iter().chain(tips);
        let commit = keeping.commit(&git, &tree, parents, "Commits")?;
        kept = Some(retired::keep(work, &worktree.repository, worktree, landing.time, &commit)?);
    }
    match landing.then {
        AfterLanding::Keep => {}
        AfterLanding::Remove => {
            landed.worktree_removed = matches!(remove::remove(work, worktree)?, Answer::Removed);
            landed.retired = kept.filter(|_| landed.worktree_removed);
        }
        AfterLanding::GoOn => {
            let args = [
                "checkout",
                "--quiet",
                "--no-overwrite-ignore",
                "-B",
                &worktree.branch,
                &landed.commit,
                "--",
            ];
            work.run(&found.path, &args).map_err(|error| {
                error.with("into", landed.into.clone()).with("commit", landed.commit.clone())
            })?;
        }
    }
    Ok(())
}

fn place(worktree: &Worktree, found: &Registration) -> Place {
    Place {
        top: found.path.clone(),
        git_dir: found.admin.clone(),
        main: Some(worktree.main.clone()),
        ready: look::ready(found),
        deletions_count: true,
    }
}

/// Where the worktree's changes begin: the main tree's own changes are none of them.
fn base(work: &Work<'_>, worktree: &Worktree, target: &Target, commit: &str) -> Result<String, Error> {
    if worktree.with_changes {
        return Ok(worktree.base.clone());
    }
    let found = work.asked(&worktree.repository, &["merge-base", &target.commit, commit])?;
    Ok(found.and_then(|id| change::first(&id)).unwrap_or_else(|| worktree.base.clone()))
}

/// Commits what is not committed, on what is checked out; the commit of the worktree.
fn commit_all(
    work: &Work<'_>,
    worktree: &Worktree,
    found: &Registration,
    landing: &Landing,
) -> Result<String, Error> {
    let top = &found.path;
    let head = look::head(work, top)?
        .ok_or_else(|| refused("noCommit", format!("{} has no commit checked out", top.display())))?;
    let args =
        ["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames"];
    let status = work.run(top, &args)?;
    let mut names = Vec::new();
    for name in parts(&status).filter_map(|entry| entry.get(3..)) {
        // A repository of its own is no file of this one.
        if !name.ends_with(b"/") {
            names.extend_from_slice(name);
            names.push(0);
        }
    }
    if names.is_empty() {
        return Ok(head);
    }
    let add = ["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"];
    work.feed(&work.git(top), &add, &names)?;
    let tree = line(&work.run(top, &["write-tree"])?);
    let message = format!("Work of {}\n", worktree.name);
    let message = make::with_trailer(work, worktree, message.as_bytes(), &landing.trailer)?;
    let commit = make::write(work, work.git(top), &tree, &[&head], &message)?;
    work.run(top, &["update-ref", "-m", "subagent land", "HEAD", &commit, &head])?;
    Ok(commit)
}

/// A landing that is refused.
pub(super) fn refused(reason: &str, message: impl Into<String>) -> Error {
    Error::new(Code::LandRefused, message).with("reason", reason)
}
