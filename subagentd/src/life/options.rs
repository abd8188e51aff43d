//! What `subagentd run` was asked to do.

use std::path::PathBuf;
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::{Code, Error, Result};

/// After how long without live worker and client a background daemon ends, unless said otherwise.
pub const DEFAULT_IDLE_EXIT_SECONDS: u64 = 1800;

/// Names that time in the environment.
const IDLE_EXIT: &str = "SUBAGENT_IDLE_EXIT_SECONDS";

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
}

/// The longest heartbeat and cooldown: a year. Clocks cannot count for ever.
pub const MOST_SECONDS: u64 = 366 * 24 * 3600;

impl RunOptions {
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

#[cfg(test)]
mod tests {
    use super::*;

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
