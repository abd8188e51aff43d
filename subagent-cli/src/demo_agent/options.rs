//! The flags of the scripted agent. Pure: it must not read the environment or print.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use super::shapes::SpawnShape;

/// The task of the process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoAgentMode {
    /// Speak ACP on stdin and stdout.
    #[default]
    Serve,
    /// Report it on stderr and exit with this code.
    Exit(u8),
    /// Print plain text without JSON, and stay until stdin ends.
    NoAcp,
    /// Act as a process that `!spawn` leaves behind (internal).
    Spawned(SpawnShape),
}

/// The variant of ACP that the agent speaks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// ACP v1 as specified.
    #[default]
    Standard,
    /// An old agent: no capabilities, nested updates, null as result of `load`, repeated session ids after
    /// a restart.
    Bare,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DemoAgentOptions {
    pub(super) mode: DemoAgentMode,
    pub(super) dialect: Dialect,
    /// Folder of stored sessions; `None` keeps them in memory.
    pub(super) state: Option<PathBuf>,
    /// File to which spawned processes append their pid.
    pub(super) pids: Option<PathBuf>,
    /// Delay before the response to `initialize`.
    pub(super) slow_start: Duration,
    pub(super) hang_initialize: bool,
    pub(super) hang_session_new: bool,
    /// While this file exists, sessions are refused because of a rate limit.
    pub(super) limited_while: Option<PathBuf>,
    pub(super) needs_auth: bool,
    /// Sessions need no login, but prompts do. The login is reported before a session opens.
    pub(super) late_auth: bool,
    pub(super) null_load: bool,
    pub(super) ignore_term: bool,
    pub(super) ignore_stdin_eof: bool,
    /// Whether it accepts system prompts.
    pub(super) system_prompt: bool,
}

impl DemoAgentOptions {
    /// Whether it requires a login at any time.
    pub(super) fn offers_login(&self) -> bool {
        self.needs_auth || self.late_auth
    }

    /// Parses the flags; the error is one line for stderr.
    pub(super) fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            let name = arg.to_string_lossy().into_owned();
            let mut value = || args.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--state" => options.state = Some(value()?.into()),
                "--pids" => options.pids = Some(value()?.into()),
                "--slow-start" => {
                    options.slow_start = Duration::from_millis(number(&name, &value()?)?);
                }
                "--exit" => {
                    let code = number(&name, &value()?)?;
                    options.mode = DemoAgentMode::Exit(
                        u8::try_from(code).map_err(|_| format!("--exit takes 0 to 255, not {code}"))?,
                    );
                }
                "--spawned" => {
                    let shape = value()?;
                    options.mode = DemoAgentMode::Spawned(shape.to_string_lossy().parse()?);
                }
                "--no-acp" => options.mode = DemoAgentMode::NoAcp,
                "--no-capabilities" => options.dialect = Dialect::Bare,
                "--hang-initialize" => options.hang_initialize = true,
                "--hang-session-new" => options.hang_session_new = true,
                "--limited-while" => options.limited_while = Some(value()?.into()),
                "--needs-auth" => options.needs_auth = true,
                "--late-auth" => options.late_auth = true,
                "--null-load" => options.null_load = true,
                "--ignore-term" => options.ignore_term = true,
                "--system-prompt" => options.system_prompt = true,
                "--ignore-stdin-eof" => options.ignore_stdin_eof = true,
                _ => return Err(format!("unknown flag {name}")),
            }
        }
        Ok(options)
    }
}

fn number(name: &str, value: &OsStr) -> Result<u64, String> {
    let text = value.to_string_lossy();
    text.parse().map_err(|_| format!("{name} takes a number, not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<DemoAgentOptions, String> {
        DemoAgentOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn no_flags_is_a_plain_agent() {
        assert_eq!(parse(&[]).unwrap(), DemoAgentOptions::default());
    }

    #[test]
    fn values_are_read_and_missing_ones_named() {
        let options = parse(&["--state", "/s", "--slow-start", "20", "--exit", "7"]).unwrap();
        assert_eq!(options.state, Some(PathBuf::from("/s")));
        assert_eq!(options.slow_start, Duration::from_millis(20));
        assert_eq!(options.mode, DemoAgentMode::Exit(7));
        assert_eq!(parse(&["--state"]).unwrap_err(), "--state needs a value");
        assert_eq!(parse(&["--exit", "300"]).unwrap_err(), "--exit takes 0 to 255, not 300");
        assert_eq!(parse(&["--slow-start", "x"]).unwrap_err(), "--slow-start takes a number, not x");
        assert_eq!(parse(&["--fast"]).unwrap_err(), "unknown flag --fast");
    }
}
