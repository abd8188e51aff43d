//! Flags that commands of several files share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// `--json`, on every command. As its last flag, so `any_value` reaches all flags before it; a
/// command that has flags behind it names `any_value` itself.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(mut_args = any_value)]
pub struct JsonFlag {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `--config`.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigFlag {
    /// The config file [default: found from the working directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub config: Option<PathBuf>,
}

/// `--cwd` of commands about an existing worker.
#[derive(Debug, Clone, Args)]
pub struct CwdFlag {
    /// A folder of the workspace [default: the working directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
}

/// `-l`, on commands that choose workers by their tags.
#[derive(Debug, Clone, Args)]
pub struct SelectorFlag {
    /// Workers with these tags: NAME=VALUE or NAME, separated by commas
    #[arg(short = 'l', long, value_name = "TAGS")]
    pub selector: Option<String>,
}

/// Parses a path. An empty one is accepted and means that none was given: scripts quote variables.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Lets a flag take a value that begins with a hyphen, as the Python program does: ids, labels and
/// texts may.
pub(crate) fn any_value(arg: clap::Arg) -> clap::Arg {
    // After a flag whose value is optional, a hyphen begins the next flag.
    let optional = arg.get_num_args().is_some_and(|values| values.min_values() == 0);
    let takes = arg.get_long().is_some() && arg.get_action().takes_values() && !optional;
    if takes { arg.allow_hyphen_values(true) } else { arg }
}
