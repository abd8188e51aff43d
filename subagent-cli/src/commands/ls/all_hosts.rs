//! `ls --all-hosts`: the workers of this machine and of all hosts. All are asked at the same time,
//! and one that does not answer is a row.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use subagent_config::discovery;
use subagent_protocol::Code;
use subagent_protocol::clean::one_line;
use subagent_protocol::hosts::DaemonHost;
use subagent_protocol::json;
use subagent_protocol::time::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::{LsArgs, listed};
use crate::client::{HostLink, block_on};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{OutputFormat, complain};

/// Time for the answer of a host.
const LIMIT: Duration = Duration::from_secs(5);

/// The workers of all hosts, and which hosts answered.
pub(super) struct AllHosts {
    /// Workers with `host`, which is null for this machine.
    pub(super) items: Vec<Value>,
    pub(super) hosts: Vec<AskedHost>,
}

/// A host that was asked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AskedHost {
    /// Name in the config file; `local` is this machine.
    host: String,
    /// Number of its workers in the list; null without an answer.
    count: Option<usize>,
    /// When it last answered; null if it never did.
    last_answered: Option<Timestamp>,
    error: Option<Failure>,
}

impl AskedHost {
    /// Prints a warning about a host that did not answer.
    pub(super) fn warn(&self, context: &CliContext) {
        if let Some(error) = self.error.as_ref().filter(|_| context.format == OutputFormat::Text) {
            complain(&one_line(&format!("Warning: {} is left out: {error}", self.host)));
        }
    }
}

/// Asks all of them.
///
/// # Errors
/// `CONFIG_PARSE_ERROR`; `FORBIDDEN_FROM_WORKER`; `INVALID_ARGUMENT` with `--host`.
pub(super) fn ask(args: &LsArgs, context: &CliContext) -> Result<AllHosts> {
    let here = context.for_all_hosts()?;
    let hosts = discovery::daemon_hosts(&context.env)?;
    let mut all = AllHosts { items: Vec::new(), hosts: Vec::new() };
    thread::scope(|scope| {
        let there: Vec<_> = hosts
            .into_values()
            .map(|host| {
                let (name, here) = (host.name.clone(), &here);
                (name, scope.spawn(move || of_host(host, args, here)))
            })
            .collect();
        all.add(None, workers(args, &here), None);
        for (name, asked) in there {
            let lost = || (Err(Failure::internal("a thread ended without a result")), None);
            let (found, answered) = asked.join().unwrap_or_else(|_| lost());
            all.add(Some(name), found, answered);
        }
    });
    Ok(all)
}

impl AllHosts {
    fn add(&mut self, host: Option<String>, found: Result<Vec<Value>>, answered: Option<Timestamp>) {
        let name = host.clone().unwrap_or_else(|| subagent_config::placements::LOCAL.to_owned());
        let (count, error) = match found {
            // Only the hosts are asked for outside of a workspace.
            Err(failure) if host.is_none() && failure.is(Code::WorkspaceRootNotFound) => return,
            Err(failure) => (None, Some(failure)),
            Ok(mut workers) => {
                workers.iter_mut().for_each(|item| json::extend(item, [("host", json!(host))]));
                let count = workers.len();
                self.items.append(&mut workers);
                (Some(count), None)
            }
        };
        self.hosts.push(AskedHost { host: name, count, last_answered: answered, error });
    }
}

/// The workers of a host, and when it last answered.
fn of_host(host: DaemonHost, args: &LsArgs, here: &CliContext) -> (Result<Vec<Value>>, Option<Timestamp>) {
    let link = Arc::new(HostLink::new(host, here.env.home.as_deref()).within(LIMIT));
    let there = CliContext { host: Some(Arc::clone(&link)), ..here.clone() };
    let found = workers(args, &there);
    (found, link.last_answered())
}

fn workers(args: &LsArgs, context: &CliContext) -> Result<Vec<Value>> {
    let deadline = Instant::now() + LIMIT;
    let cwd = args.cwd.cwd.as_deref().filter(|_| context.host.is_none());
    let workspace = context.workspace(cwd)?;
    block_on(async {
        let silent = |_| Err(Failure::new(Code::DaemonUnresponsive, "the daemon did not answer in time"));
        timeout_at(deadline, listed(args, &workspace, context)).await.unwrap_or_else(silent)
    })
}
