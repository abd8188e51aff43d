//! Flags that many commands share.

pub(crate) mod budget;
pub(crate) mod start;
pub(crate) mod workers;

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// `--json`, on every command. As its last flag, so `any_value` reaches all flags before it; a
/// command that has flags behind it names `any_value` itself.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(mut_args = any_value)]
pub(crate) struct JsonFlag {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// `--config`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigFlag {
    /// The config file [default: found from the working directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) config: Option<PathBuf>,
}

/// `--text`, `--text-file` and `--text-stdin`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TextFlags {
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub(crate) text_stdin: bool,
}

/// `--cwd` of commands about an existing worker.
#[derive(Debug, Clone, Args)]
pub(crate) struct CwdFlag {
    /// A folder of the workspace [default: the working directory]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
}

/// `-l`, on commands that choose workers by their tags.
#[derive(Debug, Clone, Args)]
pub(crate) struct SelectorFlag {
    /// Workers with these tags: NAME=VALUE or NAME, separated by commas
    #[arg(short = 'l', long, value_name = "TAGS")]
    pub(crate) selector: Option<String>,
}

/// Which controller a command is about.
#[derive(Debug, Args)]
pub(crate) struct ControllerFlags {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
}

/// Parses a path. An empty one is accepted and means that none was given: scripts quote variables.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// A file. A dash means the standard input or output elsewhere, and is no name here.
pub(crate) fn database_file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| match text.to_str() {
        Some("") => Err("it has no name"),
        Some("-") => Err("a database is no stream; name a file that is called so ./-"),
        _ => Ok(PathBuf::from(text)),
    })
}

/// Lets a flag take a value that begins with a hyphen, as the Python program does: ids, labels and
/// texts may.
pub(crate) fn any_value(arg: clap::Arg) -> clap::Arg {
    // After a flag whose value is optional, a hyphen begins the next flag.
    let optional = arg.get_num_args().is_some_and(|values| values.min_values() == 0);
    let takes = arg.get_long().is_some() && arg.get_action().takes_values() && !optional;
    if takes { arg.allow_hyphen_values(true) } else { arg }
}
