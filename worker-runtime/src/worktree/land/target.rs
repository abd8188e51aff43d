//! The branch that a landing changes, and the work tree where it is checked out.

use std::fs;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::worktree::{Landing, Worktree};

use super::super::errors::refused;
use super::super::work::{OperationContext, line};
use super::super::{commits, errors, modules, status};

/// The target of a landing.
pub(super) struct LandingTarget {
    /// Branch name without `refs/heads/`.
    pub(super) branch: String,
    /// The branch's present commit.
    pub(super) commit: String,
    /// The work tree where it is checked out.
    pub(super) tree: Option<CheckedOutTree>,
}

/// A work tree with its git directory.
pub(super) struct CheckedOutTree {
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
}

impl LandingTarget {
    pub(super) fn find(
        work: &OperationContext<'_>,
        worktree: &Worktree,
        landing: &Landing,
    ) -> Result<Self, Error> {
        let Some(branch) = landing.into.as_ref().or(worktree.source_branch.as_ref()) else {
            let message = format!("{} was not made from a branch", worktree.name);
            return Err(refused("noTarget", message).recommend("name the branch with --into"));
        };
        let name = format!("refs/heads/{branch}");
        let there = tip(work, worktree, &name)?.filter(|_| *branch != worktree.branch);
        let Some((commit, top)) = there else {
            let message = format!("there is no branch {branch} to land into");
            return Err(refused("noTarget", message).with("branch", branch.clone()));
        };
        if landing.into.is_none() && is_protected(work, worktree, &name, &landing.protected)? {
            let message = format!("the branch {branch} is protected");
            return Err(refused("protected", message)
                .with("branch", branch.clone())
                .recommend(format!("name it with --into {branch}, or land into another branch")));
        }
        let tree = top.map(|top| tree(work, worktree, branch, top)).transpose()?;
        refuse_rebase(&worktree.repository, &worktree.repository, &name)?;
        if worktree.main.is_dir() {
            let git_dir = match &tree {
                Some(tree) if tree.top == worktree.main => tree.git_dir.clone(),
                _ => line(&work.run(&worktree.main, &["rev-parse", "--absolute-git-dir"])?).into(),
            };
            refuse_rebase(&worktree.main, &git_dir, &name)?;
        }
        if let Some(tree) = &tree {
            status::refuse_under_way(work, &tree.top, &tree.git_dir)?;
        }
        Ok(Self { branch: branch.clone(), commit, tree })
    }
}

/// Returns the commit of a branch, and the work tree where it is checked out.
fn tip(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    name: &str,
) -> Result<Option<(String, Option<PathBuf>)>, Error> {
    // A pattern matches branches below a name too, which cannot exist beside it.
    let args = ["for-each-ref", "--format=%(refname)%00%(objectname)%00%(worktreepath)", name];
    let found = work.run(&worktree.repository, &args)?;
    let found = found.strip_suffix(b"\n").unwrap_or(&found);
    let mut fields = found.splitn(3, |byte| *byte == 0);
    let (Some(ref_name), Some(id), Some(top)) = (fields.next(), fields.next(), fields.next()) else {
        return Ok(None);
    };
    let top = (!top.is_empty()).then(|| status::path(top).to_owned());
    Ok((ref_name == name.as_bytes()).then(|| (line(id), top)))
}

/// Whether one of the globs matches, by git's rules for ref names.
fn is_protected(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    name: &str,
    globs: &[String],
) -> Result<bool, Error> {
    if globs.is_empty() {
        return Ok(false);
    }
    let mut args = vec!["for-each-ref".to_owned(), "--format=%(refname)".to_owned()];
    args.extend(globs.iter().map(|glob| format!("refs/heads/{glob}")));
    let protected = work.run(&worktree.repository, &args)?;
    Ok(commits::lines(&protected).any(|found| found == name))
}

/// Returns the work tree where the branch is checked out: the main one, or the one that the
/// worktree was created from.
fn tree(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    branch: &str,
    top: PathBuf,
) -> Result<CheckedOutTree, Error> {
    let is_linked = top.join(".git").is_file() && {
        let git_dir = modules::git_dir(work, &top)?;
        git_dir.is_none_or(|git_dir| git_dir.starts_with(worktree.repository.join("worktrees")))
    };
    let resolved = |path: &Path| path.canonicalize().ok();
    if (is_linked && resolved(&top) != resolved(&worktree.main)) || !top.is_dir() {
        let message = format!("the branch {branch} is checked out in {}", top.display());
        return Err(refused("checkedOut", message).with("path", top.display().to_string()));
    }
    // A main tree with a git directory elsewhere is known from its settings.
    let top = resolved(&top).unwrap_or(top);
    let git_dir = modules::git_dir(work, &top)?;
    let git_dir = git_dir.ok_or_else(|| errors::not_found(&top, "git cannot read this work tree"))?;
    Ok(CheckedOutTree { top, git_dir })
}

/// During a rebase the branch is not checked out, and the end of the rebase moves it.
fn refuse_rebase(folder: &Path, git_dir: &Path, name: &str) -> Result<(), Error> {
    for kind in ["rebase-merge", "rebase-apply"] {
        let head = fs::read_to_string(git_dir.join(kind).join("head-name"));
        if head.is_ok_and(|head| head.trim() == name) {
            let message = format!("a rebase of {name} is under way in {}", folder.display());
            return Err(
                errors::busy("rebase", message).recommend("finish or abort it with git, and try again")
            );
        }
    }
    Ok(())
}
