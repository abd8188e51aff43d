//! Wrong usage, `--help` and `--version`: what the parser of the command line has to say.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Value, json};
use subagent_protocol::{OLDEST_PROTOCOL, PROTOCOL};

use crate::failure::Failure;
use crate::output::{CliOutcome, OutputFormat, complain, errors, finish, json, print, unprintable};

/// Prints what the parser says and gives the exit code: 0 for help and version, 2 for wrong usage.
///
/// Usage goes to stderr; with `--json` there is an error envelope on stdout too.
pub(crate) fn exit(program: &str, error: &clap::Error, args: &[OsString]) -> ExitCode {
    let wants_json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    if error.kind() == ErrorKind::DisplayVersion || asks_for_version(args) {
        return finish(OutputFormat::of(wants_json), Ok(version(program)));
    }
    if error.kind() == ErrorKind::DisplayHelp {
        return match print(&error.to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => unprintable(&error, 0),
        };
    }
    complain(error.to_string().trim_end());
    if wants_json && let Err(error) = print(&json::line(errors::envelope(&failure(error)))) {
        return unprintable(&error, 2);
    }
    ExitCode::from(2)
}

/// `--version` with `--json` before it, which the parser takes for a flag of some command.
fn asks_for_version(args: &[OsString]) -> bool {
    let is_version = |arg: &OsString| arg == "--version" || arg == "-V";
    args.iter().any(is_version) && args.iter().all(|arg| is_version(arg) || arg == "--json")
}

fn version(program: &str) -> CliOutcome {
    let version = env!("CARGO_PKG_VERSION");
    let data = json!({"version": version, "protocol": PROTOCOL, "oldestProtocol": OLDEST_PROTOCOL});
    CliOutcome::report("version.shown", data, format!("{program} {version}"))
}

/// The same as an error: the message without the usage lines, and what it is about.
fn failure(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim();
    let message = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a sub-command is missing; see --help".to_owned()
    } else {
        let lines: Vec<&str> =
            first.strip_prefix("error: ").unwrap_or(first).lines().map(str::trim).collect();
        lines.join(" ")
    };
    let mut failure = Failure::argument(message);
    for (key, kinds) in [
        ("argument", [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].as_slice()),
        (
            "suggestion",
            &[ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue],
        ),
    ] {
        if let Some(said) = kinds.iter().find_map(|kind| said(error.get(*kind)?)) {
            failure = failure.with(key, said);
        }
    }
    // For a missing sub-command the parser has the whole help instead.
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    match usage {
        Some(usage) => failure.with("usage", usage.trim()),
        None => failure,
    }
}

/// What the parser says of something, as one text.
fn said(value: &ContextValue) -> Option<Value> {
    match value {
        ContextValue::String(text) => Some(text.as_str().into()),
        ContextValue::Strings(texts) if !texts.is_empty() => Some(texts.join(", ").into()),
        _ => None,
    }
}
