//! What a schedule or a trigger starts, and how both are shown.

use serde_json::{Value, json};
use subagent_protocol::api::{
    ControllerChoice, RunTask, ScheduledMessage, ScheduledWork, TaskMode, TaskOverrides,
};

use super::text_source::TextSources;
use crate::args::starts::StartFlags;
use crate::client::{Ask, Client, block_on};
use crate::context::{Context, present, present_path};
use crate::failure::{Failure, Result};
use crate::output::human;
use crate::tasks::{Giver, Wish};

/// Reads what is to be started, and sends the request that `request` makes of it. `kind` is `schedule` or `trigger`.
pub(super) fn add<T: serde::Serialize>(
    args: StartFlags,
    (kind, name): (&str, &str),
    context: &Context,
    path: &str,
    request: impl FnOnce(ControllerChoice, ScheduledWork) -> T,
) -> Result<Value> {
    let sources = TextSources {
        flag: args.text,
        file: present_path(args.text_file),
        stdin: args.text_stdin,
        argument: args.prompt,
        ..TextSources::default()
    };
    let wish = Wish {
        sandbox: present(args.sandbox),
        cwd: present_path(args.cwd),
        config: present_path(args.config.config),
        launcher: present(args.launcher),
        agents: None,
        controller_id: present(args.controller_id),
    };
    let loaded = context.config(wish.config.as_deref(), wish.cwd.as_deref())?;
    let mut giver = Giver::new(context, wish);
    let mut definition = present(args.task);
    if let Some(agent) = present(args.agent) {
        // As `run` and `worker start` read it.
        match loaded.config.launcher(&agent).is_ok() {
            true => giver.use_launcher(agent),
            false => definition = Some(agent),
        }
    } else if definition.is_none() && args.send.is_none() {
        let message = "say what it starts: AGENT PROMPT, --task DEFINITION or --send WORKER";
        return Err(Failure::input(message));
    }
    let text = sources.read()?.text;
    let mut client = giver.client()?;
    block_on(async move {
        let mut place = giver.place(&mut client).await?;
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
        client.ask(&Ask::change(path, &request(choice, work))?).await
    })
}

/// Sends a request about one schedule or trigger.
pub(super) fn ask(cwd: Option<&std::path::Path>, ask: &Ask, context: &Context) -> Result<Value> {
    let workspace = context.workspace(cwd)?;
    let mut client = Client::new(context, &workspace);
    block_on(async move { client.ask(ask).await })
}

/// Makes one text of what has several parts.
pub(super) fn readable(item: &mut Value) {
    if let Some(shown) = human::work(&item["work"]) {
        item["work"] = shown.into();
    }
    if let Some(message) = item["error"]["message"].as_str().map(str::to_owned) {
        item["error"] = message.into();
    }
    if let Some(status) = item["lastFiring"]["status"].as_str().map(str::to_owned) {
        item["last"] = status.into();
    }
}
