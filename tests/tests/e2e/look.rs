//! `show` and `diff`: the work and changes of a worker, for people.

use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{On, Screen, TestSandbox, wait_until};

use crate::snapshot::data;

/// Runs git in the workspace, without the user's settings.
pub(crate) fn git(sandbox: &TestSandbox, args: &[&str]) -> String {
    let mut command = Process::new("git");
    command.args(args).current_dir(sandbox.workspace()).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "me").env(format!("GIT_{who}_EMAIL"), "me@example.com");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn write(sandbox: &TestSandbox, name: &str, text: &str) {
    fs::write(sandbox.workspace().join(name), text).unwrap();
}

/// A worker in a repository with an uncommitted change.
fn in_repository() -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    git(&sandbox, &["init", "-q", "."]);
    write(&sandbox, "a.txt", "one\ntwo\n");
    write(&sandbox, "gone.txt", "gone\n");
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    write(&sandbox, "a.txt", "one\nmine\n");
    write(&sandbox, "untracked.txt", "mine\n");
    sandbox.init();
    let worker = sandbox.start("demo");
    (sandbox, worker)
}

/// Returns the diff of a worker, which the API gives too.
fn diff(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let found = sandbox.run(&[&["diff"], args].concat()).data_of("worker.diff");
    let path = format!("/v1/workers/{}/diff", found["workerId"].as_str().unwrap());
    let given = data(sandbox, &path, "worker.diff");
    for (key, value) in found.as_object().unwrap() {
        assert_eq!(given[key], *value, "{key} of {given}");
    }
    assert_eq!((&given["truncated"], &given["count"]), (&json!(false), &json!(files(&given).len())));
    found
}

fn files(data: &Value) -> Vec<String> {
    let files = data["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            let word = |key: &str| file[key].as_str().unwrap().to_owned();
            format!("{} {} +{} -{}", word("status"), word("path"), file["added"], file["deleted"])
        })
        .collect()
}

/// Returns the lines of a screen without parts that vary between runs.
fn snapshot(sandbox: &TestSandbox, worker: &str, screen: &Screen) -> String {
    let folder = sandbox.workspace().display().to_string();
    let lines: Vec<String> = screen.lines().iter().map(|line| line.trim_end().to_owned()).collect();
    let text = lines.join("\n").replace(worker, "w_0000000000").replace(&folder, "/ws");
    text.trim_end().to_owned()
}

#[test]
fn a_diff_has_what_has_changed_since_the_first_turn_and_nothing_from_before() {
    let (sandbox, worker) = in_repository();
    let status = git(&sandbox, &["status", "--porcelain"]);
    let _ = sandbox
        .send(&worker, "!edit create new/b.txt 1\\n2\n!edit replace a.txt 1 ONE\n!edit delete gone.txt");
    // A later turn does not reset the diff, and foreign changes count: it is the folder's diff.
    let _ = sandbox.send(&worker, "!edit create new/b.txt 1\\n2\\n3");
    write(&sandbox, "untracked.txt", "mine\nand more\n");

    let data = diff(&sandbox, &[&worker]);
    let expected = [
        "modified a.txt +1 -1",
        "deleted gone.txt +0 -1",
        "added new/b.txt +3 -0",
        "modified untracked.txt +1 -0",
    ];
    assert_eq!((files(&data), &data["source"]), (expected.map(str::to_owned).to_vec(), &json!("git")));
    assert_eq!((&data["added"], &data["deleted"]), (&json!(5), &json!(2)));
    assert_eq!(data["base"]["head"], git(&sandbox, &["rev-parse", "HEAD"]).trim());
    let patch = data["files"][0]["patch"].as_str().unwrap();
    assert!(patch.ends_with("-one\n+ONE\n mine\n"), "{patch}");

    // The only worker needs no name. In a pipe, the output is a patch for `git apply`.
    let patch = sandbox.command("subagent").args(["diff"]).run();
    assert!(patch.text().starts_with("diff --git a/a.txt b/a.txt\n"), "{patch}");
    fs::write(sandbox.file("patch"), patch.text()).unwrap();
    git(&sandbox, &["apply", "-R", "--check", sandbox.file("patch").to_str().unwrap()]);
    let names = sandbox.command("subagent").args(["diff", "--name-only"]).run();
    assert_eq!(names.text(), "a.txt\ngone.txt\nnew/b.txt\nuntracked.txt\n");

    git(&sandbox, &["apply", "-R", sandbox.file("patch").to_str().unwrap()]);
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), status, "the repository must be unchanged");
    assert_eq!(git(&sandbox, &["for-each-ref", "--format=%(refname)"]).lines().count(), 1);
    let nothing = sandbox.command("subagent").args(["diff"]).run();
    assert_eq!((nothing.text(), nothing.stderr.as_str()), ("", ""));
    let screen = sandbox.command("subagent").args(["diff"]).on_screen();
    assert!(screen.text().contains("nothing has changed since the first turn"), "{screen:?}");

    // Git's own files in the state directory are as git needs them.
    let doctor = sandbox.run(&["doctor"]).data_of("doctor.report").to_string();
    assert!(!doctor.contains("/bases/"), "{doctor}");

    // The base is removed with the worker.
    let base = sandbox.state_dir().join("bases").join(&worker);
    assert!(base.join("base.json").exists());
    sandbox.run(&["worker", "rm", &worker, "--force"]).data_of("worker.removed");
    wait_until("the base must be removed", Duration::from_secs(30), || (!base.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn without_a_repository_the_diff_is_what_the_agent_has_reported() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!edit create b.txt 1\n!edit create b.txt 1\\n2");
    write(&sandbox, "other.txt", "not reported");
    let data = diff(&sandbox, &[&worker]);
    assert_eq!((files(&data), &data["source"]), (vec!["added b.txt +2 -0".to_owned()], &json!("events")));
    assert!(data["reason"].as_str().unwrap().contains("no git work tree"), "{data}");
    let patch = sandbox.command("subagent").args(["diff", &worker]).run();
    assert_eq!(patch.text(), data["files"][0]["patch"].as_str().unwrap());
    assert!(patch.stderr.contains("the agent has reported"), "{patch}");
    sandbox.finish();
}

#[test]
fn a_repository_of_the_agent_runs_nothing_in_the_owners_name() {
    let (sandbox, worker) = in_repository();
    let seen = sandbox.file("seen");
    let script = sandbox.file("evil");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", seen.display())).unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    fs::set_permissions(&script, mode).unwrap();
    write(&sandbox, ".gitattributes", "* filter=evil diff=evil\n");
    for name in ["core.fsmonitor", "filter.evil.clean", "diff.evil.textconv", "diff.external", "core.pager"] {
        git(&sandbox, &["config", name, script.to_str().unwrap()]);
    }
    let _ = sandbox.send(&worker, "!edit create b.txt 1");
    assert_eq!(files(&diff(&sandbox, &[])), ["added b.txt +1 -0"]);
    assert_eq!(fs::read_to_string(&seen).unwrap_or_default(), "");
    sandbox.finish();
}

#[test]
fn text_of_files_cannot_act_on_a_terminal_and_the_pager_gets_it() {
    let (sandbox, worker) = in_repository();
    let _ = sandbox.send(&worker, "!edit create evil.txt \u{1b}]0;title\u{7}\u{1b}[2Jred");
    let at = |pager: &str| {
        let command = sandbox.command("subagent").args(["diff"]).env("GIT_PAGER", pager).env("TERM", "xterm");
        command.at_terminal(80, On::Both).screen()
    };
    let screen = at("cat");
    assert!(screen.bytes.contains("\u{1b}[32m+red\u{1b}[0m"), "{:?}", screen.bytes);
    assert!(!screen.bytes.contains("title") && !screen.bytes.contains("[2J"), "{:?}", screen.bytes);
    assert!(at("sed s/red/blue/").bytes.contains("+blue"));
    assert!(at("/nonexistent/pager").bytes.contains("+red"), "shown without one");
    sandbox.finish();
}

#[test]
fn a_stat_fits_the_terminal() {
    let (sandbox, worker) = in_repository();
    let _ = sandbox
        .send(&worker, "!edit create new/b.txt 1\\n2\n!edit replace a.txt 1 ONE\n!edit delete gone.txt");
    let expected = " \
a.txt     |   2 +-
 gone.txt  |   1 -
 new/b.txt |   2 ++
 3 files changed, +3 -2";
    for columns in [80, 200] {
        let command = sandbox.command("subagent").args(["diff", "--stat"]).env("PAGER", "cat");
        let screen = command.env("NO_COLOR", "1").at_terminal(columns, On::Both).screen();
        assert_eq!(snapshot(&sandbox, &worker, &screen), expected);
    }
    sandbox.finish();
}

#[test]
fn a_worker_is_shown_with_what_it_does_asks_has_said_and_changed() {
    let (sandbox, worker) = in_repository();
    let script = "Let me see.\n!edit create new/b.txt 1\\n2\n!plan Read it|Mend it\nI have written a file.\n\
                  !ask execute rm -rf build\n";
    let asked = sandbox.send(&worker, script);
    let request = asked["requestId"].as_str().unwrap().to_owned();
    let data = sandbox.run(&["show"]).data_of("worker.overview");
    assert_eq!((&data["workerId"], &data["state"]), (&json!(worker), &json!("waiting_approval")));
    assert_eq!(data["doing"]["tool"], "rm -rf build");
    assert_eq!((&data["doing"]["step"], &data["doing"]["steps"]), (&json!("Read it"), &json!(2)));
    // No text follows the last tool call: the whole text is the message.
    assert_eq!(data["lastMessage"]["text"], "Let me see.\n\nI have written a file.");
    assert_eq!(data["changes"], json!({"files": 1, "added": 2, "deleted": 0}));
    let plain = sandbox.command("subagent").args(["show", &worker]).run();
    for line in
        ["doing: rm -rf build · step 1 of 2: Read it", "filesChanged: 1 +2 -0", "state: waiting_approval"]
    {
        assert!(plain.text().lines().any(|found| found == line), "{line}: {plain}");
    }
    for columns in [80, 200] {
        let command = sandbox.command("subagent").args(["show"]).env("NO_COLOR", "1");
        let screen = command.at_terminal(columns, On::Both).screen();
        let text = snapshot(&sandbox, &worker, &screen).replace(&request, "ap_0000000000");
        let session = data["sessionId"].as_str().unwrap();
        let text = text.replace(session, "SESSION").replace("just now", "NOW");
        assert_eq!(text, SHOWN, "{columns} columns");
    }
    sandbox.approve(&worker, &json!(request), "allow").data_of("approval.decided");
    sandbox.finish();
}

const SHOWN: &str = "\
demo-1  waiting approval  NOW  worker
  doing     rm -rf build · step 1 of 2: Read it
  changed   1 file +2 -0  subagent diff demo-1
  launcher  demo
  cwd       /ws
  session   SESSION
  ? Permission requested for execute: rm -rf build
    subagent approve ap_0000000000

  | Let me see.
  |
  | I have written a file.";

#[test]
fn a_worker_is_shown_with_its_queue_its_usage_and_its_tasks() {
    let mut sandbox = TestSandbox::new();
    let worker = sandbox.delegating(&json!(true), &[]);
    let task = sandbox.task_file("nested", "Look", "foreground", "!say found");
    let usage = json!({"totalTokens": 1200, "inputTokens": 1000, "outputTokens": 200});
    let _ = sandbox.send(&worker, &format!("{}\n!tokens {usage}\n!say Counted", sandbox.gives(&task)));
    sandbox.run(&["send", &worker, "!sleep 600000", "-d"]).data_of("turn.accepted");
    for _ in 0..2 {
        sandbox.run(&["send", &worker, "!say later", "-d", "--queue"]).data();
    }
    let data = sandbox.run(&["show", &worker]).data_of("worker.overview");
    assert_eq!(data["queue"]["length"], 2, "{data}");
    assert_eq!(data["agent"]["tokens"]["totalTokens"], 1200, "{data}");
    let task = &data["tasks"][0];
    assert_eq!((&task["name"], &task["status"]), (&json!("Look"), &json!("completed")), "{data}");
    let plain = sandbox.command("subagent").args(["show", &worker]).run();
    for line in ["queued: 2", "tasks: 1"] {
        assert!(plain.text().lines().any(|found| found == line), "{line}: {plain}");
    }
    sandbox.finish();
}

#[test]
fn a_git_that_hangs_holds_up_no_turn_for_long() {
    let mut sandbox = TestSandbox::new();
    git(&sandbox, &["init", "-q", "."]);
    let folder = sandbox.file("hangs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("git"), "#!/bin/sh\nsleep 600 &\nwait\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    fs::set_permissions(folder.join("git"), mode).unwrap();
    sandbox.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()));
    sandbox.init();
    let worker = sandbox.start("demo");
    let sent = sandbox.send(&worker, "!edit create b.txt 1");
    assert_eq!(sent["matchedEvent"]["type"], "turn.completed");
    let data = diff(&sandbox, &[]);
    assert_eq!((files(&data), &data["source"]), (vec!["added b.txt +1 -0".to_owned()], &json!("events")));
    assert_eq!(data["reason"], "git did not finish in time");
    sandbox.finish();
}

#[test]
fn several_workers_are_shown_one_after_the_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let other = sandbox.start("demo");
    let expected = [json!(worker), json!(other)];
    for (command, one, several) in [
        (&["show"][..], "worker.overview", "worker.overviews"),
        (&["worker", "show"], "worker.shown", "workers.shown"),
        (&["worker", "inspect"], "worker.inspected", "workers.inspected"),
    ] {
        let id = |item: &Value| {
            let worker = if item["worker"].is_object() { &item["worker"] } else { item };
            worker["workerId"].clone()
        };
        let both = |names: &[&str]| sandbox.run(&[command, names].concat());
        let data = both(&["demo-1", "@last"]).data_of(several);
        let found: Vec<Value> = data["items"].as_array().unwrap().iter().map(id).collect();
        assert_eq!((&data["count"], &found[..]), (&json!(2), &expected[..]), "{command:?}");
        assert_eq!(id(&both(&["demo-2"]).data_of(one)), expected[1]);
        let error = both(&["missing", "demo-2"]).error("WORKER_NOT_FOUND");
        let done = if command.contains(&"inspect") { "inspected" } else { "shown" };
        assert_eq!(error["details"]["workerId"], "missing", "{error}");
        assert_eq!(id(&error["details"][done][0]), expected[1], "{error}");

        let line = [command, &["demo-1", "demo-2"]].concat();
        let plain = sandbox.command("subagent").args(&line).run();
        let blocks: Vec<&str> = plain.text().split("\n\n").collect();
        let names = [&worker, &other].map(|worker| format!("workerId: {worker}\n"));
        assert!(
            blocks.len() == 2 && blocks.iter().zip(names).all(|(block, name)| block.starts_with(&name)),
            "{plain}"
        );
        let screen = sandbox.command("subagent").args(&line).on_screen();
        assert!(screen.text().contains("demo-2  idle") && !screen.text().contains('{'), "{screen:?}");
    }
    sandbox.finish();
}

#[test]
fn what_is_meant_must_be_clear() {
    let sandbox = TestSandbox::new();
    let none = sandbox.run(&["show"]).error("WORKER_NOT_FOUND");
    assert!(none["message"].as_str().unwrap().contains("no worker"), "{none}");
    sandbox.init();
    for _ in 0..2 {
        let _ = sandbox.start("demo");
    }
    for command in ["show", "diff"] {
        let several = sandbox.run(&[command]).error("INVALID_ARGUMENT");
        assert!(several["message"].as_str().unwrap().contains("demo-2, demo-1"), "{several}");
        let turn = sandbox.run(&[command, "turn_0123456789"]).error("INVALID_ARGUMENT");
        assert_eq!(turn["details"]["recommendedCommand"], "subagent turn show turn_0123456789");
        let _ = sandbox.run(&[command, "w_0123456789"]).error("WORKER_NOT_FOUND");
    }
    assert!(Path::new(sandbox.state_dir()).exists());
    sandbox.finish();
}
