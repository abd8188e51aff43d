//! Commits that exist only in a worktree: those of its `HEAD`, its branch and their reflogs.

use std::collections::BTreeSet;

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::checkout::Checkout;
use super::registration::Registration;
use super::work::{OperationContext, line};
use crate::git::Git;

/// Refs that each work tree has of its own.
const OWN_REFS: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// The folder of our refs of a worktree itself: states of all that is in it.
pub(super) const STATES: &str = "refs/worktree/subagent/";

/// The commits of a worktree.
pub(super) struct OwnCommits {
    /// The present commit of its branch.
    pub(super) tip: Option<String>,
    /// The present and former commits of its branch and `HEAD`.
    pub(super) tips: BTreeSet<String>,
    /// Those that no other ref reaches, without the commit of the main tree's changes.
    pub(super) unique: Vec<String>,
}

impl OwnCommits {
    pub(super) fn find(
        work: &OperationContext<'_>,
        worktree: &Worktree,
        found: Option<&Registration>,
    ) -> Result<Self, Error> {
        let git = git_of(work, worktree, found);
        if worktree.is_inside() {
            return Self::inside(work, worktree, &git);
        }
        let branch = format!("refs/heads/{}", worktree.branch);
        let all = work.feed(&git, &["for-each-ref", "--format=%(HEAD)%(objectname) %(refname)"], b"")?;
        // A tag may name another object than a commit, and a repository may have many tags.
        let (mut tip, mut head, mut own, mut others) = (None, None, Vec::new(), BTreeSet::new());
        for entry in lines(&all) {
            let Some((id, name)) = entry.get(1..).and_then(|entry| entry.split_once(' ')) else { continue };
            if entry.starts_with('*') {
                head = Some(id.to_owned());
            }
            if name == branch {
                tip = Some(id.to_owned());
            } else if name.starts_with(STATES) {
                // A state of the whole worktree, which is looked at itself.
            } else if OWN_REFS.iter().any(|own| name.starts_with(own)) {
                own.push(id.to_owned());
            } else {
                others.insert(id.to_owned());
            }
        }
        let mut names: Vec<&str> = tip.iter().map(|_| &*branch).collect();
        let mut tips: BTreeSet<String> = tip.iter().cloned().collect();
        if found.is_some() {
            if head.is_none() {
                head = detached(work, &git)?;
            }
            names.extend(head.iter().map(|_| "HEAD"));
            tips.extend(own.into_iter().chain(head));
        }
        tips.extend(former(work, &git, &names)?);
        if tips.is_empty() {
            return Ok(Self { tip, tips, unique: Vec::new() });
        }
        let input = included(tips.iter().cloned()) + &excluded(others);
        let mut unique = list(work, &git, &input)?;
        unique.retain(|commit| !(worktree.with_changes && *commit == worktree.base));
        Ok(Self { tip, tips, unique })
    }

    /// All refs are its own; the repository it borrows from has its own copies.
    fn inside(work: &OperationContext<'_>, worktree: &Worktree, git: &Git<'_>) -> Result<Self, Error> {
        let args = ["rev-list", "--ignore-missing", "--all", "--reflog", "--not", "--alternate-refs"];
        let unique = lines(&work.feed(git, &args, b"")?).collect();
        let refs = work.feed(git, &["for-each-ref", "--format=%(objectname)"], b"")?;
        let before = work.asked_of(git, &["rev-list", "--walk-reflogs", "--all"])?.unwrap_or_default();
        let tips = lines(&refs).chain(lines(&before)).chain(detached(work, git)?).collect();
        Ok(Self { tip: super::create::tip(work, worktree)?, tips, unique })
    }
}

/// Returns the commit of `HEAD`, also if that is no branch.
fn detached(work: &OperationContext<'_>, git: &Git<'_>) -> Result<Option<String>, Error> {
    let head = work.asked_of(git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
    Ok(head.map(|id| line(&id)))
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

/// Returns the commits in the reflogs of these refs.
fn former(work: &OperationContext<'_>, git: &Git<'_>, names: &[&str]) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let args: Vec<&str> = ["rev-list", "--walk-reflogs"].iter().chain(names).copied().collect();
    let walked = work.asked_of(git, &args)?;
    if walked.is_none() && names.len() > 1 {
        // A damaged reflog does not hide the other one.
        let each: Result<Vec<_>, Error> = names.iter().map(|name| former(work, git, &[*name])).collect();
        return Ok(each?.concat());
    }
    Ok(lines(&walked.unwrap_or_default()).collect())
}

pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
}
