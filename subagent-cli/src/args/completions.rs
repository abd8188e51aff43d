//! Flags of `completions`.

use clap::{Args, ValueEnum};

use super::JsonFlag;

/// Print a script that completes commands and flags in a shell, or install it
///
/// With --install the script is written where the shell looks for it, folders included.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(subagent completions bash)
  subagent completions --install
  subagent completions zsh --install")]
pub struct Completions {
    /// For which shell [default with --install: the one in SHELL]
    #[arg(required_unless_present = "install")]
    pub shell: Option<Shell>,
    /// Write it where the shell looks for it
    #[arg(long)]
    pub install: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// A shell.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
