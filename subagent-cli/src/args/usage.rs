//! The usage line in errors of the parser.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Adds the usage of the command to an error of the parser.
///
/// The parser leaves it out if a value is wrong.
pub(super) fn with_usage(
    mut error: clap::Error,
    command: &mut clap::Command,
    args: &[OsString],
) -> clap::Error {
    if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(command, args)));
    }
    error
}

/// Returns the usage of the command that the first arguments name.
fn usage(command: &mut clap::Command, args: &[OsString]) -> StyledStr {
    match args.split_first() {
        Some((name, rest)) if command.find_subcommand(name).is_some() => {
            command.find_subcommand_mut(name).map(|below| usage(below, rest)).unwrap_or_default()
        }
        _ => command.render_usage(),
    }
}
