//! `subagentd run`: its output, its file, and how it ends.

use super::*;

#[test]
fn once_without_workers_prints_the_payload_writes_it_and_ends() {
    let sandbox = TestSandbox::new();
    let output = subagentd(&sandbox, &["run", "--once", "--json"]);
    let printed = bare(&output);
    assert_shape(&printed, &payload("once", &json!([])));
    assert_eq!(printed["workerHealth"]["items"], json!([]));
    assert_eq!(printed["stateDir"], sandbox.state_dir().to_str().unwrap());
    assert_eq!(printed["dbPath"], sandbox.state_dir().join("state.db").to_str().unwrap());
    assert_eq!(printed["monitorWorkers"], true);
    assert_eq!(status_file(&sandbox).unwrap(), printed, "output and file must be equal");
    assert!(sandbox.processes().is_empty());
    let text = subagentd(&sandbox, &["run", "--once", "--no-monitor-workers"]);
    assert_eq!(
        text.text(),
        format!("subagentd initialized: {}\n", sandbox.state_dir().join("state.db").display())
    );
    assert_eq!(status_file(&sandbox).unwrap()["monitorWorkers"], false);
    sandbox.finish();
}

#[test]
fn the_status_file_is_indented_private_and_replaced_as_a_whole() {
    let sandbox = TestSandbox::new();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
    let path = sandbox.state_dir().join(STATUS_FILE);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\n  \"dbPath\": "), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // A reader never sees an incomplete file: an open file keeps the old content.
    let opened = fs::File::open(&path).unwrap();
    let first = status_file(&sandbox).unwrap();
    wait_until("a heartbeat", Duration::from_secs(20), || {
        let now = status_file(&sandbox).expect("the file must be complete at any moment");
        (now["lastHeartbeatAt"] != first["lastHeartbeatAt"]).then_some(())
    });
    assert_eq!(std::io::read_to_string(&opened).unwrap(), text);
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn where_proc_is_of_another_pid_namespace_no_daemon_starts() {
    let sandbox = TestSandbox::new();
    let unshare = |more: &[&str], program: &str, arguments: &[&str]| {
        let inside = ["--pid", "--fork"].iter().chain(more).copied();
        let command: Vec<&str> = inside.chain([program]).chain(arguments.iter().copied()).collect();
        sandbox.command("unshare").args(["--user", "--map-root-user"]).args(command).run()
    };
    let possible = unshare(&["--mount-proc"], "echo", &["possible"]);
    if possible.stdout.is_empty() {
        say(&format!("SKIPPED, NOTHING WAS TESTED: unshare failed\n{possible}"));
        return;
    }
    let (daemon, command) = (sandbox.executable("subagentd"), sandbox.executable("subagent"));
    let once = ["run", "--once", "--json"];
    for (program, arguments) in [(&daemon, &once[..]), (&command, &["daemon", "start", "--json"])] {
        let error = unshare(&[], program, arguments).error("DAEMON_START_FAILED");
        assert!(error["message"].as_str().unwrap().contains("/proc is of another pid namespace"), "{error}");
        // A command looks there for a daemon that another process starts.
        assert!(program == &command || !sandbox.state_dir().exists());
    }
    assert_eq!(bare(&unshare(&["--mount-proc"], &daemon, &once))["mode"], "once");
    sandbox.finish();
}

#[test]
fn in_the_foreground_it_prints_once_beats_and_writes_its_end() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (sandbox, _worker) = TestSandbox::with_worker();
        let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
        let printed: Value = serde_json::from_str(daemon.stdout().trim_end()).unwrap();
        assert_shape(&printed, &payload("foreground", &json!([healthy()])));
        assert_eq!(printed["pid"], daemon.pid());
        assert_eq!(summary(&printed), [1, 1, 0, 0, 0]);
        let mut with_end = payload("foreground", &json!([healthy()]));
        assert_shape(&status_file(&sandbox).unwrap(), &with_end);
        wait_until("a heartbeat", Duration::from_secs(20), || {
            let now = status_file(&sandbox)?;
            (now["lastHeartbeatAt"] != printed["lastHeartbeatAt"]).then_some(())
        });
        let said = end(daemon, signal);
        assert_eq!(said.lines().count(), 1, "{said}");
        with_end["stoppedAt"] = json!("ts");
        assert_shape(&status_file(&sandbox).unwrap(), &with_end);
        sandbox.finish();
    }
}

#[test]
fn in_the_foreground_it_says_its_pid_to_people() {
    let sandbox = TestSandbox::new();
    let daemon = foreground(&sandbox, &[]);
    assert_eq!(daemon.stdout(), format!("subagentd running (pid={})\n", daemon.pid()));
    end(daemon, Signal::SIGINT);
    sandbox.finish();
}

#[test]
fn errors_are_envelopes() {
    let sandbox = TestSandbox::new();
    let daemon = foreground(&sandbox, &["--json"]);
    let error = subagentd(&sandbox, &["run", "--json"]).error("DAEMON_ALREADY_RUNNING");
    assert_eq!(error["details"]["pid"], daemon.pid());
    let text = subagentd(&sandbox, &["run"]);
    assert_eq!(text.status.code(), Some(1), "{text}");
    assert!(text.stderr.starts_with("DAEMON_ALREADY_RUNNING: "), "{text}");
    assert!(text.stderr.contains("\nTry: subagentd stop"), "{text}");
    assert_eq!(text.stdout, "");
    end(daemon, Signal::SIGTERM);
    let nowhere = sandbox.file("nowhere");
    fs::create_dir(&nowhere).unwrap();
    for args in [["status", "--json"].as_slice(), &["run", "--once", "--json"], &["stop", "--json"]] {
        let output = sandbox.command("subagentd").args(args).cwd(&nowhere).run();
        output.error("WORKSPACE_ROOT_NOT_FOUND");
    }
    sandbox.finish();
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    let sandbox = TestSandbox::new();
    for args in [
        ["run", "--heartbeat-seconds", "0"],
        ["run", "--restart-cooldown-seconds", "0"],
        ["run", "--heartbeat-seconds", "x"],
        ["run", "--heartbeat-seconds", "18446744073709551615"],
        ["run", "--restart-cooldown-seconds", "18446744073709551615"],
    ] {
        let output = subagentd(&sandbox, &args);
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.contains(args[1]), "{output}");
    }
    sandbox.finish();
}
