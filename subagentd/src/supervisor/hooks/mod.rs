//! Before hooks (`after_hooks` has the others): selects the hooks of a permission request, runs them and combines their answers.
//! Must not decide a request. The worker's actor does, from this answer and the policy.

pub(crate) mod after_hooks;
pub(crate) mod hook_failed;
pub(crate) mod hook_files;
pub(crate) mod hook_trust;

use std::collections::HashMap;
use std::path::PathBuf;

use subagent_config::hooks::{self, call};
use subagent_core::model::WorkerInput;
use subagent_protocol::command_run::CommandResult;
use subagent_protocol::data::questions::DecidingHook;
use subagent_protocol::hook::{Hook, HookEvent, HookFailed};
use subagent_protocol::hook_answer::{HookAnswer, HookWord, MAX_CONTEXT_BYTES};
use subagent_protocol::hook_input::HookInput;
use subagent_protocol::hook_matcher::Matcher;
use subagent_protocol::ids::{RequestId, TurnId, WorkerId};
use subagent_protocol::record::ApprovalRequested;
use subagent_protocol::{Code, Error, Result};
use tokio::task::{AbortHandle, JoinSet};

use super::shared::SupervisorState;
use super::start::spec;
use super::{command_run, policy};
use crate::store::questions::{inbox, owner_rules};
use crate::store::{RowId, WorkerRow, hook_events};

/// The combined answer of a request's hooks.
#[derive(Debug)]
pub(super) struct HookVerdict {
    /// The strictest of the answers.
    pub(super) word: HookWord,
    /// The reason that came with the answer.
    pub(super) reason: Option<String>,
    /// The hook that gave the answer.
    pub(super) hook: Option<DecidingHook>,
    /// Hooks that failed or were not run.
    pub(super) failed: Vec<HookFailed>,
    /// The request in its stored form.
    pub(super) asked: String,
}

/// The worker whose hooks run.
#[derive(Debug, Clone)]
pub(super) struct HookSubject {
    pub(super) id: RowId,
    pub(super) worker_id: WorkerId,
    pub(super) session_id: Option<String>,
    pub(super) hooks: Vec<Hook>,
}

/// The result of the hooks of a request.
pub(super) type Answered = (RequestId, Result<HookVerdict>);

/// Running hooks of held requests. Dropping this ends them.
#[derive(Default)]
pub(super) struct RunningHooks {
    pub(super) running: JoinSet<Answered>,
    pub(super) by_request: HashMap<RequestId, AbortHandle>,
}

impl RunningHooks {
    /// Returns the next request whose hooks have answered. Never returns if none runs.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            match self.running.join_next().await {
                Some(Ok(answered)) => return answered,
                // Aborted because its request is closed.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Returns whether hooks are consulted before the policy's verdict takes effect. Requests that the
/// policy denies have no hooks.
pub(super) fn are_asked(hooks: &[Hook], asked: &ApprovalRequested, ruled: Option<&WorkerInput>) -> bool {
    if !hooks.iter().any(|hook| matches!(hook.event, HookEvent::PreToolUse | HookEvent::ApprovalRequested)) {
        return false;
    }
    let tool = call::of(&policy::reported_call(asked)).name;
    let has = |event| of_event(hooks, event, &tool).next().is_some();
    match ruled {
        None => has(HookEvent::PreToolUse) || has(HookEvent::ApprovalRequested),
        Some(ruled) => allows(ruled) && has(HookEvent::PreToolUse),
    }
}

/// Returns whether the policy allows the request.
pub(super) fn allows(ruled: &WorkerInput) -> bool {
    matches!(ruled, WorkerInput::DecideByRule { choice, .. } if choice.decision == HookWord::Allow.as_str())
}

/// Returns the hooks for this subject. A hook with an unreadable matcher matches everything;
/// matchers are validated when the file is read.
fn of_event<'a>(hooks: &'a [Hook], event: HookEvent, subject: &'a str) -> impl Iterator<Item = &'a Hook> {
    hooks.iter().filter(move |hook| {
        hook.event == event
            && Matcher::parse(hook.matcher.as_deref()).map_or(true, |matcher| matcher.matches(subject))
    })
}

/// Runs the hooks of a held request: `PreToolUse`, and then `ApprovalRequested` if the owner would
/// be asked.
///
/// # Errors
/// `STORAGE_ERROR`; `INTERNAL_ERROR` for a request that cannot be read.
pub(super) async fn run(
    shared: &SupervisorState,
    asker: HookSubject,
    request_id: &RequestId,
    asks: impl Fn(&str) -> bool + Send + Sync,
) -> Result<HookVerdict> {
    let (id, wanted) = (asker.id, request_id.clone());
    let read = shared.store.read(move |connection| {
        let row = inbox::get(connection, wanted.as_str())?;
        Ok((row, owner_rules::workspace_of(connection, id)?))
    });
    let (row, workspace) = read.await?;
    let row = row.ok_or_else(|| Error::new(Code::Internal, "a held request is not stored"))?;
    let asked: ApprovalRequested = serde_json::from_str(&row.asked.asked)
        .map_err(|error| Error::new(Code::Internal, format!("a held request cannot be read: {error}")))?;
    let call = call::of(&policy::reported_call(&asked));
    let mut input = HookInput::new(HookEvent::PreToolUse, asker.worker_id.clone(), PathBuf::from(&row.cwd));
    input.session_id.clone_from(&asker.session_id);
    input.tool_name = Some(call.name);
    input.tool_input = Some(call.input);
    input.tool_use_id = call.id;
    input.path = row.path;
    input.turn_id = row.asked.turn_id;
    input.request_id = Some(request_id.clone());
    let folder = PathBuf::from(workspace);
    let mut heard = HookVerdict {
        word: HookWord::Nothing,
        reason: None,
        hook: None,
        failed: Vec::new(),
        asked: row.asked.asked,
    };
    all(shared, &asker.hooks, &input, &folder, &mut heard).await?;
    let is_asked = match heard.word {
        HookWord::Deny | HookWord::Allow => false,
        HookWord::Ask => true,
        HookWord::Nothing => asks(&heard.asked),
    };
    if is_asked {
        input.hook_event_name = HookEvent::ApprovalRequested;
        let before = std::mem::replace(&mut heard.word, HookWord::Nothing);
        all(shared, &asker.hooks, &input, &folder, &mut heard).await?;
        if heard.word == HookWord::Nothing {
            heard.word = before;
        }
    }
    Ok(heard)
}

/// Runs all hooks of an event in order, until one denies.
async fn all(
    shared: &SupervisorState,
    hooks: &[Hook],
    input: &HookInput,
    folder: &std::path::Path,
    heard: &mut HookVerdict,
) -> Result<()> {
    for hook in of_event(hooks, input.hook_event_name, input.subject()) {
        let answer = one(shared, hook, input, folder).await?;
        let word = answer.word;
        if answer.failed || answer.is_ignored {
            heard.failed.push(HookFailed::of(hook, answer.reason.clone().unwrap_or_default(), None));
        }
        if word > heard.word {
            heard.word = word;
            heard.reason = answer.reason;
            heard.hook = Some(DecidingHook {
                event: hook.event,
                command: hook.command.clone(),
                file: hook.file.clone(),
                origin: hook.origin,
            });
        }
        if word == HookWord::Deny {
            break;
        }
    }
    Ok(())
}

/// A message of the owner that `UserPromptSubmit` hooks check.
pub(super) struct PromptSubmission {
    pub(super) hooks: Vec<Hook>,
    pub(super) worker_id: WorkerId,
    pub(super) session_id: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) workspace: PathBuf,
    /// For the worker of a task: the names from the root to the task.
    pub(super) path: Vec<String>,
    /// The turn that the message starts, if any.
    pub(super) turn_id: Option<TurnId>,
    pub(super) text: String,
}

/// Returns whether there are hooks for messages.
pub(super) fn has_of_prompts(hooks: &[Hook]) -> bool {
    of_event(hooks, HookEvent::UserPromptSubmit, "").next().is_some()
}

/// Collects what the hooks need to know about a message to a stored worker. `None` if it has no
/// hooks for messages.
pub(super) async fn prompt_to(
    shared: &SupervisorState,
    row: &WorkerRow,
    text: String,
) -> Result<Option<PromptSubmission>> {
    let hooks = spec::stored(row).map(|spec| spec.hooks).unwrap_or_default();
    if !has_of_prompts(&hooks) {
        return Ok(None);
    }
    let (id, worker_id) = (row.id, row.worker_id.clone());
    let read = shared.store.read(move |connection| {
        let task = hook_events::task(connection, id, &worker_id)?;
        Ok((owner_rules::workspace_of(connection, id)?, task.map(|(task, _)| task.tree.path)))
    });
    let (workspace, path) = read.await?;
    Ok(Some(PromptSubmission {
        hooks,
        worker_id: row.worker_id.clone(),
        session_id: row.agent.session_id.clone(),
        cwd: PathBuf::from(&row.cwd),
        workspace: PathBuf::from(workspace),
        path: path.unwrap_or_default(),
        turn_id: None,
        text,
    }))
}

/// Runs the `UserPromptSubmit` hooks of a message in order. Returns the text that they add to it.
///
/// # Errors
/// `HOOK_DENIED{hook}`. `HOOK_FAILED{hook}` if a hook failed, because only the sender could be
/// asked about a message.
pub(super) async fn of_prompt(shared: &SupervisorState, prompt: PromptSubmission) -> Result<Option<String>> {
    let event = HookEvent::UserPromptSubmit;
    let mut input = HookInput::new(event, prompt.worker_id, prompt.cwd);
    input.session_id = prompt.session_id;
    input.path = prompt.path;
    input.turn_id = prompt.turn_id;
    input.prompt = Some(prompt.text);
    let mut added = String::new();
    for hook in of_event(&prompt.hooks, event, "") {
        let answer = one(shared, hook, &input, &prompt.workspace).await?;
        if answer.failed || answer.word == HookWord::Deny {
            return Err(refused(hook, answer));
        }
        if let Some(context) = answer.context {
            let left = MAX_CONTEXT_BYTES.saturating_sub(added.len());
            added.push_str(&context[..context.floor_char_boundary(left)]);
            added.push('\n');
        }
    }
    let added = added.trim_end();
    Ok((!added.is_empty()).then(|| format!("<hook event=\"UserPromptSubmit\">\n{added}\n</hook>")))
}

/// Returns the error for a refused message.
fn refused(hook: &Hook, answer: HookAnswer) -> Error {
    let reason = answer.reason.unwrap_or_else(|| "it gives no reason".to_owned());
    let error = if answer.failed {
        let message = format!("a hook that must allow the message failed: {reason}");
        let advice = format!("correct or remove the hook in {}, then send again", hook.file.display());
        Error::new(Code::HookFailed, message).retryable().recommend(advice)
    } else {
        let message = format!("a hook refuses the message: {reason}");
        let advice = format!("change the message, or the hook in {}", hook.file.display());
        Error::new(Code::HookDenied, message).recommend(advice)
    };
    error.with("hook", hook.command.as_str())
}

/// Runs one hook. An untrusted hook does not run; its answer is `ask`.
async fn one(
    shared: &SupervisorState,
    hook: &Hook,
    input: &HookInput,
    folder: &std::path::Path,
) -> Result<HookAnswer> {
    if !hook_trust::is_trusted(shared, hook).await? {
        return Ok(HookAnswer::failure(hook_trust::advice(hook)));
    }
    let stdin = serde_json::to_string(input)
        .map_err(|error| Error::new(Code::Internal, format!("the input of a hook: {error}")))?;
    // The semaphore is never closed.
    let _permit = shared.locks.hooks.acquire().await;
    let run = hooks::run::command(hook, folder, std::env::vars_os(), stdin);
    let result: CommandResult = command_run::run(&shared.setup.runtime_program, run).await;
    Ok(HookAnswer::of_hook(hook, &result))
}
