//! Discarded content is kept byte by byte.

use std::fs;
use std::os::unix::fs::symlink;

use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Operation, Worktree, WorktreeResult};

use super::world::{WorktreeFixture, time, write};

fn discard(world: &WorktreeFixture, worktree: &Worktree) -> Option<String> {
    match world.run(Operation::Discard { worktree: worktree.clone(), time: time(0) }) {
        WorktreeResult::Discarded(name) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commits_index_and_files_are_kept() {
    let world = WorktreeFixture::new();
    world.git(&["config", "core.autocrlf", "input"]);
    let worktree = world.create("one");
    let path = |name: &str| worktree.path.join(name);
    write(&path("new"), "lost commit\n");
    let lost = world.commit_in(&worktree.path, "lost");
    world.git_in(&worktree.path, &["reset", "-q", "--hard", "HEAD~"]);
    write(&path("kept"), "staged\n");
    world.git_in(&worktree.path, &["add", "kept"]);
    write(&path("kept"), "with\r\nline ends\r\n");
    write(&path("un\ntracked"), "untracked\n");
    write(&path("ignored"), "ignored\n");
    symlink("nowhere", path("link")).unwrap();
    fs::remove_file(path("changed")).unwrap();
    let name = discard(&world, &worktree).unwrap();
    assert_eq!(name, "refs/subagent/retired/one/20261125T203500Z");
    assert!(!worktree.path.exists() && !world.refs().contains("refs/heads/subagent"));
    let show = |what: &str| world.git(&["cat-file", "blob", &format!("{name}{what}")]);
    assert_eq!(show(":kept"), "with\r\nline ends");
    assert_eq!(show("^2:kept"), "staged");
    assert_eq!(
        (show(":un\ntracked"), show(":ignored"), show(":link")),
        ("untracked".into(), "ignored".into(), "nowhere".into())
    );
    assert!(world.try_git(&world.top(), &["cat-file", "-e", &format!("{name}:changed")]).is_err());
    world.git(&["merge-base", "--is-ancestor", &lost, &name]);
    assert_eq!(discard(&world, &worktree), Some(name));
    // Another one with the same name and time.
    let again = world.create("one");
    write(&again.path.join("new"), "again\n");
    assert_eq!(discard(&world, &again).unwrap(), "refs/subagent/retired/one/20261125T203500Z-2");
}

#[test]
fn one_that_is_clean_needs_no_ref() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    assert_eq!(discard(&world, &worktree), None);
    assert!(!worktree.path.exists() && !world.refs().contains("subagent"));
    assert_eq!(discard(&world, &worktree), None);
}

#[test]
fn a_merge_under_way_is_kept_with_its_sides() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    write(&worktree.path.join("changed"), "theirs\n");
    world.commit_in(&worktree.path, "theirs");
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("changed", "ours\n");
    let side = world.commit("ours");
    world.git(&["checkout", "-q", "main"]);
    world.try_git(&worktree.path, &["merge", "-q", "side"]).unwrap_err();
    world.git(&["branch", "-q", "-D", "side"]);
    let name = discard(&world, &worktree).unwrap();
    let show = |what: &str| world.git(&["show", &format!("{name}{what}")]);
    assert!(show(":changed").contains("<<<<<<<"));
    assert_eq!(show("^2:.subagent-unmerged/3/changed"), "ours");
    world.git(&["merge-base", "--is-ancestor", &side, &name]);
}

#[test]
fn repositories_below_are_kept() {
    let world = WorktreeFixture::new();
    world.add_submodule();
    let worktree = world.create("one");
    let sub = worktree.path.join("sub");
    write(&sub.join("inner"), "committed\n");
    let commit = world.commit_in(&sub, "work");
    write(&sub.join("inner"), "changed\n");
    let nested = worktree.path.join("nested");
    world.git_in(&worktree.path, &["init", "-q", "nested"]);
    write(&nested.join("file"), "nested\n");
    let inner = world.commit_in(&nested, "nested");
    write(&nested.join("file"), "more\n");
    let name = discard(&world, &worktree).unwrap();
    assert!(!worktree.path.exists());
    let main = world.top().join("sub");
    assert_eq!(world.git_in(&main, &["show", &format!("{name}:inner")]), "changed");
    world.git_in(&main, &["merge-base", "--is-ancestor", &commit, &name]);
    world.git(&["merge-base", "--is-ancestor", &inner, &name]);
    let parents = world.git(&["log", "--format=%H", &name]);
    let is_there = |id: &str| {
        world.try_git(&world.top(), &["show", &format!("{id}:file")]).is_ok_and(|text| text == "more")
    };
    assert!(parents.lines().any(is_there));
}

#[test]
fn one_whose_folder_is_gone_leaves_its_commits_and_index() {
    let world = WorktreeFixture::new();
    let worktree = world.create("one");
    write(&worktree.path.join("new"), "new\n");
    let commit = world.commit_in(&worktree.path, "work");
    write(&worktree.path.join("new"), "staged\n");
    world.git_in(&worktree.path, &["add", "new"]);
    fs::remove_dir_all(&worktree.path).unwrap();
    let name = discard(&world, &worktree).unwrap();
    world.git(&["merge-base", "--is-ancestor", &commit, &name]);
    assert_eq!(world.git(&["show", &format!("{name}:new")]), "staged");
    assert!(!world.git(&["worktree", "list"]).contains("one"));
}

#[test]
fn old_refs_are_pruned() {
    let world = WorktreeFixture::new();
    for name in ["a/20261125T203500Z", "a/20261125T203500Z-2", "b/20261126T000000Z", "b/mine"] {
        world.git(&["update-ref", &format!("refs/subagent/retired/{name}"), "HEAD"]);
    }
    let prune = |before: Option<Timestamp>| match world
        .run(Operation::Prune { repository: world.top().join(".git"), before })
    {
        WorktreeResult::Pruned { kept, deleted } => (kept.len(), deleted.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(prune(None), (4, 0));
    assert_eq!(prune(Some(time(0))), (4, 0));
    assert_eq!(prune(Some(time(1))), (2, 2));
    assert_eq!(prune(None), (2, 0));
}
