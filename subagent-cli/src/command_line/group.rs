//! A group of commands, such as `subagent worker`.

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

/// A group that is built only when one of its commands is typed. With `defer`, clap postpones what a
/// variant's [`Args`] add, but adds a [`Subcommand`]'s commands at once.
#[derive(Debug)]
pub(crate) struct CommandGroup<C>(pub(crate) C);

impl<C: Subcommand> Args for CommandGroup<C> {
    fn augment_args(group: Command) -> Command {
        // The enum's comment is not help; the comment of the variant with the group is.
        let about = group.get_about().cloned();
        let group = C::augment_subcommands(group).about(about.unwrap_or_default()).long_about(None);
        group.subcommand_required(true).arg_required_else_help(true)
    }

    fn augment_args_for_update(group: Command) -> Command {
        C::augment_subcommands_for_update(group)
    }
}

impl<C: Subcommand> FromArgMatches for CommandGroup<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        C::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        C::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
