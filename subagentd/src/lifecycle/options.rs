//! The options of `subagentd run`.

use std::path::PathBuf;
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::api::RETENTION_DAYS;
use subagent_protocol::placement::Placement;
use subagent_protocol::{Code, Error, Result};

/// Default time without live workers and clients after which a background daemon ends.
pub const DEFAULT_IDLE_EXIT_SECONDS: u64 = 1800;

/// Environment variable for that time.
const IDLE_EXIT: &str = "SUBAGENT_IDLE_EXIT_SECONDS";
/// Environment variable for the retention time.
const RETENTION: &str = "SUBAGENT_RETENTION_DAYS";
/// Environment variable that places new workers behind a stream.
const LOOPBACK: &str = "SUBAGENT_PLACEMENT_LOOPBACK";

/// Maximum retention in days (a century).
const MAX_DAYS: u64 = 36_600;

/// The kind of start. It decides where the start is reported and how long the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// Started by a person or a service manager. It runs until it is stopped and writes the status
    /// file.
    Foreground,
    /// Started by a command that needs a daemon. Standard output is a pipe for one line: the result
    /// of the start.
    Background,
}

impl StartMode {
    /// Returns the word in `daemon.json` and in the status file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
        }
    }
}

/// All options of `subagentd run`.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Absolute path of the state dir with links resolved. It is created if missing.
    pub state_dir: PathBuf,
    /// Environment of this process: `XDG_RUNTIME_DIR`, `SUBAGENT_LOG`.
    pub environment: Environment,
    /// Path of `subagent-runtime`; `None` selects the one beside this executable.
    pub runtime_program: Option<PathBuf>,
    /// The kind of start.
    pub mode: StartMode,
    /// Only check the workers' health once and exit; a running daemon is asked instead.
    pub once: bool,
    /// Seconds between two writes of the status file; 1 to [`MAX_SECONDS`].
    pub heartbeat_seconds: u64,
    /// Whether dead runtimes are restarted at once.
    pub monitor_workers: bool,
    /// Minimum seconds between two restarts of a worker; 1 to [`MAX_SECONDS`].
    pub restart_cooldown_seconds: u64,
    /// Whether to print JSON instead of text.
    pub json: bool,
    /// Seconds without live workers and clients after which a background daemon ends; 0 means
    /// never.
    pub idle_exit_seconds: u64,
    /// Days after which stopped workers, events of ended turns, and request keys are removed; 0
    /// means never.
    pub retention_days: u64,
}

/// Maximum heartbeat and cooldown in seconds (a year), within the range of all clocks.
pub const MAX_SECONDS: u64 = 366 * 24 * 3600;

impl RunOptions {
    /// Returns the retention time. A single health check (`once`) removes nothing.
    pub(super) fn retention(&self) -> Option<Duration> {
        let days = self.retention_days.min(MAX_DAYS);
        (days > 0 && !self.once).then(|| Duration::from_secs(days * 24 * 3600))
    }

    /// Returns where new workers are placed. `SUBAGENT_PLACEMENT_LOOPBACK=1` is for tests of the
    /// stream.
    pub(super) fn placement(&self) -> Option<Placement> {
        self.environment.var(LOOPBACK).filter(|value| *value != "0").map(|_| Placement::loopback())
    }

    /// Returns the minimum time between restarts, if dead runtimes are restarted without a message.
    pub(super) fn restart_cooldown(&self) -> Option<Duration> {
        let monitors = self.mode == StartMode::Foreground && self.monitor_workers;
        monitors.then(|| Duration::from_secs(self.restart_cooldown_seconds))
    }
}

/// Reads the idle exit time in seconds from `SUBAGENT_IDLE_EXIT_SECONDS`.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is not a number.
pub fn idle_exit_seconds(environment: &Environment) -> Result<u64> {
    let Some(text) = environment.var(IDLE_EXIT) else { return Ok(DEFAULT_IDLE_EXIT_SECONDS) };
    text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        let message = format!("{IDLE_EXIT} must be a whole number of seconds (0: never), not {text:?}");
        Error::new(Code::InvalidArgument, message).with("variable", IDLE_EXIT)
    })
}

/// Reads the retention in days from `SUBAGENT_RETENTION_DAYS`.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is neither a number of days nor `never`.
pub fn retention_days(environment: &Environment) -> Result<u64> {
    let Some(text) = environment.var(RETENTION) else { return Ok(RETENTION_DAYS) };
    text.to_str().and_then(|text| days(text).ok()).ok_or_else(|| {
        let message = format!(
            "{RETENTION} must be a whole number of days up to {MAX_DAYS} (0 or never: keep all), not {text:?}"
        );
        Error::new(Code::InvalidArgument, message).with("variable", RETENTION)
    })
}

/// Parses a number of days; 0 and `never` mean unlimited.
///
/// # Errors
/// A sentence that describes the problem.
pub fn days(text: &str) -> Result<u64, String> {
    match text.trim() {
        "never" => Ok(0),
        number => match number.parse() {
            Ok(days) if days > MAX_DAYS => Err(format!("must be {MAX_DAYS} or less, or never")),
            Ok(days) => Ok(days),
            Err(_) => Err("must be a whole number of days, or never".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retention_is_a_number_of_days_or_never() {
        let read = |value: &str| retention_days(&Environment::new([(RETENTION.into(), value.into())], "/"));
        for (value, days) in [("", 30), ("never", 0), ("0", 0), (" 7", 7), ("36600", 36_600)] {
            assert_eq!(read(value).unwrap(), days, "{value}");
        }
        for wrong in ["-1", "1.5", "30d", "36601", "18446744073709551616"] {
            assert_eq!(read(wrong).unwrap_err().code, Code::InvalidArgument, "{wrong}");
        }
    }

    #[test]
    fn the_idle_time_is_a_number_or_an_error() {
        let read =
            |value: &str| idle_exit_seconds(&Environment::new([(IDLE_EXIT.into(), value.into())], "/"));
        assert_eq!(read("").unwrap(), 1800);
        assert_eq!(read("0").unwrap(), 0);
        assert_eq!(read("7").unwrap(), 7);
        for wrong in ["-1", "1.5", "soon"] {
            assert_eq!(read(wrong).unwrap_err().code, Code::InvalidArgument);
        }
    }
}
