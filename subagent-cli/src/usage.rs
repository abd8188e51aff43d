//! Wrong usage, `--help` and `--version`: what the parser of the command line has to say.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};

use crate::failure::Failure;
use crate::output::{complain, errors, json, print, unprintable};

/// Prints what the parser says and gives the exit code: 0 for help and version, 2 for wrong usage.
///
/// Usage goes to stderr; with `--json` there is an error envelope on stdout too.
pub(crate) fn exit(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match print(&error.to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => unprintable(&error, 0),
        };
    }
    complain(error.to_string().trim_end());
    let wants_json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    if wants_json && let Err(error) = print(&json::line(errors::envelope(&failure(error)))) {
        return unprintable(&error, 2);
    }
    ExitCode::from(2)
}

/// The same as an error: the message without the usage lines, and what it is about.
fn failure(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim();
    let message = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a sub-command is missing; see --help"
    } else {
        first.strip_prefix("error: ").unwrap_or(first)
    };
    let failure = Failure::argument(message);
    match error.get(ContextKind::InvalidArg) {
        Some(argument) => failure.with("argument", argument.to_string()),
        None => failure,
    }
}
