//! Flags of `approval`, and of `policy rules`.

use clap::{Args, Subcommand};

use super::{CwdFlag, JsonFlag, SelectorFlag};

/// `subagent approval ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ApprovalCommand {
    List(ApprovalList),
    Show(ApprovalShow),
}

/// List the open questions of agents, the oldest first
///
/// Permission requests (see approve) and elicitations (see answer) of all workers of the workspace:
/// who asks, what, since when, what happens without an answer, and for which rule it is asked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent approval list
  subagent approval list -l job=review --json")]
pub struct ApprovalList {
    /// Only what this worker asks; can be repeated
    #[arg(long, value_name = "ID")]
    pub worker_id: Vec<String>,
    /// Only what this controller's workers ask
    #[arg(long, value_name = "ID", alias = "controller")]
    pub controller_id: Option<String>,
    /// `-l`, the tags that select workers.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show all of a question: command, change or arguments, and how to answer
///
/// Of one that is over also who decided it, when and how.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent approval show ap_0123456789")]
pub struct ApprovalShow {
    /// The id of the question
    #[arg(value_name = "REQUEST_ID")]
    pub request_id: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `subagent policy rules ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum RulesCommand {
    List(RulesList),
    Remove(RulesRemove),
}

/// List the rules that decisions became (approve --always)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent policy rules list
  subagent policy rules list --worker-id w_0123456789 --json")]
pub struct RulesList {
    /// Only those that hold for this worker
    #[arg(long, value_name = "ID")]
    pub worker_id: Option<String>,
    /// Only those of this controller
    #[arg(long, value_name = "ID", alias = "controller")]
    pub controller_id: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Remove a rule that a decision became: its workers ask again
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent policy rules remove rule_0123456789")]
pub struct RulesRemove {
    /// The id of the rule
    #[arg(value_name = "RULE_ID")]
    pub rule_id: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
