//! `policy rules list`: the rules that decisions became.

use clap::Args;
use serde_json::json;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the rules that decisions became (approve --always)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent policy rules list
  subagent policy rules list --worker-id w_0123456789 --json")]
pub(crate) struct RulesListArgs {
    /// Only those that hold for this worker
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: Option<String>,
    /// Only those of this controller
    #[arg(long, value_name = "ID", alias = "controller")]
    pub(crate) controller_id: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &RulesListArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker = present(args.worker_id.clone());
    if let Some(worker) = &worker {
        named_worker(worker, &workspace)?;
    }
    let data = if has_state(&workspace) {
        let path = RequestPath::new("/v1/rules")
            .with("workerId", worker.as_deref())
            .with("controllerId", present(args.controller_id.clone()).as_deref());
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ApiRequest::get(path)).await })?
    } else {
        json!({"items": [], "count": 0})
    };
    let keys = ["ruleId", "action", "rule", "scope", "workerId", "controllerId"];
    let shown = text::rows(&data, &keys, "");
    Ok(CliOutcome::list("policy.rules", data, shown, "(no rules)"))
}
