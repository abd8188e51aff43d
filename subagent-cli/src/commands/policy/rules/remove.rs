//! `policy rules remove`: removes a rule that a decision became.

use clap::Args;
use serde_json::Value;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Remove a rule that a decision became: its workers ask again
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent policy rules remove rule_0123456789")]
pub(crate) struct RulesRemoveArgs {
    /// The id of the rule
    #[arg(value_name = "RULE_ID")]
    pub(crate) rule_id: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &RulesRemoveArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    if args.rule_id.is_empty() {
        return Err(Failure::input("no rule: `subagent policy rules list` shows them"));
    }
    let ask = ApiRequest::change(format!("/v1/rules/{}/remove", segment(&args.rule_id)), &Value::Null)?;
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["ruleId", "action", "rule", "scope"]);
    Ok(CliOutcome::report("policy.rule.removed", data, shown))
}
