//! What the definitions of all commands share: flags, help and usage errors. Knows no command.
//!
//! Which flags were typed (and not left at their default) is kept for the duplicate rule of `--input`.

pub(crate) mod flags;
pub(crate) mod global;
pub(crate) mod group;
pub(crate) mod help;
pub(crate) mod numbers;
pub(crate) mod unparsed;
pub(crate) mod usage_errors;

use std::collections::HashSet;
use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// The names of the flags that were typed, in snake case. Both flags of a pair count under both names.
#[derive(Debug, Clone, Default)]
pub struct TypedFlags {
    names: HashSet<String>,
    host: Option<String>,
    cwd: Option<String>,
}

impl TypedFlags {
    /// Whether this flag was typed.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.names.contains(flag)
    }

    /// The value of the global flag `--host`.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The value of `--cwd`, if it is text.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    pub(crate) fn of(matches: &ArgMatches) -> Self {
        let mut leaf = matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let typed = |id: &&str| leaf.value_source(id) == Some(ValueSource::CommandLine);
        let names = leaf.ids().map(clap::Id::as_str).filter(typed).map(str::to_owned).collect();
        let host = leaf.try_get_one::<String>(global::HOST).ok().flatten().cloned();
        let cwd = leaf.try_get_one::<PathBuf>("cwd").ok().flatten();
        let cwd = cwd.and_then(|path| path.to_str()).filter(|path| !path.is_empty());
        Self { names, host: host.filter(|name| !name.is_empty()), cwd: cwd.map(str::to_owned) }
    }
}

impl<const N: usize> From<[&str; N]> for TypedFlags {
    fn from(names: [&str; N]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), host: None, cwd: None }
    }
}
