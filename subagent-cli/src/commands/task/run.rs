//! `task run`: gives a task, and waits for its result unless it is to run in the background.

use std::path::PathBuf;
use std::pin::pin;

use clap::Args;
use subagent_protocol::api::{CancelTask, RunTask, TaskMode, TaskOverrides, TaskShown, TaskStatus};
use subagent_protocol::task_result;
use tokio::time::timeout;

use super::awaited::{self, OnQuestion, TaskWaitEnd};
use super::failed::failure;
use super::one_task::value;
use crate::client::{ApiRequest, DaemonClient, REQUEST_LIMIT, TaskWait, block_on, segment};
use crate::command_line::flags::start::WorktreeFlags;
use crate::command_line::flags::{ConfigFlag, JsonFlag, TextFlags, path};
use crate::command_line::numbers::{age, count};
use crate::commands::message::text_source::TextSources;
use crate::commands::waiting::signals::{Interruptions, end_by};
use crate::commands::worker::start::notes;
use crate::commands::worktree;
use crate::context::{CliContext, present, present_path};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, explain, text};
use crate::tasks::{TaskPlacement, TaskSubmitter};

/// Give a task to an agent and wait for its result
///
/// The agent gets the text and nothing else, and works on its own. The result is the last that it says; a long one is cut
/// (task result --full has all of it). The exit code is 1 if the task ends in another way than completed.
///
/// A question of the task, or of one below it, is shown on stderr with the command that answers it.
///
/// With --background the command returns at once; task wait and task result come back to it. A task
/// goes on when this command ends. Ctrl-C of a command that waits cancels the task.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task run --agent explore --text 'Where is the config read?'
  subagent task run --agent reviewer --text-file task.md --name Review --background
  echo '{\"agent\": \"explore\", \"text\": \"Which tests are slow?\"}' |
      subagent task run --input - --json")]
pub(crate) struct TaskRunArgs {
    /// The definition of the agent (see agent list)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
    #[command(flatten)]
    pub(crate) text: TextFlags,
    #[command(flatten)]
    pub(crate) called: TaskNameFlags,
    #[command(flatten)]
    pub(crate) waiting: TaskWaitFlags,
    /// The launcher of an agent that names none [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: Option<String>,
    #[command(flatten)]
    pub(crate) worktree: WorktreeFlags,
    #[command(flatten)]
    pub(crate) overrides: TaskOverrideFlags,
    #[command(flatten)]
    pub(crate) place: TaskPlaceFlags,
    #[command(flatten)]
    pub(crate) limits: TaskLimitFlags,
    /// The controller that owns the task [default: the workspace's]
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
    /// Read agent, text, name, ... from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    /// The folder where the agent works [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What the task is called.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskNameFlags {
    /// The same in three to five words
    #[arg(long, value_name = "WORDS")]
    pub(crate) description: Option<String>,
    /// A name for the task [default: made of the description]
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// Whether the command waits for the task, and for answers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskWaitFlags {
    /// Do not wait for the result
    #[arg(long)]
    pub(crate) background: bool,
    /// Exit with 15 at the first question, also of a task below; the task goes on
    #[arg(long, conflicts_with = "background")]
    pub(crate) no_wait_for_answers: bool,
    /// At a terminal: say which command answers instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
}

/// What replaces parts of the definition.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskOverrideFlags {
    /// The model in place of the definition's
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Added to the agent's own prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// A tool that is not denied, of those that the agent has; can be repeated
    #[arg(long, value_name = "TOOL")]
    pub(crate) allowed_tool: Vec<String>,
    /// A tool that is denied; can be repeated
    #[arg(long, value_name = "TOOL")]
    pub(crate) disallowed_tool: Vec<String>,
}

/// Where the task runs, and what it may reach.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskPlaceFlags {
    /// What it may reach: a sandbox of the config, shared_ro, isolated, shared_rw or none
    /// [default: the launcher's, else the config's]
    ///
    /// A task of an agent takes shared_ro, isolated and shared_rw alone, and never gets more than the definition gives.
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Where it runs: a placement of the config, or local
    /// [default: the launcher's, else the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) on: Option<String>,
}

/// Limits of the task.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskLimitFlags {
    /// Maximum number of tool calls
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) max_steps: Option<u64>,
    /// Maximum time of the task, as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) timeout: Option<u64>,
}

/// The keys of `--input`, each with its flags.
pub(crate) const INPUT: &[InputField] = &[
    field("agent", &["agent"], InputType::Text),
    field("text", &["text"], InputType::AnyText),
    field("description", &["description"], InputType::Text),
    field("name", &["name"], InputType::Text),
    field("background", &["background"], InputType::Bool),
    field("launcher", &["launcher"], InputType::Text),
    field("model", &["model"], InputType::Text),
    field("systemPrompt", &["system_prompt"], InputType::Text),
    field("allowedTools", &["allowed_tool"], InputType::Texts),
    field("disallowedTools", &["disallowed_tool"], InputType::Texts),
    field("maxSteps", &["max_steps"], InputType::Count),
    field("timeoutSeconds", &["timeout"], InputType::Seconds),
    field("metadata", &[], InputType::Object),
    field("controllerId", &["controller_id"], InputType::Text),
    field("cwd", &["cwd"], InputType::Text),
    field("worktree", &["worktree", "base", "with_changes"], InputType::Object),
    field("sandbox", &["sandbox"], InputType::Text),
    field("placement", &["on"], InputType::Text),
];

pub(super) fn run(args: TaskRunArgs, context: &CliContext) -> Result<CliOutcome> {
    let input =
        InputObject::load(args.input.as_deref(), INPUT, &context.typed).map_err(Failure::wrong_usage)?;
    let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
    let sources = TextSources { input: input.text("text"), ..args.text.into() };
    let texts = |flags: Vec<String>, key: &str| if flags.is_empty() { input.texts(key) } else { flags };
    let (no_wait, asks) = (args.waiting.no_wait_for_answers, !args.waiting.no_ask);
    let background = input.flag("background").unwrap_or(args.waiting.background);
    let mut task = RunTask {
        agent: either(args.agent, "agent"),
        prompt: sources.read()?.text,
        description: either(args.called.description, "description"),
        name: either(args.called.name, "name"),
        mode: background.then_some(TaskMode::Background),
        metadata: input.object("metadata").unwrap_or_default(),
        overrides: TaskOverrides {
            system_prompt: either(args.overrides.system_prompt, "systemPrompt"),
            allowed_tools: texts(args.overrides.allowed_tool, "allowedTools"),
            disallowed_tools: texts(args.overrides.disallowed_tool, "disallowedTools"),
            model: either(args.overrides.model, "model"),
            max_steps: args.limits.max_steps.or_else(|| input.count("maxSteps")),
            timeout_ms: match args.limits.timeout {
                Some(seconds) => Some(seconds.saturating_mul(1000)),
                None => whole_seconds(&input)?.map(|seconds| seconds.saturating_mul(1000)),
            },
            filesystem: None,
        },
        worktree: worktree::typed(args.worktree, &input)?,
        manager: None,
    };
    let placement = TaskPlacement {
        sandbox: either(args.place.sandbox, "sandbox"),
        on: either(args.place.on, "placement"),
        cwd: present_path(args.cwd).or_else(|| input.text("cwd").map(PathBuf::from)),
        config: args.config.config,
        launcher: either(args.launcher, "launcher"),
        agents: args.agents,
        controller_id: either(args.controller_id, "controllerId"),
    };
    let submitter = TaskSubmitter::new(context, placement);
    task.overrides.filesystem = submitter.filesystem()?;
    let mut client = submitter.client()?;
    let (spawned, ended) = block_on(async {
        // Heard from the beginning: a task may have begun before the answer says so.
        let mut signals = Interruptions::new()?;
        let mut asked = false;
        let task = {
            let mut given = pin!(submitter.run(&mut client, task));
            tokio::select! {
                biased;
                task = &mut given => task?,
                _ = signals.next() => {
                    asked = true;
                    tokio::select! {
                        task = given => task?,
                        again = signals.next() => end_by(again),
                    }
                }
            }
        };
        let ended = match task.mode {
            TaskMode::Background => None,
            TaskMode::Foreground => {
                let interrupted = async {
                    if !asked {
                        signals.next().await;
                    }
                };
                let task = task.task_id.as_str();
                let on_question = OnQuestion::of(context, no_wait, asks);
                Some(wait(&submitter, &mut client, task, on_question, interrupted).await?)
            }
        };
        Ok((task, ended))
    })?;
    match ended {
        None => {
            let data = value(&spawned)?;
            let lines = text::fields(&data, &["taskId", "name", "status"]);
            Ok(CliOutcome::report("task.spawned", data, lines))
        }
        Some(TaskWaitEnd::Ended(shown)) => outcome(&shown),
        Some(TaskWaitEnd::NeedsAnswer(shown, questions)) => awaited::needs_answer(&shown, questions),
    }
}

/// Gives a task in the foreground, and waits for its end.
///
/// # Errors
/// Those of giving it.
pub(crate) async fn once(submitter: &TaskSubmitter, task: RunTask) -> Result<TaskShown> {
    let mut signals = Interruptions::new()?;
    let mut client = submitter.client()?;
    let task = submitter.run(&mut client, task).await?;
    let interrupted = async {
        signals.next().await;
    };
    match wait(submitter, &mut client, task.task_id.as_str(), OnQuestion::Say, interrupted).await? {
        TaskWaitEnd::Ended(shown) | TaskWaitEnd::NeedsAnswer(shown, _) => Ok(*shown),
    }
}

/// Waits for the end of the task. An interrupted wait cancels the task.
async fn wait(
    submitter: &TaskSubmitter,
    client: &mut DaemonClient,
    task: &str,
    on_question: OnQuestion,
    interrupted: impl Future<Output = ()>,
) -> Result<TaskWaitEnd> {
    let end = TaskWait::new(task, submitter.token(), None);
    tokio::select! {
        biased;
        waited = awaited::wait(submitter, client, end, on_question) => {
            if let Some(waited) = waited? {
                return Ok(waited);
            }
        }
        () = interrupted => {}
    }
    let request = CancelTask { reason: Some("the command that waited for it was interrupted".to_owned()) };
    let ask = submitter.named(ApiRequest::change(format!("/v1/tasks/{}/cancel", segment(task)), &request)?);
    submitter.client()?.ask(&ask).await?;
    // The text that it had written is reported if the task ends within `REQUEST_LIMIT`.
    let mut client = submitter.client()?;
    match timeout(REQUEST_LIMIT, TaskWait::new(task, submitter.token(), None).end(&mut client)).await {
        Ok(ended) => Ok(TaskWaitEnd::Ended(Box::new(ended?))),
        Err(_) => Err(Failure::internal("the task was canceled and has not ended").with("taskId", task)),
    }
}

/// The result; of a task that has ended in another way than completed, as far as it got, and why.
fn outcome(shown: &TaskShown) -> Result<CliOutcome> {
    if shown.worktree.as_ref().is_some_and(|worktree| worktree.identity_missing) {
        explain(&[notes::no_identity()]);
    }
    let data = value(shown)?;
    let text = task_result::short(shown)?.into_owned();
    Ok(match shown.task.status {
        TaskStatus::Completed => CliOutcome::Judged { kind: "task.waited", data, text, code: 0 },
        _ => CliOutcome::CutShort {
            kind: "task.waited",
            data,
            text,
            failure: Box::new(failure(&shown.task)),
            code: 1,
        },
    })
}

/// The `timeoutSeconds` of `--input`; 0: no limit of its own.
fn whole_seconds(input: &InputObject) -> Result<Option<u64>> {
    match input.seconds("timeoutSeconds") {
        None => Ok(None),
        Some(number) if number.fract() == 0.0 && number <= u32::MAX.into() => {
            // It was just checked to be one, and what is below 0 is refused before.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let number = number as u64;
            Ok(Some(number))
        }
        Some(_) => {
            let message = "\"timeoutSeconds\" in --input must be a whole number, 0 or more";
            Err(Failure::input(message).with("field", "timeoutSeconds").wrong_usage())
        }
    }
}
