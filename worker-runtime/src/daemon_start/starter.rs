//! Checks whether the daemon died and restarts it, with the same protocol as a command:
//! `start.lock`, a check, a start in the background, one line on its standard output. No function
//! here blocks.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::{Deserialize, Serialize};
use subagent_protocol::api::{Announced, DaemonInfo};
use subagent_protocol::start::DaemonStart;
use tokio::net::unix::pipe::Receiver;

use super::{DaemonCheckResult, START_PAUSE, StartReport, sibling};
use crate::spawn::receiver;

/// Maximum length of a daemon's readiness line, in bytes.
const MAX_READINESS_BYTES: usize = 64 * 1024;
/// Maximum size of the small files in the state directory; they have some hundred bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Prefix of our variables. The daemon gets the ones in [`DaemonStart`], and the rest of this process's environment.
const OWN_VARIABLES: &str = "SUBAGENT_";

/// The time of the last start by a runtime, in milliseconds since 1970, stored in `start.lock`. A
/// note of the lock's holder has other fields.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastStart {
    last_start_by_runtime: u64,
}

/// Starts daemons for one state directory.
#[derive(Debug)]
pub(crate) struct DaemonStarter {
    start: DaemonStart,
    program: PathBuf,
    /// The database of the last connected daemon. A restore replaces the database.
    database: Option<FileId>,
}

/// Identifies a file. If known, the creation time distinguishes it from a later file with
/// the same inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
    made: Option<SystemTime>,
}

/// A daemon that was started and has not reported yet.
pub(crate) struct PendingDaemon {
    /// The daemon's standard output.
    pub(crate) output: Receiver,
    said: Vec<u8>,
    /// The lock is held while the file is open.
    _start_lock: File,
}

/// The readiness line of a daemon.
#[derive(Debug, Deserialize)]
struct DaemonReadiness {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    error: Option<ReadinessError>,
}

#[derive(Debug, Deserialize)]
struct ReadinessError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl DaemonStarter {
    /// Creates a starter for this state directory and the daemon beside this program.
    ///
    /// # Errors
    ///
    /// The path of this program is unknown.
    pub(crate) fn new(start: DaemonStart) -> io::Result<Self> {
        // Resolved now, because an update changes the path of this process's file.
        let program = std::env::current_exe()?.with_file_name("subagentd");
        let mut starter = Self { start, program, database: None };
        starter.served();
        Ok(starter)
    }

    /// A daemon was greeted.
    pub(crate) fn served(&mut self) {
        self.database = self.identify_database();
    }

    fn identify_database(&self) -> Option<FileId> {
        let metadata = fs::symlink_metadata(self.start.state_dir.join("state.db")).ok()?;
        Some(FileId { device: metadata.dev(), inode: metadata.ino(), made: metadata.created().ok() })
    }

    /// Checks, and starts a daemon if necessary.
    pub(crate) fn look(&self) -> (DaemonCheckResult, Option<PendingDaemon>) {
        self.try_look().unwrap_or_else(|error| (DaemonCheckResult::Failed(error), None))
    }

    fn try_look(&self) -> Result<(DaemonCheckResult, Option<PendingDaemon>), String> {
        let path = self.start.state_dir.join("start.lock");
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let lock = open(&path, OpenOptions::new().read(true).write(true)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok((DaemonCheckResult::Busy, None)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let info = match self.died() {
            Ok(info) => info,
            Err(why) => return Ok((DaemonCheckResult::NotWanted(why), None)),
        };
        if listens(&info.socket).map_err(|error| format!("{}: {error}", info.socket.display()))? {
            return Ok((DaemonCheckResult::Listens, None));
        }
        let now = milliseconds(SystemTime::now());
        if let Some(rest) = last_start(&lock).and_then(|last| rest_of_pause(last, now)) {
            return Ok((DaemonCheckResult::TooSoon(rest), None));
        }
        note_start(&lock, now).map_err(failed)?;
        let starting = self.spawn(lock).map_err(|error| format!("{}: {error}", self.program.display()))?;
        Ok((DaemonCheckResult::Started, Some(starting)))
    }

    /// Returns what the dead daemon wrote about itself.
    ///
    /// # Errors
    ///
    /// Why no daemon should be started.
    fn died(&self) -> Result<DaemonInfo, &'static str> {
        let folder = fs::metadata(&self.start.state_dir).map_err(|_| "the state dir is gone")?;
        if self.identify_database().is_none_or(|now| Some(now) != self.database) {
            return Err("its database was replaced by another one");
        }
        let mut text = Vec::new();
        open(&self.start.state_dir.join("daemon.json"), OpenOptions::new().read(true))
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text))
            .map_err(|_| "it ended in order")?;
        let Announced { info, awaited } =
            serde_json::from_slice(&text).map_err(|_| "its daemon.json cannot be read")?;
        if !info.state_folder.as_ref().is_some_and(|named| named.is(folder.dev(), folder.ino())) {
            return Err("its daemon.json is about another state dir");
        }
        if info.ending {
            return Err("it ended in order");
        }
        if info.mode != "background" {
            return Err("it ran in the foreground, so its service manager or a person starts it");
        }
        if self.start.if_awaited && !awaited {
            return Err("nothing awaits it");
        }
        Ok(info)
    }

    fn spawn(&self, start_lock: File) -> io::Result<PendingDaemon> {
        let folder = self.start.state_dir.join("logs");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let log =
            open(&folder.join("subagentd.log"), OpenOptions::new().append(true).create(true).mode(0o600))?;
        let null = File::open("/dev/null")?;
        let (output, write) = io::pipe()?;
        let args = ["run", "--background", "--state-dir"].map(OsString::from);
        let args: Vec<OsString> = args.into_iter().chain([self.start.state_dir.clone().into()]).collect();
        let is_own = |name: &OsString| name.to_string_lossy().starts_with(OWN_VARIABLES);
        let settings =
            self.start.settings.iter().map(|(name, value)| {
                (OsString::from_vec(name.0.clone()), OsString::from_vec(value.0.clone()))
            });
        let env = std::env::vars_os().filter(|(name, _)| !is_own(name)).chain(settings);
        subagent_failpoint::check("daemon_start.before_spawn")?;
        sibling::spawn(&self.program, &args, env, [null.as_fd(), write.as_fd(), log.as_fd()])?;
        subagent_failpoint::hit("daemon_start.after_spawn");
        Ok(PendingDaemon { output: receiver(output)?, said: Vec::new(), _start_lock: start_lock })
    }
}

impl PendingDaemon {
    /// Reads what is available. Returns `None` while the line is incomplete.
    pub(crate) fn read(&mut self) -> Option<StartReport> {
        let mut chunk = [0; 4096];
        loop {
            match self.output.try_read(&mut chunk) {
                Ok(0) => return Some(meaning(&self.said)),
                Ok(length) => self.said.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Some(StartReport::Failed(format!("its readiness cannot be read: {error}")));
                }
            }
            if self.said.contains(&b'\n') || self.said.len() > MAX_READINESS_BYTES {
                return Some(meaning(&self.said));
            }
        }
    }
}

fn meaning(said: &[u8]) -> StartReport {
    let line = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(line) {
        Ok(DaemonReadiness { ready: true, .. }) => StartReport::Ready,
        // Another process started it first.
        Ok(DaemonReadiness { error: Some(error), .. }) if error.code == "DAEMON_ALREADY_RUNNING" => {
            StartReport::Ready
        }
        Ok(DaemonReadiness { error: Some(error), .. }) => {
            let colon = if error.code.is_empty() { "" } else { ": " };
            StartReport::Failed(format!("{}{colon}{}", error.code, error.message))
        }
        _ => StartReport::Failed(
            "it ended before it was ready; logs/subagentd.log in the state dir says more".to_owned(),
        ),
    }
}

/// Opens a regular file without blocking.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; move it away"));
    }
    Ok(file)
}

/// Whether a process accepts connections there.
fn listens(path: &Path) -> io::Result<bool> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        // The connection queue is full.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn last_start(lock: &File) -> Option<u64> {
    let mut text = [0; 256];
    let length = lock.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(&text[..length]).ok().map(|LastStart { last_start_by_runtime: at }| at)
}

fn note_start(lock: &File, now: u64) -> io::Result<()> {
    let text = serde_json::to_vec(&LastStart { last_start_by_runtime: now })?;
    subagent_failpoint::check("daemon_start.before_note")?;
    lock.set_len(0)?;
    lock.write_all_at(&text, 0)?;
    subagent_failpoint::hit("daemon_start.after_note");
    Ok(())
}

/// Returns the rest of the pause after a start. A start in the future means that the
/// clock was set back.
fn rest_of_pause(last: u64, now: u64) -> Option<Duration> {
    let passed = Duration::from_millis(now.checked_sub(last)?);
    START_PAUSE.checked_sub(passed).filter(|rest| !rest.is_zero())
}

fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_a_minute_despite_clock_changes() {
        assert_eq!(rest_of_pause(1_000, 1_000), Some(START_PAUSE));
        assert_eq!(rest_of_pause(1_000, 60_999), Some(Duration::from_millis(1)));
        assert_eq!(rest_of_pause(1_000, 61_000), None);
        assert_eq!(rest_of_pause(1_000, 999), None);
    }

    #[test]
    fn a_line_says_how_a_start_went() {
        assert_eq!(meaning(b"{\"ready\":true}\n"), StartReport::Ready);
        let taken = br#"{"error":{"code":"DAEMON_ALREADY_RUNNING","message":"taken"}}"#;
        assert_eq!(meaning(taken), StartReport::Ready);
        let full = br#"{"error":{"code":"STORAGE_FULL","message":"no room","details":{}}}"#;
        assert_eq!(meaning(full), StartReport::Failed("STORAGE_FULL: no room".to_owned()));
        assert!(matches!(meaning(b""), StartReport::Failed(why) if why.contains("before it was ready")));
    }

    struct StateDirFixture {
        dir: tempfile::TempDir,
        starter: DaemonStarter,
    }

    /// A state directory whose daemon died.
    fn fixture() -> StateDirFixture {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        fs::write(dir.path().join("start.lock"), "").unwrap();
        fs::write(dir.path().join("state.db"), "").unwrap();
        let start = DaemonStart { state_dir: dir.path().to_owned(), settings: Vec::new(), if_awaited: false };
        let mut starter = DaemonStarter::new(start).unwrap();
        starter.program = "/no/such/program".into();
        let fixture = StateDirFixture { dir, starter };
        fixture.announce("background", false);
        fixture
    }

    impl StateDirFixture {
        fn announce(&self, mode: &str, ending: bool) {
            self.announce_awaited(mode, ending, false);
        }

        fn announce_awaited(&self, mode: &str, ending: bool, awaited: bool) {
            let folder = fs::metadata(self.dir.path()).unwrap();
            let info = serde_json::json!({
                "protocol": 1, "oldestProtocol": 1, "version": "", "generation": 1, "mode": mode,
                "process": {"pid": 1, "startTime": 1}, "socket": self.dir.path().join("s"),
                "stateDir": self.dir.path(), "startedAt": "2026-11-21T20:29:42+00:00", "ending": ending,
                "awaited": awaited, "stateFolder": {"device": folder.dev(), "inode": folder.ino(), "id": ""},
            });
            fs::write(self.dir.path().join("daemon.json"), info.to_string()).unwrap();
        }

        fn found(&self) -> DaemonCheckResult {
            self.starter.look().0
        }

        /// Returns the result of a check once the lock is free. A process that another test forks
        /// holds the lock until its exec.
        fn found_when_free(&self) -> DaemonCheckResult {
            let until = std::time::Instant::now() + Duration::from_secs(20);
            loop {
                match self.found() {
                    DaemonCheckResult::Busy if std::time::Instant::now() < until => std::thread::yield_now(),
                    found => return found,
                }
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_daemon_that_died_is_started_and_not_again_within_a_minute() {
        let fixture = fixture();
        let (found, starting) = fixture.starter.look();
        assert_eq!(found, DaemonCheckResult::Started);
        let mut starting = starting.unwrap();
        assert_eq!(fixture.found(), DaemonCheckResult::Busy);
        let said = loop {
            tokio::time::timeout(Duration::from_secs(20), starting.output.readable()).await.unwrap().unwrap();
            if let Some(said) = starting.read() {
                break said;
            }
        };
        assert_eq!(said, StartReport::Failed("its program cannot be executed".to_owned()));
        drop(starting);
        let found = fixture.found_when_free();
        assert!(matches!(found, DaemonCheckResult::TooSoon(rest) if rest <= START_PAUSE), "{found:?}");
    }

    #[test]
    fn nothing_is_started_beside_a_daemon_or_in_the_place_of_one_that_ended() {
        let fixture = fixture();
        let listener = std::os::unix::net::UnixListener::bind(fixture.dir.path().join("s")).unwrap();
        assert_eq!(fixture.found_when_free(), DaemonCheckResult::Listens);
        drop(listener);
        let held = File::open(fixture.dir.path().join("start.lock")).unwrap();
        held.lock().unwrap();
        assert_eq!(fixture.found(), DaemonCheckResult::Busy);
        drop(held);
        for (mode, ending) in [("foreground", false), ("background", true)] {
            fixture.announce(mode, ending);
            assert!(matches!(fixture.found_when_free(), DaemonCheckResult::NotWanted(_)), "{mode} {ending}");
        }
        fixture.announce("background", false);
        // Created while the first file exists, so it is certainly another file.
        fs::write(fixture.dir.path().join("other"), "").unwrap();
        fs::remove_file(fixture.dir.path().join("state.db")).unwrap();
        assert!(matches!(fixture.found_when_free(), DaemonCheckResult::NotWanted(_)));
        fs::rename(fixture.dir.path().join("other"), fixture.dir.path().join("state.db")).unwrap();
        assert!(matches!(fixture.found_when_free(), DaemonCheckResult::NotWanted(_)));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_worker_without_tasks_starts_only_a_daemon_that_is_awaited() {
        let mut fixture = fixture();
        fixture.starter.start.if_awaited = true;
        assert_eq!(fixture.found_when_free(), DaemonCheckResult::NotWanted("nothing awaits it"));
        for (mode, ending) in [("foreground", false), ("background", true)] {
            fixture.announce_awaited(mode, ending, true);
            assert!(matches!(fixture.found_when_free(), DaemonCheckResult::NotWanted(_)), "{mode} {ending}");
        }
        fixture.announce_awaited("background", false, true);
        assert_eq!(fixture.found_when_free(), DaemonCheckResult::Started);
    }

    #[test]
    fn a_lock_that_is_no_file_is_reported() {
        let fixture = fixture();
        fs::remove_file(fixture.dir.path().join("start.lock")).unwrap();
        fs::create_dir(fixture.dir.path().join("start.lock")).unwrap();
        assert!(matches!(fixture.found(), DaemonCheckResult::Failed(why) if why.contains("start.lock")));
    }
}
