//! What a schedule or a trigger starts, and how both are asked for and shown.

pub(crate) mod flags;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::api::{
    ChangeSchedule, ControllerChoice, DeclarationProblem, RunTask, ScheduledMessage, ScheduledWork, TaskMode,
    TaskOverrides,
};
use subagent_protocol::clean::one_line;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::schedule::FiringStatus;

use self::flags::{FiringFlagsArgs, OneStarter};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, items_mut, segment};
use crate::commands::message::text_source::TextSources;
use crate::commands::targets::has_state;
use crate::context::{CliContext, present, present_path};
use crate::failure::{ErrorText, Failure, Result};
use crate::output::{CliOutcome, human, json, text};
use crate::tasks::{TaskPlacement, TaskSubmitter};

/// Reads what is to be started, and sends the request that `request` makes of it. `kind` is `schedule` or `trigger`.
pub(crate) fn add<T: serde::Serialize>(
    args: FiringFlagsArgs,
    (kind, name): (&str, &str),
    context: &CliContext,
    path: &str,
    request: impl FnOnce(ControllerChoice, ScheduledWork) -> T,
) -> Result<Value> {
    let sources = TextSources { argument: args.prompt, ..args.text.into() };
    let placement = TaskPlacement {
        sandbox: present(args.sandbox),
        cwd: present_path(args.cwd),
        config: present_path(args.config.config),
        launcher: present(args.launcher),
        agents: None,
        controller_id: present(args.controller_id),
        on: None,
    };
    let loaded = context.config(placement.config.as_deref(), placement.cwd.as_deref())?;
    let mut submitter = TaskSubmitter::new(context, placement);
    let mut definition = present(args.task);
    if let Some(agent) = present(args.agent) {
        // As `run` and `worker start` read it.
        match loaded.config.launcher(&agent).is_ok() {
            true => submitter.use_launcher(agent),
            false => definition = Some(agent),
        }
    } else if definition.is_none() && args.send.is_none() {
        let message = "say what it starts: AGENT PROMPT, --task DEFINITION or --send WORKER";
        return Err(Failure::input(message));
    }
    let text = sources.read()?.text;
    let mut client = submitter.client()?;
    block_on(async move {
        let mut place = submitter.place(&mut client).await?;
        // The daemon gives the agents its own.
        place.env.clear();
        let choice = place.choice.clone();
        let work = match present(args.send) {
            Some(worker) => ScheduledWork::Send(ScheduledMessage { worker, text }),
            None => ScheduledWork::Task(Box::new(RunTask {
                agent: definition,
                prompt: text,
                description: Some(format!("{kind} {name}")),
                name: None,
                mode: Some(TaskMode::Background),
                metadata: serde_json::Map::from_iter([(kind.to_owned(), json!(name))]),
                overrides: TaskOverrides::default(),
                worktree: args.worktree.choice(),
                manager: Some(Box::new(place)),
            })),
        };
        client.ask(&ApiRequest::change(path, &request(choice, work))?).await
    })
}

/// The differences between the commands of schedules and those of triggers.
pub(crate) struct Starters {
    /// The path of all of them.
    pub(crate) path: &'static str,
    /// The lines of one.
    pub(crate) fields: &'static [&'static str],
    /// The columns of all.
    pub(crate) columns: &'static [&'static str],
    /// The columns of the log.
    pub(crate) log: &'static [&'static str],
    /// The lines of a firing.
    pub(crate) firing: &'static [&'static str],
    /// Makes one text of what has several parts and belongs to one of the two alone.
    pub(crate) readable: fn(&mut Value),
}

impl Starters {
    /// Gets one, or what `what` names below it.
    pub(crate) fn get(&self, one: &OneStarter, what: &str, context: &CliContext) -> Result<Value> {
        ask(one.cwd.cwd.as_deref(), &ApiRequest::get(RequestPath::new(self.path_of(one, what))), context)
    }

    /// Changes one: `pause`, `resume`, `run` or `remove`.
    pub(crate) fn change(&self, one: &OneStarter, what: &str, context: &CliContext) -> Result<Value> {
        self.send(one, what, &ChangeSchedule {}, context)
    }

    pub(crate) fn send(
        &self,
        one: &OneStarter,
        what: &str,
        request: &impl serde::Serialize,
        context: &CliContext,
    ) -> Result<Value> {
        ask(one.cwd.cwd.as_deref(), &ApiRequest::change(self.path_of(one, what), request)?, context)
    }

    fn path_of(&self, one: &OneStarter, what: &str) -> String {
        let separator = if what.is_empty() { "" } else { "/" };
        format!("{}/{}{separator}{what}", self.path, segment(&one.name))
    }

    pub(crate) fn shown(&self, kind: &'static str, data: Value) -> CliOutcome {
        let lines = text::fields(&self.seen(&data), self.fields);
        CliOutcome::report(kind, data, lines)
    }

    pub(crate) fn fired(&self, kind: &'static str, data: Value) -> CliOutcome {
        let lines = text::fields(&self.seen(&data), self.firing);
        CliOutcome::report(kind, data, lines)
    }

    pub(crate) fn logged(&self, kind: &'static str, data: Value) -> CliOutcome {
        let lines = text::rows(&self.all_seen(&data), self.log, "");
        CliOutcome::list(kind, data, lines, "(no firings)")
    }

    /// All of them; `empty` is the note if there are none.
    pub(crate) fn list(
        &self,
        cwd: Option<&Path>,
        (kind, empty): (&'static str, &'static str),
        context: &CliContext,
    ) -> Result<CliOutcome> {
        let data = match has_state(&context.workspace(cwd)?) {
            true => ask(cwd, &ApiRequest::get(RequestPath::new(self.path)), context)?,
            false => json!({"items": [], "count": 0}),
        };
        let lines = text::rows(&self.all_seen(&data), self.columns, "");
        let declared: Declared = lenient::read(&data);
        let problems: Vec<String> = declared.problems.iter().map(not_in_effect).collect();
        Ok(CliOutcome::list(kind, data, lines, empty).with_notes(&problems))
    }

    fn all_seen(&self, data: &Value) -> Value {
        let mut seen = data.clone();
        for item in items_mut(&mut seen) {
            *item = self.seen(item);
        }
        seen
    }

    /// The values of the lines.
    fn seen(&self, item: &Value) -> Value {
        let mut seen = item.clone();
        (self.readable)(&mut seen);
        let StarterParts { work, error, last_firing } = lenient::read(item);
        if let Some(work) = work.0 {
            json::extend(&mut seen, [("work", human::work(&work).into())]);
        }
        if let Some(error) = error.0 {
            json::extend(&mut seen, [("error", error.message.into())]);
        }
        if let Some(firing) = last_firing.0 {
            json::extend(&mut seen, [("last", firing.status.as_str().into())]);
        }
        seen
    }
}

/// The parts of a schedule, a trigger or a firing that have a text of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StarterParts<'a> {
    work: Lenient<ScheduledWork>,
    #[serde(borrow)]
    error: Lenient<ErrorText<'a>>,
    last_firing: Lenient<LastFiring>,
}

#[derive(Debug, Deserialize)]
struct LastFiring {
    status: FiringStatus,
}

/// The entries of the config file that are not in effect.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Declared {
    problems: Vec<DeclarationProblem>,
}

/// An entry of the config file that the daemon could not take, in a line.
fn not_in_effect(problem: &DeclarationProblem) -> String {
    let DeclarationProblem { name, file, line, error } = problem;
    let (file, message) = (file.display(), &error.message);
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    let text = match name {
        Some(name) => format!("{file}{line}: {name} is not in effect: {message}"),
        // The message begins with the file.
        None => format!("the previous schedules and triggers stay: {message}"),
    };
    one_line(&text)
}

/// The outcome of a removal.
pub(crate) fn removed(kind: &'static str, data: Value) -> CliOutcome {
    let lines = text::fields(&data, &["name"]);
    CliOutcome::report(kind, data, lines)
}

fn ask(cwd: Option<&Path>, ask: &ApiRequest, context: &CliContext) -> Result<Value> {
    let workspace = context.workspace(cwd)?;
    let mut client = DaemonClient::new(context, &workspace);
    block_on(async move { client.ask(ask).await })
}
