//! `usage`: what workers have used.

use clap::Args;
use subagent_protocol::api::{UsageBy, UsageShown, UsageSums};
use subagent_protocol::time::Timestamp;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::command_line::numbers::age;
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::human::{now, used};
use crate::output::{CliOutcome, text};

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
pub(crate) struct UsageArgs {
    /// What to put turns together by: worker, agent, model or day (UTC) [default: worker]
    #[arg(long, value_name = "WHAT", value_parser = by)]
    pub(crate) by: Option<UsageBy>,
    /// Only turns that began within this time, as 7d, 12h, 90m
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) since: Option<u64>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

fn by(text: &str) -> Result<UsageBy, String> {
    UsageBy::parse(text).ok_or_else(|| {
        let words: Vec<&str> = UsageBy::ALL.iter().map(|by| by.as_str()).collect();
        format!("must be one of {}", words.join(", "))
    })
}

pub(super) fn run(args: &UsageArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let by = args.by.unwrap_or(UsageBy::Worker);
    let since = args.since.map(since);
    let shown: UsageShown = match has_state(&workspace) {
        true => {
            let query = RequestPath::new("/v1/usage")
                .with("by", Some(by.as_str()))
                .with("since", since.map(|since| since.to_string()).as_deref());
            let mut client = DaemonClient::new(context, &workspace);
            block_on(async move { client.ask_for(&ApiRequest::get(query)).await })?
        }
        false => UsageShown { by, since, items: Vec::new(), total: UsageSums::default() },
    };
    let lines = shown.items.iter().map(|item| {
        let [turns, tokens, cost] = used::words(&item.sums);
        [used::key(item), &format!("turns {turns}"), &format!("tokens {tokens}"), &format!("cost {cost}")]
            .map(text::plain)
            .join("\t")
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    let data = serde_json::to_value(&shown).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(CliOutcome::list("usage.shown", data, lines, "(no turns)"))
}

fn since(age: u64) -> Timestamp {
    let millis = i64::try_from(age.saturating_mul(1000)).unwrap_or(i64::MAX);
    Timestamp(now().0.saturating_sub(millis))
}
