//! Flags of `completions`.

use clap::{Args, ValueEnum};

use super::JsonFlag;

/// Print or install the completions for bash, zsh or fish
///
/// With --install the script is written where the shell looks for it, folders included.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(subagent completions bash)
  subagent completions --install
  subagent completions --install zsh")]
pub struct Completions {
    /// For which shell
    #[arg(required = true, conflicts_with = "install")]
    pub shell: Option<Shell>,
    /// Write it where the shell looks for it [default: the shell in SHELL]
    #[arg(long, value_name = "SHELL", num_args = 0..=1)]
    pub install: Option<Option<Shell>>,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// A shell that has completions.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
