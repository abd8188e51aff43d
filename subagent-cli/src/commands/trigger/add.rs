//! `trigger add`: what is started on which events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sha2::{Digest as _, Sha256};
use subagent_protocol::api::AddTrigger;
use subagent_protocol::ids::hex;
use subagent_protocol::trigger::{
    COMMAND_EVERY_SECONDS, COMMAND_TIMEOUT_SECONDS, DEBOUNCE_MS, EndStatus, TriggerSource,
};

use super::triggers::TRIGGERS;
use crate::command_line::flags::JsonFlag;
use crate::command_line::numbers::{age, time_or_seconds};
use crate::commands::firing;
use crate::commands::firing::flags::FiringFlagsArgs;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, json};
use crate::random::random;

/// Add a trigger: start a task, or send a message, on events
///
/// AGENT is a launcher or a definition of an agent. Each firing starts a task for it, with the rules, budgets, sandbox and
/// worktree that hold then, and with the environment in which the daemon was started. With --send the trigger sends a
/// message to a worker instead.
///
/// `subagent trigger fire` fires any trigger. Without --after, --on-command, --watch and --webhook nothing else does.
/// {{payload}} in the text is replaced by the payload of the occurrence, marked as data.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent trigger add pushed codex 'Review the commits of this push: {{payload}}'
  subagent trigger add fixer --after nightly-build --status failed \\
      codex 'Find out why this task failed, and fix it: {{payload}}'
  subagent trigger add upstream --changed --every 10m \\
      --on-command 'cd / && git ls-remote https://example.org/app.git main' \\
      codex 'Merge origin/main and run the tests.'
  subagent trigger add docs --watch 'docs/**/*.md' --debounce 10 \\
      codex 'Check the links in these files: {{payload}}'
  subagent trigger add ci --webhook codex 'Find out why this job failed: {{payload}}'")]
pub(crate) struct TriggerAddArgs {
    /// Its name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) start: FiringFlagsArgs,
    /// Fire at the end of a task, or of each turn of a worker
    #[arg(long, value_name = "WORKER", group = "source")]
    pub(crate) after: Option<String>,
    /// Fire only for ends with this status
    #[arg(long = "status", value_name = "STATUS", requires = "after", value_parser = ["completed", "failed", "canceled"])]
    pub(crate) end_status: Option<String>,
    /// Run a command line in an interval, in the folder of --cwd
    #[arg(long, value_name = "COMMAND", group = "source", requires = "changed")]
    pub(crate) on_command: Option<String>,
    /// Fire when the output of the command has changed
    #[arg(long, requires = "on_command")]
    pub(crate) changed: bool,
    /// The interval of the command, as 30s or 5m [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = age, requires = "on_command")]
    pub(crate) every: Option<u64>,
    /// How long the command may take, at most 1h [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = age, requires = "on_command")]
    pub(crate) timeout: Option<u64>,
    /// Fire when a file with this path has changed, below the folder of --cwd, as 'src/**' (several)
    #[arg(long, value_name = "GLOB", group = "source")]
    pub(crate) watch: Vec<String>,
    /// Wait until no file has changed for this time, in seconds or as 1m [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = time_or_seconds, requires = "watch")]
    pub(crate) debounce: Option<f64>,
    /// Fire on a POST to `subagent panel` with the token that is shown once
    #[arg(long, group = "source")]
    pub(crate) webhook: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl TriggerAddArgs {
    /// The only ends that count.
    pub(crate) fn end_status(&self) -> Option<EndStatus> {
        self.end_status.as_deref().and_then(EndStatus::parse)
    }
}

pub(super) fn run(args: TriggerAddArgs, context: &CliContext) -> Result<CliOutcome> {
    let (overlap, max_failures) = (args.start.overlap(), args.start.max_failures);
    // A secret of 256 bits.
    let token = args.webhook.then(random::<32>).transpose()?;
    let source = source(&args, token.as_deref(), context)?;
    let name = args.name;
    let of = ("trigger", name.as_str());
    let mut data = firing::add(args.start, of, context, TRIGGERS.path, |choice, work| AddTrigger {
        choice,
        name: name.clone(),
        source,
        overlap,
        max_failures,
        work,
    })?;
    if let Some(token) = token {
        let path = format!("/api/triggers/{name}");
        json::extend(&mut data, [("token", token.into()), ("webhookPath", path.into())]);
    }
    Ok(TRIGGERS.shown("trigger.added", data))
}

fn source(args: &TriggerAddArgs, token: Option<&str>, context: &CliContext) -> Result<TriggerSource> {
    let folder = || -> Result<PathBuf> {
        let typed = args.start.cwd.as_deref().filter(|path| !path.as_os_str().is_empty());
        let path = context.env.cwd.join(typed.unwrap_or_else(|| Path::new("")));
        path.canonicalize().map_err(|error| {
            Failure::argument(format!("the folder {} cannot be used: {error}", path.display()))
        })
    };
    let (status, worker, command) = (args.end_status(), args.after.clone(), args.on_command.clone());
    Ok(match (present(worker), command, token) {
        (Some(worker), ..) => TriggerSource::After { worker, status },
        (_, Some(command), _) => TriggerSource::Command {
            command,
            cwd: folder()?,
            every_seconds: args.every.unwrap_or(COMMAND_EVERY_SECONDS),
            timeout_seconds: args.timeout.unwrap_or(COMMAND_TIMEOUT_SECONDS),
        },
        (.., Some(token)) => {
            let digest = Sha256::digest(token.as_bytes());
            TriggerSource::Webhook { token_sha256: Some(hex(&digest)) }
        }
        _ if !args.watch.is_empty() => TriggerSource::Files {
            folder: folder()?,
            globs: args.watch.clone(),
            debounce_ms: args.debounce.map_or(DEBOUNCE_MS, milliseconds),
        },
        _ => TriggerSource::Request {},
    })
}

/// Of a time that was read from the command line: finite, and not negative.
fn milliseconds(seconds: f64) -> u64 {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
