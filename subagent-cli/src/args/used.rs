//! Flags of `usage`.

use clap::Args;
use subagent_protocol::api::UsageBy;

use super::numbers::age;
use super::{CwdFlag, JsonFlag};

/// Show the turns, tokens and cost of workers
///
/// The sums of all stored turns of this workspace. What agents do not report
/// is unknown, and counted as such. A cost that no agent has reported is
/// computed from its tokens where the config has `prices`.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  subagent usage
  subagent usage --by day --since 7d
  subagent usage --by model --json"
)]
pub struct Usage {
    /// What to put turns together by: worker, agent, model or day (UTC) [default: worker]
    #[arg(long, value_name = "WHAT", value_parser = by)]
    pub by: Option<UsageBy>,
    /// Only turns that began within this time, as 7d, 12h, 90m
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub since: Option<u64>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

fn by(text: &str) -> Result<UsageBy, String> {
    UsageBy::parse(text).ok_or_else(|| {
        let words: Vec<&str> = UsageBy::ALL.iter().map(|by| by.as_str()).collect();
        format!("must be one of {}", words.join(", "))
    })
}
