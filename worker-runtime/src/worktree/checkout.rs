//! A work tree with the repositories below it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::look;
use super::modules::{self, Submodule};
use super::registration::Registration;
use super::work::{OperationContext, line};

/// A work tree: that of the worktree, or of a submodule.
pub(super) struct Checkout {
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    /// The corresponding work tree in the main repository.
    pub(super) main: Option<PathBuf>,
    pub(super) ready: SystemTime,
    pub(super) deletions_count: bool,
}

impl Checkout {
    /// Returns the top work tree of the worktree.
    pub(super) fn of(worktree: &Worktree, found: &Registration) -> Self {
        Self {
            top: found.path.clone(),
            git_dir: found.admin.clone(),
            // From inside a sandbox, nothing can be kept in the main work tree.
            main: (!worktree.is_inside()).then(|| worktree.main.clone()),
            ready: look::ready(found),
            deletions_count: true,
        }
    }

    /// Returns the repositories below: submodules, and others that git tracks as such.
    pub(super) fn below(&self, work: &OperationContext<'_>) -> Result<Vec<Self>, Error> {
        self.those(work, &modules::all(work, &self.top)?)
    }

    /// Returns those of these submodules that have a repository.
    pub(super) fn those(
        &self,
        work: &OperationContext<'_>,
        modules: &[Submodule],
    ) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for module in modules {
            let top = self.top.join(&module.path);
            let Some(git_dir) = modules::git_dir(work, &top)? else { continue };
            let main = self.main.as_ref().map(|main| main.join(&module.path));
            let main = main.filter(|main| main.join(".git").exists());
            found.push(Self { top, git_dir, main, ready: self.ready, deletions_count: self.deletions_count });
        }
        Ok(found)
    }
}

/// Returns the commit that is checked out.
pub(super) fn head(work: &OperationContext<'_>, top: &Path) -> Result<Option<String>, Error> {
    Ok(work.asked(top, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.map(|id| line(&id)))
}
