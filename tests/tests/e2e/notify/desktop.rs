//! Desktop notifications: a session bus of Debian's, and our notification service on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use subagent_tests::harness::TestSandbox;

use super::{configure, settled};

/// The session bus and its notification service. Both end with the service's standard input.
struct Desktop {
    child: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

impl Desktop {
    /// Returns `None` if the machine lacks the packages and they are not required.
    fn start() -> Option<Self> {
        let found = ["dbus-run-session", "notify-send"]
            .map(|program| Command::new(program).arg("--version").output());
        let python = Command::new("/usr/bin/python3").args(["-c", "import gi"]).output();
        if !found.into_iter().chain([python]).all(|tried| tried.is_ok_and(|output| output.status.success())) {
            let missing = "dbus-daemon, libnotify-bin or python3-gi is not installed";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_DESKTOP").is_none(), "{missing}");
            // Not captured, so that it is visible.
            let _ = writeln!(std::io::stderr(), "SKIPPED: a test of desktop notifications, {missing}");
            return None;
        }
        let service = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/desktop.py");
        let script = format!("echo \"$DBUS_SESSION_BUS_ADDRESS\"; exec /usr/bin/python3 {service}");
        let mut child = Command::new("dbus-run-session")
            .args(["--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut desktop = Self { child, address: String::new(), lines };
        desktop.address = desktop.line();
        assert_eq!(desktop.line(), "ready");
        Some(desktop)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn shown(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_question_is_shown_on_a_real_session_bus() {
    let Some(mut desktop) = Desktop::start() else { return };
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("DBUS_SESSION_BUS_ADDRESS", &desktop.address);
    configure(&sandbox, "  - {to: desktop}");
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "!ask execute make -- all");
    settled(&sandbox, "delivered");
    let shown = desktop.shown();
    assert_eq!(shown["app"], "subagent", "{shown}");
    assert!(shown["summary"].as_str().unwrap().ends_with(" asks"), "{shown}");
    let body = shown["body"].as_str().unwrap();
    assert!(body.starts_with("make -- all\n") && body.contains("subagent approve "), "{body}");
    sandbox.finish();
}
