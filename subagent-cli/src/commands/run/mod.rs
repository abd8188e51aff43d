//! `run`: has an agent do one thing, and leaves nothing behind. It starts a worker, sends, follows, stops, and says in
//! its exit code how it went.

mod detach;
mod drive;
mod figures;
pub(crate) mod format;
mod progress;
mod questions;
mod reports;
mod result;
mod schema;
mod sink;
pub(crate) mod transcript;
mod went;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use subagent_config::start::budgets::of_config;
use subagent_config::{LoadedConfig, Workspace};
use subagent_protocol::api::{SendTurn, UNLABELED_RUN};
use subagent_protocol::mcp::McpServers;
use subagent_runtime::work_tree::Changes;
use tokio::time::{Instant, timeout};

use self::drive::{Clients, Driven, RunEnd, RunRequest};
use self::format::RunOutputFormat;
use self::reports::{Reports, RunDescription};
use self::sink::RunPrinter;
use crate::client::{DaemonClient, block_on};
use crate::command_line::flags::start::StartFlags;
use crate::command_line::flags::{JsonFlag, TextFlags, path};
use crate::command_line::numbers::age;
use crate::commands::message::text_source::{SourcedText, TextSources};
use crate::commands::message::{attachments, shell_expansion};
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::waiting::signals::{self, Interruptions};
use crate::commands::worker::start::{PreparedStart, WorkerStartRequest};
use crate::commands::{diff, worker};
use crate::context::{CliContext, present_path};
use crate::controller;
use crate::dialog::Dialog;
use crate::exit_code::TIMEOUT;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::terminal::OutputTerminal;
use crate::output::{CliOutcome, complain, finish, write_stderr};
use crate::random::random;

/// Have an agent do one thing: start a worker, send, wait, stop it
///
/// AGENT is a launcher or a definition of an agent; with one argument it is the prompt. With -d the command prints the
/// worker's name and leaves the worker to its task: `subagent wait NAME` waits for it, and its questions wait for
/// `subagent approve`.
///
/// For scripts and CI. It needs no `controller init`. The worker is tagged, and it is stopped
/// however the run ends. Ctrl-C (and SIGTERM, SIGHUP) cancels the turn first; a second one does not
/// wait for that. If this command is killed by SIGKILL the worker goes on: `worker list -l
/// subagent/run` shows it, `worker stop -l subagent/run` ends it.
///
/// What the agent may do is in the rules: `permissions` of the config, then --allow, --ask and --deny. At a terminal you
/// are asked for the rest. Elsewhere, and with --no-ask, a permission request that no rule allows is rejected, a form or
/// a link is turned away, and the turn goes on. The exit code says that something was denied, also if the agent found
/// another way. A turn in which the agent does without
/// asking what a rule denies is canceled.
///
/// The final message is what the agent says after its last tool call. With --result-schema it has to hold JSON: as a
/// whole, or in its only fenced code block, or in the only one that is marked `json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0    the turn was completed, and the schema was met
  1    an error: nothing was run, the worker not stopped, or a report not written
  2    wrong usage
  10   the turn failed
  11   the turn was canceled by another command
  12   a permission was denied, or the agent did what a rule denies
  13   the time of --timeout is over
  14   the final message does not meet --result-schema
  15   needs an answer (`send`, `wait`; a run answers with no)
  16   the agent refused
  17   the model's limit of tokens ended the turn
  18   the limit of model requests ended the turn
  19   a form or a link was turned away
  A run that is interrupted ends by the signal (130 or 143 in a shell).

Examples:
  subagent run codex 'Fix the failing test.'
  subagent run -d codex --name login 'Fix the login bug.'
  subagent run --launcher codex --text-file task.md --timeout 10m
  subagent run --text 'List the open questions.' --output json
  subagent run --text 'Fix the tests.' --allow edit --allow 'execute(make *)'
  git diff | subagent run --text-stdin --result-schema review.schema.json
  subagent run --text-file task.md --timeout 10m --junit run.xml")]
pub(crate) struct RunArgs {
    /// A launcher or a definition of an agent; alone it is the prompt
    #[arg(value_name = "AGENT")]
    first: Option<String>,
    /// What it is to do; - reads stdin
    #[arg(value_name = "PROMPT")]
    second: Option<String>,
    /// Print the worker's name and return; the worker goes on
    #[arg(short = 'd', long, conflicts_with_all = ["timeout", "result_schema", "output", "summary", "junit"])]
    pub(crate) detach: bool,
    /// Reject what no rule allows instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
    #[command(flatten)]
    pub(crate) text: TextFlags,
    /// Attach a file; can be repeated
    ///
    /// Text, a picture or sound is sent as content, any other file as a link.
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// Maximum time of the run, as 90s, 10m, 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub(crate) timeout: Option<u64>,
    /// What to print: text, json (the result) or ndjson (all events)
    #[arg(long, value_name = "FORM", value_enum, default_value = "text")]
    pub(crate) output: RunOutputFormat,
    /// A JSON Schema that the final message has to meet
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) result_schema: Option<PathBuf>,
    /// Append a summary in Markdown to this file, as $GITHUB_STEP_SUMMARY
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) summary: Option<PathBuf>,
    /// Write a JUnit report with one test case to this file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) start: StartFlags,
    /// Which form of output: the same as --output json.
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl RunArgs {
    /// The agent and the prompt that were typed without flags.
    pub(crate) fn agent_and_prompt(&self) -> (Option<&str>, Option<&str>) {
        match (self.first.as_deref(), self.second.as_deref()) {
            (prompt, None) => (None, prompt),
            both => both,
        }
    }

    /// What is to be printed.
    pub(crate) fn format(&self) -> RunOutputFormat {
        match (self.json.json, self.output) {
            (true, RunOutputFormat::Text) => RunOutputFormat::Json,
            (_, form) => form,
        }
    }
}

/// A time in seconds, at least one.
fn limit(text: &str) -> Result<u64, String> {
    match age(text)? {
        0 => Err("must be 1s or more".to_owned()),
        seconds => Ok(seconds),
    }
}

/// For the answer of what has changed.
const COUNT_LIMIT: Duration = Duration::from_secs(5);
/// The tag by which the worker of a run is found; its value is the run's own.
const TAG: &str = "subagent/run";

pub(super) fn run(args: RunArgs, context: &CliContext) -> Result<CliOutcome> {
    let form = args.format();
    let (agent, prompt) = args.agent_and_prompt();
    let (agent, prompt) = (agent.map(str::to_owned), prompt.map(str::to_owned));
    if agent.is_some() && (args.start.launcher.is_some() || args.start.agent.agent.is_some()) {
        let message = "an agent is named twice: as AGENT, and by --launcher or --agent; name it once";
        return Err(Failure::argument(message));
    }
    let is_argument = prompt.is_some();
    // All that may be wrong with the command itself is known before anything is started.
    let schema = present_path(args.result_schema).map(|path| schema::read(&path)).transpose()?;
    let sources = TextSources { argument: prompt, takes_pipe: true, ..args.text.into() };
    let SourcedText { text, from_command_line } = sources.read()?;
    let risks = if from_command_line { shell_expansion::codes(&text) } else { Vec::new() };
    if !risks.is_empty() && form == RunOutputFormat::Text {
        complain(&shell_expansion::lines(&risks, is_argument));
    }
    let attachments = attachments::read(&args.attach, &context.env.cwd)?;
    let config = args.start.config.config.clone();
    let named = args.start.label.is_some();
    let mut wanted = WorkerStartRequest::of(args.start, &InputObject::default())?;
    let about = RunDescription {
        name: wanted.start.name.clone(),
        prompt: text.clone(),
        agent: agent.clone().or_else(|| wanted.start.launcher.clone()).or_else(|| wanted.agent()),
    };
    wanted.start.launcher_or_agent = agent;
    if !named {
        wanted.start.label = UNLABELED_RUN.to_owned();
    }
    let run_id = random::<6>()?;
    wanted.start.detached = args.detach;
    if !args.detach {
        wanted.start.tags.0.insert(TAG.to_owned(), run_id.clone());
    }
    wanted.start.tags.check()?;
    let workspace = context.workspace(wanted.cwd.as_deref())?;
    let config = context.config(config.as_deref(), wanted.cwd.as_deref())?;
    let turn = SendTurn {
        agent: None,
        text,
        blocks: Vec::new(),
        attachments,
        simulate: None,
        if_busy: None,
        env: None,
        mcp_servers: McpServers::default(),
    };
    if args.detach {
        return detach::run(wanted, turn, &config, &workspace, context);
    }
    let terminal = OutputTerminal::of_stderr().filter(|_| form == RunOutputFormat::Text);
    let begun = Instant::now();
    let deadline = args.timeout.and_then(|seconds| begun.checked_add(Duration::from_secs(seconds)));
    let mut sink = RunPrinter::of(form)?;
    let (reports, driven) = block_on(async {
        // Before the files are emptied: a signal that ends this process by itself would leave them so.
        let mut signals = Interruptions::new()?;
        let reports = Reports::open(args.summary, args.junit, about).map_err(Failure::wrong_usage)?;
        // Only for a person and for a report are changes counted.
        let counts = terminal.is_some() || reports.want_changes();
        let driven = async {
            let mut clients = Clients::new(context, &workspace);
            let prepared = prepare(&mut clients.work, wanted, &config, &workspace, context);
            let prepared = tokio::select! {
                prepared = prepared => prepared?,
                // Nothing was started that would have to be ended.
                signal = signals.next() => {
                    return Ok((Driven::unstarted(RunEnd::Signal(signal), deadline), Vec::new(), begun.elapsed()));
                }
            };
            let choice = WorkerSelector { controller_id: None, selector: Some(format!("{TAG}={run_id}")) };
            let dialog = Dialog::open(context.format, !args.no_ask);
            let order = RunRequest { prepared, turn, deadline, choice, dialog };
            let driven = Box::pin(drive::drive(order, clients, &mut sink, &mut signals)).await?;
            let took = begun.elapsed();
            let changes = match driven.worker_id().filter(|_| counts) {
                Some(worker_id) => changes(worker_id, &workspace, context, &mut signals).await,
                None => Vec::new(),
            };
            Ok((driven, changes, took))
        };
        let driven = driven.await;
        Ok((reports, driven))
    })?;
    // All that was started has ended; what is left to do is to print, for which a signal need not wait.
    signals::not_heard();
    let limit = match &driven {
        Ok((driven, ..)) => driven.printed_by,
        Err(_) => drive::printed_by(None, deadline),
    };
    let signal = match &driven {
        Ok((Driven { ending: RunEnd::Signal(signal), .. }, ..)) => Some(*signal),
        _ => None,
    };
    let format = context.format;
    let judged = driven
        .map(|(driven, changes, took)| result::judge(driven, changes, schema.as_ref(), args.timeout, took));
    let problems = reports.write(&judged, begun.elapsed());
    let printed = sink.finish(limit, move || {
        let last = match (&judged, terminal) {
            (Ok(judged), Some(terminal)) => figures::line(judged.went, &judged.figures, terminal),
            _ => String::new(),
        };
        let is_success = judged.as_ref().is_ok_and(|judged| judged.code == 0);
        let code = finish(format, judged.map(|judged| result::outcome(judged, form)));
        problems.iter().for_each(|problem| complain(&format!("run: {problem}")));
        write_stderr(&last);
        if is_success && !problems.is_empty() { ExitCode::FAILURE } else { code }
    });
    if let Some(signal) = signal {
        signals::end_by(signal);
    }
    // Without a code the reader did not take the output in time.
    Ok(CliOutcome::Printed(printed.unwrap_or(ExitCode::from(TIMEOUT))))
}

/// The files that a run has changed; none if that is not known soon, or is not waited for.
async fn changes(
    worker_id: &str,
    workspace: &Workspace,
    context: &CliContext,
    signals: &mut Interruptions,
) -> Changes {
    let mut client = DaemonClient::new(context, workspace);
    let counted = timeout(COUNT_LIMIT, diff::changed_files(&mut client, worker_id, workspace, context));
    tokio::select! {
        counted = counted => counted.ok().and_then(Result::ok).unwrap_or_default(),
        _ = signals.next() => Vec::new(),
    }
}

/// Makes sure that there is a controller, and checks what is to be started.
async fn prepare(
    client: &mut DaemonClient,
    wanted: WorkerStartRequest,
    config: &LoadedConfig,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<PreparedStart> {
    let named = wanted.controller_id.as_deref();
    let budget = of_config(&config.config.budgets.controller);
    controller::ensure(client, &workspace.state_dir, named, workspace, budget).await?;
    worker::start::prepare(client, wanted, config, workspace, context).await
}

impl Clients {
    fn new(context: &CliContext, workspace: &Workspace) -> Self {
        let client = || DaemonClient::new(context, workspace);
        Self { work: client(), follow: client(), control: client(), last: client() }
    }
}
