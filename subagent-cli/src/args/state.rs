//! Flags of `backup` and `restore`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{CwdFlag, JsonFlag};

/// Copy the daemon's state into a file
///
/// Workers and their turns go on meanwhile. What agents have said, the texts of messages and the owners' hashed tokens
/// are in the copy; it is readable for you alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent backup ~/subagent.db
  subagent backup --force ~/subagent.db --json")]
pub struct Backup {
    /// The file, outside of the state dir
    #[arg(value_name = "FILE", value_parser = file())]
    pub file: PathBuf,
    /// Replace an empty file or another backup
    #[arg(long)]
    pub force: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Restore the daemon's state from a backup
///
/// The daemon ends for it and the next command starts another one; workers go on, and their turns too. What is
/// replaced is kept beside it. Every ownership ends: become the owner anew with `subagent controller init`.
///
/// Workers that run and that the backup does not know would be left alone: it is refused then, unless --force ends
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent restore ~/subagent.db
  subagent restore --force ~/subagent.db --json")]
pub struct Restore {
    /// A file that `subagent backup` has written
    #[arg(value_name = "FILE", value_parser = file())]
    pub file: PathBuf,
    /// End the workers that the backup does not know
    #[arg(long)]
    pub force: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// A file. A dash means the standard input or output elsewhere, and is no name here.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| match text.to_str() {
        Some("") => Err("it has no name"),
        Some("-") => Err("a database is no stream; name a file that is called so ./-"),
        _ => Ok(PathBuf::from(text)),
    })
}
