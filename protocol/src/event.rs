//! Events: their types, and how the `data` and `raw` that users see are derived from what is stored.
//!
//! An event that a runtime wrote is stored as the raw body of its record; `data` is a pure function of it,
//! computed on read, so that a better function needs no migration. An event that the daemon wrote is stored as
//! its `data`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::depth;
use crate::elicitation::ElicitationView;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::options::Choice;
use crate::record::{
    ApprovalRequested, Child, ElicitationRequested, Noise, Notification, OptionSet, RecordType, Session,
    SessionOrigin,
};
use crate::state::{Carrier, words};
use crate::surrogates;
use crate::time::Timestamp;
use crate::{client, fields};

mod asked;
mod line;

pub use line::Below;

words! {
    /// The type of an event. Those that begin with `runtime.` are the journal's own and are never shown.
    EventType {
        /// A turn was accepted.
        TurnStarted = "turn.started",
        /// The message of the turn, as accepted.
        MessageSent = "message.sent",
        /// Text of the agent.
        ProgressMessage = "progress.message",
        /// Anything else that the agent reported.
        ProgressUpdate = "progress.update",
        /// The agent asks for a permission.
        ApprovalRequested = "approval.requested",
        /// Somebody decided.
        ApprovalDecided = "approval.decided",
        /// The runtime that asked is gone.
        ApprovalLost = "approval.lost",
        /// The agent has done without asking what a rule denies.
        PolicyViolated = "policy.violated",
        /// A budget is used up.
        BudgetExceeded = "budget.exceeded",
        /// Of a turn that is over it is not known how much of a budget it used.
        BudgetUnknown = "budget.unknown",
        /// Somebody has changed limits.
        BudgetChanged = "budget.changed",
        /// The deadline passed.
        ApprovalExpired = "approval.expired",
        /// The agent withdrew it, or the worker was stopped.
        ApprovalCanceled = "approval.canceled",
        /// The agent asks its user something.
        ElicitationRequested = "elicitation.requested",
        /// Somebody answered.
        ElicitationAnswered = "elicitation.answered",
        /// The runtime that asked is gone.
        ElicitationLost = "elicitation.lost",
        /// The agent withdrew it, or the worker was stopped.
        ElicitationCanceled = "elicitation.canceled",
        /// The git worktree of the worker was made.
        WorktreeCreated = "worktree.created",
        /// Its changes were brought to another branch.
        WorktreeLanded = "worktree.landed",
        /// It was removed; a ref keeps what was in it.
        WorktreeRetired = "worktree.retired",
        /// It was removed: nothing was in it.
        WorktreeRemoved = "worktree.removed",
        /// Its changes and those of the target are about the same lines: nothing was changed.
        WorktreeConflict = "worktree.conflict",
        /// A schedule has given the worker its task or a message.
        ScheduleFired = "schedule.fired",
        /// The schedule that started the worker last does not fire any more.
        SchedulePaused = "schedule.paused",
        /// A turn ended well.
        TurnCompleted = "turn.completed",
        /// A turn failed.
        TurnFailed = "turn.failed",
        /// A turn was canceled.
        TurnCanceled = "turn.canceled",
        /// A message waits for the end of the turns before it.
        TurnQueued = "turn.queued",
        /// A message that waits has another place.
        TurnMoved = "turn.moved",
        /// A message that waited is not sent.
        TurnDropped = "turn.dropped",
        /// What waits is not sent until somebody says so.
        QueuePaused = "queue.paused",
        /// It is sent again.
        QueueResumed = "queue.resumed",
        /// The worker has its first session.
        WorkerStarted = "worker.started",
        /// The agent has a session, and the definition that its worker was started with holds for it.
        AgentApplied = "agent.applied",
        /// The owner has given the worker another definition with a message: it holds from this turn on.
        AgentChanged = "agent.changed",
        /// Another runtime has a session, for a worker that was shown as started before.
        WorkerRestarted = "worker.restarted",
        /// The agent was idle for long, and has ended until it is needed again.
        WorkerHibernated = "worker.hibernated",
        /// The runtime is gone.
        WorkerLost = "worker.lost",
        /// The worker was stopped and nothing of it is left.
        WorkerStopped = "worker.stopped",
        /// A notification about the worker cannot be delivered.
        NotificationFailed = "notification.failed",
        /// Somebody below this worker asked for what only its owner may do.
        WorkerForbidden = "worker.forbidden",
        /// A hook failed, or does not run.
        HookFailed = "hook.failed",
        /// The worker was made for a task of another worker, or of a manager.
        SubagentSpawned = "subagent.spawned",
        /// A prompt of the worker's task has made another tool call.
        SubagentProgress = "subagent.progress",
        /// The task of the worker ended well.
        SubagentCompleted = "subagent.completed",
        /// It failed, was lost, or has used up what it might use.
        SubagentFailed = "subagent.failed",
        /// Somebody canceled it.
        SubagentCancelled = "subagent.cancelled",
        /// Another event of a task below the worker, in the stream of the worker. Never stored.
        SubagentEvent = "subagent.event",
        /// Records of the journal are missing.
        JournalGap = "journal.gap",
        /// See [`RecordType::Segment`].
        RuntimeSegment = "runtime.segment",
        /// See [`RecordType::Sealed`].
        RuntimeSealed = "runtime.sealed",
        /// See [`RecordType::AgentStarted`].
        RuntimeAgentStarted = "runtime.agent_started",
        /// See [`RecordType::StartFailed`].
        RuntimeStartFailed = "runtime.start_failed",
        /// See [`RecordType::Dispatching`].
        RuntimeDispatching = "runtime.turn_dispatching",
        /// A permission request that waits for hooks. If it becomes a question or is decided, `approval.requested` follows.
        RuntimeApprovalHeld = "runtime.approval_held",
        /// See [`RecordType::ApprovalClosed`].
        RuntimeApprovalClosed = "runtime.approval_closed",
        /// See [`RecordType::AnswerWritten`].
        RuntimeAnswerWritten = "runtime.answer_written",
        /// See [`RecordType::CancelRequested`].
        RuntimeCancelRequested = "runtime.cancel_requested",
        /// See [`RecordType::TurnEnd`].
        RuntimeTurnEnd = "runtime.turn_end",
        /// See [`RecordType::Terminating`].
        RuntimeTerminating = "runtime.terminating",
        /// See [`RecordType::AgentExited`].
        RuntimeAgentExited = "runtime.agent_exited",
        /// See [`RecordType::Ended`].
        RuntimeEnded = "runtime.ended",
    }
}

impl EventType {
    /// Whether the event is the journal's own and never shown.
    #[must_use]
    pub fn is_internal(self) -> bool {
        self.as_str().starts_with("runtime.")
    }

    /// Whether a worker may have such an event, and somebody may see it: then he may wait for it, too.
    #[must_use]
    pub fn is_of_workers(self) -> bool {
        !self.is_internal() && self != Self::SubagentEvent
    }

    /// Whether the event says how the task of its worker stands: whoever watches a worker above that sees it as well.
    #[must_use]
    pub const fn is_of_tasks(self) -> bool {
        matches!(
            self,
            Self::SubagentSpawned
                | Self::SubagentProgress
                | Self::SubagentCompleted
                | Self::SubagentFailed
                | Self::SubagentCancelled
        )
    }

    /// Whether the event asks the owner something.
    #[must_use]
    pub const fn is_question(self) -> bool {
        matches!(self, Self::ApprovalRequested | Self::ElicitationRequested)
    }

    /// Whether the streams of the workers above a task also have the event: it says how the task stands, asks the owner
    /// something, says what became of a question, or reports a violation.
    #[must_use]
    pub const fn reaches_ancestors(self) -> bool {
        self.is_of_tasks()
            || self.is_question()
            || self.is_about_question()
            || matches!(self, Self::PolicyViolated)
    }

    /// Whether the event says what became of a question.
    #[must_use]
    pub const fn is_about_question(self) -> bool {
        matches!(
            self,
            Self::ApprovalDecided
                | Self::ApprovalCanceled
                | Self::ApprovalLost
                | Self::ApprovalExpired
                | Self::ElicitationAnswered
                | Self::ElicitationCanceled
                | Self::ElicitationLost
        )
    }

    /// Whether the event is progress of a turn: it says nothing about where the turn stands.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::ProgressMessage | Self::ProgressUpdate)
    }

    /// Whether the event ends a turn.
    #[must_use]
    pub const fn ends_turn(self) -> bool {
        matches!(self, Self::TurnCompleted | Self::TurnFailed | Self::TurnCanceled)
    }
}

/// An event as it is stored; `P` is the payload, borrowed where it need not be kept.
#[derive(Debug, Clone)]
pub struct StoredEvent<P = String> {
    /// Its place among all events of the state dir.
    pub seq: i64,
    /// When it was written.
    pub at: Timestamp,
    /// Its type.
    pub event_type: EventType,
    /// The kind of a `progress.update`.
    pub kind: Option<String>,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// Who carries that turn out.
    pub carrier: Carrier,
    /// The type of the record that it came from; `None` for the daemon's own.
    pub record: Option<RecordType>,
    /// The record's body, or the `data` of the daemon's own.
    pub payload: P,
}

/// An event as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Always `v1`.
    pub schema_version: String,
    /// The public cursor.
    pub event_id: EventId,
    /// When it was written.
    pub ts: Timestamp,
    /// The worker.
    pub worker_id: WorkerId,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Its facts.
    pub data: Value,
    /// The turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Of a question of a task, or what became of it, where a worker above the task is watched or waited for: the names
    /// from the root to the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// What it was derived from, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl<P: AsRef<str>> StoredEvent<P> {
    fn payload(&self) -> &str {
        self.payload.as_ref()
    }

    /// The event as it is shown; with `raw` also what it was derived from.
    #[must_use]
    pub fn view(&self, worker_id: &WorkerId, raw: bool) -> Event {
        Event {
            schema_version: "v1".to_owned(),
            event_id: EventId(self.seq),
            ts: self.at,
            worker_id: worker_id.clone(),
            event_type: self.event_type,
            data: depth::shown(self.data()),
            turn_id: self.turn_id.clone(),
            path: None,
            raw: raw.then(|| depth::shown(self.raw())),
        }
    }

    /// The facts of the event. A payload that cannot be read gives `{}`: one bad row must not stop a reader.
    #[must_use]
    pub fn data(&self) -> Value {
        let Some(record) = self.record else {
            let data = surrogates::parse(self.payload()).unwrap_or_else(|_| json!({}));
            return if self.event_type == EventType::MessageSent { without_contents(data) } else { data };
        };
        match record {
            RecordType::Update | RecordType::ChildUpdate => self.update_data(record),
            RecordType::Notification => match surrogates::parse::<Notification>(self.payload()) {
                Ok(notification) => notification_data(&notification),
                Err(_) => json!({}),
            },
            RecordType::Noise => match surrogates::parse::<Noise>(self.payload()) {
                Ok(noise) => json!({
                    "method": "stdout", "kind": "noise", "reason": noise.reason,
                    "bytes": noise.bytes, "digest": noise.digest, "head": noise.head,
                }),
                Err(_) => json!({}),
            },
            RecordType::Session => match surrogates::parse::<Session>(self.payload()) {
                Ok(session) => json!({
                    "method": session_method(session.origin), "kind": "session",
                    "session": session.origin, "contextLost": session.context_lost,
                }),
                Err(_) => json!({}),
            },
            RecordType::OptionSet => match surrogates::parse::<OptionSet>(self.payload()) {
                Ok(set) => option_set_data(&set),
                Err(_) => json!({}),
            },
            RecordType::ApprovalRequested => match surrogates::parse::<ApprovalRequested>(self.payload()) {
                Ok(asked) => {
                    let view = ApprovalView::of_record(&asked);
                    let mut data = json!({
                        "requestId": asked.request_id, "kind": "tool.call",
                        "message": view.message, "options": view.options,
                    });
                    view.tool_call.into_iter().for_each(|(key, value)| data[key] = value);
                    if let Some(call) = asked.client_call {
                        data["clientCall"] = call.into();
                    }
                    name_child(&mut data, asked.child);
                    data
                }
                Err(_) => json!({}),
            },
            RecordType::ClientRequest => client::request_data(self.payload()),
            RecordType::ClientResponse => client::response_data(self.payload()),
            RecordType::TerminalExited => client::exited_data(self.payload()),
            RecordType::ElicitationRequested => {
                match surrogates::parse::<ElicitationRequested>(self.payload()) {
                    Ok(asked) => {
                        let view = ElicitationView::of(asked.params.get());
                        let mut data = json!({
                            "requestId": asked.request_id, "kind": "elicitation", "message": view.message,
                        });
                        view.fields().into_iter().for_each(|(key, value)| data[key] = value);
                        name_child(&mut data, asked.child);
                        data
                    }
                    Err(_) => json!({}),
                }
            }
            _ => surrogates::parse(self.payload()).unwrap_or_else(|_| json!({})),
        }
    }

    fn update_data(&self, record: RecordType) -> Value {
        if self.event_type == EventType::ProgressMessage {
            return self.text().map_or_else(|| json!({}), message_data);
        }
        let Ok(params) = surrogates::parse::<Value>(self.payload()) else { return json!({}) };
        let kind = self.kind.as_deref().unwrap_or("unknown");
        let mut data = Map::new();
        data.insert("method".to_owned(), "session/update".into());
        data.insert("kind".to_owned(), kind.into());
        if record == RecordType::ChildUpdate {
            data.insert("sessionId".to_owned(), params["sessionId"].clone());
        }
        data.extend(fields::of(kind, &params));
        Value::Object(data)
    }

    fn raw(&self) -> Value {
        let payload = || surrogates::parse::<Value>(self.payload()).unwrap_or(Value::Null);
        match self.record {
            None => json!({"runtime": self.carrier, "phase": self.event_type}),
            Some(RecordType::Update | RecordType::ChildUpdate) => {
                let mut payload = payload();
                json!({"runtime": "acp-stdio", "phase": "session.update", "update": payload["update"].take()})
            }
            Some(RecordType::Notification) => {
                let mut payload = payload();
                json!({
                    "runtime": "acp-stdio", "phase": "notification",
                    "method": payload["method"].take(), "params": payload["params"].take(),
                })
            }
            Some(RecordType::Session) => {
                let mut payload = payload();
                json!({
                    "runtime": "acp-stdio", "phase": "session.start",
                    "sessionId": payload["sessionId"].take(), "agent": payload["agent"].take(),
                })
            }
            Some(RecordType::OptionSet) => {
                let mut payload = payload();
                json!({
                    "runtime": "acp-stdio", "phase": "session.set",
                    "choice": payload["choice"].take(), "result": payload["result"].take(),
                })
            }
            Some(RecordType::ApprovalRequested | RecordType::ElicitationRequested) => {
                let mut payload = payload();
                json!({"runtime": "acp-stdio", "phase": self.event_type, "request": payload["params"].take()})
            }
            Some(record) => json!({"runtime": "acp-stdio", "phase": record, "body": payload()}),
        }
    }
}

/// What is shown of a piece of the agent's text. It may be long: it is not copied.
fn message_data(text: Cow<'_, str>) -> Value {
    let mut data = Map::new();
    data.insert("role".to_owned(), "assistant".into());
    data.insert("text".to_owned(), Value::String(text.into_owned()));
    Value::Object(data)
}

/// What is shown of a message: of its attachments what they are, not what is in them.
fn without_contents(mut message: Value) -> Value {
    let attachments = message.get_mut("attachments").and_then(Value::as_array_mut);
    for attachment in attachments.into_iter().flatten() {
        if let Some(attachment) = attachment.as_object_mut() {
            attachment.retain(|key, _| key != "text" && key != "data");
        }
    }
    message
}

/// The kind of progress that an option which was set is shown as.
#[must_use]
pub const fn option_kind(choice: &Choice) -> &'static str {
    match choice {
        Choice::Mode { .. } => "mode",
        Choice::Model { .. } | Choice::ConfigOption { .. } => "config_option",
    }
}

fn option_set_data(set: &OptionSet) -> Value {
    let mut data = json!({
        "method": set.method, "kind": option_kind(&set.choice), "option": set.choice.name(),
        "value": set.choice.value(), "applied": set.error.is_none(), "current": set.current,
    });
    match (&set.error, &set.choice) {
        (Some(error), _) => data["error"] = json!(error),
        (None, Choice::Mode { value }) => data["currentModeId"] = value.as_str().into(),
        (None, _) => {
            let result = set.result.as_ref().and_then(|result| surrogates::parse::<Value>(result.get()).ok());
            let fields = fields::of("config_option", &json!({"update": result}));
            fields.into_iter().for_each(|(key, value)| data[key] = value);
        }
    }
    data
}

/// Says that a session below the worker's own asks.
fn name_child(data: &mut Value, child: Child) {
    for (key, value) in [("sessionId", child.session_id), ("sessionTitle", child.session_title)] {
        if let Some(value) = value {
            data[key] = value.into();
        }
    }
}

fn notification_data(notification: &Notification) -> Value {
    let mut data = json!({"method": notification.method, "kind": "notification"});
    if notification.method == "elicitation/complete"
        && let Some(params) = &notification.params
        && let Ok(Value::String(id)) =
            surrogates::parse(params.get()).map(|mut params: Value| params["elicitationId"].take())
    {
        data["elicitationId"] = id.into();
    }
    data
}

const fn session_method(origin: SessionOrigin) -> &'static str {
    match origin {
        SessionOrigin::New => "session.new",
        SessionOrigin::Loaded => "session.load",
        SessionOrigin::Resumed => "session.resume",
    }
}

/// One answer that a permission request offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    /// The agent's `optionId`.
    pub id: String,
    /// The id in lower case.
    pub alias: String,
    /// What to show to a person.
    pub label: String,
    /// ACP's `kind` (`allow_once`, ...), in the agent's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The lenient view of the `params` of `session/request_permission`, or what the daemon itself asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApprovalView {
    /// A sentence for people: what kind of tool wants to do what.
    pub message: String,
    /// The answers that are offered; never empty (without any, `allow` and `deny` are assumed).
    pub options: Vec<ApprovalOption>,
    /// What it is asked for, as far as the request or the `tool_call` before it says: the fields of
    /// [`crate::data::progress::ToolCall`] but its status. Some agents never speak of the call elsewhere.
    #[serde(default)]
    pub tool_call: Map<String, Value>,
}

impl ApprovalView {
    /// Reads the `params`; whatever is not understood is left out.
    #[must_use]
    pub fn of(params: &str) -> Self {
        Self::read(params, None)
    }

    /// Reads a request, and where it says nothing, what the agent told of the tool call before.
    #[must_use]
    pub fn of_record(asked: &ApprovalRequested) -> Self {
        Self::read(asked.params.get(), asked.tool_call.as_deref().map(|told| told.get()))
    }

    fn read(params: &str, told: Option<&str>) -> Self {
        let mut params: Value = surrogates::parse(params).unwrap_or(Value::Null);
        if let Some(told) = told
            && let Value::Object(told) = surrogates::parse(told).unwrap_or(Value::Null)
            && let Some(call) = params.get_mut("toolCall").and_then(Value::as_object_mut)
        {
            asked::complete(call, told);
        }
        let call = &params["toolCall"];
        let message = asked::message(call);
        let mut options: Vec<ApprovalOption> = params["options"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|option| {
                let id = option["optionId"].as_str()?;
                Some(ApprovalOption {
                    id: id.to_owned(),
                    alias: id.to_lowercase(),
                    label: option["name"].as_str().unwrap_or(id).to_owned(),
                    kind: option["kind"].as_str().map(str::to_owned),
                })
            })
            .collect();
        if options.is_empty() {
            options = [("allow", "Allow", "allow_once"), ("deny", "Deny", "reject_once")]
                .map(|(id, label, kind)| ApprovalOption {
                    id: id.to_owned(),
                    alias: id.to_owned(),
                    label: label.to_owned(),
                    kind: Some(kind.to_owned()),
                })
                .into();
        }
        Self { message, options, tool_call: fields::of_request(call) }
    }
}

#[cfg(test)]
mod tests;
