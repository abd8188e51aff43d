//! The guard's command line: `[--umask OCTAL] [--nofile SOFT] [--sandbox JSON [--proxy]] -- COMMAND ARGS...`.
//!
//! Does no I/O. Only the runtime writes it, so there is no help and there are no abbreviations.

use std::ffi::OsString;

/// The command to start, and its limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GuardOptions {
    /// The agent's file mode creation mask.
    pub(super) umask: Option<u32>,
    /// The agent's soft limit of open descriptors, capped at the hard limit.
    pub(super) nofile: Option<u64>,
    /// The agent's sandbox, as [`subagent_sandbox::main`] parses it.
    pub(super) sandbox: Option<String>,
    /// Whether the sandbox gets the channel to its proxy, [`super::PROXY_FD`].
    pub(super) proxy: bool,
    /// The program, looked up in `PATH` if it has no slash.
    pub(super) command: OsString,
    pub(super) args: Vec<OsString>,
}

/// An invalid command line of the guard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UsageError {
    #[error("missing value after {0}")]
    MissingValue(&'static str),
    #[error("invalid value after {option}: {value:?}")]
    InvalidValue { option: &'static str, value: OsString },
    #[error(
        "unknown option {0:?}; expected [--umask OCTAL] [--nofile SOFT] [--sandbox JSON [--proxy]] -- COMMAND ARGS..."
    )]
    UnknownOption(OsString),
    #[error(
        "missing command; expected [--umask OCTAL] [--nofile SOFT] [--sandbox JSON [--proxy]] -- COMMAND ARGS..."
    )]
    MissingCommand,
}

/// Parses the arguments after `guard`.
pub(super) fn parse(mut args: impl Iterator<Item = OsString>) -> Result<GuardOptions, UsageError> {
    let (mut umask, mut nofile, mut sandbox, mut proxy) = (None, None, None, false);
    loop {
        let Some(arg) = args.next() else { return Err(UsageError::MissingCommand) };
        match arg.to_str() {
            Some("--") => break,
            Some("--umask") => {
                let in_range = |text: &str| u32::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777);
                umask = Some(value("--umask", args.next(), in_range)?);
            }
            Some("--nofile") => nofile = Some(value("--nofile", args.next(), |text| text.parse().ok())?),
            Some("--sandbox") => {
                sandbox = Some(value("--sandbox", args.next(), |text| Some(text.to_owned()))?)
            }
            Some("--proxy") => proxy = true,
            _ => return Err(UsageError::UnknownOption(arg)),
        }
    }
    let command = args.next().ok_or(UsageError::MissingCommand)?;
    Ok(GuardOptions { umask, nofile, sandbox, proxy, command, args: args.collect() })
}

fn value<T>(
    option: &'static str,
    value: Option<OsString>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, UsageError> {
    let value = value.ok_or(UsageError::MissingValue(option))?;
    value.to_str().and_then(read).ok_or(UsageError::InvalidValue { option, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<GuardOptions, UsageError> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn everything_after_the_dashes_is_the_agents() {
        let options =
            parsed(&["--umask", "027", "--nofile", "1024", "--", "agent", "--umask", "--"]).unwrap();
        assert_eq!((options.umask, options.nofile), (Some(0o27), Some(1024)));
        assert_eq!(options.command, "agent");
        assert_eq!(options.args, ["--umask", "--"]);
    }

    #[test]
    fn wrong_calls_are_named() {
        assert_eq!(parsed(&[]), Err(UsageError::MissingCommand));
        assert_eq!(parsed(&["--"]), Err(UsageError::MissingCommand));
        assert_eq!(parsed(&["agent"]), Err(UsageError::UnknownOption("agent".into())));
        assert_eq!(parsed(&["--umask"]), Err(UsageError::MissingValue("--umask")));
        for (option, value) in
            [("--umask", "9"), ("--umask", "7777"), ("--nofile", "-1"), ("--nofile", "many")]
        {
            let error = parsed(&[option, value, "--", "agent"]).unwrap_err();
            assert!(matches!(error, UsageError::InvalidValue { option: o, .. } if o == option), "{error}");
        }
    }
}
