//! Events: their types, and how the public `data` and `raw` are derived from stored data.

// An event of a runtime is stored as the raw body of its record. `data` is a pure function of it,
// computed on read, so that a better function needs no migration. An event of the daemon is stored
// as its `data`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::depth;
use crate::elicitation::ElicitationView;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::json::extend;
use crate::options::SessionOption;
use crate::record::{
    ApprovalRequested, Child, ElicitationRequested, Noise, Notification, OptionSet, RecordType,
    SessionOrigin, SessionRecord,
};
use crate::state::{Carrier, words};
use crate::time::Timestamp;
use crate::{client, fields, lenient, surrogates};

mod line;
mod permission;
mod seen;
pub use line::Below;
pub use seen::{NoData, SeenEvent};

words! {
    /// The type of an event. Types that begin with `runtime.` are internal to the
    /// journal and never shown.
    EventType {
        /// A turn was accepted.
        TurnStarted = "turn.started",
        /// The message of the turn, as accepted.
        MessageSent = "message.sent",
        /// Text of the agent.
        ProgressMessage = "progress.message",
        /// Any other report of the agent.
        ProgressUpdate = "progress.update",
        /// The agent requests a permission.
        ApprovalRequested = "approval.requested",
        /// The permission request was decided.
        ApprovalDecided = "approval.decided",
        /// The runtime that asked is gone.
        ApprovalLost = "approval.lost",
        /// The agent did something without asking that a rule denies.
        PolicyViolated = "policy.violated",
        /// A budget is used up.
        BudgetExceeded = "budget.exceeded",
        /// A turn has ended with unknown usage of a budget.
        BudgetUnknown = "budget.unknown",
        /// Limits of a worker were changed.
        BudgetChanged = "budget.changed",
        /// The request reached its deadline.
        ApprovalExpired = "approval.expired",
        /// The agent withdrew it, or the worker was stopped.
        ApprovalCanceled = "approval.canceled",
        /// The agent asks its user a question.
        ElicitationRequested = "elicitation.requested",
        /// The elicitation was answered.
        ElicitationAnswered = "elicitation.answered",
        /// The runtime that asked is gone.
        ElicitationLost = "elicitation.lost",
        /// The agent withdrew it, or the worker was stopped.
        ElicitationCanceled = "elicitation.canceled",
        /// The git worktree of the worker was created.
        WorktreeCreated = "worktree.created",
        /// Its changes landed on another branch.
        WorktreeLanded = "worktree.landed",
        /// It was removed; a ref keeps its content.
        WorktreeRetired = "worktree.retired",
        /// It was removed without content.
        WorktreeRemoved = "worktree.removed",
        /// Its changes conflict with the target's: nothing was changed.
        WorktreeConflict = "worktree.conflict",
        /// Its changed files came to the main work tree, except those that both sides changed.
        WorktreeMerged = "worktree.merged",
        /// A schedule gave the worker its task or a message.
        ScheduleFired = "schedule.fired",
        /// The schedule that last started the worker was paused.
        SchedulePaused = "schedule.paused",
        /// A trigger gave the worker its task or a message.
        TriggerFired = "trigger.fired",
        /// The trigger that last started the worker was paused.
        TriggerPaused = "trigger.paused",
        /// A turn ended with success.
        TurnCompleted = "turn.completed",
        /// A turn ended with a failure.
        TurnFailed = "turn.failed",
        /// A turn was canceled.
        TurnCanceled = "turn.canceled",
        /// A message waits for the turns before it.
        TurnQueued = "turn.queued",
        /// A queued message has another position.
        TurnMoved = "turn.moved",
        /// A queued message was dropped.
        TurnDropped = "turn.dropped",
        /// The queue is paused until it is resumed.
        QueuePaused = "queue.paused",
        /// The queue was resumed.
        QueueResumed = "queue.resumed",
        /// The worker has its first session.
        WorkerStarted = "worker.started",
        /// The agent has a session, and its worker's definition applies to it.
        AgentApplied = "agent.applied",
        /// The owner changed the worker's definition with a message: it applies from this turn on.
        AgentChanged = "agent.changed",
        /// Another runtime has a session, for a worker that was reported as started before.
        WorkerRestarted = "worker.restarted",
        /// The agent was idle for long, and has ended until it is needed.
        WorkerHibernated = "worker.hibernated",
        /// The provider limits the rate of requests: nothing is sent to the agent until a certain time.
        WorkerParked = "worker.parked",
        /// The worker goes on.
        WorkerUnparked = "worker.unparked",
        /// The place of the worker does not answer: its state is the last one that was heard.
        WorkerUnreachable = "worker.unreachable",
        /// The place of the worker answers again.
        WorkerReached = "worker.reached",
        /// The owner accepted that the old runtime may go on at a place that does not answer.
        WorkerDuplicateAccepted = "worker.duplicate_accepted",
        /// The owner stopped the worker, and accepted that its agent may go on at a place that does not
        /// answer.
        WorkerGivenUp = "worker.given_up",
        /// The runtime is gone.
        WorkerLost = "worker.lost",
        /// The worker was stopped, and no process of it is left.
        WorkerStopped = "worker.stopped",
        /// A notification about the worker cannot be delivered.
        NotificationFailed = "notification.failed",
        /// A process below this worker made a request reserved for its owner.
        WorkerForbidden = "worker.forbidden",
        /// A hook failed, or does not run.
        HookFailed = "hook.failed",
        /// The worker was created for a task of another worker, or of a manager.
        SubagentSpawned = "subagent.spawned",
        /// A prompt of the worker's task has made another tool call.
        SubagentProgress = "subagent.progress",
        /// The task of the worker ended with success.
        SubagentCompleted = "subagent.completed",
        /// The task failed, was lost, or reached a limit.
        SubagentFailed = "subagent.failed",
        /// The task was canceled.
        SubagentCancelled = "subagent.cancelled",
        /// Another event of a task below the worker, in the stream of the worker. Never stored.
        SubagentEvent = "subagent.event",
        /// Records of the journal are missing.
        JournalGap = "journal.gap",
        /// See [`RecordType::Segment`] for its meaning.
        RuntimeSegment = "runtime.segment",
        /// See [`RecordType::Sealed`] for its meaning.
        RuntimeSealed = "runtime.sealed",
        /// See [`RecordType::AgentStarted`] for its meaning.
        RuntimeAgentStarted = "runtime.agent_started",
        /// See [`RecordType::StartFailed`] for its meaning.
        RuntimeStartFailed = "runtime.start_failed",
        /// See [`RecordType::Dispatching`] for its meaning.
        RuntimeDispatching = "runtime.turn_dispatching",
        /// A permission request that waits for hooks. If it becomes a question or
        /// is decided, `approval.requested` follows.
        RuntimeApprovalHeld = "runtime.approval_held",
        /// See [`RecordType::ApprovalClosed`] for its meaning.
        RuntimeApprovalClosed = "runtime.approval_closed",
        /// See [`RecordType::AnswerWritten`] for its meaning.
        RuntimeAnswerWritten = "runtime.answer_written",
        /// See [`RecordType::CancelRequested`] for its meaning.
        RuntimeCancelRequested = "runtime.cancel_requested",
        /// See [`RecordType::TurnEnd`] for its meaning.
        RuntimeTurnEnd = "runtime.turn_end",
        /// See [`RecordType::Terminating`] for its meaning.
        RuntimeTerminating = "runtime.terminating",
        /// See [`RecordType::AgentExited`] for its meaning.
        RuntimeAgentExited = "runtime.agent_exited",
        /// See [`RecordType::Ended`] for its meaning.
        RuntimeEnded = "runtime.ended",
    }
}

impl EventType {
    /// Whether the event is internal to the journal and never shown.
    #[must_use]
    pub fn is_internal(self) -> bool {
        self.as_str().starts_with("runtime.")
    }

    /// Whether clients can see the event in a worker's stream, and therefore wait for it.
    #[must_use]
    pub fn is_of_workers(self) -> bool {
        !self.is_internal() && self != Self::SubagentEvent
    }

    /// Whether the event reports the state of the worker's task, which watchers of workers
    /// above it see too.
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

    /// Whether the event is a question to the owner.
    #[must_use]
    pub const fn is_question(self) -> bool {
        matches!(self, Self::ApprovalRequested | Self::ElicitationRequested)
    }

    /// Whether the streams of workers above a task also contain the event: it reports the task's
    /// state, a question, a question's outcome, or a violation.
    #[must_use]
    pub const fn reaches_ancestors(self) -> bool {
        self.is_of_tasks()
            || self.is_question()
            || self.is_about_question()
            || matches!(self, Self::PolicyViolated)
    }

    /// Whether the event reports the outcome of a question.
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

    /// Whether the event is progress of a turn, which does not affect the turn's state.
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

/// An event as it is stored; `P` is the payload, borrowed where possible.
#[derive(Debug, Clone)]
pub struct StoredEvent<P = String> {
    /// Its position among all events of the state directory.
    pub seq: i64,
    /// Time when it was written.
    pub at: Timestamp,
    /// Type of the event.
    pub event_type: EventType,
    /// The kind of a `progress.update`.
    pub kind: Option<String>,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// What executes that turn.
    pub carrier: Carrier,
    /// The type of its record; `None` for the daemon's own events.
    pub record: Option<RecordType>,
    /// The record's body, or the `data` of the daemon's own event.
    pub payload: P,
}

/// An event as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The schema version, always `v1`.
    pub schema_version: String,
    /// The id, which is also a cursor.
    pub event_id: EventId,
    /// Time when it was written.
    pub ts: Timestamp,
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Data of the event.
    pub data: Value,
    /// The turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// For a task's question or its outcome, in the stream of a worker above the task: the names
    /// from the root to the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// Its source data, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl<P: AsRef<str>> StoredEvent<P> {
    fn payload(&self) -> &str {
        self.payload.as_ref()
    }

    /// Returns the event as it is shown; with `raw` also its source data.
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

    /// Returns the data of the event. An unreadable payload gives `{}`: one bad row must
    /// not stop a reader.
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
            RecordType::Session => match surrogates::parse::<SessionRecord>(self.payload()) {
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
                        extend(&mut data, [("clientCall", call.into())]);
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
        let record = || lenient::take::<RawRecord>(payload());
        match self.record {
            None => json!({"runtime": self.carrier, "phase": self.event_type}),
            Some(RecordType::Update | RecordType::ChildUpdate) => {
                json!({"runtime": "acp-stdio", "phase": "session.update", "update": record().update})
            }
            Some(RecordType::Notification) => {
                let RawRecord { method, params, .. } = record();
                json!({"runtime": "acp-stdio", "phase": "notification", "method": method, "params": params})
            }
            Some(RecordType::Session) => {
                let RawRecord { session_id, agent, .. } = record();
                json!({
                    "runtime": "acp-stdio", "phase": "session.start", "sessionId": session_id, "agent": agent,
                })
            }
            Some(RecordType::OptionSet) => {
                let RawRecord { choice, result, .. } = record();
                json!({"runtime": "acp-stdio", "phase": "session.set", "choice": choice, "result": result})
            }
            Some(RecordType::ApprovalRequested | RecordType::ElicitationRequested) => {
                json!({"runtime": "acp-stdio", "phase": self.event_type, "request": record().params})
            }
            Some(record) => json!({"runtime": "acp-stdio", "phase": record, "body": payload()}),
        }
    }
}

/// The body of a record, as far as a raw event shows it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRecord {
    update: Value,
    method: Value,
    params: Value,
    session_id: Value,
    agent: Value,
    choice: Value,
    result: Value,
}

/// Returns the data of a piece of the agent's text. It may be long, so it is not copied.
fn message_data(text: Cow<'_, str>) -> Value {
    let mut data = Map::new();
    data.insert("role".to_owned(), "assistant".into());
    data.insert("text".to_owned(), Value::String(text.into_owned()));
    Value::Object(data)
}

/// Returns the data of a message, without the content of its attachments.
fn without_contents(mut message: Value) -> Value {
    let attachments = message.get_mut("attachments").and_then(Value::as_array_mut);
    for attachment in attachments.into_iter().flatten() {
        if let Some(attachment) = attachment.as_object_mut() {
            attachment.retain(|key, _| key != "text" && key != "data");
        }
    }
    message
}

/// Returns the progress kind of an option that was set.
#[must_use]
pub const fn option_kind(choice: &SessionOption) -> &'static str {
    match choice {
        SessionOption::Mode { .. } => "mode",
        SessionOption::Model { .. } | SessionOption::ConfigOption { .. } => "config_option",
    }
}

fn option_set_data(set: &OptionSet) -> Value {
    let mut data = json!({
        "method": set.method, "kind": option_kind(&set.choice), "option": set.choice.name(),
        "value": set.choice.value(), "applied": set.error.is_none(), "current": set.current,
    });
    match (&set.error, &set.choice) {
        (Some(error), _) => extend(&mut data, [("error", json!(error))]),
        (None, SessionOption::Mode { value }) => {
            extend(&mut data, [("currentModeId", value.as_str().into())]);
        }
        (None, _) => {
            let result = set.result.as_ref().and_then(|result| surrogates::parse::<Value>(result.get()).ok());
            let fields = fields::of("config_option", &json!({"update": result}));
            fields.into_iter().for_each(|(key, value)| data[key] = value);
        }
    }
    data
}

/// Adds the session below the worker's own that asks.
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
        extend(&mut data, [("elicitationId", id.into())]);
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

/// A possible answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    /// The agent's `optionId`, verbatim.
    pub id: String,
    /// The id in lower case.
    pub alias: String,
    /// The option's text for display.
    pub label: String,
    /// ACP's `kind` (`allow_once`, ...), in the agent's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The lenient view of the `params` of `session/request_permission`, or of
/// the daemon's own request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApprovalView {
    /// A sentence for people: the kind of tool and its action.
    pub message: String,
    /// The possible answers; never empty (by default `allow` and `deny`).
    pub options: Vec<ApprovalOption>,
    /// The subject, as far as the request or the `tool_call` before it contains it: the
    /// fields of [`crate::data::progress::ToolCall`] except its status. Some agents do not
    /// report the call elsewhere.
    #[serde(default)]
    pub tool_call: Map<String, Value>,
}

impl ApprovalView {
    /// Parses the `params`; unknown data is omitted.
    #[must_use]
    pub fn of(params: &str) -> Self {
        Self::read(params, None)
    }

    /// Parses a request, completed with the agent's earlier data about the tool call.
    #[must_use]
    pub fn of_record(asked: &ApprovalRequested) -> Self {
        Self::read(asked.params.get(), asked.tool_call.as_deref().map(|earlier| earlier.get()))
    }

    fn read(params: &str, earlier: Option<&str>) -> Self {
        let mut params: Value = surrogates::parse(params).unwrap_or(Value::Null);
        if let Some(earlier) = earlier
            && let Value::Object(earlier) = surrogates::parse(earlier).unwrap_or(Value::Null)
            && let Some(call) = params.get_mut("toolCall").and_then(Value::as_object_mut)
        {
            permission::complete(call, earlier);
        }
        let permission::PermissionAsk { tool_call: call, options } = lenient::read(&params);
        let message = permission::message(&call);
        let mut options = permission::options(&options);
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
        Self { message, options, tool_call: fields::of_request(&call) }
    }
}

#[cfg(test)]
mod tests;
