//! Flags of `completions`.

use clap::{Args, ValueEnum};

use super::JsonFlag;

/// Print a script that completes commands and flags in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(subagent completions bash)
  subagent completions zsh > ~/.zfunc/_subagent
  subagent completions fish > ~/.config/fish/completions/subagent.fish")]
pub struct Completions {
    /// For which shell
    pub shell: Shell,
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
