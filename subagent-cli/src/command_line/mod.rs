//! What the definitions of all commands share: flags, help and usage errors. Knows no command.
//!
//! Which flags were typed (and not left at their default) is kept for the duplicate rule of `--input`.

pub(crate) mod flags;
pub(crate) mod group;
pub(crate) mod help;
pub(crate) mod numbers;
pub(crate) mod unparsed;
pub(crate) mod usage_errors;

use std::collections::HashSet;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// The names of the flags that were typed, in snake case. Both flags of a pair count under both names.
#[derive(Debug, Clone, Default)]
pub struct TypedFlags(HashSet<String>);

impl TypedFlags {
    /// Whether this flag was typed.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }

    pub(crate) fn of(matches: &ArgMatches) -> Self {
        let mut leaf = matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let typed = |id: &&str| leaf.value_source(id) == Some(ValueSource::CommandLine);
        Self(leaf.ids().map(clap::Id::as_str).filter(typed).map(str::to_owned).collect())
    }
}

impl<const N: usize> From<[&str; N]> for TypedFlags {
    fn from(names: [&str; N]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }
}
