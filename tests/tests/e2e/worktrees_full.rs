//! Worktree operations on a full disk: each fails with `STORAGE_FULL` and advice, loses no byte,
//! and succeeds when it is repeated with space.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use subagent_tests::harness::{Faults, TestSandbox};

use super::look::git;

/// The disks that can be full: their paths below the world.
const DISKS: [&str; 3] = ["data/*", "ws/.git/*", "ws/*.txt*"];

/// A repository with one commit. While one of the returned files exists, that disk is full.
fn repository() -> (TestSandbox, Vec<PathBuf>) {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    for (key, value) in [("user.name", "me"), ("user.email", "me@example.com")] {
        git(&sandbox, &["config", key, value]);
    }
    fs::write(sandbox.workspace().join(".git/info/exclude"), ".subagent/\n").unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(sandbox.workspace().join(name), format!("first {name}\n")).unwrap();
    }
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-q", "-m", "first"]);
    let gates: Vec<PathBuf> = (0..DISKS.len()).map(|disk| sandbox.file(&format!("full-{disk}"))).collect();
    let root = sandbox.path().display().to_string();
    let rule = |path: &str, gate: &Path, op: &str| {
        format!("op={op};path={root}/{path};errno=ENOSPC;while={}", gate.display())
    };
    let rules: Vec<String> = DISKS
        .iter()
        .zip(&gates)
        .flat_map(|(path, gate)| ["write", "allocate", "room"].map(|op| rule(path, gate, op)))
        .collect();
    let _ = Faults::arm(&mut sandbox, &rules);
    preload_git(&mut sandbox, &rules.join("|"));
    (sandbox, gates)
}

/// Makes each git of the sandbox load the library: commands pass only git's variables on.
fn preload_git(sandbox: &mut TestSandbox, rules: &str) {
    let path = std::env::var_os("PATH").unwrap();
    let git =
        std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap();
    let program = sandbox.file("programs/git");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD='{}' FAULT_FS='{rules}' FAULT_FS_COUNTERS='{}'\nexec {} \"$@\"\n",
        sandbox.executable("libsubagent_fault_fs.so"),
        sandbox.file_name("counters"),
        git.display(),
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let folders = std::iter::once(sandbox.file("programs")).chain(std::env::split_paths(&path));
    sandbox.set_env("PATH", std::env::join_paths(folders).unwrap());
}

/// Returns the files of a folder without git's, by path.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != ".git" && entry.file_name() != ".subagent" {
                found.extend(bytes(&entry.path()));
            }
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Runs a command once for each of these disks while it is full. Each time it fails with advice, and
/// `kept` stays the same.
#[track_caller]
fn fails<T: PartialEq + std::fmt::Debug>(
    sandbox: &TestSandbox,
    disks: &[&PathBuf],
    command: &[&str],
    kept: impl Fn() -> T,
) {
    for full in disks {
        let before = kept();
        fs::write(full, "").unwrap();
        let output = sandbox.run(command);
        let document = output.document();
        // Git does not always name the reason of a failed write.
        let code = document["error"]["code"].as_str().unwrap_or_default();
        let code = if code == "GIT_FAILED" { code } else { "STORAGE_FULL" };
        let error = output.error(code);
        fs::remove_file(full).unwrap();
        let advice = error["details"]["recommendedAction"].as_str().unwrap_or_default();
        assert!(advice.starts_with("make room on the disk of "), "{command:?} {}: {error}", full.display());
        assert_eq!(kept(), before, "{command:?} {}", full.display());
    }
}

#[test]
fn a_full_disk_stops_each_worktree_operation_and_loses_nothing() {
    let (sandbox, disks) = repository();
    let [data, repository, work] = [&disks[0], &disks[1], &disks[2]];
    let workspace = sandbox.workspace();
    sandbox.init();
    let refs = || git(&sandbox, &["for-each-ref"]);
    let start = |name: &str| ["worker", "start", "demo", "--name", name, "--worktree"].map(str::to_owned);
    for (name, full) in [("auth", data), ("docs", repository)] {
        let command = start(name);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        fails(&sandbox, &[full], &command, || bytes(&workspace));
    }
    for name in ["auth", "docs"] {
        let _ = sandbox.run(&["worker", "restart", name]).data_of("worker.restarted");
        let shown = sandbox.run(&["worktree", "show", name]).data();
        assert_eq!(shown["state"], "ready", "{shown}");
        let tree = Path::new(shown["path"].as_str().unwrap());
        assert_eq!(fs::read_to_string(tree.join("a.txt")).unwrap(), "first a.txt\n");
    }
    let started = |name: &str| -> (String, PathBuf) {
        let data = sandbox.run(&start(name).each_ref().map(String::as_str)).data_of("worker.started");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&data["workerId"]), text(&data["worktree"]["path"]).into())
    };
    let (worker, tree) = started("api");
    let _ = sandbox.send(&worker, "!edit create a.txt changed");
    let _ = sandbox.send(&worker, "!edit create new.txt new");
    let both = || (bytes(&workspace), bytes(&tree), git(&sandbox, &["rev-parse", "main"]));
    fails(&sandbox, &[repository], &["land", "api"], both);
    // The branch moves before the files do. The next command writes the rest.
    let kept = || (bytes(&tree), fs::read(workspace.join("b.txt")).unwrap());
    fails(&sandbox, &[work], &["land", "api"], kept);
    assert_eq!(git(&sandbox, &["show", "main^:a.txt"]), "first a.txt\n");
    let landed = sandbox.run(&["land", "api"]).data_of("worktree.landed");
    assert_eq!(landed["into"], "main", "{landed}");
    for (name, text) in [("a.txt", "changed\n"), ("new.txt", "new\n")] {
        assert_eq!(fs::read_to_string(workspace.join(name)).unwrap(), text);
    }
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "2\n", "it has landed once");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    let _ = sandbox.send(&worker, "!edit create more.txt more");
    let _ = sandbox.run(&["stop", "api"]).data_of("worker.stopped");
    fails(&sandbox, &[repository], &["worktree", "discard", "api"], || (bytes(&tree), refs()));
    let _ = sandbox.run(&["worktree", "discard", "api"]).data();
    assert!(!tree.exists());
    let retired = git(&sandbox, &["for-each-ref", "--format=%(refname)", "refs/subagent/retired/api"]);
    let last = retired.lines().last().unwrap();
    assert_eq!(git(&sandbox, &["show", &format!("{last}:more.txt")]), "more\n");
    // Deleting needs no space.
    let (worker, tree) = started("clean");
    fs::write(repository, "").unwrap();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    fs::remove_file(repository).unwrap();
    assert_eq!(stopped["worktree"]["outcome"], "removed", "{stopped}");
    assert!(!tree.exists());
    sandbox.finish();
}
