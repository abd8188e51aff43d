//! The daemon's log file: one per run, one previous file, both bounded. A failed write is lost:
//! logging never makes the daemon fail or wait. Callers keep secrets and prompt text out; HTTP
//! libraries are limited here.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::libc::O_NOFOLLOW;
use nix::unistd::{dup2_stderr, dup2_stdout};
use subagent_config::{Environment, regular};
use subagent_protocol::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::error;
use super::options::{RunOptions, StartMode};

/// The log folder in the state dir, its file, and the previous file.
const FOLDER: &str = "logs";
const NAME: &str = "subagentd.log";
const PREVIOUS: &str = "subagentd.log.1";

/// Size in bytes beyond which the log is rotated.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Environment variable with a `tracing` filter.
const LEVEL: &str = "SUBAGENT_LOG";

/// Crates whose detailed levels could log user data.
const QUIET: &[&str] = &["hyper=info", "hyper_util=info", "axum=info"];

/// Begins the log of this run. Only the holder of `daemon.lock` may call it.
///
/// # Errors
/// `DAEMON_START_FAILED` if the file cannot be created.
pub(super) fn init(options: &RunOptions) -> Result<DaemonLog> {
    let folder = options.state_dir.join(FOLDER);
    let log = LogFile::begin(&folder, MAX_BYTES)
        .map_err(|cause| error::at_path("its log cannot be written in", &folder, &cause))?;
    let (filter, problem) = filter(&options.environment);
    let log = DaemonLog(Arc::new(Mutex::new(log)));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(log.clone());
    // A second daemon in one process, as in tests, logs to the first one's file.
    let _ = subscriber.try_init();
    if let Some(problem) = problem {
        tracing::warn!(problem, "{LEVEL} cannot be read, the level is info");
    }
    let (version, mode) = (env!("CARGO_PKG_VERSION"), options.mode.as_str());
    tracing::info!(version, mode, pid = std::process::id(), state_dir = %options.state_dir.display(), "started");
    if options.mode == StartMode::Background && nix::unistd::getsid(None) != Ok(nix::unistd::getpid()) {
        tracing::warn!("the daemon is not a session leader: it can end with the terminal that started it");
    }
    Ok(log)
}

fn filter(environment: &Environment) -> (EnvFilter, Option<String>) {
    let text = environment.var(LEVEL).map(|level| level.to_string_lossy());
    let (filter, problem) = match EnvFilter::try_new(text.as_deref().unwrap_or("info")) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error.to_string())),
    };
    let filter = QUIET
        .iter()
        .filter_map(|directive| directive.parse().ok())
        .fold(filter, |filter, directive| filter.add_directive(directive));
    (filter, problem)
}

/// The writer that the `tracing` subscriber uses.
#[derive(Debug, Clone)]
pub(super) struct DaemonLog(Arc<Mutex<LogFile>>);

impl DaemonLog {
    /// Redirects standard output and error to the log: output of panics and libraries is kept, and
    /// the starter's pipe is closed.
    pub(super) fn take_over_output(&self) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.is_output = true;
        file.redirect_output();
    }
}

impl<'a> MakeWriter<'a> for DaemonLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for DaemonLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct LogFile {
    folder: PathBuf,
    file: File,
    size: u64,
    most: u64,
    /// Whether standard output and error follow the file.
    is_output: bool,
}

impl LogFile {
    fn begin(folder: &Path, most: u64) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
        let path = folder.join(NAME);
        // An empty file was created by the starter and has no content to keep.
        if fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            fs::rename(&path, folder.join(PREVIOUS))?;
        }
        let file = open(&path)?;
        Ok(Self { folder: folder.to_owned(), file, size: 0, most, is_output: false })
    }

    /// Writes one line. On a full disk the line is lost.
    fn append(&mut self, line: &[u8]) {
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.most {
            self.rotate();
        }
        if self.file.write_all(line).is_ok() {
            self.size += length;
        }
    }

    /// After a failure the next line tries again. The file may exceed its limit meanwhile.
    fn rotate(&mut self) {
        let path = self.folder.join(NAME);
        let rotated = fs::rename(&path, self.folder.join(PREVIOUS)).and_then(|()| open(&path));
        if let Ok(file) = rotated {
            self.file = file;
            self.size = 0;
            self.redirect_output();
        }
    }

    fn redirect_output(&self) {
        if self.is_output {
            let _ = dup2_stdout(self.file.as_fd());
            let _ = dup2_stderr(self.file.as_fd());
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    regular::open(path, OpenOptions::new().create(true).append(true).mode(0o600), O_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_previous_run_is_kept_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state/logs");
        for run in ["one\n", "two\n", "three\n"] {
            LogFile::begin(&folder, 100).unwrap().append(run.as_bytes());
        }
        assert_eq!(names(&folder), [NAME, PREVIOUS]);
        assert_eq!(fs::read_to_string(folder.join(NAME)).unwrap(), "three\n");
        assert_eq!(fs::read_to_string(folder.join(PREVIOUS)).unwrap(), "two\n");
        // The starter has opened the file, and the run before logged nothing.
        LogFile::begin(&folder, 100).unwrap();
        LogFile::begin(&folder, 100).unwrap();
        assert_eq!(fs::read_to_string(folder.join(PREVIOUS)).unwrap(), "three\n");
    }

    #[test]
    fn a_log_has_a_bound_and_no_line_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::begin(dir.path(), 100).unwrap();
        for n in 0..50 {
            log.append(format!("line {n}\n").as_bytes());
            for name in names(dir.path()) {
                assert!(fs::metadata(dir.path().join(name)).unwrap().len() <= 100);
            }
        }
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        let both = read(PREVIOUS) + &read(NAME);
        assert!(both.ends_with("line 48\nline 49\n"), "{both}");
        assert!(both.lines().all(|line| line.starts_with("line ")), "{both}");
    }

    #[test]
    fn a_line_above_the_bound_is_written_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::begin(dir.path(), 10).unwrap();
        log.append(&[b'x'; 50]);
        log.append(b"y\n");
        assert_eq!(fs::metadata(dir.path().join(PREVIOUS)).unwrap().len(), 50);
    }

    #[test]
    fn the_level_comes_from_the_environment() {
        let of = |value: &str| filter(&Environment::new([(LEVEL.into(), value.into())], "/"));
        let (filter, problem) = of("trace");
        assert!(problem.is_none());
        assert!(filter.to_string().contains("hyper=info"), "{filter}");
        assert!(of("a=b=c").1.is_some());
        assert!(of("").0.to_string().contains("info"));
    }
}
