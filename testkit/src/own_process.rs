//! A separate process for a test that measures its whole process.

use std::env;
use std::process::Command;
use std::thread;

/// Set in such a process.
const ALONE: &str = "SUBAGENT_TEST_ALONE";

/// Runs `test` in a process that runs no other test. Call it as the only statement of a test.
///
/// It starts the same executable again with only this test, which libtest names the thread after.
///
/// # Panics
/// If the test fails; the message is the output of its process.
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test's tool: it panics with what it saw")]
pub fn in_own_process(test: impl FnOnce()) {
    let thread = thread::current();
    let name = thread.name().unwrap();
    // With one thread for all tests, libtest may use the main thread: then no
    // other test runs meanwhile.
    if env::var_os(ALONE).is_some() || name == "main" {
        return test();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    super::say(stderr.trim_end());
}
