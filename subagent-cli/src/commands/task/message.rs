//! `task message`: sends a message to the agent of a task.

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::api::MessageTask;

use super::one_task::{asked, named, submitter};
use crate::client::segment;
use crate::command_line::flags::{CwdFlag, JsonFlag, TextFlags, path};
use crate::commands::message::text_source::TextSources;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, text};

/// Send a message to the agent of a task
///
/// A task that has not begun gets it as a part of its prompt, one that runs as its next turn, one that has ended goes on
/// with it and knows what it did before. With --cancel the message is its last: what runs goes on, the message is its next
/// turn, and then it ends. One that has not begun is canceled at once, and one that has ended stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task message 'Test Runner' --text 'Also run the slow tests.'
  subagent task message 'Test Runner' --text 'Sum up what you have.' --cancel")]
pub(crate) struct TaskMessageArgs {
    /// Its name or id
    #[arg(value_name = "TASK", required_unless_present = "input")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) text: TextFlags,
    /// Let it be the task's last turn; one that has not begun is canceled at once
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Let it go on without what it knew, if its agent cannot restore that
    #[arg(long)]
    pub(crate) allow_fresh: bool,
    /// Read task, text, cancel, allowFresh from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The keys of `--input`, each with its flags.
const INPUT: &[InputField] = &[
    field("task", &["task"], InputType::Text),
    field("text", &["text"], InputType::AnyText),
    field("cancel", &["cancel"], InputType::Bool),
    field("allowFresh", &["allow_fresh"], InputType::Bool),
];

pub(super) fn run(args: TaskMessageArgs, context: &CliContext) -> Result<CliOutcome> {
    let input =
        InputObject::load(args.input.as_deref(), INPUT, &context.typed).map_err(Failure::wrong_usage)?;
    let Some(task) = present(args.task).or_else(|| input.text("task")) else {
        return Err(Failure::input("no task: give its name or id, or task in --input"));
    };
    let sources = TextSources { input: input.text("text"), ..args.text.into() };
    let request = MessageTask {
        message: sources.read()?.text,
        cancel: input.flag("cancel").unwrap_or(args.cancel),
        allow_fresh: input.flag("allowFresh").unwrap_or(args.allow_fresh),
        mode: None,
    };
    let submitter = submitter(args.cwd, context);
    let path = format!("/v1/tasks/{}/messages", segment(named(&task, &submitter)?));
    let data = asked(&submitter, submitter.change(path, &request)?)?;
    let lines = text::fields(&data, &["taskId", "name", "status", "message"]);
    Ok(CliOutcome::report("task.messaged", data, lines))
}
