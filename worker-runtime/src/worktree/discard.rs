//! `Discard`: keeps the content of a worktree under a ref and removes the worktree.

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Worktree, WorktreeResult};

use super::checkout::Checkout;
use super::commits::OwnCommits;
use super::create::tip;
use super::keep::{self, Keeping};
use super::look;
use super::registration::{REMOVING, Registration};
use super::remove::{self, delete_branch, forget};
use super::retired;
use super::scratch::Scratch;
use super::work::{OperationContext, line};

pub(super) fn discard(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    time: Timestamp,
) -> Result<WorktreeResult, Error> {
    let found = Registration::find(worktree)?;
    let begun = found.as_ref().and_then(|found| found.read(REMOVING)).filter(|name| !name.is_empty());
    let begun = begun.map(|name| String::from_utf8_lossy(&name).into_owned());
    if begun.is_none() && look::before_removal(work, worktree)?.is_clean() {
        let _ = remove::remove(work, worktree)?;
        // An earlier attempt was killed after its last step.
        return Ok(WorktreeResult::Discarded(retired::of(work, worktree, time)?));
    }
    let at = tip(work, worktree)?;
    let keeping = Keeping { work, worktree, time };
    let name = match &found {
        Some(found) => {
            found.refuse_if_locked()?;
            let there = look::registered(worktree)?;
            let commit = match there.is_some() {
                true => Some(of_folder(&keeping, found)?),
                // The folder's content was kept before its removal.
                false if begun.is_some() => None,
                false => Some(of_git(&keeping, found)?),
            };
            let kept = match (begun, commit) {
                (Some(name), Some(commit)) if !has_more(work, worktree, &name, &commit)? => name,
                (Some(name), None) => name,
                (_, Some(commit)) => retired::keep(work, &worktree.repository, worktree, time, &commit)?,
                (None, None) => unreachable!("without a removal that has begun there is a commit"),
            };
            found.write(REMOVING, kept.as_bytes())?;
            if there.is_some() {
                let args = ["worktree", "remove", "--force"].map(AsRef::<std::ffi::OsStr>::as_ref);
                let args: Vec<_> = args.into_iter().chain([found.path.as_os_str()]).collect();
                work.run(&worktree.repository, &args)?;
            }
            forget(found)?;
            kept
        }
        None => {
            let tips = of_branch(work, worktree, None)?;
            let git = work.git(&worktree.repository);
            let tree = format!("refs/heads/{}^{{tree}}", worktree.branch);
            let tree = line(&work.feed(&git, &["rev-parse", &tree], b"")?);
            let commit = keeping.commit(&git, &tree, at.iter().cloned().chain(tips), "Commits")?;
            retired::keep(work, &worktree.repository, worktree, time, &commit)?
        }
    };
    delete_branch(work, worktree, at.as_deref())?;
    Ok(WorktreeResult::Discarded(Some(name)))
}

/// Returns the commits that only the branch and the reflogs have, and that of
/// the main tree's changes.
pub(super) fn of_branch(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: Option<&Registration>,
) -> Result<Vec<String>, Error> {
    Ok(parents(worktree, OwnCommits::find(work, worktree, found)?))
}

/// The same; `None` if other refs have all its commits.
pub(super) fn only_of_branch(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: Option<&Registration>,
) -> Result<Option<Vec<String>>, Error> {
    let commits = OwnCommits::find(work, worktree, found)?;
    Ok((!commits.unique.is_empty()).then(|| parents(worktree, commits)))
}

fn parents(worktree: &Worktree, OwnCommits { tip, tips, unique }: OwnCommits) -> Vec<String> {
    let base = worktree.with_changes.then(|| worktree.base.clone());
    tip.into_iter().chain(unique.into_iter().filter(|id| tips.contains(id))).chain(base).collect()
}

/// Returns a commit of the folder's content with all commits that only it has.
pub(super) fn of_folder(keeping: &Keeping<'_>, found: &Registration) -> Result<String, Error> {
    let place = Checkout::of(keeping.worktree, found);
    keeping.all(&place, of_branch(keeping.work, keeping.worktree, Some(found))?)
}

/// Keeps the commits and the index of a worktree whose folder is gone.
fn of_git(keeping: &Keeping<'_>, found: &Registration) -> Result<String, Error> {
    let work = keeping.work;
    let git = work.git_of(&found.admin);
    let head =
        work.asked_of(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.map(|id| line(&id));
    let scratch = Scratch::new(&keeping.worktree.repository)?;
    let is_unmerged = !work.feed(&git, &["ls-files", "-z", "--unmerged"], b"")?.is_empty();
    let index = keeping.index(&git, &scratch, head.as_deref(), is_unmerged)?;
    let tree = line(&work.feed(&git, &["rev-parse", &format!("{index}^{{tree}}")], b"")?);
    let mut parents = of_branch(work, keeping.worktree, Some(found))?;
    parents.extend(keep::named(work, &keeping.worktree.repository, &found.admin)?);
    keeping.commit(&git, &tree, head.into_iter().chain([index]).chain(parents), "Commits")
}

/// Whether the commit of a partly removed folder has content that the commit of
/// the whole folder lacks.
fn has_more(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    whole: &str,
    part: &str,
) -> Result<bool, Error> {
    let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d", whole, part];
    let more = work.run(&worktree.repository, &args)?;
    // The index is unchanged while it exists, and so is its commit.
    let args = ["rev-list", "--count", &format!("{part}^@"), "--not", whole];
    Ok(!more.is_empty() || line(&work.run(&worktree.repository, &args)?) != "0")
}
