//! Watches the files of a running daemon: it ends when its lock is lost, and restores its socket
//! and `daemon.json`. inotify reports changes, including moves of parent folders. Connections
//! trigger checks too: each one without inotify, else few.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use subagent_config::RuntimeDir;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::files::Announcement;
use super::lock::FileLock;
use crate::api::Connections;
use crate::inotify::Inotify;
use crate::lifecycle::awaited::Awaited;
use crate::lifecycle::socket::SocketFile;
use crate::lifecycle::stop::Reason;

/// Minimum time between two checks triggered by connections when inotify works: a check takes 14
/// system calls.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The daemon's files that are watched and restored.
#[derive(Debug)]
pub(in crate::lifecycle) struct StateDirWatch {
    pub(in crate::lifecycle) lock: FileLock,
    pub(in crate::lifecycle) socket: SocketFile,
    pub(in crate::lifecycle) announcement: Announcement,
    inotify: Option<Inotify>,
    replace: mpsc::Sender<UnixListener>,
}

impl StateDirWatch {
    /// Begins to watch the files.
    pub(in crate::lifecycle) fn new(
        lock: FileLock,
        socket: SocketFile,
        announcement: Announcement,
        replace: mpsc::Sender<UnixListener>,
    ) -> Self {
        let inotify = Inotify::new()
            .and_then(|inotify| {
                inotify.watch(lock.path())?;
                inotify.watch(socket.path())?;
                Ok(inotify)
            })
            .inspect_err(|error| tracing::warn!(%error, "no inotify: a lost lock or socket is noticed late"))
            .ok();
        let watcher = Self { lock, socket, announcement, inotify, replace };
        watcher.watch(&watcher.announcement.path());
        if let Some(inotify) = &watcher.inotify {
            inotify.watch_folders_of(watcher.lock.path());
        }
        watcher
    }

    /// Keeps the socket in place. Ends when the daemon must end: its lock is not its own any more, or no client can
    /// find it any more.
    pub(in crate::lifecycle) async fn keep(
        &mut self,
        remake: impl Fn() -> bool,
        connections: Connections,
        mut awaited: Awaited,
    ) -> Reason {
        let pause = if self.inotify.is_some() { LOOK_PAUSE } else { Duration::ZERO };
        let mut visits = ConnectionTriggers::of(connections, pause);
        loop {
            if !self.lock.is_own() {
                return Reason::LockLost;
            }
            let found = self.socket.is_in_place() || (remake() && self.bind_again().await);
            if !found {
                return Reason::SocketLost;
            }
            if self.announcement.awaited(awaited.now()) || self.announcement.restore() {
                self.watch(&self.announcement.path());
            }
            tokio::select! {
                () = changed(self.inotify.as_ref()) => {}
                () = visits.next() => {}
                () = awaited.changed() => {}
            }
        }
    }

    async fn bind_again(&mut self) -> bool {
        match SocketFile::bind(self.socket.path(), &self.lock) {
            Ok((listener, socket)) => {
                tracing::warn!(socket = %socket.path().display(), "the socket had vanished and was made again");
                self.socket = socket;
                // The receiver is gone if the daemon has stopped accepting.
                let _ = self.replace.send(listener).await;
                self.watch(self.socket.path());
                true
            }
            Err(error) => {
                let socket = self.socket.path().display();
                tracing::error!(%error, %socket, "the socket has vanished and cannot be made again");
                false
            }
        }
    }

    fn watch(&self, path: &Path) {
        if let Some(inotify) = &self.inotify
            && let Err(error) = inotify.watch(path)
        {
            tracing::warn!(%error, path = %path.display(), "a file cannot be watched");
        }
    }
}

/// Connections that trigger a check. A separate task counts all of them on the thread that accepts
/// them. The watching task has its own thread, which each connection would otherwise wake.
struct ConnectionTriggers {
    reasons: mpsc::Receiver<()>,
    /// Aborts the counting task on drop.
    _hearing: JoinSet<()>,
}

impl ConnectionTriggers {
    fn of(mut connections: Connections, pause: Duration) -> Self {
        let (reason, reasons) = mpsc::channel(1);
        let mut hearing = JoinSet::new();
        hearing.spawn(async move {
            let mut warned = Instant::now();
            while connections.changed().await.is_ok() {
                if warned.elapsed() >= pause {
                    warned = Instant::now();
                    // A pending trigger has the same effect.
                    let _ = reason.try_send(());
                }
            }
        });
        Self { reasons, _hearing: hearing }
    }

    /// Waits for a trigger; waits forever when the server has ended.
    async fn next(&mut self) {
        if self.reasons.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn changed(inotify: Option<&Inotify>) {
    match inotify {
        Some(inotify) => {
            if let Err(error) = inotify.changed().await {
                tracing::error!(%error, "inotify cannot be read");
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

/// Restores the folder of the sockets if it is gone too.
pub(in crate::lifecycle) fn remake_folder(
    prepare: impl Fn() -> Result<RuntimeDir, subagent_config::ConfigError>,
    socket: &Path,
) -> bool {
    let folder_is_there = socket.parent().is_some_and(|folder| fs::symlink_metadata(folder).is_ok());
    folder_is_there
        || match prepare() {
            Ok(dir) => dir.daemon_socket() == socket,
            Err(error) => {
                tracing::error!(%error, "the folder of the sockets has vanished and cannot be made again");
                false
            }
        }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Duration;

    use subagent_protocol::api::{Announced, DaemonInfo};
    use subagent_protocol::process::ProcessId;
    use subagent_protocol::time::Timestamp;
    use tokio::sync::watch;

    use super::*;

    struct WatchedStateDir {
        dir: tempfile::TempDir,
        lock: PathBuf,
        socket: PathBuf,
        replaced: mpsc::Receiver<UnixListener>,
        count: watch::Sender<usize>,
        sinks: watch::Sender<usize>,
        keeping: tokio::task::JoinHandle<Reason>,
    }

    impl WatchedStateDir {
        /// Starts watching with or without inotify; without it, as in a session that has no
        /// instances left.
        fn start(inotify: bool, remake: bool) -> Self {
            let dir = tempfile::tempdir_in("/tmp").unwrap();
            let (lock, socket) = (dir.path().join("lock"), dir.path().join("s"));
            let held = FileLock::try_take(&lock).unwrap().unwrap();
            let (_listener, file) = SocketFile::bind(&socket, &held).unwrap();
            let (replace, replaced) = mpsc::channel(1);
            let (count, connections) = watch::channel(0);
            let info = DaemonInfo {
                protocol: 1,
                oldest_protocol: 1,
                version: String::new(),
                process: ProcessId { pid: 1, start_time: 1 },
                generation: 1,
                socket: socket.clone(),
                state_dir: dir.path().to_owned(),
                state_folder: None,
                mode: String::new(),
                ending: false,
                started_at: Timestamp(0),
            };
            let announcement = Announcement::write(dir.path(), &info).unwrap();
            let mut watcher = StateDirWatch::new(held, file, announcement, replace);
            if !inotify {
                watcher.inotify = None;
            }
            let sinks = watch::Sender::new(0);
            let awaited = Awaited { sinks: sinks.subscribe(), schedules: watch::Sender::new(0).subscribe() };
            let keeping = tokio::spawn(async move { watcher.keep(|| remake, connections, awaited).await });
            Self { dir, lock, socket, replaced, count, sinks, keeping }
        }

        async fn reason(self) -> Reason {
            tokio::time::timeout(Duration::from_secs(20), self.keeping).await.expect("it ends").unwrap()
        }
    }

    #[tokio::test]
    async fn a_lost_lock_ends_the_daemon() {
        let place = WatchedStateDir::start(true, true);
        fs::remove_file(&place.lock).unwrap();
        assert!(matches!(place.reason().await, Reason::LockLost));
    }

    #[tokio::test]
    async fn without_inotify_a_connection_is_a_reason_to_look() {
        let place = WatchedStateDir::start(false, true);
        fs::remove_file(&place.lock).unwrap();
        place.count.send_replace(1);
        assert!(matches!(place.reason().await, Reason::LockLost));
    }

    #[tokio::test]
    async fn of_many_connections_one_is_a_reason_to_look() {
        let (count, connections) = watch::channel(0);
        let mut seldom = ConnectionTriggers::of(connections.clone(), Duration::from_secs(3600));
        let mut each = ConnectionTriggers::of(connections, Duration::ZERO);
        for open in 1..=3 {
            count.send_replace(open);
            // The other task runs on this thread, so it has seen the connection as well.
            tokio::time::timeout(Duration::from_secs(20), each.next()).await.expect("each");
        }
        assert!(futures_util::FutureExt::now_or_never(seldom.next()).is_none());
    }

    #[tokio::test]
    async fn a_lost_socket_is_made_again_each_time() {
        let mut place = WatchedStateDir::start(true, true);
        for _ in 0..3 {
            fs::remove_file(&place.socket).unwrap();
            let again = tokio::time::timeout(Duration::from_secs(20), place.replaced.recv());
            let _listener = again.await.expect("a new socket").unwrap();
            UnixStream::connect(&place.socket).unwrap();
        }
        fs::remove_file(&place.lock).unwrap();
        assert!(matches!(place.reason().await, Reason::LockLost));
    }

    #[tokio::test]
    async fn the_announcement_says_whether_a_sink_awaits_the_daemon() {
        let place = WatchedStateDir::start(true, true);
        let said = place.dir.path().join("daemon.json");
        for (sinks, awaited) in [(1, true), (2, true), (0, false), (1, true)] {
            place.sinks.send_replace(sinks);
            let written = async {
                let reads = || serde_json::from_slice::<Announced>(&fs::read(&said).ok()?).ok();
                while reads().is_none_or(|announced| announced.awaited != awaited) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), written).await.expect("it is written");
        }
        fs::remove_file(&place.lock).unwrap();
        assert!(matches!(place.reason().await, Reason::LockLost));
    }

    #[tokio::test]
    async fn a_socket_that_cannot_be_made_again_ends_the_daemon() {
        let place = WatchedStateDir::start(true, false);
        fs::remove_file(&place.socket).unwrap();
        assert!(matches!(place.reason().await, Reason::SocketLost));
    }
}
