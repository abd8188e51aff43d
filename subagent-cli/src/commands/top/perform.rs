//! Does what a board asks for: runs commands of the command line, and fetches what is shown.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::api::TranscriptShown;
use subagent_protocol::ids::{EventId, RequestId, WorkerId};
use subagent_runtime::work_tree::total;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::changed::ChangedFiles;
use super::effect::{BoardCommand, BoardEvent, BoardInputs};
use crate::client::{ApiRequest, DaemonClient, RequestPath, read, segment};
use crate::commands::{self, diff, host_use};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::output::terminal::OutputTerminal;

/// Of how many events a page of a story is made.
const PAGE_EVENTS: &str = "500";
/// The longest text of a diff, in bytes.
const MAX_DIFF: usize = 2 * 1024 * 1024;
/// How long commands that were typed may take after the board was left.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Runs the commands and requests of a board at one daemon in the background.
#[derive(Debug)]
pub(super) struct Performer {
    /// For commands, which must not write to the screen.
    context: CliContext,
    workspace: Workspace,
    /// The workspace that was typed.
    cwd: Option<PathBuf>,
    inputs: BoardInputs,
    /// Commands that were typed and have not ended; each gives the failure that the board has not shown.
    commands: JoinSet<Option<String>>,
    /// What each of them does.
    doing: HashMap<Id, String>,
    /// What is being fetched.
    fetches: JoinSet<()>,
}

impl Performer {
    /// One that hands over what comes of it.
    pub(super) fn new(
        context: CliContext,
        workspace: Workspace,
        cwd: Option<PathBuf>,
        inputs: BoardInputs,
    ) -> Self {
        Self {
            context,
            workspace,
            cwd,
            inputs,
            commands: JoinSet::new(),
            doing: HashMap::new(),
            fetches: JoinSet::new(),
        }
    }

    /// Starts a command in the background; its result becomes an input.
    pub(super) fn run(&mut self, command: BoardCommand) {
        while let Some(ended) = self.commands.try_join_next_with_id() {
            self.doing.remove(&id(&ended));
        }
        let doing = command.says.0.clone();
        let (context, cwd, inputs) = (self.context.clone(), self.cwd.clone(), self.inputs.clone());
        let running = self.commands.spawn_blocking(move || {
            let doing = command.says.0.clone();
            let ended = run(&command.words, cwd, context);
            match inputs.blocking_send(BoardEvent::Ended(command, ended)).map_err(|event| *event) {
                Err(BoardEvent::Ended(_, Err(failure))) => Some(format!("{doing} failed: {failure}")),
                _ => None,
            }
        });
        self.doing.insert(running.id(), doing);
    }

    /// Fetches a question in full.
    pub(super) fn show_question(&mut self, request: RequestId) {
        let ask = ApiRequest::get(format!("/v1/approvals/{}", segment(request.as_str())));
        self.fetch(ask, move |shown| BoardEvent::Question(request, shown));
    }

    /// Fetches a page of a story.
    pub(super) fn show_story(&mut self, worker: WorkerId, before: Option<EventId>) {
        let path = RequestPath::new(format!("/v1/workers/{}/transcript", segment(worker.as_str())))
            .with("limit", Some(PAGE_EVENTS))
            .with("before", before.map(|before| before.to_string()).as_deref());
        self.fetch(ApiRequest::get(path), move |page| {
            BoardEvent::Story(worker, before, page.and_then(read::<TranscriptShown>))
        });
    }

    fn fetch(&mut self, ask: ApiRequest, input: impl FnOnce(Result<Value>) -> BoardEvent + Send + 'static) {
        while self.fetches.try_join_next().is_some() {}
        let mut client = DaemonClient::new(&self.context, &self.workspace);
        let inputs = self.inputs.clone();
        self.fetches.spawn(async move {
            let fetched = client.ask(&ask).await;
            let _ = inputs.send(input(fetched)).await;
        });
    }

    /// Compares the files of a worker with those before its first turn.
    pub(super) fn show_diff(&mut self, worker: WorkerId, terminal: OutputTerminal) {
        let (context, workspace, inputs) =
            (self.context.clone(), self.workspace.clone(), self.inputs.clone());
        self.fetches.spawn_blocking(move || {
            let text = diff::text_of(worker.as_str(), &workspace, &context, terminal).map(bounded);
            let _ = inputs.blocking_send(BoardEvent::Diff(worker, text));
        });
    }

    /// Looks for the changes of a worker.
    pub(super) fn count(&mut self, worker: WorkerId) {
        let (context, workspace, inputs) =
            (self.context.clone(), self.workspace.clone(), self.inputs.clone());
        self.fetches.spawn_blocking(move || {
            let changes = diff::changes_of(worker.as_str(), &workspace, &context).ok();
            let count = changes.map(|changes| {
                let paths = changes.iter().flat_map(|change| [Some(&change.path), change.old_path.as_ref()]);
                ChangedFiles::new(total(&changes), paths.flatten().cloned())
            });
            let _ = inputs.blocking_send(BoardEvent::Counted(worker, count));
        });
    }

    /// Waits until the daemon has what was typed. Returns what failed, and what was not done in time.
    pub(super) async fn finish(&mut self, until: Instant) -> Vec<String> {
        let mut said = Vec::new();
        while let Ok(Some(ended)) = timeout_at(until, self.commands.join_next_with_id()).await {
            self.doing.remove(&id(&ended));
            said.extend(ended.ok().and_then(|(_, failure)| failure));
        }
        let left = self.doing.drain().map(|(_, doing)| {
            format!("{doing} was given up: the daemon did not answer in time, so it may be done or not")
        });
        said.extend(left);
        said
    }
}

/// The id of a command that has ended.
fn id<T>(ended: &std::result::Result<(Id, T), JoinError>) -> Id {
    match ended {
        Ok((id, _)) => *id,
        Err(error) => error.id(),
    }
}

/// Runs a command as if it was typed; its data.
fn run(words: &[String], cwd: Option<PathBuf>, context: CliContext) -> Result<Value> {
    let (first, rest) = words.split_at(usize::from(!words.is_empty()));
    let mut typed: Vec<OsString> = first.iter().map(Into::into).collect();
    typed.push("--json".into());
    typed.extend(cwd.into_iter().flat_map(|cwd| ["--cwd".into(), cwd.into_os_string()]));
    typed.extend(rest.iter().map(Into::into));
    let (cli, typed) = commands::parse(typed).map_err(|error| Failure::argument(error.to_string()))?;
    host_use::check(&cli.command, &context)?;
    match cli.command.run(&CliContext { typed, ..context })? {
        CliOutcome::Report { data, .. } | CliOutcome::Judged { data, .. } => Ok(data),
        CliOutcome::Failed { failure, .. } | CliOutcome::CutShort { failure, .. } => Err(*failure),
        CliOutcome::Bare { document, .. } => Ok(document),
        CliOutcome::Lines(_) | CliOutcome::Printed(_) => Ok(Value::Null),
    }
}

/// A text that can be scrolled through.
fn bounded(mut text: String) -> String {
    if text.len() > MAX_DIFF {
        text.truncate(text.floor_char_boundary(MAX_DIFF));
        // The last line may be a part of a code.
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text.push_str("... `subagent diff` shows all of it\n");
    }
    text
}
