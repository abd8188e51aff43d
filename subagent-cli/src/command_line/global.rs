//! The flag that every command has. It is added to a command line only if it is typed or shown, so
//! that other commands do not pay for its ninety copies.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The id of the flag.
pub(crate) const HOST: &str = "host";

/// Adds the flag if one of these arguments may be it.
pub(crate) fn with_typed(program: Command, args: &[OsString]) -> Command {
    let is_host = |arg: &OsString| {
        let name = arg.as_encoded_bytes().strip_prefix(b"--host");
        name.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
    };
    if args.iter().any(is_host) { with_host(program) } else { program }
}

/// Adds the flag to all commands, unless they have it.
pub(crate) fn with_host(program: Command) -> Command {
    if program.get_arguments().any(|arg| arg.get_id() == HOST) {
        return program;
    }
    program.arg(
        Arg::new(HOST)
            .long("host")
            .value_name("HOST")
            .global(true)
            .allow_hyphen_values(true)
            .help("Use the daemon of this host of the config file [default: $SUBAGENT_HOST]"),
    )
}
