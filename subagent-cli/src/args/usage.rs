//! Errors of the parser, with what helps a person on.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What users of other tools type first, and what it is called here.
const HABITS: &[(&str, &str)] =
    &[("start", "run"), ("list", "ls"), ("ps", "ls"), ("kill", "stop"), ("exec", "run"), ("attach", "watch")];

/// Adds what the parser leaves out: the usage of the command if a value is wrong, and the command for a habit.
pub(super) fn explained(
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
    use crate::args::{Cli, parse};

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
