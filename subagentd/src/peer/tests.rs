//! Tests of peers on real sockets: this test executable starts itself again as the peer.

use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::UnixListener;

use super::*;

/// Environment variable with the socket for the peer process.
const SOCKET: &str = "SUBAGENTD_TEST_SOCKET";
/// Environment variable with the process name that the peer sets before it connects.
const NAME: &str = "SUBAGENTD_TEST_NAME";

/// Not a test of its own: the tests below start this executable with only this one selected.
#[test]
fn plays_the_peer() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    if let Some(name) = std::env::var_os(NAME) {
        // The process name is that of the main thread, even if another thread writes it.
        std::fs::write("/proc/self/comm", name.as_encoded_bytes()).unwrap();
    }
    let _stream = StdStream::connect(socket).unwrap();
    // Runs until the test closes standard input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

struct PeerChild(Child);

impl PeerChild {
    fn start(socket: &Path) -> Self {
        Self::start_as(socket, "plain-peer")
    }

    fn start_as(socket: &Path, name: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer::tests::plays_the_peer", "--nocapture"])
            .env(SOCKET, socket)
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for PeerChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn accept(listener: &UnixListener) -> UnixStream {
    tokio::time::timeout(Duration::from_secs(20), listener.accept())
        .await
        .expect("a client connects")
        .unwrap()
        .0
}

fn socket() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    (dir, path, listener)
}

fn own_process() -> ProcessId {
    let pid = nix::unistd::getpid().as_raw();
    ProcessId { pid, start_time: proc::start_time(pid).unwrap() }
}

#[tokio::test]
async fn a_child_of_a_guard_is_below_its_worker() {
    let (_dir, path, listener) = socket();
    let mut child = PeerChild::start(&path);
    let stream = accept(&listener).await;
    let peer = Peer::of(&stream).unwrap();
    assert_eq!(peer.process().pid, child.pid());
    // This test process acts as the guard.
    let worker = WorkerId::from_random([7; 5]);
    let guards = [(worker.clone(), own_process())];
    assert_eq!(peer.origin(&[]).unwrap(), RequestOrigin::Owner);
    assert_eq!(peer.origin(&guards).unwrap(), RequestOrigin::BelowWorker(worker.clone()));
    let earlier = ProcessId { start_time: own_process().start_time - 1, ..own_process() };
    assert_eq!(peer.origin(&[(worker, earlier)]).unwrap(), RequestOrigin::Owner);
    child.end();
}

#[tokio::test]
async fn a_peer_below_an_unknown_guard_is_not_served() {
    let (_dir, path, listener) = socket();
    let mut child = PeerChild::start_as(&path, "subagent-guard");
    let peer = Peer::of(&accept(&listener).await).unwrap();
    assert!(matches!(peer.origin(&[]), Err(PeerError::BelowUnknown)), "{:?}", peer.origin(&[]));
    // Once the guard is known, the peer's worker is identified.
    let worker = WorkerId::from_random([7; 5]);
    let guards = [(worker.clone(), peer.process())];
    assert_eq!(peer.origin(&guards).unwrap(), RequestOrigin::BelowWorker(worker));
    child.end();
}

#[tokio::test]
async fn a_peer_that_ends_before_it_was_placed_cannot_be_placed() {
    let (_dir, path, listener) = socket();
    let mut child = PeerChild::start(&path);
    let stream = accept(&listener).await;
    let peer = Peer::of(&stream).unwrap();
    child.end();
    let guards = [(WorkerId::from_random([7; 5]), own_process())];
    assert!(matches!(peer.origin(&guards), Err(PeerError::Ended)), "{:?}", peer.origin(&guards));
}

#[tokio::test]
async fn a_peer_that_has_ended_is_not_served() {
    let (_dir, path, listener) = socket();
    let mut child = PeerChild::start(&path);
    let stream = accept(&listener).await;
    child.end();
    assert!(matches!(Peer::of(&stream), Err(PeerError::Ended)), "{:?}", Peer::of(&stream));
}

#[tokio::test]
async fn we_are_our_own_peer() {
    let (_dir, path, listener) = socket();
    let _client = StdStream::connect(path).unwrap();
    let peer = Peer::of(&accept(&listener).await).unwrap();
    assert_eq!(peer.process(), own_process());
    let worker = WorkerId::from_random([7; 5]);
    assert_eq!(peer.origin(&[(worker.clone(), own_process())]).unwrap(), RequestOrigin::BelowWorker(worker));
}
