//! Tests of readiness lines; shell scripts act as the daemon.

use std::io::Write as _;
use std::time::Duration;

use super::super::lock::on_thread;
use super::*;
use crate::client::StartPolicy;

fn far() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Creates an executable script. Another process writes it: a fork of a parallel test could hold it open
/// for writing, and it could not be executed.
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("subagentd");
    let mut shell = std::process::Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    path
}

async fn start(text: &str) -> (Result<Spawned>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let program = script(dir.path(), text);
    (daemon(&place(dir.path()), &program, far()).await, dir)
}

fn place(dir: &Path) -> DaemonLocator {
    let vars = vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())];
    DaemonLocator {
        state_dir: dir.join("state"),
        start: StartPolicy::Start,
        patience: far() - Instant::now(),
        vars,
        far: None,
    }
}

#[tokio::test]
async fn readiness_is_one_line() {
    let (spawned, dir) = start("echo \"$PWD $ONLY $*\" >&2; echo '{\"ready\":true}'; exec >/dev/null").await;
    assert!(matches!(spawned, Ok(Spawned::Ready)), "{spawned:?}");
    let log = std::fs::read_to_string(log_path(&dir.path().join("state"))).unwrap();
    assert_eq!(log, format!("/ this run --background --state-dir {}\n", dir.path().join("state").display()));
}

#[tokio::test]
async fn its_error_passes_unchanged() {
    let line = r#"{"error":{"code":"STATE_DIR_FOREIGN","message":"m","retryable":false,"details":{"a":1}}}"#;
    let (spawned, _dir) = start(&format!("echo '{line}'; exit 1")).await;
    let failure = spawned.unwrap_err();
    assert_eq!((&*failure.code, &failure.details["a"]), ("STATE_DIR_FOREIGN", &1.into()));
}

#[tokio::test]
async fn another_daemon_is_no_failure_yet() {
    let line = r#"{"error":{"code":"DAEMON_ALREADY_RUNNING","message":"m"}}"#;
    let (spawned, _dir) = start(&format!("echo '{line}'; exit 1")).await;
    assert!(matches!(&spawned, Ok(Spawned::Held(failure)) if failure.message == "m"), "{spawned:?}");
}

#[tokio::test]
async fn an_end_without_a_word_reports_the_exit_status() {
    let (spawned, _dir) = start("exit 7").await;
    let failure = spawned.unwrap_err();
    assert!(failure.is(Code::DaemonStartFailed), "{failure}");
    assert_eq!(failure.details["exitStatus"], "exit status: 7");
}

#[tokio::test]
async fn a_missing_program_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let failure = daemon(&place(dir.path()), Path::new("/nonexistent/subagentd"), far()).await.unwrap_err();
    assert!(failure.is(Code::DaemonStartFailed), "{failure}");
    assert!(failure.details.contains_key("recommendedAction"));
}

#[tokio::test]
async fn a_silent_start_is_given_up_at_the_deadline_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let program = script(dir.path(), &format!("cat '{}'", gate.display()));
    let soon = Instant::now() + Duration::from_millis(100);
    let failure = daemon(&place(dir.path()), &program, soon).await.unwrap_err();
    assert!(failure.is(Code::DaemonStartFailed) && failure.retryable, "{failure}");
    // Opening the other end waits for the script; closing it ends the script.
    let opened = on_thread(far(), move || OpenOptions::new().write(true).open(&gate)).await.unwrap();
    assert!(opened.is_some(), "the script was ended");
}
