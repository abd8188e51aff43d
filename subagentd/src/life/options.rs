//! What `subagentd run` was asked to do.

use std::path::PathBuf;
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::api::RETENTION_DAYS;
use subagent_protocol::{Code, Error, Result};

/// After how long without live worker and client a background daemon ends, unless said otherwise.
pub const DEFAULT_IDLE_EXIT_SECONDS: u64 = 1800;

/// Names that time in the environment.
const IDLE_EXIT: &str = "SUBAGENT_IDLE_EXIT_SECONDS";
/// Names the time for which things are kept that are over.
const RETENTION: &str = "SUBAGENT_RETENTION_DAYS";

/// The longest time for which things are kept, in days: a century. Longer is for ever.
const MOST_DAYS: u64 = 36_600;

/// Who started the daemon, and so who hears of its start and for how long it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A person or a service manager; it runs until it is told to end, and writes the status file.
    Foreground,
    /// A command that needed one. Standard output is a pipe on which one line says how the start went.
    Background,
}

impl Mode {
    /// The word in `daemon.json` and in the status file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
        }
    }
}

/// Everything that `subagentd run` takes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The state dir: absolute, links resolved. It is made if it is not there.
    pub state_dir: PathBuf,
    /// This process's environment: `XDG_RUNTIME_DIR`, `SUBAGENT_LOG`.
    pub environment: Environment,
    /// The executable `subagent-runtime`; `None`: the one beside this executable.
    pub runtime_program: Option<PathBuf>,
    /// Who started it.
    pub mode: Mode,
    /// Only look after the workers' health once and end; a running daemon is asked instead.
    pub once: bool,
    /// How often the status file is written; 1 to [`MOST_SECONDS`].
    pub heartbeat_seconds: u64,
    /// Whether dead runtimes are started again at once.
    pub monitor_workers: bool,
    /// At most one restart of a worker in this time; 1 to [`MOST_SECONDS`].
    pub restart_cooldown_seconds: u64,
    /// Print JSON instead of text.
    pub json: bool,
    /// A background daemon ends after this time without live worker and client; 0: never.
    pub idle_exit_seconds: u64,
    /// Stopped workers, events of turns that have ended, and keys of requests are removed after so many days; 0: never.
    pub retention_days: u64,
}

/// The longest heartbeat and cooldown: a year. Clocks cannot count for ever.
pub const MOST_SECONDS: u64 = 366 * 24 * 3600;

impl RunOptions {
    /// After which time what is over is removed. One look after the workers removes nothing.
    pub(super) fn retention(&self) -> Option<Duration> {
        let days = self.retention_days.min(MOST_DAYS);
        (days > 0 && !self.once).then(|| Duration::from_secs(days * 24 * 3600))
    }

    /// Whether dead runtimes are started again without a message that asks for it, and how often at most.
    pub(super) fn restart_cooldown(&self) -> Option<Duration> {
        let monitors = self.mode == Mode::Foreground && self.monitor_workers;
        monitors.then(|| Duration::from_secs(self.restart_cooldown_seconds))
    }
}

/// Reads `SUBAGENT_IDLE_EXIT_SECONDS`.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is no number.
pub fn idle_exit_seconds(environment: &Environment) -> Result<u64> {
    let Some(text) = environment.var(IDLE_EXIT) else { return Ok(DEFAULT_IDLE_EXIT_SECONDS) };
    text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        let message = format!("{IDLE_EXIT} must be a whole number of seconds (0: never), not {text:?}");
        Error::new(Code::InvalidArgument, message).with("variable", IDLE_EXIT)
    })
}

/// Reads `SUBAGENT_RETENTION_DAYS`.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is neither a number of days nor `never`.
pub fn retention_days(environment: &Environment) -> Result<u64> {
    let Some(text) = environment.var(RETENTION) else { return Ok(RETENTION_DAYS) };
    text.to_str().and_then(|text| days(text).ok()).ok_or_else(|| {
        let message = format!(
            "{RETENTION} must be a whole number of days up to {MOST_DAYS} (0 or never: for ever), not {text:?}"
        );
        Error::new(Code::InvalidArgument, message).with("variable", RETENTION)
    })
}

/// Reads a number of days, 0 or `never` for no end.
///
/// # Errors
/// A sentence about what is wrong.
pub fn days(text: &str) -> Result<u64, String> {
    match text.trim() {
        "never" => Ok(0),
        number => match number.parse() {
            Ok(days) if days > MOST_DAYS => Err(format!("must be {MOST_DAYS} or less, or never")),
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
