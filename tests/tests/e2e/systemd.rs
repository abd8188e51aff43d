//! The daemon under systemd: the unit of the user manager, and the daemon's notifications. Without
//! systemd, a script replaces `systemctl` and a socket of the test replaces the manager.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Running, TestSandbox, assert_shape, say};

/// A receiver of notifications.
struct NotifyReceiver(UnixDatagram);

impl NotifyReceiver {
    /// Binds it to a path that every later command of the sandbox gets.
    fn at_path(sandbox: &mut TestSandbox) -> Self {
        let path = sandbox.file("notify");
        sandbox.set_env("NOTIFY_SOCKET", &path);
        Self::of(UnixDatagram::bind(path).unwrap())
    }

    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(socket)
    }

    /// Returns the next message, as lines.
    #[track_caller]
    fn next(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).unwrap_or_else(|error| panic!("no notification came: {error}"));
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Checks that there is no unread message.
    #[track_caller]
    fn heard_nothing(&self) {
        self.0.set_nonblocking(true).unwrap();
        let more = self.0.recv(&mut [0; 4096]);
        self.0.set_nonblocking(false).unwrap();
        assert_eq!(more.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

fn foreground(sandbox: &TestSandbox) -> Running {
    sandbox.command("subagentd").args(["run"]).deadline(Duration::from_secs(120)).spawn()
}

#[track_caller]
fn end(daemon: Running) {
    daemon.signal(Signal::SIGTERM);
    let output = daemon.output();
    assert_eq!(output.status.code(), Some(0), "{output}");
}

#[test]
fn a_manager_hears_of_readiness_of_the_workers_and_of_the_end() {
    let mut sandbox = TestSandbox::new();
    let manager = NotifyReceiver::at_path(&mut sandbox);
    let daemon = foreground(&sandbox);
    assert_eq!(manager.next(), ["READY=1", "STATUS=0 live workers"]);
    // Ready means that it answers.
    assert_eq!(sandbox.run(&["daemon", "status"]).data_of("daemon.shown")["pid"], daemon.pid());
    sandbox.init();
    let worker = sandbox.start("demo");
    assert_eq!(manager.next(), ["STATUS=1 live worker"]);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(manager.next(), ["STATUS=0 live workers"]);
    end(daemon);
    assert_eq!(manager.next(), ["STOPPING=1", "STATUS=ending: SIGTERM"]);
    manager.heard_nothing();
    sandbox.finish();
}

#[test]
fn a_manager_in_the_abstract_namespace_hears_it_too() {
    let mut sandbox = TestSandbox::new();
    let name = format!("subagent-notify-{}", sandbox.path().file_name().unwrap().to_str().unwrap());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = NotifyReceiver::of(UnixDatagram::bind_addr(&address).unwrap());
    sandbox.set_env("NOTIFY_SOCKET", format!("@{name}"));
    let daemon = foreground(&sandbox);
    assert_eq!(manager.next(), ["READY=1", "STATUS=0 live workers"]);
    end(daemon);
    assert_eq!(manager.next()[0], "STOPPING=1");
    sandbox.finish();
}

#[test]
fn nothing_that_the_daemon_starts_has_the_managers_variables() {
    const ABOUT_ONE: [&str; 5] =
        ["NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDS", "LISTEN_PID"];
    let mut sandbox = TestSandbox::new();
    for name in ABOUT_ONE {
        sandbox.set_env(name, "1");
    }
    let manager = NotifyReceiver::at_path(&mut sandbox);
    let daemon = foreground(&sandbox);
    assert_eq!(manager.next()[0], "READY=1");
    sandbox.init();
    let worker = sandbox.start("demo");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    for process in [&runtime, &guard, &sandbox.agent(&guard)] {
        let environ = fs::read(format!("/proc/{}/environ", process.pid)).unwrap();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        assert!(environ.contains("TEST_SANDBOX_ID="), "{process:?}");
        let found: Vec<_> = environ
            .split('\0')
            .filter(|pair| ABOUT_ONE.iter().any(|name| pair.starts_with(&format!("{name}="))))
            .collect();
        assert!(found.is_empty(), "{process:?} has {found:?}");
    }
    end(daemon);
    sandbox.finish();
}

#[test]
fn a_daemon_that_a_command_started_has_no_manager() {
    let mut sandbox = TestSandbox::new();
    let manager = NotifyReceiver::at_path(&mut sandbox);
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    sandbox.init();
    let _ = sandbox.run(&["daemon", "stop"]);
    let once = sandbox.command("subagentd").args(["run", "--once"]).run();
    assert_eq!(once.status.code(), Some(0), "{once}");
    manager.heard_nothing();
    sandbox.finish();
}

#[test]
fn a_manager_hears_why_there_is_no_daemon() {
    let mut sandbox = TestSandbox::new();
    let first = foreground(&sandbox);
    first.wait_line("anything", |_| Some(()));
    let manager = NotifyReceiver::at_path(&mut sandbox);
    let second = foreground(&sandbox).output();
    assert_eq!(second.status.code(), Some(1), "{second}");
    let said = manager.next();
    assert!(said.len() == 1 && said[0].starts_with("STATUS=DAEMON_ALREADY_RUNNING: "), "{said:?}");
    end(first);
    manager.heard_nothing();
    sandbox.finish();
}

#[test]
fn a_manager_that_does_not_listen_disturbs_nothing() {
    for socket in ["/nowhere/notify", "@no-listener-here", "relative", "vsock:2:1", "@"] {
        let mut sandbox = TestSandbox::new();
        sandbox.set_env("NOTIFY_SOCKET", socket);
        let daemon = foreground(&sandbox);
        daemon.wait_line("readiness", |line| line.contains("running").then_some(()));
        let log = fs::read_to_string(sandbox.state_dir().join("logs/subagentd.log")).unwrap();
        end(daemon);
        let log_after = fs::read_to_string(sandbox.state_dir().join("logs/subagentd.log")).unwrap();
        assert!(log_after.contains("the service manager cannot be notified"), "{socket}: {log}{log_after}");
        sandbox.finish();
    }
}

/// Creates a `systemctl` that records its arguments. `reached`: whether there is a manager;
/// `start`: whether units start.
fn fake_systemctl(sandbox: &mut TestSandbox, reached: bool, start: bool) -> PathBuf {
    let (bin, asked) = (sandbox.file("bin"), sandbox.file("asked"));
    fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\n\
         {reached} || {{ echo 'Failed to connect to bus: No medium found' >&2; exit 1; }}\n\
         case \"$*\" in *enable\\ --now*) {start} || {{ echo 'Job failed.' >&2; exit 1; }};; esac\n\
         test -z \"$SUBAGENT_CTL_TOKEN\"\n",
        asked.display()
    );
    fs::write(bin.join("systemctl"), script).unwrap();
    fs::set_permissions(bin.join("systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    sandbox.set_env("PATH", format!("{}:{path}", bin.display()));
    asked
}

/// Returns its arguments since the last call.
fn taken(asked: &Path) -> Vec<String> {
    let text = fs::read_to_string(asked).unwrap_or_default();
    let _ = fs::remove_file(asked);
    text.lines().map(|line| line.replace("--user --no-ask-password ", "")).collect()
}

fn install(sandbox: &TestSandbox) -> Value {
    sandbox.run(&["daemon", "install"]).data_of("daemon.installed")
}

#[test]
fn a_unit_is_written_enabled_and_removed() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, true, true);
    sandbox.set_env("SUBAGENT_CTL_TOKEN", "not for systemctl");
    let data = install(&sandbox);
    let shape = json!({
        "unit": "str", "unitPath": "str", "stateDir": "str", "program": "str", "enabled": "bool", "problem": null,
        "commands": [],
    });
    assert_shape(&data, &shape);
    let unit = data["unit"].as_str().unwrap();
    assert_eq!(taken(&asked), ["daemon-reload".to_owned(), format!("enable --now {unit}")]);
    assert_eq!(data["enabled"], true);
    let path = sandbox.file("home/.config/systemd/user").join(unit);
    assert_eq!(data["unitPath"], json!(path));
    let text = fs::read_to_string(&path).unwrap();
    let (program, state_dir) = (sandbox.executable("subagentd"), sandbox.state_dir().display().to_string());
    for line in [
        "Type=notify",
        "NotifyAccess=main",
        "KillMode=process",
        "Restart=on-failure",
        "WantedBy=default.target",
        &format!("ExecStart=\"{program}\" run --state-dir \"{state_dir}\""),
        &format!("ConditionPathIsDirectory={state_dir}"),
    ] {
        assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
    }
    assert!(sandbox.state_dir().is_dir());
    assert_eq!(install(&sandbox), data, "a repetition must have the same effect");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let _ = taken(&asked);
    let shown = sandbox.command("subagent").args(["daemon", "uninstall"]).run();
    assert!(shown.stdout.starts_with(&format!("unit: {unit}\n")), "{shown}");
    assert!(shown.stdout.ends_with("\nremoved: true\ndisabled: true\n"), "{shown}");
    let expected = ["daemon-reload".to_owned(), format!("disable --now {unit}"), "daemon-reload".to_owned()];
    assert_eq!(taken(&asked), expected);
    assert!(!path.exists());
    let again = sandbox.run(&["daemon", "uninstall"]).data_of("daemon.uninstalled");
    let shape = json!({
        "unit": "str", "unitPath": "str", "stateDir": "str", "removed": "bool", "disabled": "bool", "problem": null,
        "commands": [],
    });
    assert_shape(&again, &shape);
    assert_eq!((&again["removed"], &again["disabled"]), (&json!(false), &json!(false)), "nothing was there");
    let shown = sandbox.command("subagent").args(["daemon", "uninstall"]).run();
    assert!(shown.stdout.ends_with("\nremoved: false\ndisabled: false\n"), "{shown}");
    assert!(taken(&asked).is_empty(), "there is nothing to ask about");
    sandbox.finish();
}

#[test]
fn a_unit_goes_on_with_the_retention_of_the_one_who_installs_it() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, true, true);
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "soon");
    let error = sandbox.run(&["daemon", "install"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["variable"], "SUBAGENT_RETENTION_DAYS");
    assert!(taken(&asked).is_empty() && !sandbox.file("home/.config").exists());
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    sandbox.set_env("SUBAGENT_LOG", "debug");
    let data = install(&sandbox);
    let text = fs::read_to_string(data["unitPath"].as_str().unwrap()).unwrap();
    let start = text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.ends_with("\" --retention-days 0"), "{start}");
    assert!(text.lines().any(|line| line == "Environment=\"SUBAGENT_LOG=debug\""), "{text}");
    sandbox.finish();
}

#[test]
fn an_agent_can_neither_install_nor_remove_a_unit_nor_be_the_daemon() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, true, true);
    sandbox.init();
    let worker = sandbox.start("demo");
    let path = PathBuf::from(install(&sandbox)["unitPath"].as_str().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    let _ = taken(&asked);
    let daemon = sandbox.daemon();
    let (subagent, subagentd) = (sandbox.executable("subagent"), sandbox.executable("subagentd"));
    let state_dir = sandbox.state_dir();
    for command in [
        format!("{subagent} daemon install --json"),
        format!("setsid {subagent} daemon install --json"),
        format!("{subagent} daemon uninstall --json"),
        format!("{subagentd} run --json --state-dir {}", state_dir.display()),
        format!("{subagentd} run --once --json --state-dir {}", state_dir.display()),
        format!("{subagentd} run --background --state-dir {}", state_dir.display()),
    ] {
        let waited = sandbox.send(&worker, &format!("!shell {command}"));
        let said = waited["assistantText"].as_str().unwrap();
        assert!(said.starts_with("exit 1\n") && said.contains("FORBIDDEN_FROM_WORKER"), "{command}: {said}");
    }
    assert!(taken(&asked).is_empty(), "the manager was asked");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(sandbox.daemon().pid, daemon.pid, "the daemon was ended");
    let printed = sandbox.send(&worker, &format!("!shell {subagent} daemon install --print"));
    assert!(printed["assistantText"].as_str().unwrap().contains("ExecStart="), "{printed}");
    sandbox.finish();
}

#[test]
fn each_state_dir_has_a_unit_of_its_own() {
    let mut sandbox = TestSandbox::new();
    let _ = fake_systemctl(&mut sandbox, true, true);
    let one = install(&sandbox);
    let other =
        sandbox.subagent(&["daemon", "install"]).env("SUBAGENT_STATE_DIR", sandbox.file("other")).run();
    let other = other.data_of("daemon.installed");
    assert_ne!(one["unit"], other["unit"]);
    assert_eq!(other["stateDir"], json!(sandbox.file("other")));
    sandbox.finish();
}

#[test]
fn without_a_manager_it_says_what_to_type() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, false, true);
    let data = install(&sandbox);
    let unit = data["unit"].as_str().unwrap();
    let commands =
        ["systemctl --user daemon-reload".to_owned(), format!("systemctl --user enable --now {unit}")];
    assert_eq!((&data["enabled"], &data["commands"]), (&json!(false), &json!(commands)));
    assert!(data["problem"].as_str().unwrap().contains("No medium found"), "{data}");
    assert_eq!(taken(&asked), ["daemon-reload"]);
    let path = PathBuf::from(data["unitPath"].as_str().unwrap());
    // As `enable` would have created it while a manager was present.
    let wants = path.with_file_name("default.target.wants");
    fs::create_dir(&wants).unwrap();
    std::os::unix::fs::symlink(&path, wants.join(unit)).unwrap();
    let text = sandbox.command("subagent").args(["daemon", "install"]).run();
    assert!(text.stdout.contains(&format!("\ntype: {}\n", commands[0])), "{text}");
    let removed = sandbox.run(&["daemon", "uninstall"]).data_of("daemon.uninstalled");
    assert_eq!((&removed["removed"], &removed["disabled"]), (&json!(true), &json!(false)));
    assert_eq!(removed["commands"], json!([format!("systemctl --user stop {unit}"), commands[0]]));
    assert!(!path.exists() && wants.join(unit).symlink_metadata().is_err());
    // Also without systemd.
    sandbox.set_env("PATH", sandbox.file("empty"));
    let data = install(&sandbox);
    assert_eq!((&data["enabled"], &data["problem"]), (&json!(false), &json!("there is no systemctl here")));
    sandbox.finish();
}

#[test]
fn a_unit_that_does_not_start_is_an_error() {
    let mut sandbox = TestSandbox::new();
    let _ = fake_systemctl(&mut sandbox, true, false);
    let error = sandbox.run(&["daemon", "install"]).error("DAEMON_START_FAILED");
    let details = json!({
        "unit": "str", "unitPath": "str", "command": "str", "error": "=Job failed.", "recommendedAction": "str",
        "recommendedCommand": "str",
    });
    assert_shape(&error["details"], &details);
    sandbox.finish();
}

#[test]
fn printing_a_unit_changes_nothing() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, true, true);
    let data = sandbox.run(&["daemon", "install", "--print"]).data_of("daemon.unit");
    let shape = json!({"unit": "str", "unitPath": "str", "stateDir": "str", "program": "str", "text": "str"});
    assert_shape(&data, &shape);
    let text = sandbox.command("subagent").args(["daemon", "install", "--print"]).run();
    assert_eq!(text.stdout, data["text"].as_str().unwrap());
    assert!(taken(&asked).is_empty());
    assert!(!sandbox.state_dir().exists() && !sandbox.file("home/.config").exists());
    sandbox.finish();
}

#[test]
fn a_unit_that_cannot_be_written_is_an_error() {
    let mut sandbox = TestSandbox::new();
    let asked = fake_systemctl(&mut sandbox, true, true);
    fs::write(sandbox.file("home/.config"), "a file").unwrap();
    let error = sandbox.run(&["daemon", "install"]).error("INVALID_ARGUMENT");
    assert_shape(&error["details"], &json!({"unitPath": "str", "error": "str", "recommendedAction": "str"}));
    assert!(taken(&asked).is_empty());
    sandbox.finish();
}

#[test]
fn systemd_understands_the_unit_with_any_path() {
    let sandbox = TestSandbox::new();
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        say("SKIPPED: no systemd-analyze here");
        sandbox.finish();
        return;
    }
    let verify = |text: &str| {
        let path = sandbox.file("subagentd-test.service");
        fs::write(&path, text).unwrap();
        let command = sandbox.command("/usr/bin/systemd-analyze").args(["--user", "--man=no", "verify"]);
        command.args([&path]).run()
    };
    for name in [
        "plain",
        "with blanks",
        "%h%n%%",
        "$HOME ${HOME}",
        "it's \"quoted\" \\ back",
        "ends in \\",
        ";",
        "ä\u{1}",
    ] {
        let state_dir = sandbox.file(name);
        let print = sandbox.subagent(&["daemon", "install", "--print"]).env("SUBAGENT_STATE_DIR", &state_dir);
        let text = print.run().data_of("daemon.unit")["text"].as_str().unwrap().to_owned();
        let output = verify(&text);
        assert!(
            output.status.success() && !output.stderr.contains("subagentd-test"),
            "{name}: {output}\n{text}"
        );
        // Otherwise it would have reported that.
        let output = verify(
            &text.replace("Type=notify", "Type=nonsense").replace("--state-dir \"", "--state-dir \"\""),
        );
        assert!(output.stderr.contains("subagentd-test"), "{output}");
    }
    sandbox.finish();
}
