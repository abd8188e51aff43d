//! The state directory fails for a while, is full, read-only, or disappears under a running
//! daemon and its runtimes. Every command gets its answer within the deadline, and nothing
//! is lost or left.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use subagent_tests::harness::{Faults, Stubborn, TestSandbox, crowd, say, wait_until};
use subagent_tests::invariants::Acknowledged;

/// Time limit of commands on a broken state directory: above every limit of the client.
const DEADLINE: Duration = Duration::from_secs(100);
/// Time limit for the processes of a removed state directory to end.
const NOTHING_LEFT: Duration = Duration::from_secs(15);
/// Error codes that a user may get.
const EXPECTED: [&str; 10] = [
    "BACKEND_RUNTIME_ERROR",
    "DAEMON_NOT_RUNNING",
    "DAEMON_START_FAILED",
    "DAEMON_UNRESPONSIVE",
    "RUNTIME_LOST",
    "STATE_DIR_UNWRITABLE",
    "STOP_INCOMPLETE",
    "STORAGE_ERROR",
    "STORAGE_FULL",
    "WAIT_TIMEOUT",
];

/// Runs one of each command while nothing can be written. Each returns its result or a clear error.
fn ask_everything(sandbox: &TestSandbox, worker: &str) -> usize {
    let send = ["send", "--worker-id", worker, "--text", "now", "--wait-timeout-seconds", "2"];
    let commands: [&[&str]; 7] = [
        &send,
        &["worker", "list"],
        &["worker", "handoff", "--worker-id", worker],
        &["cancel", "--worker-id", worker],
        &["controller", "status"],
        &["worker", "start"],
        &["controller", "attach", "--takeover"],
    ];
    let mut errors = 0;
    for command in commands {
        let output = sandbox.subagent(command).deadline(DEADLINE).run();
        if !output.status.success() {
            let error = output.any_error();
            let code = error["code"].as_str().unwrap();
            // Its turn may have ended meanwhile.
            assert!(EXPECTED.contains(&code) || code == "WORKER_NOT_RUNNING", "{output}");
            errors += 1;
        }
    }
    errors
}

/// Checks that everything continues and is stored.
fn goes_on(sandbox: TestSandbox, worker: &str) {
    let manager = Stubborn::new(&sandbox);
    let end = manager.turn(worker, "after", "well");
    assert_eq!(end["type"], "turn.completed", "{end}");
    sandbox.finish();
}

#[test]
fn a_state_dir_that_fails_for_a_while_is_reported_and_nothing_is_lost() {
    let ways = [("ENOSPC", "full"), ("EROFS", "read-only"), ("EIO", "broken")];
    let cases: Vec<_> = ways.iter().flat_map(|way| [(*way, false), (*way, true)]).collect();
    let name = |((_, name), kill): &((&str, &str), bool)| {
        format!("{name}, the daemon {}", if *kill { "killed meanwhile" } else { "runs on" })
    };
    crowd("the state dir fails for a while", 6, &cases, name, |((errno, _), kill)| {
        let mut sandbox = TestSandbox::new();
        let gate = sandbox.file("failing");
        let ops = ["change", "write", "sync", "truncate", "allocate", "rename", "unlink"];
        let ops = ops.iter().filter(|op| *errno != "EROFS" || **op != "sync");
        let ops = ops.filter(|op| *errno != "ENOSPC" || !["sync", "truncate", "unlink"].contains(*op));
        let rule =
            |op: &&str| format!("op={op};path=*/.subagent/state/*;errno={errno};while={}", gate.display());
        let rules: Vec<String> = ops.map(rule).collect();
        let faults = Faults::arm(&mut sandbox, &rules);
        sandbox.init();
        let worker = sandbox.start("demo");
        assert_eq!(sandbox.send(&worker, "before")["assistantText"], "before");
        fs::write(&gate, "").unwrap();
        if *kill {
            sandbox.kill_daemon();
        }
        assert!(ask_everything(&sandbox, &worker) > 0, "nothing failed");
        fs::remove_file(&gate).unwrap();
        assert!((0..rules.len()).any(|rule| faults.counted(rule).1 > 0));
        sandbox.check();
        goes_on(sandbox, &worker);
    });
}

/// Removes a state directory in use, and checks the effects.
fn goes_away(change: impl Fn(&Path, &Path)) -> (TestSandbox, String, std::path::PathBuf) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (state, elsewhere) = (sandbox.state_dir().to_owned(), sandbox.file("elsewhere"));
    let gate = sandbox.gate("never");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let waiting = sandbox
        .subagent(&["wait", "--worker-id", &worker, "--until", "turn.completed"])
        .deadline(DEADLINE)
        .spawn();
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let old = [sandbox.daemon(), sandbox.agent(&guard), guard, runtime];
    change(&state, &elsewhere);
    // The next command finds a new state directory, without the old worker.
    let shown = sandbox.subagent(&["worker", "show", &worker]).deadline(DEADLINE).run();
    let error = shown.any_error();
    assert_eq!(error["code"], "WORKER_NOT_FOUND", "{shown}");
    let error = waiting.output().any_error();
    let code = error["code"].as_str().unwrap();
    assert!(EXPECTED.contains(&code) || code == "WORKER_NOT_FOUND", "{error}");
    wait_until("daemon, runtime, guard and agent of it to be gone", NOTHING_LEFT, || {
        old.iter().all(|process| !process.lives()).then_some(())
    });
    (sandbox, worker, elsewhere)
}

/// Checks that a new state directory in the same place works. The old one's acknowledged
/// data is legitimately gone.
fn begins_anew(sandbox: TestSandbox) {
    sandbox.recorder().go_back_to(Acknowledged::default());
    let _ = sandbox.run(&["controller", "init"]).data_of("controller.initialized");
    let worker = sandbox.start("demo");
    assert_eq!(sandbox.send(&worker, "anew")["assistantText"], "anew");
    sandbox.check();
    sandbox.finish();
}

#[test]
fn a_state_dir_that_is_removed_takes_its_processes_with_it() {
    let (sandbox, ..) = goes_away(|state, _| {
        // A daemon that still has its lock recreates daemon.json, so that the folder is not empty.
        wait_until("the state dir to be removed", NOTHING_LEFT, || {
            let _ = fs::remove_dir_all(state);
            (!state.exists()).then_some(())
        });
    });
    begins_anew(sandbox);
}

#[test]
fn a_state_dir_that_is_replaced_takes_its_processes_with_it() {
    let (sandbox, ..) = goes_away(|state, elsewhere| {
        fs::rename(state, elsewhere).unwrap();
        // A waiting command may have started a new daemon already, which created it.
        fs::create_dir_all(state).unwrap();
    });
    begins_anew(sandbox);
}

#[test]
fn a_state_dir_that_comes_back_has_everything() {
    let (sandbox, worker, elsewhere) = goes_away(|state, elsewhere| fs::rename(state, elsewhere).unwrap());
    let stopped = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert_eq!(stopped.status.code(), Some(0), "{stopped}");
    fs::rename(sandbox.state_dir(), sandbox.file("other")).unwrap();
    fs::rename(elsewhere, sandbox.state_dir()).unwrap();
    let shown = sandbox.show(&worker);
    assert_eq!(shown["activeTurnId"], Value::Null, "{shown}");
    // The environment of its agent was not in the state directory, and another directory's
    // daemon has cleaned up.
    let waited = sandbox.send(&worker, "well");
    assert_eq!((&waited["assistantText"], &waited["environmentSent"]), (&json!("well"), &json!(true)));
    let other = sandbox.start("demo");
    goes_on(sandbox, &other);
}

#[test]
fn a_renamed_state_dir_is_noticed_without_a_request() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let old = [sandbox.daemon(), sandbox.agent(&guard), guard, runtime];
    fs::rename(sandbox.state_dir(), sandbox.file("elsewhere")).unwrap();
    wait_until("daemon, runtime, guard and agent of it to be gone", NOTHING_LEFT, || {
        old.iter().all(|process| !process.lives()).then_some(())
    });
    fs::rename(sandbox.file("elsewhere"), sandbox.state_dir()).unwrap();
    goes_on(sandbox, &worker);
}

/// Runs on a thread with its own mount namespace, where root can have one.
fn with_mounts(what: &str, run: impl FnOnce() + Send) {
    let own = || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    };
    thread::scope(|scope| {
        let thread = scope.spawn(move || match own() {
            Ok(()) => run(),
            Err(error) => {
                say(&format!("SKIPPED, NOTHING WAS TESTED: {what} needs a mount, and that root: {error}"));
            }
        });
        thread.join().unwrap();
    });
}

/// A sandbox whose state directory is a small file system.
fn on_tmpfs(options: &str, flags: MsFlags) -> TestSandbox {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    mount(Some("none"), sandbox.state_dir(), Some("tmpfs"), flags, Some(options)).unwrap();
    sandbox
}

#[test]
fn a_small_file_system_that_is_full_again_and_again_loses_nothing() {
    with_mounts("a full file system", || {
        let sandbox = on_tmpfs("size=24m,mode=700", MsFlags::empty());
        let state = sandbox.state_dir().to_owned();
        sandbox.init();
        let worker = sandbox.start("demo");
        let filler = state.join("filler");
        for round in 0..2 {
            let mut file = fs::File::create(&filler).unwrap();
            while file.write_all(&[0; 4096]).is_ok() {}
            if round == 1 {
                sandbox.kill_daemon();
            }
            assert!(ask_everything(&sandbox, &worker) > 0, "nothing failed");
            // It was full all the time, as no space was freed.
            let full = file.write_all(&[0; 4096]).expect_err("the file system is not full");
            assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
            drop(file);
            fs::remove_file(&filler).unwrap();
            let manager = Stubborn::new(&sandbox);
            assert_eq!(manager.turn(&worker, &format!("key-{round}"), "well")["type"], "turn.completed");
            sandbox.check();
        }
        let finished = sandbox.finish();
        umount2(&state, MntFlags::MNT_DETACH).unwrap();
        drop(finished);
    });
}

#[test]
fn a_state_dir_that_is_read_only_is_reported() {
    with_mounts("a read-only file system", || {
        let sandbox = on_tmpfs("size=1m,mode=700", MsFlags::MS_RDONLY);
        for command in [&["controller", "init"][..], &["worker", "list"], &["worker", "start"]] {
            let error = sandbox.run(command).error("STATE_DIR_UNWRITABLE");
            assert!(error["details"]["stateDir"].is_string(), "{error}");
        }
        let doctor = sandbox.run(&["doctor"]);
        let findings = doctor.document()["data"].to_string();
        assert!(findings.contains("mount the file system of"), "{findings}");
        assert!(!findings.contains("make room for it"), "{findings}");
        umount2(sandbox.state_dir(), MntFlags::MNT_DETACH).unwrap();
        sandbox.finish();
    });
}

#[test]
fn a_state_dir_that_becomes_read_only_under_a_running_daemon_loses_nothing() {
    with_mounts("a read-only file system", || {
        let (sandbox, worker) = TestSandbox::with_worker();
        let state = sandbox.state_dir().to_owned();
        // Open files stay writable; files opened from now on are read-only.
        mount(Some(&state), &state, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, &state, None::<&str>, flags, None::<&str>).unwrap();
        assert!(ask_everything(&sandbox, &worker) > 0, "nothing failed");
        sandbox.kill_daemon();
        sandbox.run(&["worker", "list"]).error("STATE_DIR_UNWRITABLE");
        umount2(&state, MntFlags::MNT_DETACH).unwrap();
        goes_on(sandbox, &worker);
    });
}

#[test]
fn an_agent_of_unknown_state_is_neither_given_up_nor_passed_over() {
    let (mut sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.show(&worker)["runtimePid"].clone();
    sandbox.kill_daemon();
    let closed = sandbox.file("closed");
    fs::write(&closed, "").unwrap();
    let rule = format!("op=open;path=*/runtimes/*/lock;errno=EACCES;while={}", closed.display());
    let faults = Faults::arm(&mut sandbox, &[rule]);
    let set = sandbox.run(&["worker", "set", "--worker-id", &worker, "--mode", "bold"]);
    let error = set.error("STORAGE_ERROR");
    assert_eq!((&error["retryable"], &error["details"]["workerId"]), (&true.into(), &worker.as_str().into()));
    fs::remove_file(closed).unwrap();
    faults.disarm(&mut sandbox);
    wait_until("the daemon to check again", Duration::from_secs(20), || {
        let set = sandbox.run(&["worker", "set", "--worker-id", &worker, "--set", "verbose=true"]);
        set.status.success().then_some(())
    });
    assert_eq!(sandbox.send(&worker, "!options")["assistantText"], "mode=careful model=small verbose=true");
    assert_eq!(sandbox.show(&worker)["runtimePid"], runtime);
    let events = sandbox.events(&worker);
    assert!(events.iter().all(|event| event["type"] != "worker.lost"), "{events:?}");
    sandbox.finish();
}
