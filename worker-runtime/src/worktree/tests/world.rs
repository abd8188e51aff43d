//! A repository with worktrees, for tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Operation, Plan, Setup, Worktree, WorktreeResult};
use subagent_protocol::{Code, Error};

use crate::worktree::answer;
use crate::worktree::work::WaitLimits;

/// The patience of tests that do not wait for a lock.
pub(super) const TEST_WAITS: WaitLimits =
    WaitLimits { operation: Duration::from_secs(30), git: Duration::from_millis(200) };

pub(super) struct WorktreeFixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) env: Vec<(OsString, OsString)>,
}

impl WorktreeFixture {
    /// A repository with a commit of `kept` and `changed` on `main`.
    pub(super) fn new() -> Self {
        let world = Self::empty(&["init", "-q", "-b", "main", "repo"]);
        world.write("kept", "kept\n");
        world.write("changed", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
        world.write(".gitignore", "ignored\n");
        world.commit("first");
        world
    }

    /// A repository created by this command.
    pub(super) fn empty(init: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), path), ("HOME".into(), home.into())];
        for who in ["AUTHOR", "COMMITTER"] {
            env.push((format!("GIT_{who}_NAME").into(), "me".into()));
            env.push((format!("GIT_{who}_EMAIL").into(), "me@example.com".into()));
        }
        let world = Self { dir, env };
        world.git_in(world.dir.path(), init);
        world
    }

    /// Copies a world in its present state. The paths in files of git lead into the copy.
    pub(super) fn copy_of(template: &Self) -> Self {
        // In memory where that is possible, to save time.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut env = template.env.clone();
        env.iter_mut().find(|(name, _)| name == "HOME").unwrap().1 = dir.path().join("home").into();
        let world = Self { dir, env };
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
        let (from, to) = (text(template.base()), text(world.base()));
        copy_folder(&template.base(), &world.base(), &|path| path.replace(&from, &to));
        world
    }

    /// Returns the folder of everything.
    pub(super) fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(super) fn top(&self) -> PathBuf {
        self.base().join("repo")
    }

    pub(super) fn root(&self) -> PathBuf {
        self.base().join("worktrees")
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        write(&self.top().join(name), text);
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.top().join(name)).unwrap()
    }

    pub(super) fn try_git(&self, folder: &Path, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command.args(["-c", "protocol.file.allow=always", "-c", "maintenance.auto=false"]);
        command.args(args).current_dir(folder);
        let output = command.env_clear().envs(self.env.clone()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() { Ok(text) } else { Err(format!("{args:?}: {output:?}")) }
    }

    pub(super) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        self.try_git(folder, args).unwrap()
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top(), args)
    }

    pub(super) fn commit(&self, message: &str) -> String {
        self.commit_in(&self.top(), message)
    }

    pub(super) fn commit_in(&self, folder: &Path, message: &str) -> String {
        self.git_in(folder, &["add", "-A"]);
        self.git_in(folder, &["commit", "-qm", message]);
        self.git_in(folder, &["rev-parse", "HEAD"])
    }

    /// Adds a submodule `sub` with a file `inner`, whose origin is `origin`.
    pub(super) fn add_submodule(&self) {
        let origin = self.dir.path().join("origin");
        fs::create_dir(&origin).unwrap();
        self.git_in(&origin, &["init", "-q", "-b", "main"]);
        write(&origin.join("inner"), "inner\n");
        self.commit_in(&origin, "inner");
        self.git(&["submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"]);
        self.commit("with a submodule");
        fs::rename(&origin, self.dir.path().join("offline")).unwrap();
    }

    pub(super) fn run(&self, operation: Operation) -> WorktreeResult {
        answer(operation, &self.env, TEST_WAITS)
    }

    pub(super) fn plan_with(
        &self,
        cwd: &Path,
        branch: Option<&str>,
        base: Option<&str>,
        with_changes: bool,
    ) -> Result<Plan, Error> {
        let (branch, base) = (branch.map(str::to_owned), base.map(str::to_owned));
        match self.run(Operation::Plan {
            cwd: cwd.to_owned(),
            root: self.root(),
            branch,
            base,
            with_changes,
            copy: None,
        }) {
            WorktreeResult::Planned(plan) => Ok(plan),
            WorktreeResult::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn plan(&self) -> Plan {
        self.plan_with(&self.top(), None, None, false).unwrap()
    }

    /// Returns a planned worktree that does not exist yet.
    pub(super) fn planned(&self, name: &str, with_changes: bool) -> Worktree {
        let plan = self.plan_with(&self.top(), None, None, with_changes).unwrap();
        let with_changes = plan.base != self.git(&["rev-parse", "HEAD"]);
        Worktree {
            name: name.to_owned(),
            path: plan.folder.join(name),
            branch: format!("subagent/{name}"),
            base: plan.base,
            source_branch: plan.source_branch,
            repository: plan.repository,
            main: plan.main,
            with_changes,
            copied: None,
            identity_missing: false,
            sandbox: None,
            placed: None,
        }
    }

    pub(super) fn make(&self, worktree: &Worktree, setup: &Setup) -> Result<(), Error> {
        match self.run(Operation::Create { worktree: worktree.clone(), setup: setup.clone() }) {
            WorktreeResult::Ready => Ok(()),
            WorktreeResult::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn create(&self, name: &str) -> Worktree {
        let worktree = self.planned(name, false);
        self.make(&worktree, &Setup::default()).unwrap();
        worktree
    }

    pub(super) fn look(&self, worktree: &Worktree) -> Contents {
        match self.run(Operation::Look { worktree: worktree.clone() }) {
            WorktreeResult::Found(contents) => contents,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn remove(&self, worktree: &Worktree) -> WorktreeResult {
        self.run(Operation::Remove { worktree: worktree.clone() })
    }

    /// Returns the names and commits of all refs.
    pub(super) fn refs(&self) -> String {
        self.git(&["for-each-ref"])
    }
}

/// Copies a folder without the samples of hooks. `moved` converts files of git that name paths.
fn copy_folder(from: &Path, to: &Path, moved: &impl Fn(&str) -> String) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, copy) = (entry.file_name(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            if name != "hooks" {
                copy_folder(&entry.path(), &copy, moved);
            }
        } else if ["gitdir", ".git", "config"].iter().any(|naming| name == *naming) {
            fs::write(&copy, moved(&fs::read_to_string(entry.path()).unwrap())).unwrap();
        } else {
            let _ = fs::copy(entry.path(), &copy).unwrap();
        }
    }
}

pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the code of a failure and its `reason`.
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (Code, String) {
    let error = result.unwrap_err();
    let reason = error.details.get("reason").or_else(|| error.details.get("field"));
    (error.code, reason.and_then(|reason| reason.as_str()).unwrap_or_default().to_owned())
}

/// A fixed time plus some minutes.
pub(super) fn time(minute: i64) -> Timestamp {
    Timestamp(1_795_638_900_000 + minute * 60_000)
}
