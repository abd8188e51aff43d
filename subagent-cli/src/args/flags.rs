//! Flags that commands of several files share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// `--json`, on every command.
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonFlag {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `--config`.
#[derive(Debug, Clone, Args)]
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
