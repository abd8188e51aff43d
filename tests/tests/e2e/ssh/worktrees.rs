//! Worktrees of workers on another machine: sent there by git, fetched back before each command about
//! them, and removed on both machines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{SshHost, TestSandbox, wait_until};

use crate::look::git;
use crate::worktrees::repository;

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(60);

/// A repository, and a host that git reaches.
fn placed() -> Option<(TestSandbox, SshHost)> {
    let sandbox = repository();
    let host = SshHost::start(&sandbox)?;
    allow(&sandbox, &host);
    sandbox.init();
    Some((sandbox, host))
}

fn allow(sandbox: &TestSandbox, host: &SshHost) {
    let runtime = sandbox.executable("subagent-runtime");
    host.place(sandbox, json!({"program": runtime, "transport": "git"}));
}

fn start(sandbox: &TestSandbox, name: &str) -> Value {
    let args = ["worker", "start", "demo", "--name", name, "--on", "there", "--worktree"];
    sandbox.run(&args).data_of("worker.started")
}

/// The worktree there, and its repository.
fn there(host: &SshHost, started: &Value) -> (PathBuf, PathBuf) {
    let path = started["worktree"]["placed"]["path"].as_str().unwrap();
    let path = host.home().join(path.strip_prefix("~/").unwrap());
    let repository = path.with_file_name(".git");
    (path, repository)
}

/// The mirror on this machine.
fn mirror(started: &Value) -> PathBuf {
    PathBuf::from(started["worktree"]["path"].as_str().unwrap())
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs git in a folder there.
fn git_there(folder: &Path, args: &[&str]) -> String {
    let ran = Command::new("git").arg("-C").arg(folder).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn contents(sandbox: &TestSandbox, name: &str) -> Value {
    sandbox.run(&["worktree", "show", name]).data_of("worktree.shown")["contents"].clone()
}

#[test]
fn a_worker_there_works_in_its_worktree_and_lands_here() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let ((tree, bare), mirror) = (there(&host, &started), mirror(&started));
    assert_eq!(started["worktree"]["placed"]["placement"], "there", "{started}");
    assert!(started["cwd"].as_str().unwrap().starts_with("~/.local/share/subagent/worktrees/"), "{started}");
    let _ = sandbox.run(&["send", "auth", "!edit replace a.txt 2 TWO\n!edit create new/b.txt new"]).data();
    assert_eq!(text(&tree.join("a.txt")), "one\nTWO\nthree\n");
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "one\ntwo\nthree\n");
    let found = contents(&sandbox, "auth");
    let counts = ["files", "added", "removed", "uncommitted"].map(|key| found[key].clone());
    assert_eq!(counts, [2, 2, 1, 2].map(|number| json!(number)), "{found}");
    assert_eq!(text(&mirror.join("new/b.txt")), text(&tree.join("new/b.txt")));

    let landed = sandbox.run(&["land", "auth", "--message", "Make it loud"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["a.txt", "new/b.txt"]));
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "one\nTWO\nthree\n");
    // The worker there goes on with the landed commit.
    assert_eq!(git_there(&tree, &["rev-parse", "HEAD"]), git(&sandbox, &["rev-parse", "main"]));
    assert_eq!(git_there(&tree, &["status", "--porcelain"]), "");
    let commit = "git rm -q new/b.txt && git -c user.name=it -c user.email=it@there commit -qm gone";
    let prompt = format!("!edit replace a.txt 3 THREE\n!shell {commit}");
    let _ = sandbox.run(&["send", "auth", &prompt]).data();
    let again = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(again["files"], json!(["a.txt", "new/b.txt"]));
    assert!(!mirror.join("new").exists());
    let nothing = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!((&nothing["files"], &nothing["commit"]), (&json!([]), &again["commit"]));

    let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"], json!({"outcome": "removed", "name": "auth"}));
    assert!(!tree.exists() && !mirror.exists());
    assert_eq!(git_there(&bare, &["for-each-ref"]), "");
    assert!(!git(&sandbox, &["for-each-ref", "refs/heads"]).contains("subagent/auth"));
    sandbox.finish();
}

#[test]
fn commits_index_and_files_come_back_as_they_are_there() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let ((tree, _), mirror) = (there(&host, &started), mirror(&started));
    let script = "git -c user.name=it -c user.email=it@there commit -q --allow-empty -m one\n\
        echo staged > s.txt; git add s.txt; echo more >> s.txt; rm a.txt; ln -s /nowhere link\n\
        printf '#!/bin/sh\\n' > run; chmod +x run; mkdir -p 'a b'; echo x > 'a b/ü'";
    let file = host.home().join("script");
    fs::write(&file, script).unwrap();
    let _ = sandbox.run(&["send", "auth", &format!("!shell sh {}", file.display())]).data();
    let found = contents(&sandbox, "auth");
    assert_eq!(found["commits"], 1, "{found}");
    for args in [
        &["status", "--porcelain"][..],
        &["diff"],
        &["diff", "--cached"],
        &["log", "--format=%H %an %s"],
        &["symbolic-ref", "HEAD"],
    ] {
        assert_eq!(git_there(&mirror, args), git_there(&tree, args), "{args:?}");
    }
    assert_eq!(fs::read_link(mirror.join("link")).unwrap(), Path::new("/nowhere"));
    assert_eq!(text(&mirror.join("a b/ü")), "x\n");
    // A detached head and a moved branch, too.
    let _ = sandbox.run(&["send", "auth", "!shell git checkout -q -f --detach HEAD~1"]).data();
    let _ = contents(&sandbox, "auth");
    assert_eq!(git_there(&mirror, &["rev-parse", "HEAD"]), git_there(&tree, &["rev-parse", "HEAD"]));
    let branch = Command::new("git").arg("-C").arg(&mirror).args(["symbolic-ref", "-q", "HEAD"]).output();
    assert_eq!(branch.unwrap().status.code(), Some(1), "HEAD must be on no branch");
    let branch = ["rev-parse", "subagent/auth"];
    assert_eq!(git_there(&mirror, &branch), git_there(&tree, &branch));
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    let _ = sandbox.run(&["worktree", "discard", "auth"]).data_of("worktree.discarded");
    sandbox.finish();
}

#[test]
fn what_git_ignores_stays_there_and_is_not_lost() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let ((tree, bare), mirror) = (there(&host, &started), mirror(&started));
    let _ = sandbox.run(&["send", "auth", "!shell echo '*.o' > .gitignore; echo big > x.o"]).data();
    let found = contents(&sandbox, "auth");
    assert_eq!((&found["ignored"], &found["uncommitted"]), (&json!(1), &json!(1)), "{found}");
    assert!(!mirror.join("x.o").exists() && mirror.join(".gitignore").exists());
    let stopped = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "kept", "{stopped}");
    let error = sandbox.run(&["worktree", "remove", "auth"]).error("WORKTREE_HAS_WORK");
    assert_eq!(error["details"]["contents"]["ignored"], 1, "{error}");
    let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!((&landed["files"], &landed["worktreeRemoved"]), (&json!([".gitignore"]), &json!(true)));
    assert!(!tree.exists() && !mirror.exists());
    let kept = git_there(&bare, &["for-each-ref", "--format=%(refname)"]);
    assert!(kept.starts_with("refs/subagent/retired/auth/"), "{kept}");
    assert_eq!(git_there(&bare, &["show", &format!("{}:x.o", kept.trim())]), "big\n");
    sandbox.finish();
}

#[test]
fn the_setup_runs_there_and_a_failed_one_is_a_failed_start() {
    let Some((sandbox, host)) = placed() else { return };
    let config = sandbox.config_file();
    let plain = text(&config);
    fs::write(
        &config,
        format!("{plain}worktrees:\n  copy: ['*.env']\n  setup: ['echo ready > $HOME/setup; pwd >> $HOME/setup; date > made']\n"),
    )
    .unwrap();
    let started = start(&sandbox, "auth");
    let (tree, bare) = there(&host, &started);
    assert_eq!(text(&host.home().join("setup")), format!("ready\n{}\n", tree.display()));
    // What it makes comes here, and runs again if asked.
    assert_eq!(contents(&sandbox, "auth")["names"], json!(["made"]));
    fs::remove_file(host.home().join("setup")).unwrap();
    let _ = sandbox.run(&["worktree", "setup", "auth"]).data_of("worktree.ready");
    assert!(host.home().join("setup").exists());
    fs::write(&config, format!("{plain}worktrees:\n  setup: ['echo it is broken; exit 3']\n")).unwrap();
    let args = ["worker", "start", "demo", "--name", "other", "--on", "there", "--worktree"];
    let error = sandbox.run(&args).error("WORKTREE_SETUP_FAILED");
    assert_eq!(error["details"]["placement"], "there", "{error}");
    let _ = sandbox.run(&["worker", "rm", "--force", "other"]).data_of("worker.removed");
    let _ = sandbox.run(&["worker", "rm", "--force", "auth"]).data_of("worker.removed");
    let _ = sandbox.run(&["worktree", "discard", "auth"]).data_of("worktree.discarded");
    wait_until("the removal there", DEADLINE, || {
        (git_there(&bare, &["for-each-ref"]).is_empty()).then_some(())
    });
    sandbox.finish();
}

#[test]
fn a_host_that_is_gone_meanwhile_loses_nothing() {
    let Some((sandbox, mut host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    host.end_server();
    for args in [&["worktree", "show", "auth"][..], &["land", "auth"]] {
        let error = sandbox.run(args).error("PLACEMENT_UNREACHABLE");
        assert_eq!(error["details"]["placement"], "there", "{error}");
    }
    let listed = sandbox.run(&["worktree", "list"]).data_of("worktree.listed");
    assert_eq!((&listed["count"], &listed["items"][0]["name"]), (&json!(1), &json!("auth")), "{listed}");
    host.restart_server(&sandbox);
    let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt"]));
    let _ = sandbox.run(&["send", "auth", "!edit create c.txt c"]).data();
    // The worker is stopped, and its worktree cannot be reached.
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    host.end_server();
    let error = sandbox.run(&["worktree", "discard", "auth"]).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "network", "{error}");
    host.restart_server(&sandbox);
    let discarded = sandbox.run(&["worktree", "discard", "auth"]).data_of("worktree.discarded");
    let retired = discarded["retired"].as_str().unwrap();
    assert_eq!(git(&sandbox, &["show", &format!("{retired}:c.txt")]), "c\n");
    assert!(!there(&host, &started).0.exists());
    sandbox.finish();
}

#[test]
fn a_worktree_whose_host_does_not_come_back_is_given_up() {
    let Some((sandbox, mut host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    let _ = contents(&sandbox, "auth");
    let _ = sandbox.run(&["send", "auth", "!edit create c.txt only there"]).data();
    let runtime = sandbox.runtime(started["workerId"].as_str().unwrap());
    host.end_server();
    let _ = sandbox.run(&["worktree", "discard", "auth", "--without-host"]).error("WORKTREE_BUSY");
    wait_until("the worker to be unreachable", DEADLINE, || {
        sandbox.show("auth")["unreachable"].is_object().then_some(())
    });
    let stopped = sandbox.run(&["stop", "auth", "--without-host"]).data_of("worker.stopped");
    assert_eq!(stopped["worktree"]["outcome"], "unknown", "{stopped}");
    let error = sandbox.run(&["worktree", "discard", "auth"]).error("PLACEMENT_UNREACHABLE");
    let action = error["details"]["recommendedAction"].as_str().unwrap();
    assert!(action.contains("--without-host"), "{error}");
    let given_up = ["worktree", "discard", "auth", "--without-host"];
    let discarded = sandbox.run(&given_up).data_of("worktree.discarded");
    let retired = discarded["retired"].as_str().unwrap();
    assert_eq!(git(&sandbox, &["show", &format!("{retired}:b.txt")]), "b\n");
    assert!(!mirror(&started).exists());
    assert_eq!(sandbox.run(&["worktree", "list"]).data_of("worktree.listed")["count"], 0);
    // The host comes back after all. Its owner has accepted that the agent goes on there.
    host.restart_server(&sandbox);
    runtime.signal(Signal::SIGKILL);
    assert_eq!(text(&there(&host, &started).0.join("c.txt")), "only there\n");
    let again = start(&sandbox, "other");
    let _ = sandbox.run(&["stop", "other"]).data_of("worker.stopped");
    assert!(!mirror(&again).exists(), "it had nothing");
    sandbox.finish();
}

#[test]
fn only_a_worktree_with_a_host_is_given_up() {
    let Some((sandbox, _host)) = placed() else { return };
    let args = ["worker", "start", "demo", "--name", "here", "--worktree"];
    let _ = sandbox.run(&args).data_of("worker.started");
    let _ = sandbox.run(&["send", "here", "!edit create b.txt b"]).data();
    let _ = sandbox.run(&["stop", "here"]).data_of("worker.stopped");
    let error = sandbox.run(&["worktree", "discard", "here", "--without-host"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["field"], "withoutHost", "{error}");
    let _ = sandbox.run(&["worktree", "discard", "here"]).data_of("worktree.discarded");
    sandbox.finish();
}

#[test]
fn changes_on_both_sides_are_kept_on_both() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let ((tree, _), mirror) = (there(&host, &started), mirror(&started));
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt there"]).data();
    fs::write(mirror.join("b.txt"), "here").unwrap();
    let error = sandbox.run(&["land", "auth"]).error("WORKTREE_BUSY");
    assert_eq!(error["details"]["reason"], "changed", "{error}");
    assert_eq!(
        (text(&tree.join("b.txt")), text(&mirror.join("b.txt"))),
        ("there\n".to_owned(), "here".to_owned())
    );
    fs::remove_file(mirror.join("b.txt")).unwrap();
    assert_eq!(contents(&sandbox, "auth")["uncommitted"], 1);
    assert_eq!(text(&mirror.join("b.txt")), "there\n");
    // A change of the mirror alone goes there.
    fs::write(mirror.join("b.txt"), "mended here").unwrap();
    let _ = contents(&sandbox, "auth");
    assert_eq!(text(&tree.join("b.txt")), "mended here");
    let _ = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_placement_without_a_transport_says_how_to_have_one() {
    let sandbox = repository();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let start = ["worker", "start", "demo", "--on", "there", "--worktree"];
    let error = sandbox.run(&start).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["field"], "worktree", "{error}");
    let advice = error["details"]["recommendedAction"].as_str().unwrap();
    assert!(advice.contains("`transport: git`"), "{error}");
    for (keys, wrong) in [
        (json!({"transport": "rsync"}), "placements.there.transport"),
        (json!({"worktrees": "~/x"}), "placements.there.worktrees"),
        (json!({"transport": "git", "worktrees": "x"}), "placements.there.worktrees"),
    ] {
        host.place(&sandbox, keys);
        let error = sandbox.run(&start).error("CONFIG_PARSE_ERROR");
        assert!(error["message"].as_str().unwrap().contains(wrong), "{error}");
    }
    // Outside of a repository there is nothing to send.
    allow(&sandbox, &host);
    fs::rename(sandbox.workspace().join(".git"), sandbox.file("moved")).unwrap();
    let _ = sandbox.run(&start).error("WORKTREE_NEEDS_GIT");
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_leaves_a_worktree_that_the_next_one_finishes() {
    for point in ["worktree_create.before_run", "worktree_create.before_commit", "land.before_commit"] {
        let mut sandbox = repository();
        let reached = sandbox.file("reached");
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort"));
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &reached);
        let Some(host) = SshHost::start(&sandbox) else { return };
        allow(&sandbox, &host);
        sandbox.init();
        let args = ["worker", "start", "demo", "--name", "auth", "--on", "there", "--worktree"];
        let started = sandbox.persist(&args).data_of("worker.started");
        let ((tree, bare), mirror) = (there(&host, &started), mirror(&started));
        let _ = sandbox.manage(started["workerId"].as_str().unwrap(), "key-1", "!edit create b.txt b");
        let landed = sandbox.persist(&["land", "auth"]).data_of("worktree.landed");
        assert_eq!(landed["into"], "main", "{point}: {landed}");
        assert!(reached.exists(), "{point} was not reached");
        assert_eq!(git(&sandbox, &["rev-list", "--count", "main"]), "2\n", "{point}: it must land once");
        let stopped = sandbox.persist(&["stop", "auth"]).data_of("worker.stopped");
        assert_eq!(stopped["worktree"]["outcome"], "removed", "{point}: {stopped}");
        assert!(!tree.exists() && !mirror.exists(), "{point}");
        assert_eq!(git_there(&bare, &["for-each-ref"]), "", "{point}");
        sandbox.finish();
    }
}

#[test]
fn two_workers_there_land_one_after_the_other() {
    let Some((sandbox, host)) = placed() else { return };
    let (one, two) = (start(&sandbox, "one"), start(&sandbox, "two"));
    assert_eq!(there(&host, &one).1, there(&host, &two).1, "they share a repository");
    let _ = sandbox.run(&["send", "one", "!edit create one.txt one"]).data();
    let _ = sandbox.run(&["send", "two", "!edit replace a.txt 1 ONE"]).data();
    let landed = sandbox.run(&["land", "one", "two"]).data();
    assert_eq!(landed["items"].as_array().map(Vec::len), Some(2), "{landed}");
    assert_eq!(text(&sandbox.workspace().join("a.txt")), "ONE\ntwo\nthree\n");
    assert_eq!(text(&sandbox.workspace().join("one.txt")), "one\n");
    for name in ["one", "two"] {
        let stopped = sandbox.run(&["stop", name]).data_of("worker.stopped");
        assert_eq!(stopped["worktree"]["outcome"], "removed", "{stopped}");
    }
    sandbox.finish();
}

#[test]
fn a_task_there_gives_its_files_back() {
    let Some((sandbox, host)) = placed() else { return };
    // The rules of a task need an absolute folder.
    let runtime = sandbox.executable("subagent-runtime");
    let folder = host.home().join("trees");
    host.place(&sandbox, json!({"program": runtime, "transport": "git", "worktrees": folder}));
    let place = ["--on", "there", "--worktree", "--name", "Fix", "--text", "!edit create done.txt done"];
    let task = sandbox.run(&[&["task", "run", "--launcher", "demo"][..], &place].concat()).data();
    assert_eq!(task["worktree"]["contents"]["names"], json!(["done.txt"]), "{task}");
    let merged = sandbox.run(&["task", "merge", "Fix"]).data_of("worktree.merged");
    assert_eq!(merged["files"], json!(["done.txt"]), "{merged}");
    let path = task["worktree"]["placed"]["path"].as_str().unwrap();
    assert!(path.starts_with(folder.to_str().unwrap()), "{task}");
    assert_eq!(text(&sandbox.workspace().join("done.txt")), "done\n");
    let _ = sandbox.run(&["stop", task["taskId"].as_str().unwrap()]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn line_ends_that_git_does_not_see_stay_as_they_are_there() {
    let Some((sandbox, host)) = placed() else { return };
    fs::write(sandbox.workspace().join(".gitattributes"), "* text=auto\n").unwrap();
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "attributes"]);
    let started = start(&sandbox, "auth");
    let (tree, _) = there(&host, &started);
    let script = host.home().join("script");
    fs::write(&script, "printf 'one\\r\\ntwo\\r\\nthree\\r\\n' > a.txt").unwrap();
    let _ = sandbox.run(&["send", "auth", &format!("!shell sh {}", script.display())]).data();
    for _ in 0..3 {
        assert_eq!(contents(&sandbox, "auth")["files"], 0);
        assert_eq!(text(&tree.join("a.txt")), "one\r\ntwo\r\nthree\r\n");
    }
    // A change of the mirror does not change them.
    fs::write(mirror(&started).join("b.txt"), "b").unwrap();
    let _ = contents(&sandbox, "auth");
    assert_eq!(text(&tree.join("b.txt")), "b");
    let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt"]));
    assert_eq!(text(&tree.join("a.txt")), "one\r\ntwo\r\nthree\r\n");
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn what_the_machine_there_says_is_not_a_word_of_git() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let written = sandbox.file("written");
    let lie =
        json!({"packed": {"state": format!("--output={}", written.display()), "stays": 0, "isReady": true}});
    let program = host.home().join("liar");
    fs::write(&program, format!("#!/bin/sh\ncat > /dev/null\necho '{lie}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // The agent has put it in the place of the program there.
    host.place(&sandbox, json!({"program": program, "transport": "git"}));
    let args = ["worker", "start", "demo", "--name", "two", "--on", "there", "--worktree"];
    let error = sandbox.run(&args).error("PLACEMENT_NOT_PREPARED");
    assert!(error["message"].as_str().unwrap().contains("its answer cannot be read"), "{error}");
    assert!(!written.exists());
    let runtime = sandbox.executable("subagent-runtime");
    host.place(&sandbox, json!({"program": runtime, "transport": "git"}));
    let _ = sandbox.run(&["worker", "rm", "--force", "two"]).data_of("worker.removed");
    fs::copy(sandbox.executable("subagent-runtime"), &program).unwrap();
    let _ = sandbox.run(&["worktree", "remove", "two"]).data_of("worktree.removed");
    let _ = started;
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn after_a_landing_that_was_refused_the_worker_goes_on() {
    let Some((sandbox, host)) = placed() else { return };
    let started = start(&sandbox, "auth");
    let (tree, _) = there(&host, &started);
    let _ = sandbox.run(&["send", "auth", "!edit replace a.txt 1 THEIRS"]).data();
    fs::write(sandbox.workspace().join("a.txt"), "mine\ntwo\nthree\n").unwrap();
    git(&sandbox, &["commit", "-qam", "mine"]);
    let error = sandbox.run(&["land", "auth"]).error("LAND_CONFLICT");
    assert_eq!(error["details"]["files"], json!(["a.txt"]), "{error}");
    let _ = sandbox.run(&["send", "auth", "!edit create b.txt b"]).data();
    assert_eq!(contents(&sandbox, "auth")["files"], 2);
    let _ = sandbox.run(&["send", "auth", "!shell git checkout -q HEAD~1 a.txt"]).data();
    let landed = sandbox.run(&["land", "auth"]).data_of("worktree.landed");
    assert_eq!(landed["files"], json!(["b.txt"]), "{landed}");
    assert_eq!(text(&tree.join("a.txt")), "mine\ntwo\nthree\n");
    let _ = sandbox.run(&["stop", "auth"]).data_of("worker.stopped");
    sandbox.finish();
}
