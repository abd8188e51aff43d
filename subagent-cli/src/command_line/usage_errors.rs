//! Errors of the parser, with what helps a person on.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What users of other tools type first, and what it is called here.
const HABITS: &[(&str, &str)] =
    &[("start", "run"), ("list", "ls"), ("ps", "ls"), ("kill", "stop"), ("exec", "run"), ("attach", "watch")];

/// Adds what the parser leaves out: the usage of the command if a value is wrong, and the command for a habit.
pub(crate) fn explained(
    mut error: clap::Error,
    command: &mut clap::Command,
    args: &[OsString],
) -> clap::Error {
    let typed = args.first().and_then(|first| first.to_str());
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some((_, here)) = HABITS.iter().find(|(habit, _)| typed == Some(*habit))
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![(*here).to_owned()]));
    }
    if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(command, args)));
    }
    error
}

/// Returns the error for `--worker-id` before another flag of the command: the value was forgotten.
///
/// Other ids may begin with a hyphen, and `--worker-id=--json` is taken as it is typed.
pub(crate) fn misread_worker(
    command: &clap::Command,
    matches: &ArgMatches,
    args: &[OsString],
) -> Option<clap::Error> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, below);
    }
    let is_flag = |word: &OsString| {
        let long = word.to_str().and_then(|word| word.strip_prefix("--"));
        long.is_some_and(|long| command.get_arguments().any(|arg| arg.get_long() == Some(long)))
    };
    let typed = matches.try_get_raw("worker_id").ok()??;
    let forgotten = typed.map(ToOwned::to_owned).any(|value: OsString| {
        is_flag(&value) && args.windows(2).any(|two| two[0] == "--worker-id" && two[1] == value)
    });
    forgotten.then(|| {
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        error.insert(ContextKind::InvalidArg, ContextValue::String("--worker-id <ID>".to_owned()));
        error.insert(ContextKind::InvalidValue, ContextValue::String(String::new()));
        error
    })
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::{Cli, parse};

    #[test]
    fn a_habit_of_another_tool_gets_a_tip_that_is_a_command() {
        let command = Cli::command();
        for (habit, here) in HABITS {
            assert!(command.find_subcommand(habit).is_none(), "{habit} is a command");
            assert!(command.find_subcommand(here).is_some(), "{here} is none");
            let error = parse([OsString::from(habit)]).unwrap_err().to_string();
            assert!(error.contains(&format!("'{here}'")), "{error}");
        }
    }
}
