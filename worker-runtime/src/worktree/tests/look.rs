//! The content of a worktree, none of which is removed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use subagent_protocol::Code;
use subagent_protocol::worktree::{Contents, Operation, Worktree, WorktreeResult};

use super::world::{WorktreeFixture, write};

/// Asserts that the worktree is not removed, and returns its content.
fn stays(world: &WorktreeFixture, worktree: &Worktree) -> Contents {
    let before = (world.refs(), world.git_in(&worktree.path, &["status", "--porcelain"]));
    let WorktreeResult::Found(contents) = world.remove(worktree) else { panic!("removed") };
    assert_eq!(before, (world.refs(), world.git_in(&worktree.path, &["status", "--porcelain"])));
    contents
}

#[test]
fn all_kinds_of_work_are_found_and_stay() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    let path = |name: &str| worktree.path.join(name);
    assert!(world.look(&worktree).is_clean());
    write(&path("changed"), "one\ntwo\n");
    let contents = stays(&world, &worktree);
    assert_eq!((contents.uncommitted, contents.files, contents.added, contents.removed), (1, 1, 0, 5));
    world.git_in(&worktree.path, &["checkout", "-q", "."]);
    write(&path("new"), "1\n2\n3");
    let contents = stays(&world, &worktree);
    assert_eq!((contents.uncommitted, contents.files, contents.added), (1, 1, 3));
    fs::remove_file(path("new")).unwrap();
    let odd = worktree.path.join(OsStr::from_bytes(b"\xff\n\"x\""));
    fs::write(&odd, "odd").unwrap();
    assert_eq!(stays(&world, &worktree).uncommitted, 1);
    fs::remove_file(odd).unwrap();
    write(&path("ignored"), "newer\n");
    assert_eq!(stays(&world, &worktree).ignored, 1);
    fs::remove_file(path("ignored")).unwrap();
    // Files marked in the index as not to be checked.
    for flag in ["assume-unchanged", "skip-worktree"] {
        world.git_in(&worktree.path, &["update-index", &format!("--{flag}"), "kept"]);
        write(&path("kept"), "hidden\n");
        assert_eq!(world.look(&worktree).uncommitted, 1, "{flag}");
        write(&path("kept"), "kept\n");
        world.git_in(&worktree.path, &["update-index", &format!("--no-{flag}"), "kept"]);
    }
    // A separate repository inside.
    world.git_in(&worktree.path, &["init", "-q", "nested"]);
    write(&path("nested/file"), "nested\n");
    assert_eq!(stays(&world, &worktree).uncommitted, 1);
    fs::remove_dir_all(path("nested")).unwrap();
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    assert!(!worktree.path.exists() && !world.refs().contains("subagent"));
    assert_eq!(fs::read_dir(worktree.path.parent().unwrap()).unwrap().count(), 0);
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
}

#[test]
fn commits_count_that_no_other_ref_has() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    write(&worktree.path.join("new"), "new\n");
    let commit = world.commit_in(&worktree.path, "work");
    assert_eq!(stays(&world, &worktree).commits, 1);
    // Only in the reflog.
    world.git_in(&worktree.path, &["reset", "-q", "--hard", "HEAD~"]);
    assert_eq!(stays(&world, &worktree).commits, 1);
    // On a detached `HEAD`.
    world.git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("new"), "other\n");
    let detached = world.commit_in(&worktree.path, "detached");
    assert_eq!(stays(&world, &worktree).commits, 2);
    world.git(&["tag", "-a", "-m", "x", "kept", &detached]);
    assert_eq!(stays(&world, &worktree).commits, 1);
    world.git(&["update-ref", "refs/remotes/origin/x", &commit]);
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
}

#[test]
fn unfinished_operations_stay() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    write(&worktree.path.join("changed"), "theirs\n");
    world.commit_in(&worktree.path, "theirs");
    world.write("changed", "ours\n");
    world.commit("ours");
    world.try_git(&worktree.path, &["rebase", "-q", "main"]).unwrap_err();
    assert_eq!(world.look(&worktree).under_way.as_deref(), Some("rebase"));
    world.git_in(&worktree.path, &["rebase", "--abort"]);
    world.try_git(&worktree.path, &["merge", "-q", "main"]).unwrap_err();
    assert_eq!(stays(&world, &worktree).under_way.as_deref(), Some("merge"));
}

#[test]
fn one_that_was_moved_is_found_and_one_whose_folder_is_gone_is_forgotten() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    let moved = world.dir.path().canonicalize().unwrap().join("moved");
    world.git(&["worktree", "move", worktree.path.to_str().unwrap(), moved.to_str().unwrap()]);
    write(&moved.join("new"), "new\n");
    assert_eq!(world.look(&worktree).uncommitted, 1);
    fs::remove_file(moved.join("new")).unwrap();
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    assert!(!moved.exists());

    let worktree = world.create("two");
    fs::remove_dir_all(&worktree.path).unwrap();
    assert!(!world.look(&worktree).exists);
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    assert!(!world.git(&["worktree", "list"]).contains("two") && !world.refs().contains("two"));

    // Kept if its index has changes or its `HEAD` is detached.
    let worktree = world.create("three");
    write(&worktree.path.join("kept"), "staged\n");
    world.git_in(&worktree.path, &["add", "kept"]);
    fs::remove_dir_all(&worktree.path).unwrap();
    assert!(matches!(
        world.remove(&worktree),
        WorktreeResult::Found(Contents { uncommitted: 1, exists: false, .. })
    ));
    let worktree = world.create("four");
    world.git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("new"), "new\n");
    world.commit_in(&worktree.path, "detached");
    fs::remove_dir_all(&worktree.path).unwrap();
    assert!(matches!(
        world.remove(&worktree),
        WorktreeResult::Found(Contents { commits: 1, exists: false, .. })
    ));
    assert!(world.git(&["worktree", "list"]).contains("four"));
}

#[test]
fn a_repository_that_is_gone_and_a_folder_that_git_does_not_know_are_errors() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    let code = |operation| match world.run(operation) {
        WorktreeResult::Failed(error) => error.code,
        other => panic!("{other:?}"),
    };
    fs::remove_file(worktree.path.join(".git")).unwrap();
    assert_eq!(code(Operation::Look { worktree: worktree.clone() }), Code::WorktreeNotFound);
    assert_eq!(code(Operation::Remove { worktree: worktree.clone() }), Code::WorktreeNotFound);
    fs::rename(world.top(), world.dir.path().join("elsewhere")).unwrap();
    assert_eq!(code(Operation::Look { worktree: worktree.clone() }), Code::WorktreeNotFound);
    assert!(worktree.path.join("kept").exists());
}

#[test]
fn a_lock_of_the_user_and_one_of_git_are_respected() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    world.git(&["worktree", "lock", "--reason", "usb", worktree.path.to_str().unwrap()]);
    let failed = |world: &WorktreeFixture| match world.remove(&worktree) {
        WorktreeResult::Failed(error) => (error.code, error.details["path"].as_str().unwrap().to_owned()),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(&world).0, Code::WorktreeBusy);
    world.git(&["worktree", "unlock", worktree.path.to_str().unwrap()]);
    let lock = world.top().join(".git/refs/heads/subagent/one.lock");
    fs::write(&lock, "").unwrap();
    assert_eq!(failed(&world), (Code::WorktreeBusy, lock.display().to_string()));
    fs::remove_file(&lock).unwrap();
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    assert!(!world.refs().contains("subagent"));
}

#[test]
fn the_changes_of_the_main_tree_are_no_work_and_are_kept() {
    let world = WorktreeFixture::new();
    world.write("kept", "mine\n");
    let worktree = world.planned("one", true);
    world.make(&worktree, &Default::default()).unwrap();
    assert!(worktree.with_changes && world.look(&worktree).is_clean());
    assert_eq!(fs::read_to_string(worktree.path.join("kept")).unwrap(), "mine\n");
    assert_eq!(world.remove(&worktree), WorktreeResult::Removed);
    let retired = world.git(&["for-each-ref", "--format=%(objectname)", "refs/subagent/retired/one"]);
    assert_eq!(retired, worktree.base);
}
