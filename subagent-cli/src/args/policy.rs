//! Flags about what an agent may do without asking, and `policy test`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfigFlag, JsonFlag, path};

/// `--allow`, `--ask` and `--deny`.
#[derive(Debug, Clone, Default, Args)]
pub struct RuleFlags {
    /// Allow without asking: TOOL or TOOL(PATTERN); can be repeated
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,
    /// Ask, also if the config allows it; can be repeated
    #[arg(long, value_name = "RULE")]
    pub ask: Vec<String>,
    /// Deny without asking; can be repeated
    #[arg(long, value_name = "RULE")]
    pub deny: Vec<String>,
}

impl RuleFlags {
    /// Whether none was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { allow, ask, deny } = self;
        [allow, ask, deny].iter().all(|rules| rules.is_empty())
    }
}

impl From<RuleFlags> for subagent_config::start::policy::Flags {
    fn from(RuleFlags { allow, ask, deny }: RuleFlags) -> Self {
        Self { allow, ask, deny }
    }
}

/// `subagent policy ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum PolicyCommand {
    Test(PolicyTest),
    /// The rules that decisions became (approve --always)
    #[command(subcommand)]
    Rules(super::inbox::RulesCommand),
}

/// Say what becomes of a call, and which rule decides
///
/// TOOL is read, edit, delete, move, search, execute, think, fetch, other, task, or the name of a tool. SUBJECT is the
/// command line, path, address or agent. The rules are those of the config file, then those of the flags: what a worker
/// gets that is started now. No daemon is asked and no command is run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent policy test execute 'git push -f'
  subagent policy test edit src/main.rs --deny 'edit(*.rs)' --json")]
pub struct PolicyTest {
    /// What kind of call, or the name of a tool
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// What it is about
    #[arg(value_name = "SUBJECT", allow_hyphen_values = true)]
    pub subject: Option<String>,
    /// Rules besides those of the config.
    #[command(flatten)]
    pub rules: RuleFlags,
    /// Where the agent would work, and whose config counts [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub cwd: Option<PathBuf>,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
