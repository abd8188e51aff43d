//! The worktree of a worker that is being stored: its name, its branch and its folder. Pure.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use subagent_protocol::api::NewWorktree;
use subagent_protocol::placement::Placement;
use subagent_protocol::sandbox::SandboxSpec;
use subagent_protocol::worktree::{BRANCH_PREFIX, PlacedWorktree, Plan, Setup, Worktree};

/// The longest name of a worktree, in characters: it is a part of a path and of a branch.
const MAX_NAME_CHARS: usize = 64;

/// A worktree that can be made as soon as its worker has a name.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Planned {
    plan: Plan,
    wanted: NewWorktree,
    there: Option<PlannedThere>,
}

/// Where a worktree will be on the machine of its worker.
#[derive(Debug, Clone)]
struct PlannedThere {
    placement: Placement,
    /// The folder of the worktrees of this repository.
    folder: String,
}

impl Planned {
    pub(super) fn new(plan: Plan, wanted: NewWorktree) -> Self {
        Self { plan, wanted, there: None }
    }

    /// The same for a worker on another machine that git reaches. `state` is a word that other state dirs do
    /// not have: they may use the same machine.
    pub(super) fn placed(self, placement: Option<&Placement>, state: &str) -> Self {
        let there = placement.and_then(|placement| {
            let root = placement.git.as_ref()?.folder.trim_end_matches('/');
            let repository = self.plan.folder.file_name()?.to_string_lossy();
            let folder = format!("{root}/{repository}-{state}");
            Some(PlannedThere { placement: placement.clone(), folder })
        });
        Self { there, ..self }
    }

    /// What makes it usable.
    pub(super) fn setup(&self) -> &Setup {
        &self.wanted.setup
    }

    /// The worktree of a worker with this name, while these names of worktrees are taken.
    pub(super) fn named(&self, worker: &str, taken: &HashSet<String>) -> Worktree {
        let Self { plan, wanted, there } = self;
        let name =
            free_name(worker, |name| taken.contains(name) || plan.taken.iter().any(|other| other == name));
        let branch = match plan.copied {
            Some(_) => String::new(),
            None => wanted.choice.branch.clone().unwrap_or_else(|| format!("{BRANCH_PREFIX}{name}")),
        };
        Worktree {
            path: plan.folder.join(&name),
            repository: plan.repository.clone(),
            main: plan.main.clone(),
            branch,
            base: plan.base.clone(),
            source_branch: plan.source_branch.clone(),
            with_changes: plan.with_changes,
            copied: plan.copied.clone(),
            identity_missing: plan.identity_missing,
            sandbox: None,
            placed: there.as_ref().map(|there| Box::new(there.worktree(&name))),
            name,
        }
    }

    /// The worktree of a worker whose name is not known yet, in a sandbox like this one.
    pub(in crate::supervisor) fn confined(&self, spec: SandboxSpec, notes: Option<&Path>) -> SandboxSpec {
        confined(spec, &self.named("worker", &HashSet::new()), &self.wanted.root, notes)
    }

    /// The folder of all worktrees.
    pub(super) fn root(&self) -> &Path {
        &self.wanted.root
    }

    /// The worker's folder in this worktree.
    pub(super) fn cwd(&self, worktree: &Worktree) -> PathBuf {
        let top = top(worktree);
        // `join` of an empty path would end in a slash.
        if self.plan.prefix.as_os_str().is_empty() { top.to_owned() } else { top.join(&self.plan.prefix) }
    }
}

impl PlannedThere {
    fn worktree(&self, name: &str) -> PlacedWorktree {
        PlacedWorktree {
            placement: self.placement.clone(),
            path: PathBuf::from(format!("{}/{name}", self.folder)),
            repository: PathBuf::from(format!("{}/.git", self.folder)),
        }
    }
}

/// The top folder of the worktree in which the worker works.
pub(super) fn top(worktree: &Worktree) -> &Path {
    worktree.placed.as_ref().map_or(&worktree.path, |placed| &placed.path)
}

/// Where a path of the main work tree is in a worktree; a path outside of it stays.
pub(super) fn moved(path: &Path, worktree: &Worktree) -> PathBuf {
    match path.strip_prefix(&worktree.main) {
        Ok(rest) if rest.as_os_str().is_empty() => worktree.path.clone(),
        Ok(rest) => worktree.path.join(rest),
        Err(_) => path.to_owned(),
    }
}

/// A sandbox whose paths in the main work tree are those in the worktree. The worktrees of others are hidden.
/// The folder of the agent's notes stays where it is.
pub(super) fn confined(
    spec: SandboxSpec,
    worktree: &Worktree,
    root: &Path,
    notes: Option<&Path>,
) -> SandboxSpec {
    let in_worktree = |path: &PathBuf| match notes == Some(path) {
        true => path.clone(),
        false => moved(path, worktree),
    };
    let in_worktree = |paths: Vec<PathBuf>| paths.iter().map(in_worktree).collect::<Vec<_>>();
    let mut write = in_worktree(spec.write);
    // With its repository, wherever in it the agent works.
    write.retain(|path| !path.starts_with(&worktree.path));
    write.push(worktree.path.clone());
    let mut hide = spec.hide;
    hide.extend(hide.iter().map(|path| moved(path, worktree)).collect::<Vec<_>>());
    hide.push(root.canonicalize().unwrap_or_else(|_| root.to_owned()));
    let read = spec.read.map(in_worktree).map(|mut read: Vec<PathBuf>| {
        if worktree.copied.is_none() {
            // Its repository borrows from this one.
            read.push(worktree.repository.clone());
        }
        read
    });
    SandboxSpec { write, read: read.map(unique), hide: unique(hide), ..spec }
}

fn unique(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}

/// The name of a worker in the form that branches and folders allow, with a number if it is taken.
fn free_name(worker: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let allowed = |char: char| if char.is_alphanumeric() || matches!(char, '-' | '_') { char } else { '-' };
    let plain: String = worker.chars().map(allowed).take(MAX_NAME_CHARS).collect();
    let plain = plain.trim_matches('-');
    let base = if plain.is_empty() { "worker" } else { plain };
    if !is_taken(base) {
        return base.to_owned();
    }
    let mut numbered = (2_u64..).map(|number| format!("{base}-{number}"));
    numbered.find(|name| !is_taken(name)).unwrap_or_else(|| base.to_owned())
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::{CopyMode, WorktreeChoice};
    use subagent_protocol::sandbox::{FileSystem, Network};

    use super::*;

    fn planned(branch: Option<&str>, taken: &[&str]) -> Planned {
        let plan = Plan {
            repository: "/home/me/repo/.git".into(),
            main: "/home/me/repo".into(),
            folder: "/trees/repo-1".into(),
            prefix: "sub/dir".into(),
            base: "1".repeat(40),
            source_branch: Some("main".into()),
            with_changes: false,
            copied: None,
            identity_missing: false,
            taken: taken.iter().map(|name| (*name).to_owned()).collect(),
        };
        let choice = WorktreeChoice { branch: branch.map(str::to_owned), ..WorktreeChoice::default() };
        Planned::new(
            plan,
            NewWorktree {
                root: "/trees".into(),
                choice,
                setup: Setup::default(),
                copy: CopyMode::Never,
                copy_limit: 0,
                source: None,
            },
        )
    }

    #[test]
    fn the_name_is_that_of_the_worker_with_a_number_if_it_is_taken() {
        let of = |worker: &str, taken: &[&str]| {
            planned(None, taken).named(worker, &HashSet::from(["own".to_owned()]))
        };
        assert_eq!(of("codex-1", &[]).name, "codex-1");
        assert_eq!(of("codex-1", &["codex-1", "codex-1-2"]).name, "codex-1-3");
        assert_eq!(of("own", &[]).name, "own-2");
        assert_eq!(of("a/../b.lock", &[]).name, "a----b-lock");
        assert_eq!(of("..", &[]).name, "worker");
        let worktree = of("auth", &[]);
        assert_eq!(
            (worktree.path.as_path(), &*worktree.branch),
            (Path::new("/trees/repo-1/auth"), "subagent/auth")
        );
        assert_eq!(planned(Some("fix"), &[]).named("auth", &HashSet::new()).branch, "fix");
    }

    #[test]
    fn paths_of_the_main_work_tree_have_their_place_in_it() {
        let planned = planned(None, &[]);
        let worktree = planned.named("auth", &HashSet::new());
        assert_eq!(planned.cwd(&worktree), Path::new("/trees/repo-1/auth/sub/dir"));
        let of = |path: &str| moved(Path::new(path), &worktree);
        assert_eq!(of("/home/me/repo"), Path::new("/trees/repo-1/auth"));
        assert_eq!(of("/home/me/repo/sub"), Path::new("/trees/repo-1/auth/sub"));
        assert_eq!(of("/home/me/repository"), Path::new("/home/me/repository"));
    }

    #[test]
    fn a_sandbox_has_the_worktree_in_place_of_the_main_work_tree() {
        let planned = planned(None, &[]);
        let worktree = planned.named("auth", &HashSet::new());
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let spec = SandboxSpec {
            name: None,
            filesystem: FileSystem::SharedRw,
            write: paths(&["/home/me/repo/sub", "/cache", "/home/me/repo/notes"]),
            read: Some(paths(&["/home/me/repo/sub", "/usr"])),
            hide: paths(&["/home/me/repo/keys", "/home/me/.ssh"]),
            network: Network::All,
            hosts: Vec::new(),
        };
        let notes = Path::new("/home/me/repo/notes");
        let there = confined(spec, &worktree, planned.root(), Some(notes));
        assert_eq!(there.write, paths(&["/cache", "/home/me/repo/notes", "/trees/repo-1/auth"]));
        assert_eq!(there.read, Some(paths(&["/home/me/repo/.git", "/trees/repo-1/auth/sub", "/usr"])));
        let hidden = ["/home/me/.ssh", "/home/me/repo/keys", "/trees", "/trees/repo-1/auth/keys"];
        assert_eq!(there.hide, paths(&hidden));
    }
}
