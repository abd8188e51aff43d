//! `worker logs`: the end of what a worker's agent wrote to its standard error.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use subagent_protocol::lenient;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::command_line::flags::workers::SeveralWorkers;
use crate::command_line::numbers::count;
use crate::commands::targets::named_worker;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Show the last log lines of a worker's agent
///
/// That is its standard error, and output that is no message of the protocol.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker logs codex-1
  subagent worker logs codex-1 --tail-bytes 1000000 --json")]
pub(crate) struct WorkerLogsArgs {
    /// How much of the end, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = count)]
    pub(crate) tail_bytes: u64,
    #[command(flatten)]
    pub(crate) several: SeveralWorkers,
}

/// Time limit of the answer of a place, which may first be looked for.
const LIMIT: Duration = Duration::from_secs(60);

const REPORT: ChangeReport =
    ChangeReport { one: "worker.logs", several: "workers.logs", keys: &[], done: "read" };

pub(crate) fn run(args: &WorkerLogsArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.several.cwd.cwd.as_deref())?;
    let addresses = args.several.workers.all();
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, addresses, &REPORT, async |client, address| {
        let worker = segment(named_worker(address, &workspace)?);
        let path = RequestPath::new(format!("/v1/workers/{worker}/logs"))
            .with("tailBytes", Some(&args.tail_bytes.to_string()));
        client.ask(&ApiRequest::get(path).within(Some(LIMIT))).await
    }))?;
    Ok(REPORT.texts(&client.names(addresses), items, |address, data| {
        /// The end of a log.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct LogEnd<'a> {
            text: &'a str,
        }
        let LogEnd { text: log } = lenient::read(data);
        match addresses {
            [_] => log.to_owned(),
            _ => format!("== {address}\n{log}"),
        }
    }))
}
