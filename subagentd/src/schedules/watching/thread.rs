//! The thread that watches the folder of one trigger. It ends when its [`Watcher`] is dropped.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc;

use super::changes::ChangedPaths;
use super::globs::Globs;
use super::tree::{Tree, WatchLimits};

/// While changes go on, they fire after this many times the time to wait.
const MAX_WAITS: u32 = 10;
/// Firings that are not stored yet; then the thread waits.
const MAX_UNSTORED: usize = 4;

/// What the thread reports.
#[derive(Debug)]
pub(super) enum WatchReport {
    /// Changes from now on fire.
    Watching,
    /// The payload of a firing.
    Changed(String),
    /// Why nothing is watched any more. The thread has ended.
    Failed(String),
}

/// What a thread watches.
#[derive(Debug)]
pub(super) struct WatchedFolder {
    pub(super) folder: PathBuf,
    pub(super) globs: Vec<String>,
    pub(super) debounce: Duration,
    /// The state dir of the daemon, which is not watched.
    pub(super) state_dir: Option<PathBuf>,
}

impl WatchedFolder {
    /// When changes fire of which the first and the last were seen at these times.
    fn due(&self, seen: Option<(Instant, Instant)>) -> Option<Instant> {
        let longest = self.debounce.saturating_mul(MAX_WAITS);
        seen.map(|(first, last)| (last + self.debounce).min(first + longest))
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) reports: mpsc::Receiver<WatchReport>,
    /// Its end is the end of the thread.
    _stop: UnixStream,
}

impl Watcher {
    /// # Errors
    /// The system's: too many threads or descriptors.
    pub(super) fn start(watched: WatchedFolder) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let (sender, reports) = mpsc::channel(MAX_UNSTORED);
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            if let Err(problem) = run(&watched, &stopped, &sender) {
                // The receiver is gone with the watcher.
                let _ = sender.blocking_send(WatchReport::Failed(problem));
            }
        })?;
        Ok(Self { reports, _stop: stop })
    }
}

fn run(
    watched: &WatchedFolder,
    stopped: &UnixStream,
    reports: &mpsc::Sender<WatchReport>,
) -> Result<(), String> {
    let globs = Globs::new(&watched.globs)?;
    let mut tree = Tree::open(&watched.folder, globs, WatchLimits::default(), watched.state_dir.as_deref())?;
    if reports.blocking_send(WatchReport::Watching).is_err() {
        return Ok(());
    }
    let mut changes = ChangedPaths::default();
    // When the first of the changes was seen, and when the last.
    let mut seen: Option<(Instant, Instant)> = None;
    loop {
        let timeout = watched.due(seen).map_or(PollTimeout::NONE, |due| {
            // Rounds up, so that a wait never spins.
            let millis = due.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let (readable, ends) = {
            let mut fds = [
                PollFd::new(tree.as_fd(), PollFlags::POLLIN),
                PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(format!("changes cannot be waited for: {}", error.desc())),
            }
            (fds[0].any().unwrap_or(true), fds[1].any().unwrap_or(true))
        };
        if ends {
            return Ok(());
        }
        if readable {
            let before = std::mem::take(&mut changes);
            tree.read(&mut changes)?;
            if !changes.is_empty() {
                let now = Instant::now();
                seen = Some((seen.map_or(now, |(first, _)| first), now));
            }
            changes.join(before);
        }
        if watched.due(seen).is_some_and(|due| due <= Instant::now()) {
            seen = None;
            let payload = std::mem::take(&mut changes).payload();
            if reports.blocking_send(WatchReport::Changed(payload)).is_err() {
                return Ok(());
            }
        }
    }
}
