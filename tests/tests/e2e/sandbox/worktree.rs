//! Workers in a sandbox and in their own worktree.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::super::look::git;
use super::world::{Confinement, has_layers, world};

/// A repository with a commit, and the launcher `sdk` whose agent runs the
/// commands in its messages.
fn repository(layers: Confinement) -> TestSandbox {
    let sandbox = committed(layers);
    sandbox.init();
    sandbox
}

/// The same before its controller exists.
pub(super) fn committed(layers: Confinement) -> TestSandbox {
    let mut sandbox = world(layers);
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    for (key, value) in [("user.name", "me"), ("user.email", "me@example.com")] {
        git(&sandbox, &["config", key, value]);
    }
    let ws = sandbox.workspace();
    fs::write(ws.join(".git/info/exclude"), ".subagent/\ntargets.json\nignored\n").unwrap();
    fs::write(ws.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    sandbox
}

pub(super) fn start(sandbox: &TestSandbox, name: &str, more: &[&str]) -> Value {
    let args = ["worker", "start", "sdk", "--name", name, "--worktree", "--sandbox", "shared_rw"];
    sandbox.run(&[&args[..], more].concat()).data_of("worker.started")
}

fn tree(started: &Value) -> PathBuf {
    PathBuf::from(started["worktree"]["path"].as_str().unwrap())
}

fn says(sandbox: &TestSandbox, worker: &str, line: &str) -> String {
    sandbox.send(worker, &format!("run {line}"))["assistantText"].as_str().unwrap().to_owned()
}

fn works(sandbox: &TestSandbox, worker: &str, line: &str) -> String {
    let said = says(sandbox, worker, line);
    assert!(said.starts_with("exit Some(0)"), "{line}: {said}");
    said
}

fn fails(sandbox: &TestSandbox, worker: &str, line: &str) {
    let said = says(sandbox, worker, line);
    assert!(said.starts_with("exit Some(") && !said.starts_with("exit Some(0)"), "{line}: {said}");
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn git_works_in_a_confined_worktree_and_the_main_repository_is_out_of_reach() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let sandbox = repository(layers);
        let other = start(&sandbox, "other", &[]);
        let started = start(&sandbox, "auth", &[]);
        let worker = started["workerId"].as_str().unwrap();
        let (ws, path) = (sandbox.workspace(), tree(&started));
        assert_eq!(started["sandbox"]["write"], json!([path]), "{started}");
        for line in [
            "git status",
            "echo new > b.txt && git add b.txt && git commit -qm second",
            "git log --oneline main..HEAD",
            "git diff main --stat",
            "echo changed >> a.txt && git stash && git stash pop",
            "git checkout -qb aside && git checkout -q subagent/auth && git branch -d aside",
            "git tag mine && git gc -q",
        ] {
            let _ = works(&sandbox, worker, line);
        }
        let main = ws.join(".git");
        let of_main = |name: &str| main.join(name).display().to_string();
        let elsewhere = tree(&other).join("a.txt").display().to_string();
        let before = super::world::contents(std::slice::from_ref(&main));
        for line in [
            format!("echo x >> {}", of_main("config")),
            format!("echo x > {}", of_main("hooks/pre-commit")),
            format!("echo x >> {}", of_main("info/exclude")),
            format!("echo x > {}", of_main("refs/heads/planted")),
            format!("echo x > {}", of_main("objects/planted")),
            format!("git -C {} commit --allow-empty -m planted", ws.display()),
            format!("git -C {} branch planted", ws.display()),
            format!("git push {} HEAD:refs/heads/planted", main.display()),
            format!("echo x >> {}", ws.join("a.txt").display()),
            format!("cat {elsewhere}"),
            format!("echo x >> {elsewhere}"),
        ] {
            fails(&sandbox, worker, &line);
        }
        assert_eq!(super::world::contents(&[main]), before, "{layers:?}");
        let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
        assert_eq!(landed["files"], json!(["a.txt", "b.txt"]), "{landed}");
        assert_eq!(text(&ws.join("b.txt")), "new\n");
        // It continues at the landed commit.
        let said = works(&sandbox, worker, "git status --porcelain && git log --format=%s -1");
        assert_eq!(said.trim(), "exit Some(0) Work of auth");
        let _ = works(&sandbox, worker, "echo more > c.txt");
        let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
        assert_eq!(stopped["worktree"]["contents"]["uncommitted"], 1, "{stopped}");
        sandbox.run(&["worktree", "remove", "auth"]).error("WORKTREE_HAS_WORK");
        let patch = sandbox.file("patch");
        let _ = sandbox.run(&["land", "auth", "--patch", patch.to_str().unwrap()]).data();
        assert!(text(&patch).contains("+more"));
        let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
        assert_eq!((&landed["files"], &landed["worktreeRemoved"]), (&json!(["c.txt"]), &json!(true)));
        assert!(!path.exists());
        let stopped = sandbox.run(&["stop", "other"]).data_of("worker.stopped");
        assert_eq!(stopped["worktree"]["outcome"], "removed", "{stopped}");
        assert_eq!(git(&sandbox, &["branch", "--format=%(refname:short)"]), "main\n");
        sandbox.finish();
    }
}

#[test]
fn what_an_agent_leaves_in_its_repository_runs_in_its_sandbox_only() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let sandbox = repository(layers);
        let started = start(&sandbox, "auth", &[]);
        let worker = started["workerId"].as_str().unwrap();
        let out = sandbox.file("outside/planted");
        // Each of them is run by a git that reads or serves the folder.
        let plant = format!("touch {}; cat", out.display());
        let _ = works(&sandbox, worker, &format!("git config filter.x.clean '{plant}'"));
        let _ = works(&sandbox, worker, &format!("git config filter.x.smudge '{plant}'"));
        let _ =
            works(&sandbox, worker, &format!("git config core.fsmonitor 'touch {}; false'", out.display()));
        let _ = works(&sandbox, worker, &format!("git config uploadpack.packObjectsHook '{plant}'"));
        let _ = works(&sandbox, worker, "echo '* filter=x' > .gitattributes; echo b > b.txt");
        let check = format!("test -e b.txt && ! touch {}", out.display());
        let landed = sandbox.run(&["land", "auth", "--check", &check]).data_of("worktree.landed");
        assert_eq!(landed["files"], json!([".gitattributes", "b.txt"]), "{landed}");
        let _ =
            works(&sandbox, worker, "echo c > c.txt; git add c.txt; echo d > d.txt; rm -rf .git/refs/tags");
        let _ = sandbox.run(&["worktree", "setup", "auth"]).data();
        let _ = sandbox.run(&["stop", "auth"]).data();
        let discarded = sandbox.run(&["worktree", "discard", "auth"]).data();
        let kept = discarded["retired"].as_str().unwrap();
        assert_eq!(git(&sandbox, &["show", &format!("{kept}:d.txt")]), "d\n");
        assert!(!out.exists(), "{layers:?}");
        // A worktree whose repository cannot be read stays, with all its content.
        let started = start(&sandbox, "broken", &[]);
        let worker = started["workerId"].as_str().unwrap();
        let _ = works(&sandbox, worker, "echo d > d.txt; rm -rf .git/objects .git/HEAD");
        let _ = sandbox.run(&["stop", "broken"]).data();
        assert!(!sandbox.run(&["worktree", "discard", "broken"]).status.success());
        assert_eq!(text(&tree(&started).join("d.txt")), "d\n");
        sandbox.finish();
    }
}

#[test]
fn conflicts_and_continuations_are_those_of_any_worktree() {
    if !has_layers() {
        return;
    }
    let sandbox = repository(Confinement::Both);
    let started = start(&sandbox, "auth", &[]);
    let worker = started["workerId"].as_str().unwrap();
    let _ = works(&sandbox, worker, "echo theirs > a.txt");
    fs::write(sandbox.workspace().join("a.txt"), "mine\n").unwrap();
    git(&sandbox, &["commit", "-qam", "mine"]);
    let conflict = sandbox.run(&["land", "auth"]).error("LAND_CONFLICT");
    assert_eq!(conflict["details"]["files"], json!(["a.txt"]), "{conflict}");
    // Its agent merges the target's present commit.
    fails(&sandbox, worker, "git merge main");
    let _ = works(&sandbox, worker, "echo both > a.txt && git commit -qam merged");
    let continued = sandbox.run(&["worker", "continue", "--from-worker", worker]).data_of("worker.continued");
    let next = continued["worker"]["workerId"].as_str().unwrap();
    assert_eq!(continued["worker"]["sandbox"]["write"], json!([tree(&started)]), "{continued}");
    let _ = sandbox.run(&["stop", worker]).data();
    let _ = sandbox.run(&["wait", next]).data();
    let landed = sandbox.run(&["land", "auth", "--merge"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["a.txt"]));
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "both\n");
    let _ = sandbox.run(&["stop", next]).data();
    let read_only = ["worker", "start", "sdk", "--worktree", "--sandbox", "shared_ro"];
    let refused = sandbox.run(&read_only).error("SANDBOX_UNAVAILABLE");
    assert_eq!(refused["details"]["missing"], "worktree", "{refused}");
    sandbox.finish();
}

#[test]
fn an_isolated_worker_changes_a_copy_with_the_changes_of_the_workspace() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let sandbox = repository(layers);
        let ws = sandbox.workspace();
        fs::write(ws.join("a.txt"), "mine\ntwo\nthree\n").unwrap();
        fs::write(ws.join("new.txt"), "mine\n").unwrap();
        let started = sandbox
            .run(&["worker", "start", "sdk", "--name", "auth", "--sandbox", "isolated"])
            .data_of("worker.started");
        let worker = started["workerId"].as_str().unwrap();
        assert_eq!(started["sandbox"]["filesystem"], "isolated", "{started}");
        assert_eq!(started["sandbox"]["write"], json!([tree(&started)]), "{started}");
        let _ =
            works(&sandbox, worker, "cat new.txt && echo b > b.txt && git add b.txt && git commit -qm work");
        fails(&sandbox, worker, &format!("echo x > {}", ws.join("x").display()));
        assert!(!ws.join("b.txt").exists());
        let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
        assert_eq!(landed["files"], json!(["b.txt"]), "{landed}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), " M a.txt\n?? new.txt\n");
        let _ = sandbox.run(&["stop", "auth"]).data();
        // A definition and a task request it too.
        fs::create_dir_all(ws.join(".claude/agents")).unwrap();
        let definition = "---\ndescription: d\nlauncher: sdk\nfilesystem: isolated\n---\nWrite.\n";
        fs::write(ws.join(".claude/agents/writer.md"), definition).unwrap();
        let task = sandbox.run(&["task", "run", "--agent", "writer", "--text", "run echo t > t.txt"]).data();
        let id = task["task"]["taskId"].as_str().or(task["taskId"].as_str()).unwrap().to_owned();
        let shown = sandbox.run(&["worktree", "show", &id]).data_of("worktree.shown");
        assert_eq!(shown["contents"]["uncommitted"], 1, "{shown}");
        assert!(!ws.join("t.txt").exists());
        let landed = sandbox.run(&["land", &id]).data_of("worktree.landed");
        assert_eq!(landed["files"], json!(["t.txt"]), "{landed}");
        sandbox.finish();
    }
}

#[test]
fn the_changes_of_a_task_are_merged_file_by_file() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let sandbox = repository(layers);
        let ws = sandbox.workspace();
        fs::write(ws.join("gone.txt"), "gone\n").unwrap();
        fs::create_dir_all(ws.join(".claude/agents")).unwrap();
        let definition = "---\ndescription: d\nlauncher: sdk\nfilesystem: isolated\n---\nWrite.\n";
        fs::write(ws.join(".claude/agents/writer.md"), definition).unwrap();
        let work = "echo theirs > a.txt; rm gone.txt; git add -A; git commit -qm work; echo b > b.txt";
        let prompt = format!("run {work}; echo x > ignored");
        let args = ["task", "run", "--agent", "writer", "--name", "Fix", "--text", &prompt];
        let task = sandbox.run(&args).data();
        assert_eq!(task["worktree"]["contents"]["names"], json!(["a.txt", "b.txt", "gone.txt"]), "{task}");
        fs::write(ws.join("a.txt"), "mine\n").unwrap();
        let refused = sandbox.run(&["task", "merge", "Fix"]).error("LAND_CONFLICT");
        assert_eq!(refused["details"]["files"], json!(["a.txt"]), "{refused}");
        assert_eq!(refused["details"]["merged"], json!(["b.txt", "gone.txt"]), "{refused}");
        assert_eq!((text_of(&ws, "a.txt"), text_of(&ws, "b.txt")), ("mine\n".into(), "b\n".into()));
        assert!(!ws.join("gone.txt").exists() && !ws.join("ignored").exists());
        // Merged content no longer counts: the owner may change it.
        fs::write(ws.join("b.txt"), "mine\n").unwrap();
        sandbox.run(&["task", "merge", "Fix"]).error("LAND_CONFLICT");
        fs::write(ws.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
        assert_eq!(merged["files"], json!(["a.txt"]), "{merged}");
        assert_eq!((text_of(&ws, "a.txt"), text_of(&ws, "b.txt")), ("theirs\n".into(), "mine\n".into()));
        assert_eq!(git(&sandbox, &["log", "--format=%s"]), "first\n", "nothing is committed");
        let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
        assert_eq!((&merged["files"], &merged["worktreeRemoved"]), (&json!([]), &json!(false)));
        let _ = sandbox.run(&["stop", task["taskId"].as_str().unwrap()]).data();
        fs::remove_file(Path::new(task["worktree"]["path"].as_str().unwrap()).join("ignored")).unwrap();
        let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
        assert_eq!(merged["worktreeRemoved"], true, "{merged}");
        let kept = merged["retired"].as_str().unwrap();
        assert!(git(&sandbox, &["log", "--format=%s", kept]).contains("work\n"));
        sandbox.run(&["task", "merge", "Fix"]).error("WORKTREE_NOT_FOUND");
        sandbox.finish();
    }
}

fn text_of(folder: &Path, name: &str) -> String {
    text(&folder.join(name))
}

#[test]
fn an_isolated_worker_lands_file_by_file() {
    if !has_layers() {
        return;
    }
    let sandbox = repository(Confinement::Both);
    let file = sandbox.file("ws/lines.txt");
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    let commit = |text: String| {
        fs::write(&file, text).unwrap();
        git(&sandbox, &["add", "lines.txt"]);
        git(&sandbox, &["commit", "-qm", "lines"]);
    };
    commit(lines("1", "9"));
    for (name, flags) in [("apart", &["--sandbox", "isolated"][..]), ("shared", &["--worktree"])] {
        let start = [&["worker", "start", "sdk", "--name", name], flags].concat();
        let _ = sandbox.run(&start).data_of("worker.started");
        let _ = works(&sandbox, name, "sed -i s/1/one/ lines.txt && echo x > new.txt");
    }
    // Another line of the same file.
    commit(lines("1", "nine"));
    let refused = sandbox.run(&["land", "apart"]).error("LAND_CONFLICT");
    assert_eq!(refused["details"]["files"], json!(["lines.txt"]), "{refused}");
    assert!(!sandbox.file("ws/new.txt").exists());
    let _ = sandbox.run(&["land", "shared"]).data_of("worktree.landed");
    assert_eq!(fs::read_to_string(&file).unwrap(), lines("one", "nine"), "a worktree lands by lines");
    let _ = sandbox.run(&["stop", "apart", "shared"]).data();
    sandbox.finish();
}
