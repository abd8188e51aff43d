//! `subagent doctor`: what it detects, its advice, what `--fix` repairs, and what it leaves alone.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};
use subagent_protocol::codec;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{On, Output, TestLauncher, TestSandbox, assert_shape, wait_until};

/// Time limit of a check, even with many problems.
const BOUND: Duration = Duration::from_secs(45);

/// Returns the report, after checking exit code and envelope.
#[track_caller]
fn doctor(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let output = sandbox.subagent(&[&["doctor"], args].concat()).run();
    assert!(output.elapsed < BOUND, "{output}");
    report(&output)
}

#[track_caller]
fn report(output: &Output) -> Value {
    let document = output.document();
    let finding = json!({"id": "str", "group": "str", "status": "str", "seen": "str", "action": "str?"});
    let counts = json!({"problem": "int", "warning": "int", "fixed": "int", "ok": "int"});
    let data = json!({"stateDir": "str", "healthy": "bool", "counts": counts, "findings": [finding]});
    assert_shape(
        &document,
        &json!({"schemaVersion": "=v1", "ok": true, "type": "=doctor.report", "data": data}),
    );
    let data = document["data"].clone();
    assert_eq!(output.status.code(), Some(if data["healthy"] == true { 0 } else { 1 }), "{output}");
    assert_eq!(data["healthy"], data["counts"]["problem"] == 0, "{output}");
    data
}

/// Returns the findings with an id that are not `ok`.
fn wrong<'a>(report: &'a Value, id: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    assert!(all.iter().any(|finding| finding["id"] == id), "{id} was not checked: {report:#}");
    all.iter().filter(|finding| finding["id"] == id && finding["status"] != "ok").collect()
}

/// Returns the only finding with an id that is not `ok`, which has this status.
#[track_caller]
fn one<'a>(report: &'a Value, id: &str, status: &str) -> &'a Value {
    let found = wrong(report, id);
    assert!(found.len() == 1 && found[0]["status"] == status, "{id}: {found:#?}\n{report:#}");
    found[0]
}

/// Runs the command in the advice.
#[track_caller]
fn obey(sandbox: &TestSandbox, finding: &Value) {
    let command = finding["action"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    let path = format!(
        "{}:{}",
        Path::new(&sandbox.executable("subagent")).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let done = sandbox.command("sh").args(["-c", &command]).env("PATH", path).run();
    assert!(done.status.success(), "{done}");
}

/// Starts a process with this marker that is not our child.
fn marked(sandbox: &TestSandbox, marker: &str) -> Child {
    std::process::Command::new("sleep")
        .arg("300")
        .env_clear()
        .env("SUBAGENT_MARKER", marker)
        .env("TEST_SANDBOX_ID", sandbox.path().file_name().unwrap())
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn old(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(3600);
    File::open(path).unwrap().set_modified(then).unwrap();
}

fn database(sandbox: &TestSandbox) -> Connection {
    let connection = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection
}

#[test]
fn where_nothing_was_done_nothing_is_made_and_nothing_is_wrong() {
    let sandbox = TestSandbox::new();
    let found = doctor(&sandbox, &[]);
    assert_eq!(found["healthy"], true, "{found:#}");
    assert!(!sandbox.state_dir().exists() && !sandbox.file("run/subagent").exists());
    assert!(sandbox.processes().is_empty());
    // Also not with --fix.
    let _ = doctor(&sandbox, &["--fix"]);
    assert!(!sandbox.state_dir().exists() && sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn a_healthy_workspace_has_no_problem_with_and_without_a_daemon() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    for daemon in [true, false] {
        if !daemon {
            let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
        }
        let found = doctor(&sandbox, &["--fix"]);
        let counts = &found["counts"];
        assert_eq!((&counts["problem"], &counts["fixed"]), (&json!(0), &json!(0)), "{found:#}");
        for id in ["processes.daemon", "processes.runtimes", "processes.strays", "database.sound"] {
            assert_eq!(wrong(&found, id), [&Value::Null; 0], "{found:#}");
        }
        assert_eq!(sandbox.find_daemon().is_some(), daemon, "a check must neither start nor end a daemon");
    }
    sandbox.finish();
}

#[test]
fn plain_lines_have_status_id_what_was_seen_and_what_to_do() {
    let sandbox = TestSandbox::new();
    let output = sandbox.command("subagent").args(["doctor"]).run();
    for line in output.text().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(["ok", "warning"].contains(&fields[0]) && fields[1].contains('.'), "{line}");
        assert!((3..=4).contains(&fields.len()), "{line}");
    }
    sandbox.finish();
}

#[test]
fn a_stopped_daemon_is_reported_in_time_and_the_advice_works() {
    let (sandbox, _) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let found = doctor(&sandbox, &[]);
    let finding = one(&found, "processes.daemon", "problem");
    assert!(finding["seen"].as_str().unwrap().contains(&daemon.pid.to_string()), "{finding}");
    obey(&sandbox, finding);
    assert_eq!(wrong(&doctor(&sandbox, &[]), "processes.daemon"), [&Value::Null; 0]);
    sandbox.finish();
}

#[test]
fn a_stopped_runtime_is_reported_and_the_advice_works() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.runtime(&worker).signal(Signal::SIGSTOP);
    let found = doctor(&sandbox, &[]);
    let finding = one(&found, "processes.runtimes", "problem");
    assert!(finding["seen"].as_str().unwrap().contains(&worker), "{finding}");
    obey(&sandbox, finding);
    assert_eq!(wrong(&doctor(&sandbox, &[]), "processes.runtimes"), [&Value::Null; 0]);
    sandbox.finish();
}

#[test]
fn strays_are_ended_by_exactly_their_marker() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let agent = sandbox.agent(&sandbox.guard(&sandbox.runtime(&worker)));
    let mut stray = marked(&sandbox, &format!("{worker}.99"));
    let mut others = [
        // One each of the live runtime, of another state directory, and without an owner.
        marked(&sandbox, &format!("{worker}.1")),
        marked(&sandbox, "w_0000000000.1"),
        marked(&sandbox, &worker),
    ];
    let found = doctor(&sandbox, &[]);
    let finding = one(&found, "processes.strays", "problem");
    assert!(finding["seen"].as_str().unwrap().contains(&format!("pid {}", stray.id())), "{finding}");
    assert!(stray.try_wait().unwrap().is_none(), "without --fix nothing is ended");
    obey(&sandbox, finding);
    assert!(!stray.wait().unwrap().success());
    for other in &mut others {
        assert!(other.try_wait().unwrap().is_none(), "another owner's process was ended");
    }
    assert!(agent.lives());
    assert_eq!(wrong(&doctor(&sandbox, &["--fix"]), "processes.strays"), [&Value::Null; 0]);
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    sandbox.finish();
}

#[test]
fn what_runtime_and_guard_left_when_all_were_killed_in_one_stroke_is_ended_without_a_daemon() {
    let (sandbox, worker) = TestSandbox::with_worker();
    // Not the scripted agent's own: our executables are never ended this way.
    let _ = sandbox.send(&worker, "!shell setsid sleep 300 > /dev/null 2>&1 &");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let daemon = sandbox.daemon();
    for process in [&daemon, &runtime, &guard] {
        process.signal(Signal::SIGSTOP);
    }
    for process in [&daemon, &guard, &runtime] {
        sandbox.kill(process);
    }
    let left = sandbox.processes();
    assert!(!left.is_empty(), "the stray lives");
    let found = doctor(&sandbox, &["--fix"]);
    let _ = one(&found, "processes.strays", "fixed");
    wait_until("the end of all strays", Duration::from_secs(5), || {
        left.iter().all(|process| !process.lives()).then_some(())
    });
    assert!(sandbox.find_daemon().is_none(), "no daemon was started");
    sandbox.finish();
}

#[test]
fn an_unknown_runtime_is_ended_through_its_guard() {
    for stopped_too in [false, true] {
        let (sandbox, worker) = TestSandbox::with_worker();
        let _ = sandbox.send(&worker, "!spawn all");
        let runtime = sandbox.runtime(&worker);
        let guard = sandbox.guard(&runtime);
        let all: Vec<Process> = sandbox.processes();
        sandbox.kill_daemon();
        let row = |changed: &str| {
            let sql = format!("UPDATE workers SET {changed} WHERE worker_id = '{worker}'");
            database(&sandbox).execute(&sql, []).unwrap();
        };
        // Recent enough that the retention keeps it.
        row("state = 'stopped', desired = 'stop', stopped_at = created_at");
        let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        if stopped_too {
            runtime.signal(Signal::SIGSTOP);
        }
        let finding_of = doctor(&sandbox, &[]);
        let finding = one(&finding_of, "processes.runtimes", "problem");
        assert!(runtime.lives() && guard.lives(), "without --fix nothing is ended");
        obey(&sandbox, finding);
        let daemon = sandbox.daemon();
        wait_until("the end of all that the runtime started", Duration::from_secs(5), || {
            let left = all.iter().filter(|process| process.lives() && process.pid != daemon.pid);
            (left.count() == 0).then_some(())
        });
        assert_eq!(doctor(&sandbox, &[])["healthy"], true);
        let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
        row("state = 'idle', desired = 'run', stopped_at = NULL");
        sandbox.finish();
    }
}

#[test]
fn files_that_others_could_use_are_made_private() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let state = sandbox.state_dir().to_owned();
    let socket = sandbox.daemon_info().unwrap().socket;
    let wrong_modes = [
        (state.clone(), 0o755, "permissions.stateDir"),
        (state.join("state.db"), 0o644, "permissions.files"),
        (state.join(format!("runtimes/{worker}/1.journal")), 0o604, "permissions.files"),
        (state.join("logs"), 0o750, "permissions.files"),
        (socket.clone(), 0o666, "permissions.socketDir"),
        (socket.parent().unwrap().to_owned(), 0o711, "permissions.socketDir"),
    ];
    for (path, mode, _) in &wrong_modes {
        fs::set_permissions(path, Permissions::from_mode(*mode)).unwrap();
    }
    fs::remove_file(state.join(".gitignore")).unwrap();
    let found = doctor(&sandbox, &[]);
    for (path, _, id) in &wrong_modes {
        let reported = wrong(&found, id);
        let of_path = format!("{}: ", path.display());
        assert!(
            reported.iter().any(|finding| finding["status"] == "problem"
                && finding["seen"].as_str().unwrap().starts_with(&of_path)),
            "{of_path} {reported:#?}"
        );
    }
    // One by hand, as advised, the others by --fix.
    obey(&sandbox, wrong(&found, "permissions.stateDir")[0]);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o7777, 0o700);
    let fixed = doctor(&sandbox, &["--fix"]);
    assert_eq!(fixed["counts"]["fixed"], 6, "{fixed:#}");
    for (path, mode, _) in &wrong_modes {
        let now = fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(now, mode & 0o700, "{}", path.display());
    }
    assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
    let again = doctor(&sandbox, &[]);
    for id in ["permissions.stateDir", "permissions.files", "permissions.socketDir", "permissions.gitignore"]
    {
        assert_eq!(wrong(&again, id), [&Value::Null; 0], "{again:#}");
    }
    let _ = sandbox.send(&worker, "it still works");
    sandbox.finish();
}

#[test]
fn a_link_among_our_files_is_reported_and_not_followed() {
    let (sandbox, _) = TestSandbox::with_worker();
    let secret = sandbox.file("elsewhere");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let link = sandbox.state_dir().join("logs/link");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let found = doctor(&sandbox, &["--fix"]);
    let finding = one(&found, "permissions.files", "problem");
    assert!(finding["seen"].as_str().unwrap().contains("symbolic link"), "{finding}");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o644);
    fs::remove_file(link).unwrap();
    sandbox.finish();
}

#[test]
fn a_folder_above_in_which_everybody_may_write_is_reported() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let above = sandbox.workspace();
    fs::set_permissions(&above, Permissions::from_mode(0o777)).unwrap();
    let found = doctor(&sandbox, &["--fix"]);
    obey(&sandbox, one(&found, "permissions.parents", "problem"));
    assert_eq!(wrong(&doctor(&sandbox, &[]), "permissions.parents"), [&Value::Null; 0]);
    sandbox.finish();
}

#[test]
fn orphaned_files_are_removed_when_they_are_old_enough() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let folder = sandbox.file("run/subagent");
    let hash = sandbox.daemon_info().unwrap().socket.file_stem().unwrap().to_str().unwrap().to_owned();
    let name = |worker: &str, end: &str| folder.join(format!("{hash}-{worker}.{end}"));
    let left = [name("w_0000000001", "env"), name("w_0000000002", "sock")];
    let kept = [name("w_0000000003", "env"), name(&worker, "env")];
    for path in left.iter().chain(&kept[..1]) {
        fs::write(path, "[]").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    left.iter().chain(&kept[1..]).for_each(|path| old(path));
    // A person must decide about a journal of an unknown worker.
    let journal = sandbox.state_dir().join("runtimes/w_0000000004/1.journal");
    fs::create_dir(journal.parent().unwrap()).unwrap();
    fs::set_permissions(journal.parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    fs::write(&journal, "x").unwrap();
    fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
    old(&journal);
    old(journal.parent().unwrap());
    let found = doctor(&sandbox, &[]);
    assert_eq!(wrong(&found, "journals.leftFiles").len(), 2, "{found:#}");
    assert!(left.iter().all(|path| path.exists()), "without --fix nothing is removed");
    let fixed = doctor(&sandbox, &["--fix"]);
    assert_eq!(fixed["counts"]["fixed"], 2, "{fixed:#}");
    assert!(left.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
    assert!(journal.exists());
    obey(&sandbox, one(&fixed, "journals.unknown", "warning"));
    assert!(!journal.parent().unwrap().exists());
    fs::remove_file(&kept[0]).unwrap();
    sandbox.finish();
}

#[test]
fn a_database_that_contradicts_itself_and_a_worker_set_aside_are_problems() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let bad = "INSERT INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
               VALUES ('hs_0000000000', 4711, 0, '', '', 0)";
    database(&sandbox).execute(bad, []).unwrap();
    let found = doctor(&sandbox, &["--fix"]);
    let finding = one(&found, "database.sound", "problem");
    assert!(finding["seen"].as_str().unwrap().contains("handoffs"), "{finding}");
    database(&sandbox).execute("DELETE FROM handoffs", []).unwrap();
    let state = |word: &str| {
        let sql = format!("UPDATE workers SET state = '{word}' WHERE worker_id = '{worker}'");
        database(&sandbox).execute(&sql, []).unwrap();
    };
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    state("dancing");
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let found = doctor(&sandbox, &[]);
    let finding = one(&found, "database.workers", "problem");
    assert!(finding["seen"].as_str().unwrap().contains(&worker), "{finding}");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    state("idle");
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    assert_eq!(doctor(&sandbox, &[])["healthy"], true);
    sandbox.finish();
}

#[test]
fn records_that_are_missing_or_not_understood_are_reported() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "before");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    sandbox.kill(&runtime);
    // After the daemon's cursor: a record of an unknown kind, and one whose predecessor is missing.
    let journal = sandbox.state_dir().join("runtimes").join(&worker).join("1.journal");
    let mut bytes = fs::read(&journal).unwrap();
    let last = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    for (number, body) in [(last + 1, json!({"dancing": true})), (last + 3, json!({"humming": true}))] {
        let record = json!({"n": number, "at": 0, "t": "agentStarted", "b": body});
        codec::encode(record.to_string().as_bytes(), &mut bytes);
    }
    fs::write(&journal, bytes).unwrap();
    let _ = sandbox.send(&worker, "after");
    let found = doctor(&sandbox, &[]);
    assert_eq!(found["healthy"], true, "{found:#}");
    let misread = one(&found, "database.workers", "warning");
    assert!(misread["seen"].as_str().unwrap().starts_with(&format!("{worker}: 2 records")), "{misread}");
    let gap = one(&found, "database.gaps", "warning");
    assert!(gap["seen"].as_str().unwrap().contains(&worker), "{gap}");
    obey(&sandbox, misread);
    obey(&sandbox, gap);
    sandbox.finish();
}

#[test]
fn the_config_and_its_launchers_are_looked_at() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("gone", TestLauncher::new("no-such-agent", ["x"; 0]));
    let found = doctor(&sandbox, &[]);
    let finding = one(&found, "config.launchers", "warning");
    assert!(finding["seen"].as_str().unwrap().contains("no-such-agent"), "{finding}");
    assert_eq!(found["healthy"], true);
    obey(&sandbox, finding);
    fs::write(sandbox.config_file(), "launchers: 7\n").unwrap();
    let _ = one(&doctor(&sandbox, &[]), "config.file", "problem");
    sandbox.finish();
}

#[test]
fn below_a_worker_it_looks_and_mends_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let other = sandbox.start("demo");
    let program = sandbox.executable("subagent");
    let stray = marked(&sandbox, &format!("{worker}.99"));
    let cwd = sandbox.workspace();
    let asked = |flags: &str| {
        let command = format!("!shell {program} doctor {flags} --json --cwd {}", cwd.display());
        sandbox.send(&worker, &command)["assistantText"].as_str().unwrap().to_owned()
    };
    let looked = asked("");
    assert!(looked.contains("doctor.report") && looked.contains("processes.strays"), "{looked}");
    assert!(!looked.contains(&other), "{looked}");
    let refused = asked("--fix");
    assert!(refused.contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    let mut stray = stray;
    assert!(stray.try_wait().unwrap().is_none(), "an agent has ended something");
    stray.kill().unwrap();
    stray.wait().unwrap();
    sandbox.finish();
}

#[test]
fn a_person_sees_what_is_wrong_first_and_what_is_well_in_one_line_each() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.config_file(), "launchers: 7\n").unwrap();
    let screen = sandbox.command("subagent").args(["doctor"]).at_terminal(200, On::Both).screen();
    let (lines, text) = (screen.lines(), screen.text());
    assert!(lines[0].contains("problem") && lines[0].contains("config.file"), "{text}");
    assert!(lines.iter().any(|line| line.contains("ok") && line.contains("processes")), "{text}");
    assert!(lines.last().unwrap().contains("1 problem, "), "{text}");
    assert!(text.contains("-> correct it"), "{text}");
    sandbox.finish();
}
