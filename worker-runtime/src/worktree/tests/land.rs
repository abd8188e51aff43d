//! Successful and refused landings.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use subagent_protocol::worktree::{
    AfterLanding, Landed, Landing, LandingMode, Operation, Setup, Worktree, WorktreeResult,
};
use subagent_protocol::{Code, Error};

use super::world::{WorktreeFixture, refused, time, write};

pub(super) fn landing() -> Landing {
    Landing {
        into: None,
        how: LandingMode::Squash,
        message: None,
        trailer: "Subagent: one, codex, w_0123456789ab".to_owned(),
        checks: Vec::new(),
        protected: Vec::new(),
        withheld: Vec::new(),
        then: AfterLanding::Remove,
        id: time(0).0,
    }
}

fn land(world: &WorktreeFixture, worktree: &Worktree, landing: Landing) -> Result<Landed, Error> {
    match world.run(Operation::Land { worktree: worktree.clone(), landing: Box::new(landing) }) {
        WorktreeResult::Landed(landed) => Ok(landed),
        WorktreeResult::Failed(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// A worktree with a commit and an uncommitted change.
fn with_work(world: &WorktreeFixture) -> Worktree {
    let worktree = world.create("one");
    write(&worktree.path.join("changed"), "one\ntwo\nthree\nfour\nfive\nsix\nmine\n");
    write(&worktree.path.join("a/new"), "new\n");
    world.commit_in(&worktree.path, "work of the agent");
    write(&worktree.path.join("later"), "later\n");
    worktree
}

/// Returns content, times and inode number of a file.
fn state(path: &Path) -> (Vec<u8>, i64, i64, u64) {
    let meta = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), meta.mtime(), meta.mtime_nsec(), meta.ino())
}

#[test]
fn one_commit_has_all_changes_and_the_rest_of_the_main_tree_is_untouched() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    world.write("kept", "staged\n");
    world.git(&["add", "kept"]);
    world.write("untracked", "mine\n");
    world.write("other", "moved meanwhile\n");
    world.git(&["add", "other"]);
    world.git(&["commit", "-qm", "meanwhile", "--", "other"]);
    let before = world.git(&["rev-parse", "HEAD"]);
    let untouched = ["kept", "untracked", "other", ".gitignore"].map(|name| world.top().join(name));
    let states = untouched.clone().map(|path| state(&path));
    let landed = land(&world, &worktree, landing()).unwrap();
    assert_eq!((&*landed.into, &landed.before), ("main", &before));
    assert_eq!(landed.files, ["a/new", "changed", "later"]);
    assert_eq!((landed.added, landed.removed), (3, 1));
    assert!(landed.worktree_removed && !worktree.path.exists());
    assert_eq!(world.git(&["rev-parse", "main"]), landed.commit);
    assert_eq!(world.git(&["rev-parse", "main^"]), before);
    assert_eq!(world.read("a/new"), "new\n");
    assert_eq!(states, untouched.map(|path| state(&path)));
    assert_eq!(world.git(&["status", "--porcelain"]), "M  kept\n?? untracked");
    let message = world.git(&["log", "-1", "--format=%B"]);
    assert_eq!(
        message,
        "Work of one\n\n* work of the agent\n* Work of one\n\nSubagent: one, codex, w_0123456789ab"
    );
    let retired = landed.retired.unwrap();
    assert_eq!(world.git(&["log", "-1", "--format=%s", &format!("{retired}^")]), "Work of one");
    assert!(!world.refs().contains("refs/heads/subagent"));
    assert!(!world.top().join(".git/index.lock").exists());
    assert_eq!(
        fs::read_dir(world.top().join(".git/subagent")).unwrap().count(),
        2,
        "the lock and what has landed"
    );
}

#[test]
fn a_landing_that_could_not_store_its_result_has_it_when_it_is_repeated() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    // The branch has moved by the time that the result is stored.
    let folder = world.top().join(".git/subagent/landed");
    write(&folder, "");
    assert_eq!(land(&world, &worktree, landing()).unwrap_err().code, Code::GitFailed);
    let commit = world.git(&["rev-parse", "main"]);
    assert!(!world.top().join(".git/index.lock").exists());
    fs::remove_file(&folder).unwrap();
    let landed = land(&world, &worktree, landing()).unwrap();
    assert_eq!((landed.commit, landed.files.len(), landed.worktree_removed), (commit, 3, true));
}

#[test]
fn a_worktree_on_another_file_system_is_made_and_landed() {
    let world = WorktreeFixture::new();
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    let other =
        tempfile::tempdir_in("/dev/shm").ok().filter(|dir| device(dir.path()) != device(&world.top()));
    let Some(other) = other else {
        subagent_testkit::say("SKIPPED, NOTHING WAS TESTED: there is no other file system at /dev/shm");
        return;
    };
    let path = other.path().canonicalize().unwrap().join("one");
    let worktree = Worktree { path, ..world.planned("one", true) };
    world.make(&worktree, &Setup::default()).unwrap();
    write(&worktree.path.join("new"), "new\n");
    let landing = Landing { then: AfterLanding::GoOn, ..landing() };
    let merge = Operation::Merge { worktree: worktree.clone(), landing: Box::new(landing.clone()) };
    let WorktreeResult::Merged(merged) = world.run(merge) else { panic!() };
    assert_eq!((merged.files, world.read("new")), (vec!["new".to_owned()], "new\n".to_owned()));
    fs::remove_file(world.top().join("new")).unwrap();
    let landed = land(&world, &worktree, Landing { then: AfterLanding::Remove, ..landing }).unwrap();
    assert_eq!((landed.files, landed.worktree_removed), (vec!["new".to_owned()], true));
    assert_eq!(world.read("new"), "new\n");
}

#[test]
fn a_merge_and_a_rebase_keep_the_commits() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    world.write("other", "meanwhile\n");
    world.commit("meanwhile");
    let mut how = Landing { how: LandingMode::Merge, then: AfterLanding::Keep, ..landing() };
    world.git(&["branch", "side"]);
    how.into = Some("side".to_owned());
    let merged = land(&world, &worktree, how).unwrap();
    assert_eq!(world.git(&["log", "-1", "--format=%P", &merged.commit]).split(' ').count(), 2);
    assert!(world.git(&["log", "--format=%s", "side"]).contains("work of the agent"));
    assert!(world.git(&["status", "--porcelain"]).is_empty() && worktree.path.join("later").exists());

    let how = Landing { how: LandingMode::Rebase, then: AfterLanding::GoOn, ..landing() };
    let landed = land(&world, &worktree, how).unwrap();
    let log = world.git(&["log", "--format=%an %s", "main"]);
    assert_eq!(log, "me Work of one\nme work of the agent\nme meanwhile\nme first");
    assert_eq!(world.git_in(&worktree.path, &["rev-parse", "subagent/one"]), landed.commit);
    assert_eq!(world.git_in(&worktree.path, &["status", "--porcelain"]), "");
    assert!(worktree.path.join("other").exists());
    // There are no further changes.
    let again = land(&world, &worktree, landing()).unwrap();
    assert_eq!((&again.commit, &again.before, again.files.len()), (&landed.commit, &landed.commit, 0));
    assert!(again.worktree_removed);

    let worktree = world.create("two");
    write(&worktree.path.join("more"), "more\n");
    world.commit_in(&worktree.path, "more");
    world.git_in(&worktree.path, &["merge", "-q", "-m", "m", "side"]);
    let how = Landing { how: LandingMode::Rebase, ..landing() };
    assert_eq!(refused(land(&world, &worktree, how)), (Code::LandRefused, "mergeCommits".to_owned()));
}

#[test]
fn a_conflict_changes_nothing() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    world.write("changed", "one\ntwo\nthree\nfour\nfive\nsix\ntheirs\n");
    let commit = world.commit("theirs");
    for how in [LandingMode::Squash, LandingMode::Merge, LandingMode::Rebase] {
        let error = land(&world, &worktree, Landing { how, ..landing() }).unwrap_err();
        assert_eq!(error.code, Code::LandConflict);
        assert_eq!(error.details["files"], serde_json::json!(["changed"]));
        assert_eq!(
            (&error.details["into"], &error.details["targetCommit"]),
            (&"main".into(), &commit.clone().into())
        );
        assert_eq!(world.git(&["rev-parse", "main"]), commit);
        assert_eq!(world.git(&["status", "--porcelain"]), "");
        assert!(worktree.path.exists());
    }
}

#[test]
fn changes_of_the_user_in_the_same_files_are_named() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    let files = |world: &WorktreeFixture| {
        let error = land(world, &worktree, landing()).unwrap_err();
        assert_eq!(
            (error.code, error.details["reason"].as_str()),
            (Code::LandRefused, Some("dirty")),
            "{error:?}"
        );
        error.details["files"].clone()
    };
    world.write("changed", "unstaged\n");
    assert_eq!(files(&world), serde_json::json!(["changed"]));
    world.git(&["add", "changed"]);
    assert_eq!(files(&world), serde_json::json!(["changed"]));
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["update-index", "--assume-unchanged", "changed"]);
    world.write("changed", "hidden\n");
    assert_eq!(files(&world), serde_json::json!(["changed"]));
    world.git(&["update-index", "--no-assume-unchanged", "changed"]);
    world.git(&["reset", "-q", "--hard"]);
    world.write("later", "untracked\n");
    world.write(".git/info/exclude", "a\n");
    world.write("a", "a file where a folder has to be, ignored\n");
    assert_eq!(files(&world), serde_json::json!(["a", "later"]));
    fs::remove_file(world.top().join("later")).unwrap();
    fs::remove_file(world.top().join("a")).unwrap();
    assert_eq!(land(&world, &worktree, landing()).unwrap().files.len(), 3);
}

#[test]
fn files_become_folders_and_folders_files() {
    let world = WorktreeFixture::new();
    world.write("x/one", "1\n");
    world.write("y", "y\n");
    world.commit("x and y");
    let worktree = world.create("one");
    fs::remove_dir_all(worktree.path.join("x")).unwrap();
    write(&worktree.path.join("x"), "a file\n");
    fs::remove_file(worktree.path.join("y")).unwrap();
    write(&worktree.path.join("y/deep/file"), "deep\n");
    land(&world, &worktree, landing()).unwrap();
    assert_eq!((world.read("x"), world.read("y/deep/file")), ("a file\n".into(), "deep\n".into()));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    // Untracked files in such a folder stay.
    let worktree = world.create("two");
    fs::remove_dir_all(worktree.path.join("y")).unwrap();
    write(&worktree.path.join("y"), "a file again\n");
    world.write("y/mine", "mine\n");
    assert_eq!(refused(land(&world, &worktree, landing())), (Code::LandRefused, "dirty".to_owned()));
    assert_eq!(world.read("y/mine"), "mine\n");
}

#[test]
fn targets_are_refused_that_cannot_take_it() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    let reason = |landing: Landing| refused(land(&world, &worktree, landing)).1;
    let into = |name: &str| Landing { into: Some(name.to_owned()), ..landing() };
    assert_eq!(reason(Landing { protected: vec!["ma*".to_owned()], ..landing() }), "protected");
    assert_eq!(reason(into("nothing")), "noTarget");
    assert_eq!(reason(into("subagent/one")), "noTarget");
    world.git(&["worktree", "add", "-q", "-b", "other", "../linked"]);
    assert_eq!(reason(into("other")), "checkedOut");
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("changed", "side\n");
    world.commit("side");
    world.git(&["checkout", "-q", "main"]);
    world.write("changed", "main\n");
    world.commit("main");
    world.try_git(&world.top(), &["merge", "-q", "side"]).unwrap_err();
    assert_eq!(reason(landing()), "merge");
    world.git(&["merge", "--abort"]);
    world.try_git(&world.top(), &["rebase", "-q", "side"]).unwrap_err();
    assert_eq!(reason(landing()), "rebase");
    world.git(&["rebase", "--abort"]);
    let error = land(&world, &Worktree { source_branch: None, ..worktree.clone() }, landing()).unwrap_err();
    assert_eq!(error.details["reason"], "noTarget");
    let mut protected = into("main");
    protected.protected = vec!["main".to_owned()];
    world.git(&["update-ref", "refs/heads/main", "main~"]);
    assert_eq!(reason(protected.clone()), "dirty");
    world.git(&["update-ref", "refs/heads/main", "main@{1}"]);
    protected.into = None;
    assert_eq!(reason(protected), "protected");
}

#[test]
fn a_lock_of_the_user_s_git_is_respected() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    let lock = world.top().join(".git/index.lock");
    fs::write(&lock, "theirs").unwrap();
    let error = land(&world, &worktree, landing()).unwrap_err();
    assert_eq!((error.code, error.details["path"].as_str()), (Code::WorktreeBusy, lock.to_str()));
    assert_eq!(fs::read_to_string(&lock).unwrap(), "theirs");
    assert_eq!(
        world.run(Operation::Recover { repository: worktree.repository.clone() }),
        WorktreeResult::Recovered(None)
    );
    assert_eq!(fs::read_to_string(&lock).unwrap(), "theirs");
    fs::remove_file(lock).unwrap();
    land(&world, &worktree, landing()).unwrap();
}

#[test]
fn checks_see_the_merged_files_and_the_worktree_is_as_before() {
    let world = WorktreeFixture::new();
    let worktree = with_work(&world);
    world.write("other", "meanwhile\n");
    let commit = world.commit("meanwhile");
    let checks = |command: &str| Landing { checks: vec!["true".into(), command.to_owned()], ..landing() };
    let error = land(&world, &worktree, checks("cat other later; echo made > made; exit 3")).unwrap_err();
    assert_eq!((error.code, &error.details["exitCode"]), (Code::LandCheckFailed, &3.into()));
    assert_eq!(error.details["output"], "meanwhile\nlater");
    assert_eq!(world.git(&["rev-parse", "main"]), commit);
    assert_eq!(world.git_in(&worktree.path, &["symbolic-ref", "HEAD"]), "refs/heads/subagent/one");
    assert_eq!(world.git_in(&worktree.path, &["status", "--porcelain"]), "?? made");
    assert!(!worktree.path.join("other").exists());
    fs::remove_file(worktree.path.join("made")).unwrap();
    land(&world, &worktree, checks("test -e other")).unwrap();
}

#[test]
fn changes_of_the_main_tree_are_left_out() {
    for how in [LandingMode::Squash, LandingMode::Merge, LandingMode::Rebase] {
        let world = WorktreeFixture::new();
        world.write("changed", "mine\ntwo\nthree\nfour\nfive\nsix\nseven\n");
        let worktree = world.planned("one", true);
        world.make(&worktree, &Setup::default()).unwrap();
        write(&worktree.path.join("later"), "later\n");
        let landed = land(&world, &worktree, Landing { how, ..landing() }).unwrap();
        assert_eq!(landed.files, ["later"]);
        assert_eq!(world.git(&["status", "--porcelain"]), " M changed", "{how:?}");
        let history = world.git(&["rev-list", "main"]);
        assert!(!history.contains(&worktree.base), "{how:?}");
        world.git(&["merge-base", "--is-ancestor", &worktree.base, &landed.retired.unwrap()]);
    }
}

#[test]
fn an_older_git_merges_the_same() {
    use crate::worktree::land::merge::{MergedTree, with_files};
    use crate::worktree::work::{OperationContext, WAIT_LIMITS};
    let world = WorktreeFixture::new();
    let base = world.git(&["rev-parse", "HEAD"]);
    world.write("changed", "one\ntwo\nthree\nfour\nfive\nsix\nmine\n");
    world.write("a/new", "new\n");
    let ours = world.commit("ours");
    world.git(&["checkout", "-q", "-b", "side", &base]);
    world.write("changed", "first\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    fs::remove_file(world.top().join("kept")).unwrap();
    let theirs = world.commit("theirs");
    world.write("changed", "first\ntwo\nthree\nfour\nfive\nsix\ntheirs\n");
    let conflict = world.commit("conflict");
    let work = OperationContext::new(&world.env, WAIT_LIMITS);
    let repository = world.top().join(".git");
    let merged = with_files(&work, &repository, &base, &ours, &theirs).unwrap();
    world.git(&["checkout", "-q", "main"]);
    world.git(&["merge", "-q", "-m", "x", &theirs]);
    assert_eq!(merged, MergedTree::Tree(world.git(&["rev-parse", "HEAD^{tree}"])));
    let merged = with_files(&work, &repository, &base, &ours, &conflict).unwrap();
    assert_eq!(merged, MergedTree::Conflict(vec!["changed".to_owned()]));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn without_an_identity_the_error_gives_advice() {
    let mut world = WorktreeFixture::new();
    let worktree = with_work(&world);
    world.env.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_"));
    world.git(&["config", "user.useConfigOnly", "true"]);
    let error = land(&world, &worktree, landing()).unwrap_err();
    assert_eq!(error.code, Code::GitFailed);
    assert!(error.details["recommendedAction"].as_str().unwrap().contains("user.name"), "{error:?}");
}
