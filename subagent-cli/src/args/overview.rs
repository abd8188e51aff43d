//! Flags of `ls` and `status`.

use clap::{Args, ValueEnum};

use super::{CwdFlag, JsonFlag, SelectorFlag};

/// The forms of output of `ls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// A table (the default at a terminal)
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
    /// Values separated by tabs (the default elsewhere)
    Tsv,
    /// One name a line
    Name,
}

/// List the workers that are alive, and what they ask
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent ls
  subagent ls -a -l job=review
  subagent stop $(subagent ls -q)")]
pub struct Ls {
    /// Also those that are stopped
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Names only
    #[arg(short = 'q', long, conflicts_with = "output")]
    pub quiet: bool,
    /// How to print
    #[arg(short = 'o', long, value_name = "FORM", value_enum)]
    pub output: Option<ListForm>,
    /// `-l`, the tags that select workers.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output: the same as -o json.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl Ls {
    /// The form that was chosen by a flag.
    #[must_use]
    pub fn form(&self) -> Option<ListForm> {
        match (self.quiet, self.json.json) {
            (true, false) => Some(ListForm::Name),
            (_, true) => Some(ListForm::Json),
            _ => self.output,
        }
    }
}

/// Show the daemon, the number of workers and what `doctor` finds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent status
  subagent status --json")]
pub struct StatusArgs {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
