//! Shells of one user with different `XDG_RUNTIME_DIR`s, such as a desktop and a cron job: they use
//! the same daemon and workers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use subagent_tests::harness::TestSandbox;

/// Returns another, empty folder for the sockets.
fn other(sandbox: &TestSandbox, name: &str) -> PathBuf {
    let folder = sandbox.file(name);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

#[test]
fn another_shell_reaches_the_daemon_that_runs() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    let folder = other(&sandbox, "run-b");
    let env = ("XDG_RUNTIME_DIR", folder.as_os_str());
    let listed = sandbox.subagent(&["worker", "list"]).env(env.0, env.1).run().data_of("worker.listed");
    assert_eq!(listed["items"][0]["workerId"], worker.as_str());
    let shown = sandbox.subagent(&["daemon", "status"]).env(env.0, env.1).run().data_of("daemon.shown");
    assert_eq!(shown["pid"], daemon.pid);
    let found = sandbox.subagent(&["doctor"]).env(env.0, env.1).run();
    assert_eq!(found.document()["data"]["healthy"], true, "{found}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    sandbox.finish();
}

#[test]
fn a_daemon_that_another_shell_starts_finds_live_workers_and_their_environments() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("OF_THIS_WORKER", "kept");
    sandbox.init();
    let worker = sandbox.start("demo");
    let (runtime, first) = (sandbox.runtime(&worker), sandbox.daemon_info().unwrap().socket);
    let folder = other(&sandbox, "run-b");
    sandbox.remove_env("OF_THIS_WORKER");
    sandbox.set_env("XDG_RUNTIME_DIR", &folder);
    // After a crash, and after an orderly end, which removes daemon.json.
    for crash in [true, false] {
        if crash {
            sandbox.kill_daemon();
        } else {
            let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
        }
        assert_eq!(sandbox.send(&worker, "!env OF_THIS_WORKER")["assistantText"], "kept");
        assert_eq!(sandbox.daemon_info().unwrap().socket, first, "the workers are in the other folder");
        assert_eq!(sandbox.runtime(&worker).pid, runtime.pid, "it was started again");
    }
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(sandbox.send(&worker, "!env OF_THIS_WORKER")["assistantText"], "kept");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    // Nothing there is still needed.
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert!(sandbox.daemon_info().unwrap().socket.starts_with(&folder));
    sandbox.finish();
}
