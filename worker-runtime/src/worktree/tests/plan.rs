//! The sources of a worktree, and places where none can be created.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use subagent_protocol::Code;
use subagent_protocol::worktree::{Operation, WorktreeResult};

use super::world::{WorktreeFixture, refused};

#[test]
fn the_result_names_the_base_of_the_worktree() {
    let world = WorktreeFixture::new();
    fs::create_dir_all(world.top().join("a/b")).unwrap();
    let head = world.git(&["rev-parse", "HEAD"]);
    let plan = world.plan_with(&world.top().join("a/b"), None, None, false).unwrap();
    assert_eq!(plan.repository, world.top().join(".git"));
    assert_eq!(plan.main, world.top());
    assert_eq!(plan.prefix, Path::new("a/b"));
    assert_eq!((plan.base, plan.source_branch.as_deref()), (head, Some("main")));
    let name = plan.folder.strip_prefix(world.root()).unwrap().to_str().unwrap();
    assert!(name.starts_with("repo-") && name.len() == "repo-".len() + 8, "{name}");
    assert_eq!(plan.taken, [""; 0]);

    world.git(&["branch", "subagent/one"]);
    world.git(&["branch", "subagent/two/more"]);
    fs::create_dir_all(plan.folder.join("three")).unwrap();
    fs::write(plan.folder.join(".one.lock"), "").unwrap();
    assert_eq!(world.plan().taken, ["one", "three", "two"]);
    world.git(&["checkout", "-q", "--detach"]);
    assert_eq!(world.plan().source_branch, None);
}

#[test]
fn a_missing_identity_is_in_the_plan_and_prevents_no_worktree() {
    let mut world = WorktreeFixture::new();
    assert!(!world.plan().identity_missing);
    world.git(&["config", "user.useConfigOnly", "true"]);
    let named = |name: &str, who: &str| name.starts_with("GIT_") && !name.starts_with(who);
    let env = world.env.clone();
    for only in ["GIT_AUTHOR", "GIT_COMMITTER", "none"] {
        world.env = env.clone();
        world.env.retain(|(name, _)| !named(&name.to_string_lossy(), only));
        assert!(world.plan().identity_missing, "{only}");
    }
    world.write("kept", "more\n");
    let plan = world.plan_with(&world.top(), None, None, true).unwrap();
    assert!(plan.with_changes && plan.identity_missing);
    assert_eq!(world.git(&["show", &format!("{}:kept", plan.base)]), "more");
}

#[test]
fn in_a_linked_work_tree_that_one_is_the_main_tree() {
    let world = WorktreeFixture::new();
    world.git(&["worktree", "add", "-q", "-b", "other", "../linked"]);
    let linked = world.top().with_file_name("linked");
    let plan = world.plan_with(&linked, None, None, false).unwrap();
    assert_eq!(plan.main, linked);
    assert_eq!(plan.source_branch.as_deref(), Some("other"));
    assert_eq!(plan.repository, world.top().join(".git"));
    assert_eq!(plan.folder, world.plan().folder);
}

#[test]
fn in_a_submodule_that_is_the_repository() {
    let world = WorktreeFixture::new();
    world.add_submodule();
    let plan = world.plan_with(&world.top().join("sub"), None, None, false).unwrap();
    assert_eq!(plan.main, world.top().join("sub"));
    assert_eq!(plan.repository, world.top().join(".git/modules/sub"));
}

#[test]
fn where_no_worktree_can_be_made_the_error_says_why() {
    let world = WorktreeFixture::new();
    let plan = |cwd: &Path| refused(world.plan_with(cwd, None, None, false));
    let needs = |reason: &str| (Code::WorktreeNeedsGit, reason.to_owned());
    assert_eq!(plan(world.dir.path()), needs("noRepository"));
    assert_eq!(plan(&world.top().join(".git")), needs("noRepository"));
    assert_eq!(plan(&world.top().join("nothing")), (Code::InvalidArgument, "cwd".to_owned()));
    world.git(&["clone", "-q", "--bare", ".", "../bare"]);
    assert_eq!(plan(&world.top().with_file_name("bare")), needs("bare"));
    world.git(&["init", "-q", "../unborn"]);
    assert_eq!(plan(&world.top().with_file_name("unborn")), needs("noCommit"));
    let mut world = world;
    world.env[0].1 = "/nonexistent".into();
    assert_eq!(refused(world.plan_with(&world.top(), None, None, false)), needs("notInstalled"));
    // Written by another process: a fork of this one would have it open when it is started.
    let script = "printf '#!/bin/sh\\necho git version 2.29.3\\n' > git && chmod 755 git";
    let written = Command::new("/bin/sh").args(["-c", script]).current_dir(world.dir.path()).status();
    assert!(written.unwrap().success());
    world.env[0].1 = world.dir.path().into();
    assert_eq!(refused(world.plan_with(&world.top(), None, None, false)), needs("tooOld"));
}

#[test]
fn a_base_and_a_branch_are_checked() {
    let world = WorktreeFixture::new();
    let first = world.git(&["rev-parse", "HEAD"]);
    world.write("kept", "more\n");
    world.commit("second");
    world.git(&["branch", "there"]);
    world.git(&["branch", "deep/there"]);
    let plan = |branch, base, changes| world.plan_with(&world.top(), branch, base, changes);
    assert_eq!(plan(Some("new"), Some("HEAD~"), false).unwrap().base, first);
    for base in ["nothing", "", "-x", "HEAD:kept"] {
        assert_eq!(
            refused(plan(None, Some(base), false)),
            (Code::InvalidArgument, "base".to_owned()),
            "{base}"
        );
    }
    for branch in ["a..b", "-x", "", "HEAD", "a b", "a.lock", "@{-1}", "/a", "a/"] {
        let found = refused(plan(Some(branch), None, false));
        assert_eq!(found, (Code::InvalidArgument, "branch".to_owned()), "{branch}");
    }
    for (branch, there) in [("there", "there"), ("there/below", "there"), ("deep", "deep/there")] {
        let error = plan(Some(branch), None, false).unwrap_err();
        assert_eq!((error.code, error.details["branch"].as_str()), (Code::WorktreeExists, Some(there)));
    }
    world.git(&["branch", "subagent"]);
    assert_eq!(plan(None, None, false).unwrap_err().details["branch"], "subagent");
    assert_eq!(refused(plan(Some("x"), Some("HEAD~"), true)), (Code::InvalidArgument, "base".to_owned()));
}

#[test]
fn changes_come_along_and_the_main_tree_stays_as_it_is() {
    let world = WorktreeFixture::new();
    let head = world.git(&["rev-parse", "HEAD"]);
    let plan = |cwd: &Path| world.plan_with(cwd, None, None, true);
    assert_eq!(plan(&world.top()).unwrap().base, head);
    world.write("changed", "mine\n");
    world.write("staged", "staged\n");
    world.git(&["add", "staged"]);
    world.write("new/file", "new\n");
    world.write("ignored", "ignored\n");
    fs::remove_file(world.top().join("kept")).unwrap();
    let index = fs::read(world.top().join(".git/index")).unwrap();
    let (status, refs) = (world.git(&["status", "--porcelain"]), world.refs());
    let base = plan(&world.top().join("new")).unwrap().base;
    let files = world.git(&["ls-tree", "-r", "--name-only", &base]);
    assert_eq!(files, ".gitignore\nchanged\nnew/file\nstaged");
    assert_eq!(world.git(&["rev-parse", &format!("{base}^")]), head);
    assert_eq!(fs::read(world.top().join(".git/index")).unwrap(), index);
    assert_eq!((world.git(&["status", "--porcelain"]), world.refs()), (status, refs));
    assert_eq!(fs::read_dir(world.top().join(".git/subagent")).unwrap().count(), 0);

    world.git(&["stash", "-q", "-u"]);
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("changed", "side\n");
    world.commit("side");
    world.git(&["checkout", "-q", "main"]);
    world.write("changed", "main\n");
    world.commit("main");
    world.try_git(&world.top(), &["merge", "-q", "side"]).unwrap_err();
    assert_eq!(refused(plan(&world.top())), (Code::WorktreeBusy, "merge".to_owned()));
    fs::remove_file(world.top().join(".git/MERGE_HEAD")).unwrap();
    assert_eq!(refused(plan(&world.top())), (Code::WorktreeBusy, "unmerged".to_owned()));
    assert!(world.plan_with(&world.top(), None, None, false).is_ok());
}

#[test]
fn worktrees_do_not_lie_in_their_repository() {
    let world = WorktreeFixture::new();
    symlink(world.top(), world.base().join("link")).unwrap();
    let top = world.top();
    let in_link = world.base().join("link/trees");
    for root in [top.join("trees"), top.join("a/b"), top.clone(), top.join(".git/trees"), in_link] {
        let (cwd, shown) = (top.clone(), root.display().to_string());
        let plan = Operation::Plan { cwd, root, branch: None, base: None, with_changes: false, copy: None };
        let WorktreeResult::Failed(error) = world.run(plan) else { panic!("{shown}") };
        let found = (error.code, error.details["field"].as_str());
        assert_eq!(found, (Code::InvalidArgument, Some("worktrees.dir")), "{shown}");
    }
}
