//! Copies of folders, with kills between their steps.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_protocol::worktree::{AfterLanding, Copied, CopyRequest, Landing, LandingMode};

use super::super::lock::Lock;
use super::super::work::WaitLimits;
use super::*;

const WAITS: WaitLimits = WaitLimits { operation: Duration::from_secs(10), git: Duration::from_secs(10) };

struct CopyFixture {
    _dir: tempfile::TempDir,
    main: PathBuf,
    root: PathBuf,
}

impl CopyFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (main, root) = (base.join("ws"), base.join("trees"));
        for folder in ["src/deep", "empty", "state"] {
            fs::create_dir_all(main.join(folder)).unwrap();
        }
        for (name, text) in [("a", "a\n"), ("b", "b\n"), ("src/deep/c", "c\n"), ("state/db", "secret")] {
            fs::write(main.join(name), text).unwrap();
        }
        fs::set_permissions(main.join("b"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a", main.join("link")).unwrap();
        Self { _dir: dir, main, root }
    }

    fn wish(&self, limit: u64) -> CopyRequest {
        CopyRequest { always: true, limit, without: vec![self.main.join("state")] }
    }

    fn create(&self) -> Worktree {
        let plan = plan(&self.main, &self.root, &self.wish(1000)).unwrap();
        let worktree = Worktree {
            name: "one".to_owned(),
            path: plan.folder.join("one"),
            repository: plan.repository,
            main: plan.main,
            branch: String::new(),
            base: String::new(),
            source_branch: None,
            with_changes: false,
            sandbox: None,
            placed: None,
            copied: plan.copied,
            identity_missing: false,
        };
        self.make(&worktree);
        worktree
    }

    fn make(&self, worktree: &Worktree) {
        fs::create_dir_all(&worktree.repository).unwrap();
        let copied: &Copied = worktree.copied.as_ref().unwrap();
        create(&OperationContext::new(&[], WAITS), worktree, copied).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.main.join(name)).ok()
    }
}

fn landing(then: AfterLanding) -> Landing {
    Landing {
        id: 1,
        into: None,
        how: LandingMode::Squash,
        message: None,
        trailer: String::new(),
        checks: Vec::new(),
        protected: Vec::new(),
        withheld: vec![".agents".to_owned()],
        then,
    }
}

fn merged(worktree: &Worktree, then: AfterLanding) -> subagent_protocol::worktree::Merged {
    match merge(&OperationContext::new(&[], WAITS), worktree, &landing(then)).unwrap() {
        WorktreeResult::Merged(merged) => merged,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_has_all_files_except_the_excluded_ones() {
    let world = CopyFixture::new();
    let copy = world.create();
    let at = |name: &str| copy.path.join(name);
    assert_eq!(fs::read_to_string(at("src/deep/c")).unwrap(), "c\n");
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("a"));
    assert!(at("empty").is_dir() && !at("state").exists());
    let meta = |path: PathBuf| fs::metadata(path).unwrap();
    assert_eq!(meta(at("b")).permissions().mode(), meta(world.main.join("b")).permissions().mode());
    assert_eq!(meta(at("b")).modified().unwrap(), meta(world.main.join("b")).modified().unwrap());
    assert_eq!(look(&copy).unwrap(), Contents { exists: true, ..Contents::default() });
    world.make(&copy);
    assert!(matches!(remove(&copy).unwrap(), WorktreeResult::Removed) && !copy.path.exists());
    assert_eq!(world.text("a").as_deref(), Some("a\n"));
}

#[test]
fn a_copy_above_the_limit_is_refused_with_its_size() {
    let world = CopyFixture::new();
    let error = plan(&world.main, &world.root, &world.wish(5)).unwrap_err();
    assert_eq!((error.code, &error.details["reason"]), (Code::WorktreeNeedsGit, &"copyTooLarge".into()));
    assert_eq!((&error.details["bytes"], &error.details["limit"]), (&6.into(), &5.into()));
    assert!(error.message.contains("worktrees.copyLimit"), "{error}");
    assert!(plan(&world.main, &world.root, &world.wish(6)).is_ok());
}

#[test]
fn the_limit_also_bounds_files_that_grow_meanwhile() {
    let world = CopyFixture::new();
    let copy = world.create();
    let new = hidden(&copy, "new");
    let filled = |limit: u64| {
        let copied = Copied { limit, ..copy.copied.clone().unwrap() };
        let filled = make::fill(&copy, &copied, &new);
        let sizes: u64 = fs::read_dir(&new)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let meta = path.symlink_metadata().unwrap();
                if meta.is_file() { meta.len() } else { 0 }
            })
            .sum();
        fs::remove_dir_all(&new).unwrap();
        (filled, sizes)
    };
    let (refused, bytes) = filled(3);
    let error = refused.unwrap_err();
    assert_eq!((error.code, &error.details["reason"]), (Code::WorktreeNeedsGit, &"copyTooLarge".into()));
    assert!(bytes <= 4, "{bytes}");
    assert!(filled(6).0.is_ok());
    // The size of this file is 0 before it is read.
    let growing = fs::File::open("/proc/self/status").unwrap();
    let (_, bytes) = make::copy(&growing, &world.root.join("grown"), 0o600, 10).unwrap();
    assert_eq!((bytes, fs::metadata(world.root.join("grown")).unwrap().len()), (11, 11));
}

#[test]
fn a_patch_has_all_changes_of_the_copy() {
    let world = CopyFixture::new();
    let main = &world.main;
    for (name, text) in [("crlf", "1\r\n2\r\n"), ("no end", "1\n2"), ("src/e", "e\n"), ("f", "f\n")] {
        fs::write(main.join(name), text).unwrap();
    }
    let copy = world.create();
    let at = |name: &str| copy.path.join(name);
    for (name, text) in [
        ("a", "a\nand more\n"),
        ("crlf", "1\r\n2\r\n3\r\n"),
        ("no end", "1\n2\n3"),
        ("empty/nothing", ""),
        ("new\nline \"and\\ quotes", "odd\n"),
        ("größe", "g\n"),
        (".git", "gitdir: /agent\n"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    fs::remove_file(at("src/deep/c")).unwrap();
    fs::set_permissions(at("b"), fs::Permissions::from_mode(0o644)).unwrap();
    for (name, target) in [("link", "b"), ("f", "a")] {
        fs::remove_file(at(name)).unwrap();
        symlink(target, at(name)).unwrap();
    }
    fs::create_dir(at("state")).unwrap();
    fs::write(at("state/planted"), "agent").unwrap();
    // The user has changed a file of both: the patch is for the folder as it is now.
    fs::write(at("src/e"), "agent\n").unwrap();
    fs::write(main.join("src/e"), "user\n").unwrap();

    let patch = super::super::patch(&copy, &[], Path::new("")).unwrap();
    let mut git = std::process::Command::new("git");
    git.args(["apply", "-"]).current_dir(main).env("GIT_CEILING_DIRECTORIES", &world.root);
    let mut child = git.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &patch).unwrap();
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&patch));
    let without = ["state", ".git"].map(|name| copy.path.join(name));
    let [ours, theirs] = [
        manifest::files(main, &[main.join("state")]).unwrap(),
        manifest::files(&copy.path, &without).unwrap(),
    ];
    assert_eq!(ours, theirs);
    assert!(changed_files(&copy).unwrap().is_empty());
    fs::write(at("bin"), [0, 1]).unwrap();
    let binary = changed_files(&copy).unwrap();
    assert_eq!((&*binary[0].path, &*binary[0].status, binary[0].added), ("bin", "added", None));
    let error = super::super::patch(&copy, &[], Path::new("")).unwrap_err();
    assert_eq!((error.code, &error.details["reason"]), (Code::LandRefused, &"binary".into()));
}

#[test]
fn old_discarded_copies_are_pruned() {
    let world = CopyFixture::new();
    let mut kept = Vec::new();
    for time in [5, 9] {
        let copy = world.create();
        fs::write(copy.path.join("new"), "work").unwrap();
        fs::create_dir(copy.path.join("locked")).unwrap();
        fs::set_permissions(copy.path.join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
        let WorktreeResult::Discarded(Some(path)) = discard(&copy, Timestamp(time)).unwrap() else {
            panic!()
        };
        kept.push(path);
    }
    let folder = world.create().repository;
    let others = folder.join(RETIRED).join("one/notes");
    fs::create_dir(&others).unwrap();
    symlink(&world.main, folder.join(RETIRED).join("one/3")).unwrap();
    let pruned = |before: Option<i64>| match prune(&folder, before.map(Timestamp)).unwrap() {
        WorktreeResult::Pruned { kept, deleted } => (kept, deleted),
        other => panic!("{other:?}"),
    };
    let others = others.display().to_string();
    assert_eq!(pruned(None), (vec![kept[0].clone(), kept[1].clone(), others.clone()], Vec::new()));
    assert_eq!(pruned(Some(9)), (vec![kept[1].clone(), others], vec![kept[0].clone()]));
    assert!(!Path::new(&kept[0]).exists() && world.main.join("a").exists());
    assert!(matches!(prune(&world.main, Some(Timestamp(9))).unwrap(), WorktreeResult::Pruned { .. }));
}

#[test]
fn a_merge_takes_files_that_changed_on_one_side() {
    let world = CopyFixture::new();
    let copy = world.create();
    let at = |name: &str| copy.path.join(name);
    fs::write(at("a"), "agent\n").unwrap();
    fs::write(world.main.join("a"), "user\n").unwrap();
    fs::set_permissions(at("b"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(at("src/deep/c")).unwrap();
    fs::remove_dir_all(at("src")).unwrap();
    fs::write(at("src"), "a file now\n").unwrap();
    fs::create_dir(at(".agents")).unwrap();
    fs::write(at(".agents/x"), "rules").unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("b", at("link")).unwrap();
    assert_eq!(look(&copy).unwrap().files, 6);
    let first = merged(&copy, AfterLanding::Remove);
    assert_eq!(first.files, ["b", "link", "src", "src/deep/c"]);
    assert_eq!((first.refused, first.worktree_removed), (vec![".agents/x".into(), "a".into()], false));
    assert_eq!(world.text("a").as_deref(), Some("user\n"), "the user's change stays");
    assert_eq!(world.text("src").as_deref(), Some("a file now\n"));
    assert_eq!(fs::read_link(world.main.join("link")).unwrap(), Path::new("b"));
    let mode = fs::metadata(world.main.join("b")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(look(&copy).unwrap().names, [".agents/x", "a"], "merged files are no changes any more");
    // The user takes the agent's version.
    fs::write(world.main.join("a"), "agent\n").unwrap();
    fs::remove_dir_all(at(".agents")).unwrap();
    let second = merged(&copy, AfterLanding::Remove);
    assert_eq!((second.files, second.worktree_removed), (vec!["a".to_owned()], true));
    assert!(!copy.path.exists());
    assert!(merged(&copy, AfterLanding::Remove).worktree_removed, "a repetition after a kill");
}

#[test]
fn a_landing_takes_all_or_nothing() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::write(copy.path.join("a"), "agent\n").unwrap();
    fs::write(copy.path.join("new"), "new\n").unwrap();
    fs::write(world.main.join("a"), "user\n").unwrap();
    let work = OperationContext::new(&[], WAITS);
    let error = land(&work, &copy, &landing(AfterLanding::GoOn)).unwrap_err();
    assert_eq!((error.code, &error.details["files"][0]), (Code::LandConflict, &"a".into()));
    assert_eq!((world.text("a").as_deref(), world.text("new")), (Some("user\n"), None));
    fs::write(world.main.join("a"), "a\n").unwrap();
    let checked =
        Landing { checks: vec!["grep -q agent a && ! true".to_owned()], ..landing(AfterLanding::Keep) };
    assert_eq!(land(&work, &copy, &checked).unwrap_err().code, Code::LandCheckFailed);
    assert_eq!(world.text("new"), None);
    let WorktreeResult::Landed(landed) = land(&work, &copy, &landing(AfterLanding::GoOn)).unwrap() else {
        panic!()
    };
    assert_eq!((landed.files, landed.worktree_removed), (vec!["a".into(), "new".into()], false));
    assert_eq!((world.text("a").as_deref(), world.text("new").as_deref()), (Some("agent\n"), Some("new\n")));
    assert!(matches!(remove(&copy).unwrap(), WorktreeResult::Removed));
}

#[test]
fn nothing_behind_a_link_is_read_or_written() {
    let world = CopyFixture::new();
    let copy = world.create();
    let outside = world.root.join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("c"), "secret").unwrap();
    fs::remove_dir_all(copy.path.join("src/deep")).unwrap();
    symlink(&outside, copy.path.join("src/deep")).unwrap();
    fs::write(copy.path.join("a"), "agent\n").unwrap();
    fs::remove_file(world.main.join("a")).unwrap();
    symlink(outside.join("c"), world.main.join("a")).unwrap();
    let result = merged(&copy, AfterLanding::GoOn);
    assert_eq!(
        (result.files, result.refused),
        (vec!["src/deep".into(), "src/deep/c".into()], vec!["a".into()])
    );
    assert_eq!(fs::read_link(world.main.join("src/deep")).unwrap(), outside, "the link itself is taken");
    assert_eq!(fs::read_to_string(outside.join("c")).unwrap(), "secret");
}

#[test]
fn work_is_kept_until_it_is_discarded_and_then_moved_aside() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::write(copy.path.join("new"), "work").unwrap();
    fs::create_dir(copy.path.join("locked")).unwrap();
    assert!(matches!(remove(&copy).unwrap(), WorktreeResult::Found(found) if found.names == ["new"]));
    let WorktreeResult::Discarded(Some(kept)) = discard(&copy, Timestamp(7)).unwrap() else { panic!() };
    assert_eq!(fs::read_to_string(Path::new(&kept).join("new")).unwrap(), "work");
    assert!(
        !copy.path.exists()
            && matches!(discard(&copy, Timestamp(8)).unwrap(), WorktreeResult::Discarded(None))
    );
    // The name is free again.
    let again = world.create();
    fs::set_permissions(again.path.join("empty"), fs::Permissions::from_mode(0o500)).unwrap();
    assert!(matches!(discard(&again, Timestamp(9)).unwrap(), WorktreeResult::Discarded(None)));
}

#[test]
fn a_killed_operation_is_finished_by_the_next_one() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::write(copy.path.join("new"), "work").unwrap();
    // Killed after the copy was moved aside, before its base was deleted.
    let aside = copy.repository.join(RETIRED).join("one/5");
    fs::create_dir_all(aside.parent().unwrap()).unwrap();
    fs::rename(&copy.path, &aside).unwrap();
    let WorktreeResult::Discarded(Some(kept)) = discard(&copy, Timestamp(9)).unwrap() else { panic!() };
    assert_eq!(Path::new(&kept), aside);
    // Killed in the middle of a copy, and in the middle of a removal.
    let unfinished = hidden(&copy, "new");
    fs::create_dir_all(unfinished.join("half")).unwrap();
    let copy = world.create();
    assert!(!unfinished.exists());
    fs::rename(&copy.path, hidden(&copy, "removing")).unwrap();
    assert!(matches!(remove(&copy).unwrap(), WorktreeResult::Removed));
    assert!(!hidden(&copy, "removing").exists() && manifest::read(&copy).unwrap().is_none());
}

#[test]
fn files_of_git_stay_in_the_copy() {
    let world = CopyFixture::new();
    for folder in [".git", "src/.git"] {
        fs::create_dir(world.main.join(folder)).unwrap();
        fs::write(world.main.join(folder).join("config"), "user").unwrap();
    }
    let copy = world.create();
    fs::write(copy.path.join(".git/config"), "agent").unwrap();
    fs::remove_file(copy.path.join("src/.git/config")).unwrap();
    fs::write(copy.path.join("empty/.git"), "gitdir: /agent").unwrap();
    fs::write(copy.path.join(".gitignore"), "x").unwrap();
    let first = merged(&copy, AfterLanding::Remove);
    assert_eq!(first.files, [".gitignore"]);
    assert_eq!(first.refused, [".git/config", "empty/.git", "src/.git/config"]);
    fs::write(copy.path.join("a"), "agent").unwrap();
    let work = OperationContext::new(&[], WAITS);
    let WorktreeResult::Landed(landed) = land(&work, &copy, &landing(AfterLanding::Remove)).unwrap() else {
        panic!()
    };
    assert_eq!((landed.files, landed.worktree_removed), (vec!["a".to_owned()], false));
    for name in [".git/config", "src/.git/config"] {
        assert_eq!(world.text(name).as_deref(), Some("user"));
    }
    assert_eq!(world.text("empty/.git"), None);
}

#[test]
fn what_a_copy_leaves_out_does_not_come_back() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::create_dir(copy.path.join("state")).unwrap();
    fs::write(copy.path.join("state/planted"), "agent").unwrap();
    assert_eq!(merged(&copy, AfterLanding::GoOn).refused, ["state/planted"]);
    fs::remove_dir_all(copy.path.join("state")).unwrap();
    fs::remove_dir_all(world.main.join("state")).unwrap();
    symlink("/", copy.path.join("state")).unwrap();
    let second = merged(&copy, AfterLanding::GoOn);
    assert_eq!((second.files.len(), second.refused), (0, vec!["state".to_owned()]));
    assert!(world.main.join("state").symlink_metadata().is_err());
}

#[test]
fn copies_of_one_folder_are_merged_one_after_the_other() {
    let world = CopyFixture::new();
    let copy = world.create();
    let held = Lock::take(&copy.repository.join(".lock"), "land", WAITS.operation).unwrap();
    let hasty = WaitLimits { operation: Duration::from_millis(10), ..WAITS };
    let work = OperationContext::new(&[], hasty);
    assert_eq!(merge(&work, &copy, &landing(AfterLanding::Keep)).unwrap_err().code, Code::WorktreeBusy);
    drop(held);
    assert!(merged(&copy, AfterLanding::Keep).files.is_empty());
}

#[test]
fn an_absent_folder_is_neither_landed_nor_removed() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::rename(&copy.path, world.root.join("elsewhere")).unwrap();
    let work = OperationContext::new(&[], WAITS);
    assert_eq!(land(&work, &copy, &landing(AfterLanding::GoOn)).unwrap_err().code, Code::WorktreeNotFound);
    fs::rename(&copy.repository, world.root.join("unmounted")).unwrap();
    for operation in [
        Operation::Look { worktree: copy.clone() },
        Operation::Remove { worktree: copy.clone() },
        Operation::Merge { worktree: copy.clone(), landing: Box::new(landing(AfterLanding::Remove)) },
    ] {
        assert_eq!(answer(&work, &operation).unwrap().unwrap_err().code, Code::WorktreeNotFound);
    }
    assert!(!copy.repository.exists());
}

#[test]
fn a_copy_that_cannot_be_compared_is_moved_aside() {
    let world = CopyFixture::new();
    let copy = world.create();
    fs::write(hidden(&copy, "base"), "broken").unwrap();
    assert!(look(&copy).is_err());
    let WorktreeResult::Discarded(Some(kept)) = discard(&copy, Timestamp(7)).unwrap() else { panic!() };
    assert!(Path::new(&kept).join("a").exists() && !copy.path.exists());
}

#[test]
fn a_merge_deletes_and_writes_nothing_behind_a_link() {
    let world = CopyFixture::new();
    fs::create_dir(world.main.join("other")).unwrap();
    fs::write(world.main.join("other/c"), "c").unwrap();
    symlink("other", world.main.join("folder")).unwrap();
    assert!(super::super::land::finish::delete(&world.main, Path::new("folder/c")).is_err());
    let tree::At::Here(found) = tree::at(&world.main, Path::new("a")).unwrap() else { panic!() };
    assert!(make::put(found, &world.main, Path::new("folder/c")).is_err());
    assert_eq!(world.text("other/c").as_deref(), Some("c"));
}
