//! Copies of a workspace without git: `isolation: copy` and `filesystem: isolated`.

use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::sandbox::has_layers;

#[test]
fn a_worker_has_a_copy_and_its_files_are_landed() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&[]).key("isolation", json!("copy"));
    sandbox.launcher("copied", agent);
    sandbox.init();
    fs::write(sandbox.file("ws/a.txt"), "a\n").unwrap();
    let started =
        sandbox.run(&["worker", "start", "--launcher", "copied", "--name", "one"]).data_of("worker.started");
    let worktree = &started["worktree"];
    assert!(worktree["copied"].is_object() && worktree["branch"] == "", "{started}");
    let path = std::path::PathBuf::from(worktree["path"].as_str().unwrap());
    assert_eq!(started["cwd"], worktree["path"]);
    assert!(path.join("a.txt").exists() && !path.join(".subagent/state").exists(), "{started}");
    let _ = sandbox.run(&["send", "one", "!edit create new.txt new"]).data();
    let _ = sandbox.run(&["send", "one", "!edit create a.txt agent"]).data();
    assert!(!sandbox.file("ws/new.txt").exists());
    fs::write(sandbox.file("ws/a.txt"), "user\n").unwrap();
    let diff = sandbox.run(&["worktree", "diff", "one"]).data_of("worker.diff");
    assert_eq!((&diff["source"], &diff["base"]), (&json!("copy"), &json!(null)), "{diff}");
    let paths: Vec<_> = diff["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["a.txt", "new.txt"], "{diff}");
    assert!(diff["files"][0]["patch"].as_str().unwrap().contains("\n-user\n+agent\n"), "{diff}");
    let file = sandbox.file_name("one.patch");
    let _ = sandbox.run(&["land", "one", "--patch", &file]).data_of("worktree.patch");
    assert!(fs::read_to_string(&file).unwrap().contains("+++ b/new.txt"));
    let refused = sandbox.run(&["land", "one"]).error("LAND_CONFLICT");
    assert_eq!(refused["details"]["files"], json!(["a.txt"]), "{refused}");
    assert!(!sandbox.file("ws/new.txt").exists());
    fs::write(sandbox.file("ws/a.txt"), "a\n").unwrap();
    let landed = sandbox.run(&["land", "one"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["a.txt", "new.txt"]), "{landed}");
    assert!(fs::read_to_string(sandbox.file("ws/new.txt")).unwrap().starts_with("new"));
    let _ = sandbox.run(&["send", "one", "!edit create more.txt more"]).data();
    let stopped = sandbox.run(&["stop", "one"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "kept", "{stopped}");
    sandbox.run(&["worktree", "remove", "one"]).error("WORKTREE_HAS_WORK");
    let discarded = sandbox.run(&["worktree", "discard", "one"]).data();
    let kept = std::path::PathBuf::from(discarded["retired"].as_str().unwrap());
    assert!(kept.join("more.txt").exists() && !path.exists(), "{discarded}");
    let young = sandbox.run(&["worktree", "prune", "--retired", "1d"]).data_of("worktree.pruned");
    assert_eq!((&young["keptCopies"], &young["deletedCopies"]), (&json!([kept]), &json!([])), "{young}");
    // Times have whole seconds.
    let old = wait_until("the copy to be old enough", Duration::from_secs(10), || {
        let pruned = sandbox.run(&["worktree", "prune", "--retired", "0s"]).data_of("worktree.pruned");
        (pruned["keptCopies"] == json!([])).then_some(pruned)
    });
    assert_eq!(old["deletedCopies"], json!([kept]), "{old}");
    assert!(!kept.exists());
    sandbox.finish();
}

#[test]
fn an_isolated_agent_has_a_copy_where_there_is_no_git() {
    if !has_layers() {
        return;
    }
    let mut sandbox = TestSandbox::new();
    let profile = json!({"filesystem": "isolated", "write": ["../sessions", "../pids"]});
    let agent = sandbox.demo_agent(&[]).key("sandbox", profile);
    sandbox.launcher("isolated", agent);
    sandbox.init();
    fs::write(sandbox.file("ws/a.txt"), "a\n").unwrap();
    let start = ["worker", "start", "--launcher", "isolated", "--name", "one"];
    let started = sandbox.run(&start).data_of("worker.started");
    assert!(started["worktree"]["copied"].is_object(), "{started}");
    assert!(!started["sandbox"]["write"].as_array().unwrap().contains(&json!(sandbox.file("ws"))));
    let _ = sandbox.run(&["send", "one", "!edit create new.txt new"]).data();
    let _ = sandbox.run(&["stop", "one"]).data_of("worker.stopped");
    assert!(!sandbox.file("ws/new.txt").exists());
    let landed = sandbox.run(&["land", "one"]).data_of("worktree.landed");
    assert_eq!(
        (&landed["files"], &landed["worktreeRemoved"]),
        (&json!(["new.txt"]), &json!(true)),
        "{landed}"
    );
    assert!(sandbox.file("ws/new.txt").exists());
    let file = sandbox.config_file();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("worktrees:\n  copyLimit: 1\n{text}")).unwrap();
    let refused = sandbox.run(&start).error("WORKTREE_NEEDS_GIT");
    assert_eq!(
        (&refused["details"]["reason"], &refused["details"]["limit"]),
        (&json!("copyTooLarge"), &json!(1))
    );
    sandbox.finish();
}
