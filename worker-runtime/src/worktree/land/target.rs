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
        let there = work.asked(&worktree.repository, &["rev-parse", "--verify", "--quiet", &name])?;
        let Some(commit) = there.map(|id| line(&id)).filter(|_| *branch != worktree.branch) else {
            let message = format!("there is no branch {branch} to land into");
            return Err(refused("noTarget", message).with("branch", branch.clone()));
        };
        if landing.into.is_none() && is_protected(work, worktree, &name, &landing.protected)? {
            let message = format!("the branch {branch} is protected");
            return Err(refused("protected", message)
                .with("branch", branch.clone())
                .recommend(format!("name it with --into {branch}, or land into another branch")));
        }
        let tree = tree(work, worktree, branch)?;
        for top in [&worktree.main, &worktree.repository] {
            refuse_rebase(work, top, &name)?;
        }
        if let Some(tree) = &tree {
            status::refuse_under_way(work, &tree.top, &tree.git_dir)?;
        }
        Ok(Self { branch: branch.clone(), commit, tree })
    }
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
) -> Result<Option<CheckedOutTree>, Error> {
    let args = ["for-each-ref", "--format=%(worktreepath)", &format!("refs/heads/{branch}")];
    let mut found = work.run(&worktree.repository, &args)?;
    if found.last() == Some(&b'\n') {
        let _ = found.pop();
    }
    if found.is_empty() {
        return Ok(None);
    }
    let top = status::path(&found).to_owned();
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
    Ok(Some(CheckedOutTree { top, git_dir }))
}

/// During a rebase the branch is not checked out, and the end of the rebase moves it.
fn refuse_rebase(work: &OperationContext<'_>, folder: &Path, name: &str) -> Result<(), Error> {
    if !folder.is_dir() {
        return Ok(());
    }
    let git_dir = line(&work.run(folder, &["rev-parse", "--absolute-git-dir"])?);
    for kind in ["rebase-merge", "rebase-apply"] {
        let head = fs::read_to_string(Path::new(&git_dir).join(kind).join("head-name"));
        if head.is_ok_and(|head| head.trim() == name) {
            let message = format!("a rebase of {name} is under way in {}", folder.display());
            return Err(
                errors::busy("rebase", message).recommend("finish or abort it with git, and try again")
            );
        }
    }
    Ok(())
}
