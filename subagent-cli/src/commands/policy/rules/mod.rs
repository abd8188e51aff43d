//! `policy rules`: the rules that decisions became.

use serde_json::{Value, json};

use crate::args::inbox::{RulesCommand, RulesList, RulesRemove};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

pub(crate) fn run(command: &RulesCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        RulesCommand::List(args) => list(args, context),
        RulesCommand::Remove(args) => remove(args, context),
    }
}

fn list(args: &RulesList, context: &CliContext) -> Result<CliOutcome> {
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

fn remove(args: &RulesRemove, context: &CliContext) -> Result<CliOutcome> {
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
