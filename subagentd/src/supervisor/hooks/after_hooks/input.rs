//! Maps events to after hooks and builds their input. Reads the store. Must not decide how hooks
//! run.

use serde::Deserialize;
use serde_json::Value;
use subagent_config::hooks::call;
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::hook::{Hook, HookEvent};
use subagent_protocol::hook_input::HookInput;
use subagent_protocol::ids::EventId;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::tool_calls::{KINDS, is_over};

use crate::store::{Connection, WorkerRow, hook_events, tasks};

/// Maximum size of a hook's input in bytes. Longer inputs omit the tool's response first.
const MAX_BYTES: usize = 1024 * 1024;

/// Returns the hook event that corresponds to a worker event.
pub(crate) fn fires<P: AsRef<str>>(event: &StoredEvent<P>) -> Option<HookEvent> {
    Some(match event.event_type {
        EventType::WorkerStarted | EventType::WorkerRestarted => HookEvent::SessionStart,
        EventType::TurnCompleted | EventType::TurnFailed | EventType::TurnCanceled => HookEvent::Stop,
        EventType::SubagentSpawned => HookEvent::SubagentStart,
        EventType::SubagentCompleted | EventType::SubagentFailed | EventType::SubagentCancelled => {
            HookEvent::SubagentStop
        }
        EventType::ApprovalRequested | EventType::ElicitationRequested => HookEvent::Notification,
        EventType::WorktreeCreated => HookEvent::WorktreeCreate,
        EventType::WorktreeRetired | EventType::WorktreeRemoved => HookEvent::WorktreeRemove,
        // A call that the end of a turn closed has no known outcome, so it counts only with a
        // record.
        EventType::ProgressUpdate if event.record.is_some() => {
            event.kind.as_deref().filter(|kind| KINDS.contains(kind))?;
            HookEvent::PostToolUse
        }
        _ => return None,
    })
}

/// An event with after hooks.
pub(crate) struct HookedEvent {
    pub(crate) seq: i64,
    pub(crate) input: HookInput,
    /// The hooks for the event, before their matchers apply.
    pub(crate) hooks: Vec<Hook>,
}

/// Returns the hooks for an event and their input, or `None` if no hook is to run.
pub(crate) fn of(
    connection: &Connection,
    worker: &WorkerRow,
    own: &[Hook],
    event: &StoredEvent,
) -> Result<Option<HookedEvent>> {
    let Some(fires) = fires(event) else { return Ok(None) };
    let task = hook_events::task(connection, worker.id, &worker.worker_id)?;
    let hooks = hooks(fires, own, task.as_ref().and_then(|(_, parent)| parent.as_deref()));
    if hooks.is_empty() {
        return Ok(None);
    }
    let mut input = HookInput::new(fires, worker.worker_id.clone(), worker.cwd.clone().into());
    input.session_id.clone_from(&worker.agent.session_id);
    input.turn_id.clone_from(&event.turn_id);
    input.event_id = Some(EventId(event.seq));
    if let Some((task, _)) = &task {
        input.path.clone_from(&task.tree.path);
    }
    let data = event.data();
    match fires {
        HookEvent::SessionStart => {
            let is_new = lenient::read::<StartedData>(&data).session.0.as_deref() == Some("new");
            input.source = Some(if is_new { "startup" } else { "resume" }.to_owned());
        }
        HookEvent::Stop => {
            input.stop_hook_active = Some(false);
            input.status = event.event_type.as_str().split('.').nth(1).map(str::to_owned);
            input.last_assistant_message = Some(hook_events::last_text(connection, worker.id, event.seq)?);
        }
        HookEvent::SubagentStart | HookEvent::SubagentStop => {
            of_task(&mut input, event.event_type, lenient::read(&data), task.as_ref().map(|(task, _)| task));
        }
        HookEvent::Notification => {
            if !hook_events::is_open(connection, worker.id, event.seq)? {
                return Ok(None);
            }
            let is_permission = event.event_type == EventType::ApprovalRequested;
            let kind = if is_permission { "permission_prompt" } else { "elicitation_dialog" };
            input.notification_type = Some(kind.to_owned());
            let AskedData { title, message, request_id } = lenient::read(&data);
            input.message = title.0.filter(|_| is_permission).or(message.0);
            input.request_id = request_id.0.and_then(|id| id.parse().ok());
        }
        HookEvent::PostToolUse => {
            if !of_call(connection, worker, event, &data, &mut input)? {
                return Ok(None);
            }
        }
        HookEvent::WorktreeCreate | HookEvent::WorktreeRemove => {
            let WorktreeData { name, path } = lenient::read(&data);
            (input.name, input.worktree_path) = (name.0, path.0);
        }
        HookEvent::UserPromptSubmit | HookEvent::PreToolUse | HookEvent::ApprovalRequested => {}
    }
    shorten(&mut input);
    Ok(Some(HookedEvent { seq: event.seq, input, hooks }))
}

/// Returns the hooks for an event. Hooks for tasks come from the parent: a task does not report its
/// own start to its own definition.
fn hooks(fires: HookEvent, own: &[Hook], parent: Option<&str>) -> Vec<Hook> {
    let hooks = match (fires, parent) {
        (HookEvent::SubagentStart | HookEvent::SubagentStop, Some(parent)) => of_spec(parent),
        _ => own.to_vec(),
    };
    hooks.into_iter().filter(|hook| hook.event == fires).collect()
}

/// Returns the hooks in the stored spec of a worker.
pub(crate) fn of_spec(spec: &str) -> Vec<Hook> {
    #[derive(Deserialize)]
    struct StoredHooks {
        #[serde(default)]
        hooks: Vec<Hook>,
    }
    serde_json::from_str::<StoredHooks>(spec).map(|stored| stored.hooks).unwrap_or_default()
}

/// The data of a start of a worker.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StartedData {
    session: Lenient<String>,
}

/// The data of a question.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedData {
    title: Lenient<String>,
    message: Lenient<String>,
    request_id: Lenient<String>,
}

/// The data of an event of a worktree.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WorktreeData {
    name: Lenient<String>,
    path: Lenient<String>,
}

/// The data of an event of a task.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskData {
    id: Lenient<String>,
    agent: Lenient<String>,
    status: Lenient<String>,
    summary: Lenient<String>,
}

/// The data of an update of a tool call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndedCallData<'a> {
    #[serde(borrow)]
    tool_call_id: Lenient<&'a str>,
    status: Lenient<&'a str>,
}

/// What a tool call has answered.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallAnswer {
    raw_output: Option<Value>,
    content: Option<Value>,
}

fn of_task(input: &mut HookInput, event_type: EventType, data: TaskData, task: Option<&tasks::TaskRow>) {
    input.agent_id = data.id.0;
    input.agent_type =
        data.agent.0.or_else(|| task.and_then(|task| task.request.agent.clone())).or(Some(String::new()));
    if input.hook_event_name == HookEvent::SubagentStart {
        input.prompt = task.map(|task| task.request.prompt.clone());
        return;
    }
    input.stop_hook_active = Some(false);
    input.status = Some(match event_type {
        EventType::SubagentCompleted => "completed".to_owned(),
        EventType::SubagentCancelled => "cancelled".to_owned(),
        _ => data.status.0.unwrap_or_else(|| "failed".to_owned()),
    });
    input.last_assistant_message = task.and_then(|task| task.end.result.clone()).or(data.summary.0);
}

/// Adds a tool call that this event ends. Returns false if the call is open or had ended before.
fn of_call(
    connection: &Connection,
    worker: &WorkerRow,
    event: &StoredEvent,
    data: &Value,
    input: &mut HookInput,
) -> Result<bool> {
    let EndedCallData { tool_call_id: Lenient(Some(id)), status: Lenient(Some(status)) } =
        lenient::read(data)
    else {
        return Ok(false);
    };
    if !is_over(status) {
        return Ok(false);
    }
    let so_far = hook_events::call(connection, worker.id, event.seq, id)?;
    if so_far.was_over {
        return Ok(false);
    }
    let reported = Value::Object(so_far.reported);
    let call = call::of(&reported);
    input.tool_name = Some(call.name);
    input.tool_input = Some(call.input);
    input.tool_use_id = call.id;
    input.status = Some(status.to_owned());
    let CallAnswer { raw_output, content } = lenient::read(&reported);
    input.tool_response = raw_output.or(content);
    Ok(true)
}

/// Omits long values until the input fits.
fn shorten(input: &mut HookInput) {
    let fits = |input: &HookInput| serde_json::to_string(input).is_ok_and(|text| text.len() <= MAX_BYTES);
    if !fits(input) {
        input.tool_response = None;
    }
    if !fits(input) {
        input.tool_input = Some(serde_json::json!({"truncated": true}));
    }
    if !fits(input) {
        (input.prompt, input.last_assistant_message) = (None, None);
    }
}
