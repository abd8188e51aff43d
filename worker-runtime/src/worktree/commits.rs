//! Commits that exist only in a worktree: those of its `HEAD`, its branch and their reflogs.

use std::collections::BTreeSet;

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::checkout::Checkout;
use super::registration::Registration;
use super::work::OperationContext;
use crate::git::Git;

/// Refs that each work tree has of its own.
const OWN_REFS: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// Returns the commits of a worktree that no other ref reaches, without the commit of
/// the main tree's changes.
pub(super) fn unique(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: Option<&Registration>,
) -> Result<Vec<String>, Error> {
    let branch = format!("refs/heads/{}", worktree.branch);
    let git = git_of(work, worktree, found);
    if worktree.is_inside() {
        // All refs are its own; the repository it borrows from has its own copies.
        let args = ["rev-list", "--ignore-missing", "--all", "--reflog", "--not", "--alternate-refs"];
        return Ok(lines(&work.feed(&git, &args, b"")?).collect());
    }
    let tips = tips(work, worktree, found)?;
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let input = included(tips) + &excluded(other_refs(work, &git, &branch)?);
    let mut unique = list(work, &git, &input)?;
    unique.retain(|commit| !(worktree.with_changes && *commit == worktree.base));
    Ok(unique)
}

/// Returns the present and former commits of its branch and `HEAD`.
pub(super) fn tips(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: Option<&Registration>,
) -> Result<BTreeSet<String>, Error> {
    let git = git_of(work, worktree, found);
    if worktree.is_inside() {
        let refs = work.feed(&git, &["for-each-ref", "--format=%(objectname)"], b"")?;
        let before = work.asked_of(&git, &["rev-list", "--walk-reflogs", "--all"])?.unwrap_or_default();
        let head = work.asked_of(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        return Ok(lines(&refs).chain(lines(&before)).chain(lines(&head.unwrap_or_default())).collect());
    }
    let mut tips = history(work, &git, &format!("refs/heads/{}", worktree.branch))?;
    if found.is_some() {
        tips.extend(history(work, &git, "HEAD")?);
        tips.extend(own_refs(work, &git)?);
    }
    Ok(tips)
}

/// Returns git with the worktree's git directory, because its folder may be gone.
fn git_of<'a>(
    work: &'a OperationContext<'_>,
    worktree: &'a Worktree,
    found: Option<&'a Registration>,
) -> Git<'a> {
    work.git_of(found.map_or(&worktree.repository, |found| &found.admin))
}

/// Returns the commits of a submodule that the main work tree's copy of it does not have.
pub(super) fn of_module(work: &OperationContext<'_>, place: &Checkout) -> Result<Vec<String>, Error> {
    let mut input = String::from("HEAD\n");
    if let Some(main) = &place.main {
        input += &excluded(lines(&work.run(main, &["for-each-ref", "--format=%(objectname)"])?));
        input += &excluded(super::checkout::head(work, main)?);
    }
    let args = ["rev-list", "--ignore-missing", "--all", "--reflog", "--stdin"];
    Ok(lines(&work.feed(&work.git(&place.top), &args, input.as_bytes())?).collect())
}

/// Lines for `rev-list --stdin`: these commits and their ancestors.
fn included(ids: impl IntoIterator<Item = String>) -> String {
    ids.into_iter().map(|id| id + "\n").collect()
}

/// Lines for `rev-list --stdin`: without these commits and their ancestors. Git before 2.42 reads no `--not` there.
fn excluded(ids: impl IntoIterator<Item = String>) -> String {
    ids.into_iter().map(|id| format!("^{id}\n")).collect()
}

fn list(work: &OperationContext<'_>, git: &Git<'_>, input: &str) -> Result<Vec<String>, Error> {
    let bytes = work.feed(git, &["rev-list", "--ignore-missing", "--stdin"], input.as_bytes())?;
    Ok(lines(&bytes).collect())
}

/// Returns the present and former commits of a ref.
fn history(work: &OperationContext<'_>, git: &Git<'_>, name: &str) -> Result<BTreeSet<String>, Error> {
    let now = work.asked_of(git, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])?;
    let Some(now) = now else { return Ok(BTreeSet::new()) };
    let before = work.asked_of(git, &["rev-list", "--walk-reflogs", name])?.unwrap_or_default();
    Ok(lines(&now).chain(lines(&before)).collect())
}

fn own_refs(work: &OperationContext<'_>, git: &Git<'_>) -> Result<BTreeSet<String>, Error> {
    let args: Vec<&str> = ["for-each-ref", "--format=%(objectname)"].into_iter().chain(OWN_REFS).collect();
    Ok(lines(&work.feed(git, &args, b"")?).collect())
}

fn other_refs(work: &OperationContext<'_>, git: &Git<'_>, branch: &str) -> Result<Vec<String>, Error> {
    let all = work.feed(git, &["for-each-ref", "--format=%(objectname) %(refname)"], b"")?;
    let is_other = |name: &str| name != branch && !OWN_REFS.iter().any(|own| name.starts_with(own));
    let others = lines(&all).filter_map(|line| {
        let (id, name) = line.split_once(' ')?;
        is_other(name).then(|| id.to_owned())
    });
    // A tag may name another object than a commit, and a repository may have many tags.
    Ok(others.collect::<BTreeSet<_>>().into_iter().collect())
}

pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
}
