//! Creation of worktrees, and its failures.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::thread;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use subagent_protocol::Code;
use subagent_protocol::worktree::{Contents, Operation, Setup, WorktreeResult};

use super::world::{WorktreeFixture, write};

fn there() -> Contents {
    Contents { exists: true, ..Contents::default() }
}

#[test]
fn one_is_made_once_and_found_when_it_is_made_again() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    assert_eq!(fs::read_to_string(worktree.path.join("kept")).unwrap(), "kept\n");
    assert_eq!(world.git_in(&worktree.path, &["symbolic-ref", "HEAD"]), "refs/heads/subagent/one");
    assert_eq!(world.look(&worktree), there());
    write(&worktree.path.join("kept"), "work\n");
    world.make(&worktree, &Setup::default()).unwrap();
    assert_eq!(fs::read_to_string(worktree.path.join("kept")).unwrap(), "work\n");
    assert_eq!(world.look(&worktree).uncommitted, 1);
}

#[test]
fn a_branch_and_a_folder_that_are_there_are_left_alone() {
    let world = WorktreeFixture::new();
    let worktree = world.planned("one", false);
    write(&worktree.path.join("mine"), "mine\n");
    let error = world.make(&worktree, &Setup::default()).unwrap_err();
    let path = worktree.path.display().to_string();
    assert_eq!((error.code, error.details["path"].as_str()), (Code::WorktreeExists, Some(&*path)));
    assert_eq!(fs::read_to_string(worktree.path.join("mine")).unwrap(), "mine\n");
    assert!(!world.refs().contains("subagent/one"));

    let other = world.planned("two", false);
    world.git(&["branch", "subagent/two"]);
    let error = world.make(&other, &Setup::default()).unwrap_err();
    assert_eq!((error.code, error.details["branch"].as_str()), (Code::WorktreeExists, Some("subagent/two")));
    assert!(!other.path.exists());
    // The user has a worktree in that place.
    let third = world.planned("three", false);
    world.git(&["worktree", "add", "-q", "-b", "user", third.path.to_str().unwrap()]);
    assert_eq!(world.make(&third, &Setup::default()).unwrap_err().code, Code::WorktreeExists);
    assert!(third.path.join("kept").exists());
}

#[test]
fn a_failed_creation_is_undone() {
    let world = WorktreeFixture::new();
    world.write(".gitattributes", "*.big filter=absent\n");
    world.write("file.big", "big\n");
    world.commit("big");
    let worktree = world.planned("one", false);
    // Like LFS without its program.
    world.git(&["config", "filter.absent.smudge", "git-absent smudge"]);
    world.git(&["config", "filter.absent.required", "true"]);
    let refs = world.refs();
    let error = world.make(&worktree, &Setup::default()).unwrap_err();
    assert_eq!((error.code, error.details["command"].as_str()), (Code::GitFailed, Some("git reset")));
    assert!(error.details["output"].as_str().unwrap().contains("git-absent"), "{error:?}");
    assert!(!worktree.path.exists());
    assert_eq!(world.refs(), refs);
    assert!(!world.git(&["worktree", "list"]).contains("one"));
    world.git(&["config", "filter.absent.smudge", "tr b B"]);
    world.make(&worktree, &Setup::default()).unwrap();
    assert_eq!(fs::read_to_string(worktree.path.join("file.big")).unwrap(), "Big\n");
}

#[test]
fn no_hook_runs_and_the_sparse_checkout_is_kept() {
    let world = WorktreeFixture::new();
    world.write("a/in", "in\n");
    world.write("b/out", "out\n");
    world.commit("folders");
    world.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/b/"]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        let hook = world.top().join(".git/hooks").join(hook);
        write(&hook, "#!/bin/sh\ntouch \"$HOME/ran\"\n");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let worktree = world.create("one");
    assert!(worktree.path.join("a/in").exists() && !worktree.path.join("b").exists());
    assert_eq!(world.look(&worktree), there());
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    assert!(!world.dir.path().join("home/ran").exists());
}

#[test]
fn a_partial_clone_gets_the_files_that_it_lacks() {
    let origin = WorktreeFixture::new();
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.top().display());
    let world = WorktreeFixture::empty(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, "repo"]);
    let missing = || world.git(&["rev-list", "--objects", "--all", "--missing=print"]).matches('?').count();
    assert_eq!(missing(), 3);
    let worktree = world.create("one");
    assert_eq!(fs::read_to_string(worktree.path.join("kept")).unwrap(), "kept\n");
    assert_eq!(missing(), 0);
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
}

#[test]
fn files_are_copied_and_commands_run() {
    let world = WorktreeFixture::new();
    world.write(".gitignore", ".env\nconf/\n");
    world.commit("ignore");
    world.write(".env", "secret\n");
    fs::set_permissions(world.top().join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    world.write("conf/deep/a.toml", "a\n");
    world.write("conf/deep/b.txt", "b\n");
    symlink("a.toml", world.top().join("conf/deep/link.toml")).unwrap();
    let worktree = world.planned("one", false);
    let commands = vec!["echo more >> .env; test -e \"$SUBAGENT_WORKTREE_MAIN/.env\"".to_owned()];
    let setup = Setup { commands, copy: vec![".env".into(), "conf/**/*.toml".into()] };
    world.make(&worktree, &setup).unwrap();
    let path = |name: &str| worktree.path.join(name);
    assert_eq!(fs::read_to_string(path(".env")).unwrap(), "secret\nmore\n");
    assert_eq!(fs::metadata(path(".env")).unwrap().mode() & 0o777, 0o600);
    assert!(path("conf/deep/a.toml").exists() && !path("conf/deep/b.txt").exists());
    assert_eq!(fs::read_link(path("conf/deep/link.toml")).unwrap().to_str(), Some("a.toml"));
    // Files of the setup have no value; later ones do.
    assert!(world.look(&worktree).is_clean());
    write(&path("conf/later"), "later\n");
    assert_eq!(world.look(&worktree).ignored, 1);
    let again = Operation::Setup { worktree: worktree.clone(), setup };
    assert_eq!(world.run(again), WorktreeResult::Ready);
    assert_eq!(fs::read_to_string(path(".env")).unwrap(), "secret\nmore\nmore\n");

    for glob in ["../x", "/etc/passwd", "a/../../b", ":(top)x", ""] {
        let setup = Setup { copy: vec![glob.to_owned()], ..Setup::default() };
        let WorktreeResult::Failed(error) = world.run(Operation::Setup { worktree: worktree.clone(), setup })
        else {
            panic!("{glob}")
        };
        assert_eq!(error.code, Code::InvalidArgument);
    }
}

#[test]
fn a_command_that_fails_says_why_and_the_worktree_stays() {
    let world = WorktreeFixture::new();
    let worktree = world.planned("one", false);
    let command = "seq 9999; printf 'no\\033[31m way' >&2; exit 7".to_owned();
    let setup = Setup { commands: vec!["true".into(), command.clone()], ..Setup::default() };
    let error = world.make(&worktree, &setup).unwrap_err();
    assert_eq!(error.code, Code::WorktreeSetupFailed);
    assert_eq!((&error.details["command"], &error.details["exitCode"]), (&command.into(), &7.into()));
    let output = error.details["output"].as_str().unwrap();
    assert!(output.ends_with("9999\nno\u{fffd}[31m way") && output.len() < 5000, "{output}");
    assert!(worktree.path.join("kept").exists());
    world.make(&worktree, &Setup::default()).unwrap();
    assert!(world.look(&worktree).is_clean());
}

#[test]
fn submodules_come_from_this_disk() {
    let world = WorktreeFixture::new();
    world.add_submodule();
    // A commit on no branch of the submodule.
    let sub = world.top().join("sub");
    world.git_in(&sub, &["checkout", "-q", "--detach"]);
    write(&sub.join("inner"), "newer\n");
    world.commit_in(&sub, "newer");
    world.commit("moved");
    let worktree = world.create("one");
    assert_eq!(fs::read_to_string(worktree.path.join("sub/inner")).unwrap(), "newer\n");
    assert_eq!(world.look(&worktree), there());
    let url = |folder: &std::path::Path| world.git_in(folder, &["config", "remote.origin.url"]);
    assert_eq!(url(&worktree.path.join("sub")), url(&sub));
    write(&worktree.path.join("sub/inner"), "work\n");
    assert_eq!(world.look(&worktree).uncommitted, 1);
    world.commit_in(&worktree.path.join("sub"), "work");
    let contents = world.look(&worktree);
    assert_eq!((contents.uncommitted, contents.commits), (1, 1));
    world.git_in(&worktree.path, &["submodule", "--quiet", "update"]);
    // The commit is still in its reflog.
    assert_eq!((world.look(&worktree).uncommitted, world.look(&worktree).commits), (0, 1));
    // A submodule created by the agent stays when the worktree is created again.
    fs::remove_file(world.top().join(".git/worktrees/one/modules/sub/subagent")).unwrap();
    write(&worktree.path.join("sub/inner"), "of the agent\n");
    world.make(&worktree, &Setup::default()).unwrap();
    assert_eq!(fs::read_to_string(worktree.path.join("sub/inner")).unwrap(), "of the agent\n");
    let other = world.create("two");
    assert_eq!(world.remove(&other), WorktreeResult::Removed);
    assert!(!other.path.exists());
    assert_eq!(fs::read_to_string(sub.join("inner")).unwrap(), "newer\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_worktree_that_another_git_is_adding_is_waited_for() {
    let world = WorktreeFixture::new();
    let _ = world.create("first");
    let half = world.top().join(".git/worktrees/half");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("gitdir"), world.root().join("half/.git").display().to_string() + "\n").unwrap();
    fs::write(half.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(half.join("commondir"), "").unwrap();
    // Only a git that has read the empty file closes it.
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).unwrap();
    watch.add_watch(&half.join("commondir"), AddWatchFlags::IN_CLOSE_NOWRITE).unwrap();
    let written = half.join("commondir");
    let other = thread::spawn(move || {
        watch.read_events().unwrap();
        fs::write(written, "../..\n").unwrap();
    });
    let worktree = world.create("second");
    other.join().unwrap();
    assert_eq!(world.look(&worktree), there());
    // One that stays unwritten is an error of git.
    fs::write(half.join("commondir"), "").unwrap();
    let third = world.planned("third", false);
    let error = world.make(&third, &Setup::default()).unwrap_err();
    assert_eq!(error.code, Code::GitFailed);
    assert!(error.details["output"].as_str().unwrap().contains("commondir"), "{error:?}");
}
