//! Flags of `init`, `config show` and `config check`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, JsonFlag, path};

/// Set up subagent: agents, config file, login, completions, skill
///
/// Finds the agents that are installed, asks each whether it is logged in, and offers one step after the other. Without a
/// terminal and without --yes it says what it would do. No file that exists is changed, and nothing is sent anywhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent init
  subagent init --yes
  subagent init --yes --launcher gemini --no-skill --json")]
pub struct Init {
    /// Take every step without a question; a login is named and not done
    #[arg(long, short)]
    pub yes: bool,
    /// The default launcher [default: the only installed one, else a choice]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// Start no agent to ask whether it is logged in
    #[arg(long)]
    pub no_handshake: bool,
    /// Write no config file
    #[arg(long)]
    pub no_config: bool,
    /// Install no completions
    #[arg(long)]
    pub no_completions: bool,
    /// Install no skill
    #[arg(long)]
    pub no_skill: bool,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show the merged config of all files (secrets are hidden)
///
/// Your own file counts over the built-in launchers, and the project's file over yours, key by key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config show
  subagent config show --origin
  subagent config show --config team.yaml --json")]
pub struct ConfigShow {
    /// Show each value with its file and line
    #[arg(long)]
    pub origin: bool,
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Check the config files; name each problem with file and line
///
/// Exits with 1 if a file cannot be used. Unknown keys are warnings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config check
  subagent config check --config team.yaml --json")]
pub struct ConfigCheck {
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
