//! Tests of taking over from daemons that answer, hang or misbehave.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use subagent_config::Environment;
use subagent_protocol::api::Envelope;

use super::*;

fn options(dir: &Path, mode: StartMode) -> RunOptions {
    RunOptions {
        state_dir: dir.to_owned(),
        environment: Environment::new([], "/"),
        runtime_program: None,
        mode,
        once: false,
        heartbeat_seconds: 5,
        monitor_workers: true,
        restart_cooldown_seconds: 30,
        json: false,
        idle_exit_seconds: 0,
        retention_days: 0,
    }
}

#[test]
fn of_two_that_start_at_once_one_gets_the_claim() {
    let dir = tempfile::tempdir().unwrap();
    let foreground = options(dir.path(), StartMode::Foreground);
    let claims: Vec<_> = thread::scope(|scope| {
        // Each thread keeps its claim but releases `start.lock`, as a ready daemon does.
        let start = || claim(&foreground).map(|claim| claim.lock);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (taken, refused): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| claim.is_ok());
    assert_eq!((taken.len(), refused.len()), (1, 3));
    for error in refused.iter().filter_map(|claim| claim.as_ref().err()) {
        assert_eq!(error.code, Code::DaemonAlreadyRunning);
        assert_eq!(error.details["pid"], std::process::id());
        assert_eq!(error.details["mode"], "foreground");
    }
}

#[test]
fn a_foreground_daemon_waits_for_one_in_the_background_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DAEMON_LOCK);
    let held = FileLock::try_take(&path).unwrap().unwrap();
    // A process that does not exist, so that no signal is delivered.
    let process = ProcessId { pid: i32::MAX, start_time: 1 };
    held.write_note(&Note { process, mode: "background".to_owned() }).unwrap();
    let foreground = options(dir.path(), StartMode::Foreground);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&foreground));
        drop(held);
        let claim = waiting.join().unwrap().unwrap();
        assert!(claim.lock.is_own() && claim.starting.is_some());
        assert_eq!(Note::read(&path).unwrap().mode, "foreground");
    });
}

struct OlderDaemon {
    dir: tempfile::TempDir,
    lock: FileLock,
    listener: UnixListener,
}

/// A background daemon of the same state dir, simulated by this test.
fn beside() -> OlderDaemon {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let lock = FileLock::try_take(&dir.path().join(DAEMON_LOCK)).unwrap().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let process = own_process().unwrap();
    lock.write_note(&Note { process, mode: "background".to_owned() }).unwrap();
    let info = json!({
        "protocol": 1, "oldestProtocol": 1, "version": "x", "process": process, "generation": 1, "socket": socket,
        "stateDir": dir.path(), "mode": "background", "startedAt": "2026-11-21T20:29:42+00:00",
    });
    std::fs::write(dir.path().join("daemon.json"), info.to_string()).unwrap();
    OlderDaemon { dir, lock, listener }
}

/// Reads the head of an HTTP request.
fn read_head(stream: &UnixStream) -> String {
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    lines.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_background_daemon_gives_way_to_one_that_serves() {
    let beside = beside();
    let background = options(beside.dir.path(), StartMode::Background);
    let error = thread::scope(|scope| {
        let claiming = scope.spawn(|| claim(&background));
        let (mut stream, _) = beside.listener.accept().unwrap();
        assert!(read_head(&stream).starts_with("GET /v1/daemon HTTP/1.1\n"));
        let body = r#"{"schemaVersion":"v1","ok":true,"type":"daemon.shown","data":{}}"#;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        claiming.join().unwrap().unwrap_err()
    });
    assert_eq!(error.code, Code::DaemonAlreadyRunning);
    assert_eq!(error.details["mode"], "background");
}

#[test]
fn a_background_daemon_gives_way_to_one_that_was_only_starting() {
    let beside = beside();
    let (announced, hidden) = (beside.dir.path().join("daemon.json"), beside.dir.path().join("hidden"));
    std::fs::rename(&announced, &hidden).unwrap();
    let background = options(beside.dir.path(), StartMode::Background);
    let begun = std::time::Instant::now();
    let error = thread::scope(|scope| {
        let claiming = scope.spawn(|| claim(&background));
        // From now on it holds the lock and serves.
        std::fs::rename(&hidden, &announced).unwrap();
        let (mut stream, _) = beside.listener.accept().unwrap();
        read_head(&stream);
        let body = r#"{"schemaVersion":"v1","ok":true,"type":"daemon.shown","data":{}}"#;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        claiming.join().unwrap().unwrap_err()
    });
    assert_eq!(error.code, Code::DaemonAlreadyRunning);
    assert!(begun.elapsed() < super::ENDING_TIME, "it waited for the end of one that serves");
}

#[test]
fn a_background_daemon_follows_one_that_dies_under_the_question() {
    let beside = beside();
    let background = options(beside.dir.path(), StartMode::Background);
    let claim = thread::scope(|scope| {
        let claiming = scope.spawn(|| claim(&background));
        let (stream, _) = beside.listener.accept().unwrap();
        read_head(&stream);
        drop((stream, beside.listener, beside.lock));
        claiming.join().unwrap().unwrap()
    });
    assert!(claim.lock.is_own() && claim.starting.is_none());
}

#[test]
fn from_below_a_worker_nothing_is_taken_over() {
    let beside = beside();
    let foreground = options(beside.dir.path(), StartMode::Foreground);
    let error = thread::scope(|scope| {
        let claiming = scope.spawn(|| claim(&foreground));
        let (mut stream, _) = beside.listener.accept().unwrap();
        assert!(read_head(&stream).starts_with("POST /v1/daemon/stop HTTP/1.1\n"));
        let error = Error::new(Code::ForbiddenFromWorker, "no");
        let body = serde_json::to_string(&Envelope::<()>::failure(error)).unwrap();
        write!(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        claiming.join().unwrap().unwrap_err()
    });
    assert_eq!(error.code, Code::ForbiddenFromWorker);
}

#[test]
fn a_failed_wait_for_a_restore_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(START_LOCK);
    let held = FileLock::try_take(&path).unwrap().unwrap();
    let refused = || start_lock_within(&path, Duration::from_millis(20)).unwrap_err();
    assert!(refused().message.contains("starting a daemon"));
    let process = own_process().unwrap();
    held.write_note(&Note { process, mode: "restore".to_owned() }).unwrap();
    let error = refused();
    assert!(error.message.contains("a restore") && error.details["pid"] == process.pid, "{error:?}");
    assert_eq!(error.details["recommendedAction"], "Wait for its end and try again.");
    // The note of a killed process does not describe the current holder.
    let gone = ProcessId { pid: i32::MAX, start_time: 1 };
    held.write_note(&Note { process: gone, mode: "restore".to_owned() }).unwrap();
    assert!(refused().message.contains("starting a daemon"));
}
