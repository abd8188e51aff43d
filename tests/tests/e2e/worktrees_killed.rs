//! A worktree whose daemon dies at each step of its life: it is created once, landed
//! once, and completely removed.

use std::fs;
use std::path::PathBuf;

use subagent_tests::harness::{TestSandbox, crowd};

use super::look::git;
use super::sandbox::has_layers;

/// Each at its first pass; that of a landing also for a stopped worker.
const POINTS: [(&str, u32); 10] = [
    ("worktree_create.before_run", 1),
    ("worktree_create.before_commit", 1),
    ("land.after_begin", 1),
    ("land.before_commit", 1),
    ("worktree_end.before_run", 1),
    ("worktree_end.before_commit", 1),
    ("worktree_removed.before_commit", 1),
    ("command.before_start", 1),
    ("land.after_begin", 2),
    ("land.before_commit", 2),
];

#[test]
fn after_any_death_the_next_daemon_finishes_a_worktree() {
    let name = |(point, passing): &(&str, u32)| format!("{point}@{passing}");
    crowd("worktrees, abort", POINTS.len(), &POINTS, name, |(point, passing)| case(point, *passing));
}

/// A repository with one commit, and the file that exists as soon as a process has died at the point.
fn repository(point: &str, passing: u32) -> (TestSandbox, PathBuf) {
    let mut sandbox = TestSandbox::new();
    let reached = sandbox.file("reached");
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@{passing}"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &reached);
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    for (key, value) in [("user.name", "me"), ("user.email", "me@example.com")] {
        git(&sandbox, &["config", key, value]);
    }
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "first"]);
    (sandbox, reached)
}

fn case(point: &str, passing: u32) {
    let (sandbox, reached) = repository(point, passing);
    let start = sandbox.persist(&["worker", "start", "demo", "--name", "auth", "--worktree"]);
    let started = start.data_of("worker.started");
    let tree = started["worktree"]["path"].as_str().unwrap().to_owned();
    let worker = started["workerId"].as_str().unwrap();
    let _ = sandbox.manage(worker, "key-1", "!edit create a.txt a");
    let landed = sandbox.persist(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["into"], "main", "{landed}");
    assert_eq!(git(&sandbox, &["log", "--format=%s", "--name-only", "-1"]).matches("a.txt").count(), 1);
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "2\n", "it must have landed once");
    assert_eq!(fs::read_to_string(sandbox.workspace().join("a.txt")).unwrap(), "a\n");
    let _ = sandbox.manage(worker, "key-2", "!edit create b.txt b");
    let stopped = sandbox.persist(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "kept", "{stopped}");
    let landed = sandbox.persist(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!((&landed["into"], &landed["worktreeRemoved"]), (&"main".into(), &true.into()), "{landed}");
    assert_eq!(fs::read_to_string(sandbox.workspace().join("b.txt")).unwrap(), "b\n");
    let started = sandbox.persist(&["worker", "start", "demo", "--name", "docs", "--worktree"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.manage(&worker, "key-3", "!edit create c.txt c");
    sandbox.persist(&["stop", "docs"]).data_of("worker.stopped");
    let discard = sandbox.persist(&["worktree", "discard", "docs"]);
    if !discard.status.success() {
        // The first response was lost, and the worktree is gone.
        discard.error("WORKTREE_NOT_FOUND");
    }
    assert!(!std::path::Path::new(&tree).exists());
    assert_eq!(sandbox.persist(&["worktree", "list"]).data_of("worktree.listed")["count"], 0);
    assert!(git(&sandbox, &["for-each-ref", "refs/subagent/retired/docs"]).lines().count() >= 1);
    assert!(reached.exists(), "{point} was never reached");
    sandbox.finish();
}

/// The same for a worker in a sandbox, and for a merge.
const CONFINED: [(&str, u32); 6] = [
    ("worktree_create.before_commit", 1),
    ("land.before_commit", 1),
    ("merge.before_commit", 1),
    ("merge.before_commit", 2),
    ("worktree_end.before_run", 1),
    ("worktree_end.before_commit", 1),
];

#[test]
fn after_any_death_the_next_daemon_finishes_the_worktree_of_a_confined_worker() {
    if !has_layers() {
        return;
    }
    let name = |(point, passing): &(&str, u32)| format!("{point}@{passing}");
    crowd("confined worktrees, abort", CONFINED.len(), &CONFINED, name, |(point, passing)| {
        confined(point, *passing);
    });
}

fn confined(point: &str, passing: u32) {
    let (mut sandbox, reached) = repository(point, passing);
    fs::write(sandbox.workspace().join(".git/info/exclude"), ".subagent/\n").unwrap();
    fs::write(sandbox.workspace().join("mine.txt"), "mine\n").unwrap();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    let start = ["worker", "start", "sdk", "--name", "auth", "--sandbox", "isolated"];
    let started = sandbox.persist(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let tree = started["worktree"]["path"].as_str().unwrap().to_owned();
    let _ = sandbox.manage(worker, "key-1", "run echo a > a.txt");
    let landed = sandbox.persist(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["into"], "main", "{landed}");
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "2\n", "it must have landed once");
    let _ = sandbox.manage(worker, "key-2", "run echo b > b.txt; git add b.txt; git commit -qm b");
    let stopped = sandbox.persist(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "kept", "{stopped}");
    assert_eq!(fs::read_to_string(format!("{tree}/b.txt")).unwrap(), "b\n");
    let landed = sandbox.persist(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!((&landed["into"], &landed["worktreeRemoved"]), (&"main".into(), &true.into()), "{landed}");
    assert!(!std::path::Path::new(&tree).exists());
    let text = "run echo c > c.txt; git add c.txt; git commit -qm c";
    let task = ["task", "run", "--launcher", "sdk", "--sandbox", "isolated", "--name", "Fix", "--text", text];
    let task = sandbox.persist(&task).data();
    let merged = sandbox.persist(&["task", "merge", "Fix"]).data_of("worktree.merged");
    assert_eq!(merged["worktreeRemoved"], false, "{merged}");
    assert_eq!(fs::read_to_string(sandbox.workspace().join("c.txt")).unwrap(), "c\n");
    sandbox.persist(&["stop", task["taskId"].as_str().unwrap()]).data_of("worker.stopped");
    let merge = sandbox.persist(&["task", "merge", "Fix"]);
    if !merge.status.success() {
        // The first response was lost, and the worktree is gone.
        merge.error("WORKTREE_NOT_FOUND");
    }
    assert_eq!(sandbox.persist(&["worktree", "list"]).data_of("worktree.listed")["count"], 0);
    assert_eq!(git(&sandbox, &["branch", "--format=%(refname:short)"]), "main\n");
    assert!(reached.exists(), "{point} was never reached");
    sandbox.finish();
}

/// The same for a task that writes its files back.
const WRITING_BACK: [(&str, u32); 4] = [
    ("write_back.before_run", 1),
    ("land.after_begin", 1),
    ("merge.before_commit", 1),
    ("task_end.before_commit", 1),
];

#[test]
fn after_any_death_the_next_daemon_writes_the_files_of_a_task_back() {
    let name = |(point, passing): &(&str, u32)| format!("{point}@{passing}");
    crowd("write-back, abort", WRITING_BACK.len(), &WRITING_BACK, name, |(point, passing)| {
        writes_back(point, *passing);
    });
}

fn writes_back(point: &str, passing: u32) {
    let (sandbox, reached) = repository(point, passing);
    let agents = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&agents).unwrap();
    let definition = "---\ndescription: d\nlauncher: demo\nisolation: worktree\nwriteBack: auto\n---\n";
    fs::write(agents.join("writer.md"), definition).unwrap();
    let task = ["task", "run", "--agent", "writer", "--name", "Fix", "--text", "!edit create a.txt a"];
    let task = sandbox.persist(&task).data();
    assert_eq!(
        (&task["merge"]["outcome"], &task["merge"]["files"]),
        (&"merged".into(), &["a.txt"].as_slice().into()),
        "{task}"
    );
    assert_eq!(fs::read_to_string(sandbox.workspace().join("a.txt")).unwrap(), "a\n");
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "1\n", "nothing is committed");
    sandbox.persist(&["stop", task["taskId"].as_str().unwrap()]).data_of("worker.stopped");
    assert!(reached.exists(), "{point} was never reached");
    sandbox.finish();
}
