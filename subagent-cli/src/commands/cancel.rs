//! `cancel`: ends the open turns of workers, or a session that an agent runs below its own.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::Value;
use subagent_protocol::api::{CancelChildSession, CancelTurn, TurnCanceled};

use crate::client::{ApiRequest, DaemonClient, block_on, segment, view};
use crate::command_line::flags::workers::Addresses;
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag};
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Cancel the open turn of a worker
///
/// Returns when the turn has ended; open permission requests are answered with "cancelled". An agent that does not
/// end its turn in time is ended itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent cancel codex-1 --reason 'wrong branch'")]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id"])))]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) workers: Addresses,
    /// Only this child session of the agent (see "childSessions" in worker show)
    ///
    /// Returns when the agent was notified.
    #[arg(long, value_name = "ID", conflicts_with = "reason")]
    pub(crate) child_session: Option<String>,
    /// Why, for the journal [default: canceled by manager]
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// An agent has its own time to end a turn (a launcher's `cancelGraceSeconds`) before it is ended itself.
const LIMIT: Duration = Duration::from_secs(120);

const REPORT: ChangeReport = ChangeReport {
    one: "turn.canceled",
    several: "turns.canceled",
    keys: &["workerId", "state"],
    done: "canceled",
};

pub(super) fn run(args: &CancelArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    context.check_named_config(args.config.config.as_deref())?;
    let addresses = args.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let change = async |client: &mut DaemonClient, address: &str| -> Result<Value> {
        let worker = format!("/v1/workers/{}", segment(named_worker(address, &workspace)?));
        let ask = match &args.child_session {
            Some(session) => {
                let request = CancelChildSession { session_id: session.clone() };
                ApiRequest::change(format!("{worker}/child-sessions/cancel"), &request)?
            }
            None => {
                let request = CancelTurn { turn_id: None, reason: present(args.reason.clone()) };
                ApiRequest::change(format!("{worker}/cancel"), &request)?.within(Some(LIMIT))
            }
        };
        client.ask(&ask).await
    };
    match (addresses, &args.child_session) {
        ([one], Some(_)) => {
            let data = block_on(change(&mut client, one))?;
            let shown = text::fields(&data, &["workerId", "sessionId"]);
            Ok(CliOutcome::report("childSession.canceled", data, shown))
        }
        ([_], None) => {
            let mut items = block_on(each(&mut client, addresses, &REPORT, change))?;
            let data = items.pop().unwrap_or_default();
            let mut shown = text::fields(&data, REPORT.keys);
            let canceled: TurnCanceled = view(&data)?;
            if canceled.forced {
                shown.push_str("\nforced: true");
            }
            Ok(CliOutcome::report(REPORT.one, data, shown).of_workers(&client.names(addresses)))
        }
        _ => {
            let items = block_on(each(&mut client, addresses, &REPORT, change))?;
            Ok(REPORT.outcome(&client.names(addresses), items))
        }
    }
}
