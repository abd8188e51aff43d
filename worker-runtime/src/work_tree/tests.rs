//! With the real git: what a base contains, what it leaves unchanged, and what it must never run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use subagent_protocol::work_tree::TreeBase;

use super::*;
use crate::git::TOO_LARGE;

/// The limits of a base, with time for a busy machine.
fn patient() -> WorkTreeLimits {
    WorkTreeLimits { until: Instant::now() + Duration::from_secs(60), ..WorkTreeLimits::of_base() }
}

struct GitWorkTreeFixture {
    dir: tempfile::TempDir,
    env: Vec<(OsString, OsString)>,
}

impl GitWorkTreeFixture {
    /// A repository with a commit of `kept` and `changed`.
    fn new() -> Self {
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
        fs::create_dir(world.root()).unwrap();
        world.git(&["init", "-q", "."]);
        world.write("kept", "kept\n");
        world.write("changed", "one\ntwo\n");
        world.commit();
        world
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn base(&self) -> PathBuf {
        self.dir.path().join("base")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(self.root()).env_clear().envs(self.env.clone());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "x"]);
    }

    fn record(&self) -> TreeBase {
        record(&self.root(), &self.base(), &self.env, patient())
    }

    /// Returns the changed files with status and counts.
    fn changes(&self) -> Vec<String> {
        let changes = compare(&self.base(), &self.env, true, patient()).unwrap();
        let count = |lines: Option<u64>| lines.map_or("-".to_owned(), |lines| lines.to_string());
        changes
            .iter()
            .map(|one| format!("{} {} +{} -{}", one.status, one.path, count(one.added), count(one.deleted)))
            .collect()
    }
}

fn reason(base: TreeBase) -> String {
    match base {
        TreeBase::Missing { reason } => reason,
        recorded @ TreeBase::Recorded { .. } => panic!("{recorded:?}"),
    }
}

#[test]
fn earlier_changes_are_part_of_the_base() {
    let world = GitWorkTreeFixture::new();
    world.write(".gitignore", "ignored\n");
    world.write("changed", "one\nmine\n");
    world.write("untracked", "mine\n");
    world.write("ignored", "x");
    world.git(&["mv", "kept", "moved"]);
    let before = (world.git(&["status", "--porcelain"]), fs::read(world.root().join(".git/index")).unwrap());
    let base = world.record();
    assert!(matches!(&base, TreeBase::Recorded { head: Some(head), .. } if head.len() == 40), "{base:?}");
    assert_eq!(read(&world.base()), Some(base));
    assert_eq!(world.changes(), [""; 0]);

    world.write("changed", "one\nmine\ntheirs\n");
    world.write("new/file", "1\n2\n");
    world.write("ignored", "y");
    fs::remove_file(world.root().join("untracked")).unwrap();
    let expected = ["modified changed +1 -0", "added new/file +2 -0", "deleted untracked +0 -1"];
    assert_eq!(world.changes(), expected);
    let patch = &compare(&world.base(), &world.env, true, patient()).unwrap()[0].patch;
    assert!(patch.ends_with(" one\n mine\n+theirs\n"), "{patch}");
    // A later commit is still a change since the base.
    world.commit();
    assert_eq!(world.changes(), expected);
    world.git(&["reset", "-q", "--hard", "HEAD~"]);
    assert_ne!(before.0, world.git(&["status", "--porcelain"]));
}

#[test]
fn the_repository_stays_as_it_is() {
    let world = GitWorkTreeFixture::new();
    world.write("changed", "dirty\n");
    world.write("staged", "staged\n");
    world.git(&["add", "staged"]);
    let all = || {
        let mut found = Vec::new();
        let mut folders = vec![world.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push((fs::read(&path).unwrap(), path)),
                }
            }
        }
        found.sort();
        found
    };
    let before = all();
    assert!(matches!(world.record(), TreeBase::Recorded { .. }));
    assert_eq!(world.changes(), [""; 0]);
    assert!(before == all(), "something in the repository was changed");
    // A staged object is kept even if the repository loses it.
    world.write("staged", "other\n");
    world.git(&["add", "staged"]);
    world.git(&["prune", "--expire=now"]);
    let changes = compare(&world.base(), &world.env, true, patient()).unwrap();
    assert!(changes[0].patch.contains("-staged\n+other\n"), "{changes:?}");
}

#[test]
fn nothing_that_the_repository_names_is_run() {
    let world = GitWorkTreeFixture::new();
    let (seen, script) = (world.dir.path().join("seen"), world.dir.path().join("evil"));
    fs::write(&script, format!("#!/bin/sh\necho \"$0\" >> {}\ncat\n", seen.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let evil = script.to_str().unwrap();
    // A repository inside, like a submodule.
    fs::create_dir(world.root().join("sub")).unwrap();
    world.git(&["-C", "sub", "init", "-q"]);
    world.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "x"]);
    world.git(&["add", "sub"]);
    world.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    world.write("kept", "kept, and not\n");
    for name in [
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "core.pager",
        "core.sshCommand",
        "core.editor",
    ] {
        world.git(&["config", name, evil]);
        world.git(&["-C", "sub", "config", name, evil]);
    }
    world.git(&["config", "core.hooksPath", world.dir.path().to_str().unwrap()]);
    for hook in ["post-index-change", "pre-commit", "reference-transaction"] {
        symlink(&script, world.dir.path().join(hook)).unwrap();
    }
    fs::remove_file(&seen).ok();
    assert!(matches!(world.record(), TreeBase::Recorded { .. }));
    world.write("kept", "other\n");
    world.write("sub/file", "x");
    assert_eq!(world.changes(), ["modified kept +1 -1"]);
    assert_eq!(fs::read_to_string(&seen).unwrap_or_default(), "");
}

#[test]
fn a_folder_without_a_repository_and_one_that_is_too_large_have_a_reason() {
    let world = GitWorkTreeFixture::new();
    let outside = world.dir.path().join("home");
    let missing = record(&outside, &world.base(), &world.env, patient());
    assert_eq!(reason(missing), "the folder is in no git work tree");
    assert_eq!(reason(read(&world.base()).unwrap()), "the folder is in no git work tree");
    world.write("large", &"x".repeat(1000));
    for limits in [WorkTreeLimits { bytes: 999, ..patient() }, WorkTreeLimits { files: 0, ..patient() }] {
        let missing = record(&world.root(), &world.base(), &world.env, limits);
        assert_eq!(reason(missing), TOO_LARGE);
        assert_eq!(fs::read_dir(world.base()).unwrap().count(), 1, "nothing else is left");
    }
    let late = WorkTreeLimits { until: Instant::now(), ..patient() };
    assert_eq!(reason(record(&world.root(), &world.base(), &world.env, late)), "git did not finish in time");
    let env = [("PATH".into(), "/nonexistent".into())];
    let missing = record(&world.root(), &world.base(), &env, patient());
    assert_eq!(reason(missing), "git is not installed");
}

#[test]
fn before_the_first_commit_in_a_linked_work_tree_and_below_the_top_there_is_a_base_too() {
    let world = GitWorkTreeFixture::new();
    world.git(&["worktree", "add", "-q", "../linked"]);
    let linked = world.dir.path().join("linked");
    assert!(matches!(
        record(&linked, &world.base(), &world.env, patient()),
        TreeBase::Recorded { root, .. } if root == linked.to_str().unwrap()
    ));
    fs::write(linked.join("kept"), "").unwrap();
    assert_eq!(world.changes(), ["modified kept +0 -1"]);

    fs::create_dir(world.root().join("below")).unwrap();
    let below = world.root().join("below");
    assert!(matches!(record(&below, &world.base(), &world.env, patient()), TreeBase::Recorded { .. }));
    world.write("above", "1\n");
    assert_eq!(world.changes(), ["added above +1 -0"]);

    fs::remove_dir_all(world.root().join(".git")).unwrap();
    world.git(&["init", "-q", "--object-format=sha256", "."]);
    let base = world.record();
    assert!(matches!(&base, TreeBase::Recorded { head: None, tree, .. } if tree.len() == 64), "{base:?}");
    fs::remove_file(world.root().join("kept")).unwrap();
    assert_eq!(world.changes(), ["deleted kept +0 -1"]);
}

#[test]
fn a_split_index_is_read_anew() {
    let world = GitWorkTreeFixture::new();
    world.git(&["update-index", "--split-index"]);
    world.write("changed", "x\n");
    assert!(matches!(world.record(), TreeBase::Recorded { .. }));
    world.write("kept", "x\n");
    assert_eq!(world.changes(), ["modified kept +1 -1"]);
}

#[test]
fn a_change_of_the_same_size_at_the_time_of_the_index_is_seen() {
    let world = GitWorkTreeFixture::new();
    world.git(&["config", "core.trustctime", "false"]);
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let set = |path: PathBuf| fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    set(world.root().join("kept"));
    assert!(matches!(world.record(), TreeBase::Recorded { .. }));
    set(world.base().join("index"));
    world.write("kept", "KEPT\n");
    set(world.root().join("kept"));
    assert_eq!(world.changes(), ["modified kept +1 -1"]);
}
