//! The requests that change worktrees, each with its own worktree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::Post;

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// A worktree: its name and its folder.
fn worktree(sandbox: &TestSandbox, number: usize) -> (String, PathBuf) {
    let workspace = sandbox.workspace();
    if !workspace.join(".git").exists() {
        git(&workspace, &["init", "-q", "-b", "main", "."]);
        git(&workspace, &["config", "user.name", "me"]);
        git(&workspace, &["config", "user.email", "me@example.com"]);
        git(&workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
    }
    let name = format!("tree-{number}");
    let start = ["worker", "start", "demo", "--name", &name, "--worktree"];
    let started = sandbox.run(&start).data_of("worker.started");
    (name, PathBuf::from(started["worktree"]["path"].as_str().unwrap()))
}

/// A worktree with work and a stopped worker.
fn kept(sandbox: &TestSandbox, number: usize) -> (String, PathBuf) {
    let (name, path) = worktree(sandbox, number);
    fs::write(path.join(format!("{name}.txt")), &name).unwrap();
    sandbox.run(&["worker", "stop", &name]).data_of("worker.stopped");
    (name, path)
}

/// Returns the request to this path.
pub(super) fn prepare(sandbox: &TestSandbox, path: &str, number: usize) -> Post {
    let env: Vec<Value> = Vec::new();
    let gone = "SELECT count(*) FROM events WHERE type IN ('worktree.removed', 'worktree.retired')";
    match path {
        "/v1/worktrees/{worktree}/land" => {
            let (name, _) = kept(sandbox, number);
            Post::new(
                "/v1/worktrees/{worktree}/land",
                &format!("/v1/worktrees/{name}/land"),
                json!({"env": env}),
                &[],
                "SELECT count(*) FROM events WHERE type = 'worktree.landed'",
            )
        }
        "/v1/worktrees/{worktree}/merge" => {
            let (name, _) = kept(sandbox, number);
            let target = format!("/v1/worktrees/{name}/merge");
            Post::new("/v1/worktrees/{worktree}/merge", &target, json!({"env": env}), &[], gone)
        }
        "/v1/worktrees/{worktree}/discard" => {
            let (name, _) = kept(sandbox, number);
            let target = format!("/v1/worktrees/{name}/discard");
            Post::new("/v1/worktrees/{worktree}/discard", &target, json!({"env": env}), &[], gone)
        }
        "/v1/worktrees/{worktree}/remove" => {
            let (name, path) = kept(sandbox, number);
            fs::remove_file(path.join(format!("{name}.txt"))).unwrap();
            let target = format!("/v1/worktrees/{name}/remove");
            Post::new("/v1/worktrees/{worktree}/remove", &target, json!({"env": env}), &[], gone)
        }
        "/v1/worktrees/prune" => {
            let (name, path) = kept(sandbox, number);
            fs::remove_file(path.join(format!("{name}.txt"))).unwrap();
            Post::new("/v1/worktrees/prune", "/v1/worktrees/prune", json!({"env": env}), &[], gone)
        }
        path => panic!("{path} has an effect and is not tested: add its request"),
    }
}
