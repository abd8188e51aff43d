//! The standard input of a hook: one JSON object. Fields that Claude Code has keep its
//! names; ours are additional.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hook::HookEvent;
use crate::ids::{EventId, RequestId, TurnId, WorkerId};

/// The input of a hook. Fields that do not apply to the event are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HookInput {
    /// The event that runs the hook.
    pub hook_event_name: HookEvent,
    /// The agent's id of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Working folder of the agent. The hook itself runs in the workspace.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
    /// `PreToolUse`, `PostToolUse`, `ApprovalRequested`: the tool, with Claude Code's name if it
    /// has the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The same events: the arguments of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub tool_input: Option<Value>,
    /// `PostToolUse`: the tool's output, as far as the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
    /// The same events: the agent's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// `UserPromptSubmit`: text of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// `SessionStart`: `startup` for a new session, `resume` for a resumed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `Notification`: text of the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Notification`: its type, such as `permission_prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_type: Option<String>,
    /// `Stop`, `SubagentStop`: always false. A hook cannot make an agent continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_hook_active: Option<bool>,
    /// `Stop`, `SubagentStop`: the last text of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    /// `SubagentStart`, `SubagentStop`: the id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// `SubagentStart`, `SubagentStop`: the definition of the task's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// `Stop`, `SubagentStop`: how the turn or the task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// `WorktreeCreate`, `WorktreeRemove`: the name of the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `WorktreeCreate`, `WorktreeRemove`: folder of the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// Id of the worker.
    pub worker: WorkerId,
    /// The names of the worker's ancestors from the root, and its own; empty for a worker that
    /// is not a task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Id of the turn.
    #[serde(rename = "turnId", default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// The event that the hook runs for. A hook that runs again for the same event
    /// gets the same id.
    #[serde(rename = "eventId", default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// `PreToolUse`, `ApprovalRequested`: the permission request.
    #[serde(rename = "requestId", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

impl HookInput {
    /// Creates an input with the fields of every event.
    #[must_use]
    pub const fn new(event: HookEvent, worker: WorkerId, cwd: PathBuf) -> Self {
        Self {
            hook_event_name: event,
            session_id: None,
            cwd,
            tool_name: None,
            tool_input: None,
            tool_response: None,
            tool_use_id: None,
            prompt: None,
            source: None,
            message: None,
            notification_type: None,
            stop_hook_active: None,
            last_assistant_message: None,
            agent_id: None,
            agent_type: None,
            status: None,
            name: None,
            worktree_path: None,
            worker,
            path: Vec::new(),
            turn_id: None,
            event_id: None,
            request_id: None,
        }
    }

    /// Returns the value that a hook's matcher is compared with: the tool, the source, the kind of
    /// agent or of notification. It is empty for events without one.
    #[must_use]
    pub fn subject(&self) -> &str {
        let subject = match self.hook_event_name {
            HookEvent::PreToolUse | HookEvent::PostToolUse | HookEvent::ApprovalRequested => &self.tool_name,
            HookEvent::SessionStart => &self.source,
            HookEvent::SubagentStart | HookEvent::SubagentStop => &self.agent_type,
            HookEvent::Notification => &self.notification_type,
            HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::WorktreeCreate
            | HookEvent::WorktreeRemove => &None,
        };
        subject.as_deref().unwrap_or_default()
    }
}
