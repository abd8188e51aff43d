//! Workers in git worktrees: created at their start, removed at their end unless
//! they contain work, landed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::look::git;

/// A repository with one commit and a git identity.
pub(super) fn repository() -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    git(&sandbox, &["config", "user.name", "me"]);
    git(&sandbox, &["config", "user.email", "me@example.com"]);
    write(&sandbox.workspace(), ".git/info/exclude", ".subagent/\n");
    write(&sandbox.workspace(), "a.txt", "one\ntwo\nthree\n");
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    sandbox
}

/// Adds keys to the config.
fn configure(sandbox: &TestSandbox, keys: &Value) {
    let file = sandbox.config_file();
    let lines = keys.as_object().unwrap().iter().map(|(key, value)| format!("{key}: {value}\n"));
    let added: String = lines.collect();
    fs::write(&file, text(&file) + &added).unwrap();
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Starts a worker in a worktree. Returns the data of its start.
fn start(sandbox: &TestSandbox, name: &str, more: &[&str]) -> Value {
    let args = ["worker", "start", "demo", "--name", name, "--worktree"];
    sandbox.run(&[&args[..], more].concat()).data_of("worker.started")
}

fn path(data: &Value) -> PathBuf {
    PathBuf::from(data["worktree"]["path"].as_str().unwrap())
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(sandbox: &TestSandbox) -> Vec<String> {
    let listed = sandbox.run(&["worktree", "list"]).data_of("worktree.listed");
    let items = listed["items"].as_array().unwrap().iter();
    items
        .map(|item| format!("{} {}", item["name"].as_str().unwrap(), item["state"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_worker_works_in_its_worktree_and_lands_where_that_came_from() {
    let sandbox = repository();
    write(&sandbox.workspace(), "mine.txt", "mine");
    let started = start(&sandbox, "auth", &[]);
    let tree = path(&started);
    assert!(tree.starts_with(sandbox.file("data")), "{started}");
    assert_eq!(started["cwd"], tree.to_str().unwrap());
    assert_eq!(started["worktree"]["branch"], "subagent/auth");
    assert_eq!(started["worktree"]["sourceBranch"], "main");
    assert!(!tree.join("mine.txt").exists(), "uncommitted changes must stay behind");
    let _ = sandbox.run(&["send", "auth", "!edit replace a.txt 2 TWO\n!edit create new/b.txt new"]).data();
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "one\ntwo\nthree\n", "the main tree is untouched");
    assert_eq!(text(&tree.join("a.txt")), "one\nTWO\nthree\n");
    let shown = sandbox.run(&["worktree", "show", "auth"]).data_of("worktree.shown");
    let counts = ["files", "added", "removed", "uncommitted"].map(|key| shown["contents"][key].clone());
    assert_eq!(counts, [2, 2, 1, 2].map(|number| json!(number)), "{shown}");
    assert_eq!(names(&sandbox), ["auth ready"]);

    let landed = sandbox.run(&["land", "auth", "--message", "Make it loud"]).data_of("worktree.landed");
    assert_eq!(landed["into"], "main");
    assert_eq!(landed["files"], json!(["a.txt", "new/b.txt"]));
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "one\nTWO\nthree\n");
    assert_eq!(text(&sandbox.workspace().join("mine.txt")), "mine");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "?? mine.txt\n");
    let message = git(&sandbox, &["log", "-1", "--format=%an%n%B"]);
    let worker = started["workerId"].as_str().unwrap();
    let expected = format!("me\nMake it loud\n\nSubagent: auth, demo, {worker}\n");
    assert_eq!(message.trim_end(), expected.trim_end());
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "2\n", "one commit for all");

    // The worker lives, and continues from the landed commit.
    let _ = sandbox.run(&["send", "auth", "!edit replace a.txt 3 THREE"]).data();
    let again = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(again["files"], json!(["a.txt"]));
    let nothing = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!((&nothing["files"], &nothing["commit"]), (&json!([]), &again["commit"]));
    let types: Vec<Value> =
        sandbox.events(worker).into_iter().map(|mut event| event["type"].take()).collect();
    for expected in ["worktree.created", "worktree.landed"] {
        assert!(types.contains(&json!(expected)), "{types:?}");
    }
    // It contains no more changes.
    let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"], json!({"outcome": "removed", "name": "auth"}));
    assert!(!tree.exists());
    assert!(!git(&sandbox, &["for-each-ref", "refs/heads"]).contains("subagent/auth"));
    sandbox.finish();
}

#[test]
fn work_outlives_its_worker_until_it_is_landed_or_discarded() {
    is_kept_until_it_is_landed_or_discarded(repository());
}

/// The distribution's git is often older than the first one in the PATH.
#[test]
fn work_is_kept_and_landed_with_the_git_of_the_system() {
    let mut sandbox = repository();
    sandbox.set_env("PATH", "/usr/bin:/bin");
    is_kept_until_it_is_landed_or_discarded(sandbox);
}

fn is_kept_until_it_is_landed_or_discarded(sandbox: TestSandbox) {
    let (kept, gone) = (start(&sandbox, "kept", &[]), start(&sandbox, "gone", &[]));
    for name in ["kept", "gone"] {
        let _ = sandbox.run(&["send", name, &format!("!edit create {name}.txt {name}")]).data();
        let stopped = sandbox.run(&["stop", name]).data_of("worker.stopped");
        assert_eq!(
            (&stopped["worktree"]["outcome"], &stopped["worktree"]["state"]),
            (&json!("kept"), &json!("kept"))
        );
        let refused = sandbox.run(&["worktree", "remove", name]).error("WORKTREE_HAS_WORK");
        assert_eq!(refused["details"]["contents"]["uncommitted"], 1, "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.ends_with("has work: 1 uncommitted file"), "{message}");
        sandbox.run(&["worker", "rm", name]).data_of("worker.removed");
    }
    assert_eq!(names(&sandbox), ["gone kept", "kept kept"], "also after the removal of their workers");
    let pruned = sandbox.run(&["worktree", "prune"]).data_of("worktree.pruned");
    assert_eq!((&pruned["removed"], pruned["kept"].as_array().unwrap().len()), (&json!([]), 2), "{pruned}");

    let landed = sandbox.run(&["land", "kept"]).data_of("worktree.landed");
    assert_eq!((&landed["worktreeRemoved"], &landed["files"]), (&json!(true), &json!(["kept.txt"])));
    assert!(!path(&kept).exists());
    assert_eq!(text(&sandbox.workspace().join("kept.txt")), "kept\n");
    let trailer = git(&sandbox, &["log", "-1", "--format=%(trailers:key=Subagent,valueonly)"]);
    assert_eq!(trailer.trim(), format!("kept, {}", kept["workerId"].as_str().unwrap()));

    let discarded = sandbox.run(&["worktree", "discard", "gone"]).data_of("worktree.discarded");
    assert!(!path(&gone).exists());
    let retired = discarded["retired"].as_str().unwrap();
    assert!(retired.starts_with("refs/subagent/retired/gone/"), "{discarded}");
    assert_eq!(git(&sandbox, &["show", &format!("{retired}:gone.txt")]), "gone\n");
    assert_eq!(names(&sandbox), [""; 0]);
    sandbox.run(&["worktree", "show", "gone"]).error("WORKTREE_NOT_FOUND");

    // A ref has its time in seconds: it is older in the next one.
    wait_until("the ref to be old enough", Duration::from_secs(20), || {
        sandbox.run(&["worktree", "prune", "--retired", "0s"]).data_of("worktree.pruned");
        git(&sandbox, &["for-each-ref", "refs/subagent"]).is_empty().then_some(())
    });
    sandbox.finish();
}

#[test]
fn a_landing_that_cannot_be_changes_nothing() {
    let sandbox = repository();
    let started = start(&sandbox, "auth", &[]);
    let _ = sandbox.run(&["send", "auth", "!edit replace a.txt 2 TWO"]).data();
    // The user's uncommitted changes there.
    write(&sandbox.workspace(), "a.txt", "one\ntwo\nthree and mine\n");
    let refused = sandbox.run(&["land", "auth"]).error("LAND_REFUSED");
    assert_eq!(
        (&refused["details"]["reason"], &refused["details"]["files"]),
        (&json!("dirty"), &json!(["a.txt"]))
    );
    // The same lines.
    write(&sandbox.workspace(), "a.txt", "one\n2\nthree\n");
    git(&sandbox, &["commit", "-qam", "second"]);
    let head = git(&sandbox, &["rev-parse", "HEAD"]);
    let refused = sandbox.run(&["land", "auth"]).error("LAND_CONFLICT");
    assert_eq!(refused["details"]["files"], json!(["a.txt"]), "{refused}");
    assert_eq!(git(&sandbox, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    let events = sandbox.events(started["workerId"].as_str().unwrap());
    let conflict = events.iter().find(|event| event["type"] == "worktree.conflict").unwrap();
    assert_eq!(conflict["data"], json!({"name": "auth", "into": "main", "files": ["a.txt"]}));
    // Not while it works.
    let pause = sandbox.gate("pause");
    let _ = sandbox.send_no_wait(started["workerId"].as_str().unwrap(), &pause.directive());
    let busy = sandbox.run(&["land", "auth"]).error("WORKTREE_BUSY");
    assert_eq!(busy["details"]["reason"], "turn");
    pause.open();
    sandbox.run(&["wait", "auth"]).data();
    let patch = sandbox.run(&["land", "auth", "--patch", "fix.patch"]).data_of("worktree.patch");
    assert!(text(Path::new(patch["path"].as_str().unwrap())).contains("+TWO"), "{patch}");
    // A failed check leaves the branch where it is.
    git(&sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
    let failed = sandbox
        .run(&["land", "auth", "--check", "grep -q TWO a.txt && echo seen && exit 3"])
        .error("LAND_CHECK_FAILED");
    assert_eq!((&failed["details"]["exitCode"], &failed["details"]["output"]), (&json!(3), &json!("seen")));
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "1\n");
    let landed = sandbox.run(&["land", "auth", "--check", "grep -q TWO a.txt"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["a.txt"]));
    sandbox.finish();
}

#[test]
fn without_a_repository_no_worker_is_started() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    let refused =
        sandbox.run(&["worker", "start", "demo", "--name", "a", "--worktree"]).error("WORKTREE_NEEDS_GIT");
    assert_eq!(refused["details"]["reason"], "noRepository", "{refused}");
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    let refused =
        sandbox.run(&["worker", "start", "demo", "--name", "a", "--worktree"]).error("WORKTREE_NEEDS_GIT");
    assert_eq!(refused["details"]["reason"], "noCommit", "{refused}");
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&sandbox, &["branch", "taken"]);
    let refused =
        sandbox.run(&["worker", "start", "demo", "--name", "a", "--worktree=taken"]).error("WORKTREE_EXISTS");
    assert_eq!(refused["details"]["branch"], "taken", "{refused}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(listed["count"], 0, "nothing may remain of these: {listed}");
    sandbox.finish();
}

#[test]
fn without_the_program_of_a_filter_the_start_fails_until_it_is_there() {
    let sandbox = repository();
    write(&sandbox.workspace(), ".gitattributes", "*.big filter=lfs\n");
    write(&sandbox.workspace(), "file.big", "big\n");
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "big"]);
    // Git LFS as its installation configures it, with a program that does not exist.
    for (key, value) in [("smudge", "absent-lfs smudge -- %f"), ("process", "absent-lfs filter-process")] {
        git(&sandbox, &["config", &format!("filter.lfs.{key}"), value]);
    }
    git(&sandbox, &["config", "filter.lfs.required", "true"]);
    let failed = sandbox.run(&["worker", "start", "demo", "--name", "a", "--worktree"]).error("GIT_FAILED");
    assert!(failed["message"].as_str().unwrap().contains("absent-lfs: not found"), "{failed}");
    assert!(failed["details"]["recommendedAction"].as_str().unwrap().contains("git-lfs"), "{failed}");
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&sandbox, &["branch", "--list"]).trim(), "* main");
    git(&sandbox, &["config", "--unset", "filter.lfs.process"]);
    git(&sandbox, &["config", "filter.lfs.smudge", "cat"]);
    sandbox.run(&["worker", "restart", "a"]).data_of("worker.restarted");
    let shown = sandbox.run(&["worker", "show", "a"]).data_of("worker.shown");
    assert_eq!(text(&path(&shown).join("file.big")), "big\n");
    sandbox.run(&["stop", "a"]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_worktree_is_made_usable_or_the_start_fails() {
    let mut sandbox = repository();
    write(&sandbox.workspace(), ".gitignore", ".env\nbuilt\n");
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "ignore"]);
    write(&sandbox.workspace(), ".env", "KEY=1\n");
    let flag = sandbox.file("ready");
    let setup = format!("test -e {} || {{ echo no flag; exit 4; }}; echo $PWD > built", flag.display());
    let demo = sandbox.demo_agent(&[]).key("isolation", json!("worktree"));
    sandbox.launcher("demo", demo);
    configure(&sandbox, &json!({"worktrees": {"copy": [".env"], "setup": [setup]}}));
    let failed = sandbox.run(&["worker", "start", "demo", "--name", "a"]).error("WORKTREE_SETUP_FAILED");
    assert_eq!(
        (&failed["details"]["exitCode"], &failed["details"]["output"]),
        (&json!(4), &json!("no flag"))
    );
    fs::write(&flag, "").unwrap();
    sandbox.run(&["worker", "restart", "a"]).data_of("worker.restarted");
    let shown = sandbox.run(&["worker", "show", "a"]).data_of("worker.shown");
    let tree = path(&shown);
    assert_eq!(text(&tree.join(".env")), "KEY=1\n");
    assert_eq!(text(&tree.join("built")).trim(), tree.to_str().unwrap());
    fs::remove_file(tree.join("built")).unwrap();
    sandbox.run(&["worktree", "setup", "a"]).data_of("worktree.ready");
    assert!(tree.join("built").exists());
    // Neither is the worker's work.
    let stopped = sandbox.run(&["stop", "a"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "removed", "{stopped}");
    sandbox.finish();
}

#[test]
fn changes_of_the_main_tree_come_along_and_do_not_land() {
    let sandbox = repository();
    write(&sandbox.workspace(), "a.txt", "mine\ntwo\nthree\n");
    write(&sandbox.workspace(), "mine.txt", "mine\n");
    let started = start(&sandbox, "auth", &["--with-changes"]);
    let tree = path(&started);
    assert_eq!(
        (text(&tree.join("a.txt")), text(&tree.join("mine.txt"))),
        ("mine\ntwo\nthree\n".into(), "mine\n".into())
    );
    let _ = sandbox.run(&["send", "auth", "!edit create new.txt new"]).data();
    let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["new.txt"]));
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), " M a.txt\n?? mine.txt\n");
    sandbox.finish();
}

#[test]
fn a_run_in_a_worktree_leaves_what_it_has_made() {
    let sandbox = repository();
    let run = sandbox.run(&[
        "run",
        "--worktree=fix",
        "--launcher",
        "demo",
        "--text",
        "!edit create b.txt b",
        "--json",
    ]);
    let data = run.data_of("run.finished");
    assert_eq!(data["worktree"]["outcome"], "kept", "{data}");
    assert_eq!(data["worktree"]["branch"], "fix");
    let name = data["worktree"]["name"].as_str().unwrap();
    let landed = sandbox.run(&["land", name, "--rebase"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt"]));
    let run = sandbox.run(&["run", "--worktree", "--launcher", "demo", "--text", "hello", "--json"]);
    assert_eq!(run.data_of("run.finished")["worktree"]["outcome"], "removed");
    sandbox.finish();
}

#[test]
fn rules_about_relative_paths_are_about_the_worktree() {
    let sandbox = repository();
    let started = start(&sandbox, "auth", &["--allow", "edit(src/**)"]);
    let worker = started["workerId"].as_str().unwrap();
    let policy = sandbox.run(&["worker", "inspect", worker]).data_of("worker.inspected");
    assert_eq!(policy["policy"]["workspace"], path(&started).to_str().unwrap(), "{policy}");
    sandbox.finish();
}

#[test]
fn a_definition_can_ask_for_a_worktree() {
    let sandbox = repository();
    let definition = "---\ndescription: writes\nisolation: worktree\n---\nWrite.\n";
    write(&sandbox.workspace(), ".claude/agents/writer.md", definition);
    let task = sandbox
        .run(&["task", "run", "--agent", "writer", "--launcher", "demo", "--text", "!edit create t.txt t"])
        .data();
    let worker = task["task"]["taskId"].as_str().or(task["taskId"].as_str()).unwrap().to_owned();
    let shown = sandbox.run(&["worktree", "show", &worker]).data_of("worktree.shown");
    assert_eq!(shown["contents"]["files"], 1, "{shown}");
    assert!(!sandbox.workspace().join("t.txt").exists());
    let landed = sandbox.run(&["land", &worker]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["t.txt"]));
    sandbox.finish();
}

#[test]
fn a_definition_of_claude_code_can_have_hooks_memory_and_a_worktree() {
    let sandbox = repository();
    let hook = "PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: echo 'no shell' >&2; exit 2";
    let definition = format!(
        "---\nname: writer\ndescription: writes\nmemory: project\nisolation: worktree\nhooks:\n  {hook}\n---\nWrite.\n"
    );
    write(&sandbox.workspace(), ".claude/agents/writer.md", &definition);
    sandbox.run(&["hook", "trust", ".claude/agents/writer.md", "--yes"]).data_of("hook.trusted");
    let prompt = "!ask execute make\n!edit create t.txt t";
    let given = ["task", "run", "--agent", "writer", "--launcher", "demo", "--text", prompt];
    let task = sandbox.run(&given).data();
    let worker = task["task"]["taskId"].as_str().or(task["taskId"].as_str()).unwrap().to_owned();
    let events = sandbox.events(&worker);
    let decided = events.iter().find(|event| event["type"] == "approval.decided").unwrap();
    assert_eq!((&decided["data"]["by"], &decided["data"]["note"]), (&json!("hook"), &json!("no shell")));
    assert!(task.to_string().contains("agent-memory/writer"), "its instructions name its notes: {task}");
    let shown = sandbox.run(&["worktree", "show", &worker]).data_of("worktree.shown");
    assert_eq!(shown["contents"]["files"], 1, "{shown}");
    sandbox.finish();
}

#[test]
fn who_goes_on_from_a_worker_has_its_worktree() {
    let sandbox = repository();
    let started = start(&sandbox, "auth", &[]);
    let from = started["workerId"].as_str().unwrap();
    let continued = sandbox.run(&["worker", "continue", "--from-worker", from]).data_of("worker.continued");
    let worker = continued["worker"]["workerId"].as_str().unwrap();
    assert_eq!(continued["worker"]["cwd"], started["cwd"]);
    let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"], Value::Null, "it must belong to the other one now");
    assert!(path(&started).exists());
    sandbox.run(&["wait", worker]).data();
    let stopped = sandbox.run(&["stop", worker]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "removed", "{stopped}");
    sandbox.finish();
}

#[test]
fn without_an_identity_the_start_says_so_and_nothing_lands() {
    const COMMAND: &str = "`git config --global user.name NAME`";
    let sandbox = repository();
    let doctor = || {
        let report = sandbox.run(&["doctor"]).data_of("doctor.report");
        let mut found = report["findings"].as_array().unwrap().iter();
        found.find(|finding| finding["id"] == "machine.gitIdentity").cloned().unwrap()
    };
    assert_eq!(doctor()["status"], "ok");
    assert_eq!(start(&sandbox, "named", &[])["worktree"].get("identityMissing"), None);
    for key in ["user.name", "user.email"] {
        git(&sandbox, &["config", "--unset", key]);
    }
    git(&sandbox, &["config", "user.useConfigOnly", "true"]);
    let warned = doctor();
    assert_eq!(warned["status"], "warning", "{warned}");
    assert!(warned["action"].as_str().unwrap().contains(COMMAND), "{warned}");
    let started = start(&sandbox, "auth", &[]);
    assert_eq!(started["worktree"]["identityMissing"], true, "{started}");
    let detached = ["run", "-d", "demo", "--name", "api", "--worktree", "Hello"];
    let said = sandbox.command("subagent").args(detached).run();
    assert!(said.status.success() && said.stderr.contains(COMMAND), "{said}");
    let waited = ["task", "run", "--launcher", "demo", "--worktree", "--text", "Hello"];
    let said = sandbox.command("subagent").args(waited).run();
    assert!(said.status.success() && said.stderr.contains(COMMAND), "{said}");
    let watched = sandbox.command("subagent").args(["watch", "auth"]).on_screen().text();
    assert!(watched.contains("git has no name for the commits of a landing"), "{watched}");
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    let failed = sandbox.run(&["land", "auth"]).error("GIT_FAILED");
    assert!(failed["details"]["output"].as_str().unwrap().contains("user.name"), "{failed}");
    assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "1\n");
    sandbox.finish();
}

#[test]
fn the_output_of_a_failed_check_goes_to_the_worker_which_mends_it() {
    let sandbox = repository();
    let _ = start(&sandbox, "auth", &[]);
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    let check = "test -e mended || { echo '!edit create mended yes'; exit 1; }";
    let landed = sandbox.run(&["land", "auth", "--fix", "--check", check]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt", "mended"]));
    // A failed turn keeps the error of the landing.
    let _ = sandbox.run(&["send", "auth", "!edit create c.txt c"]).data();
    let check = "echo '!error -32000 out of order'; exit 3";
    let failed = sandbox.run(&["land", "auth", "--fix", "--check", check]).error("LAND_CHECK_FAILED");
    assert_eq!(failed["details"]["exitCode"], 3, "{failed}");
    assert!(failed["details"]["fix"].as_str().unwrap().contains("out of order"), "{failed}");
    assert_eq!(names(&sandbox), ["auth ready"]);
    sandbox.finish();
}

#[test]
fn a_worker_that_is_stopped_during_a_landing_leaves_a_worktree_that_can_be_removed() {
    let sandbox = repository();
    let started = start(&sandbox, "auth", &[]);
    let worker = started["workerId"].as_str().unwrap();
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    let (begun, go_on) = (sandbox.file("begun"), sandbox.file("go-on"));
    let mkfifo = std::process::Command::new("mkfifo").arg(&go_on).status().unwrap();
    assert!(mkfifo.success());
    let check = format!("touch {}; read line < {}", begun.display(), go_on.display());
    let landing = sandbox.subagent(&["land", "auth", "--check", &check]).spawn();
    wait_until("the check to begin", Duration::from_secs(20), || begun.exists().then_some(()));
    let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(
        (&stopped["worktree"]["outcome"], &stopped["worktree"]["state"]),
        (&json!("kept"), &json!("landing"))
    );
    sandbox.run(&["land", worker]).error("WORKTREE_BUSY");
    sandbox.run(&["worker", "continue", "--from-worker", "auth"]).error("WORKTREE_BUSY");
    fs::write(&go_on, "now\n").unwrap();
    let landed = landing.output().data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt"]));
    assert_eq!(names(&sandbox), ["auth kept"]);
    let pruned = sandbox.run(&["worktree", "prune"]).data_of("worktree.pruned");
    assert_eq!(pruned["removed"][0]["name"], "auth", "{pruned}");
    sandbox.finish();
}

#[test]
fn a_diff_is_that_of_the_worker_in_the_worktree() {
    let sandbox = repository();
    git(&sandbox, &["branch", "subagent/auth"]);
    let started = start(&sandbox, "auth", &[]);
    assert_eq!(started["worktree"]["name"], "auth-2");
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    for name in ["auth", "auth-2"] {
        let diff = sandbox.run(&["worktree", "diff", name]).data_of("worker.diff");
        assert_eq!(diff["files"][0]["path"], "b.txt", "{diff}");
    }
    sandbox.run(&["worktree", "diff", "other"]).error("WORKTREE_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn files_that_two_workers_have_changed_are_listed_before_they_meet() {
    let sandbox = repository();
    for (name, edits) in [
        ("auth", "!edit replace a.txt 1 ONE\n!edit create mine.txt x"),
        ("docs", "!edit replace a.txt 3 THREE\n!edit create its.txt x"),
        ("idle", "nothing"),
    ] {
        let _ = start(&sandbox, name, &[]);
        let _ = sandbox.run(&["send", name, edits]).data();
    }
    for command in [&["diff"][..], &["worktree", "diff"]] {
        let both = sandbox.run(&[command, &["auth", "docs", "idle"]].concat()).data_of("workers.diff");
        assert_eq!(both["items"], json!([{"path": "a.txt", "workers": ["auth", "docs"]}]), "{both}");
    }
    let typed = |args: &[&str]| sandbox.command("subagent").args(args).run();
    assert_eq!(typed(&["diff", "auth", "docs"]).text(), "a.txt\tauth docs\n");
    assert_eq!(typed(&["diff", "auth", "docs", "--name-only"]).text(), "a.txt\n");
    assert_eq!(typed(&["diff", "auth", "auth"]).text(), "", "one worker is not two");
    assert_eq!(typed(&["diff", "auth", "docs", "--stat"]).status.code(), Some(2));
    let landed = sandbox.run(&["worktree", "land", "auth", "docs"]).data_of("worktrees.landed");
    assert_eq!(landed["count"], 2);
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "ONE\ntwo\nTHREE\n");
    sandbox.finish();
}

#[test]
fn hooks_run_when_a_worktree_is_made_and_when_it_is_removed_after_its_worker() {
    let sandbox = repository();
    let file = sandbox.file("read");
    let hook = json!([{"hooks": [{"type": "command", "command": format!("awk 1 >> {}", file.display())}]}]);
    let hooks = json!({"WorktreeCreate": hook, "WorktreeRemove": hook});
    write(&sandbox.file("home"), ".config/subagent/config.yaml", &format!("hooks: {hooks}\n"));
    let read = |count: usize| -> Vec<Value> {
        wait_until("hooks", Duration::from_secs(30), || {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            (lines.len() == count).then_some(lines)
        })
    };
    let (started, _) = (start(&sandbox, "auth", &[]), start(&sandbox, "idle", &[]));
    let _ = sandbox.run(&["send", "auth", "!edit create a.rs x"]).data();
    for name in ["auth", "idle"] {
        let _ = sandbox.run(&["stop", name]).data_of("worker.stopped");
    }
    let of_stop = read(3);
    let reported =
        |input: &Value| format!("{} {}", text_of(&input["hook_event_name"]), text_of(&input["name"]));
    let all: Vec<String> = of_stop.iter().map(reported).collect();
    assert_eq!(all, ["WorktreeCreate auth", "WorktreeCreate idle", "WorktreeRemove idle"]);
    assert_eq!(of_stop[0]["worktree_path"], started["worktree"]["path"]);
    assert_eq!(of_stop[0]["worker"], started["workerId"]);

    // The worker of `auth` has ended before its worktree does.
    let _ = sandbox.run(&["worktree", "discard", "auth"]).data();
    assert_eq!(reported(&read(4)[3]), "WorktreeRemove auth");
    sandbox.finish();
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap()
}
