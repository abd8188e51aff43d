//! Events: their types, and how the `data` and `raw` that users see are derived from what is stored.
//!
//! An event that a runtime wrote is stored as the raw body of its record; `data` is a pure function of it,
//! computed on read, so that a better function needs no migration. An event that the daemon wrote is stored as
//! its `data`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::depth;
use crate::elicitation::ElicitationView;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::record::{
    ApprovalRequested, Child, ElicitationRequested, Noise, Notification, RecordType, Session, SessionOrigin,
};
use crate::state::{Carrier, words};
use crate::surrogates;
use crate::time::Timestamp;
use crate::{fields, update};

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
        /// A turn ended well.
        TurnCompleted = "turn.completed",
        /// A turn failed.
        TurnFailed = "turn.failed",
        /// A turn was canceled.
        TurnCanceled = "turn.canceled",
        /// The worker has its first session.
        WorkerStarted = "worker.started",
        /// Another runtime has a session, for a worker that was shown as started before.
        WorkerRestarted = "worker.restarted",
        /// The runtime is gone.
        WorkerLost = "worker.lost",
        /// The worker was stopped and nothing of it is left.
        WorkerStopped = "worker.stopped",
        /// Somebody below this worker asked for what only its owner may do.
        WorkerForbidden = "worker.forbidden",
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

/// An event as it is stored.
#[derive(Debug, Clone)]
pub struct StoredEvent {
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
    pub payload: String,
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
    /// What it was derived from, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl StoredEvent {
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
            raw: raw.then(|| depth::shown(self.raw())),
        }
    }

    /// The facts of the event. A payload that cannot be read gives `{}`: one bad row must not stop a reader.
    #[must_use]
    pub fn data(&self) -> Value {
        let Some(record) = self.record else {
            return surrogates::parse(&self.payload).unwrap_or_else(|_| json!({}));
        };
        match record {
            RecordType::Update => self.update_data(),
            RecordType::Notification => match surrogates::parse::<Notification>(&self.payload) {
                Ok(notification) => notification_data(&notification),
                Err(_) => json!({}),
            },
            RecordType::Noise => match surrogates::parse::<Noise>(&self.payload) {
                Ok(noise) => json!({
                    "method": "stdout", "kind": "noise", "reason": noise.reason,
                    "bytes": noise.bytes, "digest": noise.digest, "head": noise.head,
                }),
                Err(_) => json!({}),
            },
            RecordType::Session => match surrogates::parse::<Session>(&self.payload) {
                Ok(session) => json!({
                    "method": session_method(session.origin), "kind": "session",
                    "session": session.origin, "contextLost": session.context_lost,
                }),
                Err(_) => json!({}),
            },
            RecordType::ApprovalRequested => match surrogates::parse::<ApprovalRequested>(&self.payload) {
                Ok(asked) => {
                    let view = ApprovalView::of(asked.params.get());
                    let mut data = json!({
                        "requestId": asked.request_id, "kind": "tool.call",
                        "message": view.message, "options": view.options,
                    });
                    view.tool_call.into_iter().for_each(|(key, value)| data[key] = value);
                    name_child(&mut data, asked.child);
                    data
                }
                Err(_) => json!({}),
            },
            RecordType::ElicitationRequested => {
                match surrogates::parse::<ElicitationRequested>(&self.payload) {
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
            _ => surrogates::parse(&self.payload).unwrap_or_else(|_| json!({})),
        }
    }

    fn update_data(&self) -> Value {
        let Ok(params) = surrogates::parse::<Value>(&self.payload) else { return json!({}) };
        if self.event_type == EventType::ProgressMessage {
            return json!({"role": "assistant", "text": update::text(&params)});
        }
        let kind = self.kind.as_deref().unwrap_or("unknown");
        let mut data = Map::new();
        data.insert("method".to_owned(), "session/update".into());
        data.insert("kind".to_owned(), kind.into());
        data.extend(fields::of(kind, &params));
        Value::Object(data)
    }

    fn raw(&self) -> Value {
        let payload = || surrogates::parse::<Value>(&self.payload).unwrap_or(Value::Null);
        match self.record {
            None => json!({"runtime": self.carrier, "phase": self.event_type}),
            Some(RecordType::Update) => {
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
            Some(RecordType::ApprovalRequested | RecordType::ElicitationRequested) => {
                let mut payload = payload();
                json!({"runtime": "acp-stdio", "phase": self.event_type, "request": payload["params"].take()})
            }
            Some(record) => json!({"runtime": "acp-stdio", "phase": record, "body": payload()}),
        }
    }
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
    /// What it is asked for, as far as the request itself says: `toolCallId`, `command`, `rawInput`, `content`,
    /// `locations`, as in a tool call's `progress.update`.
    #[serde(default)]
    pub tool_call: Map<String, Value>,
}

impl ApprovalView {
    /// Reads the `params`; whatever is not understood is left out.
    #[must_use]
    pub fn of(params: &str) -> Self {
        let params: Value = surrogates::parse(params).unwrap_or(Value::Null);
        let call = &params["toolCall"];
        let kind = call["kind"].as_str().unwrap_or("other");
        let message = match call["title"].as_str().map(str::trim).filter(|title| !title.is_empty()) {
            Some(title) => format!("Permission requested for {kind}: {title}"),
            None => format!("Permission requested for {kind}"),
        };
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
mod tests {
    use super::*;

    fn stored(
        record: Option<RecordType>,
        event_type: EventType,
        kind: Option<&str>,
        payload: &str,
    ) -> StoredEvent {
        StoredEvent {
            seq: 1,
            at: Timestamp(0),
            event_type,
            kind: kind.map(str::to_owned),
            turn_id: None,
            carrier: Carrier::Runtime,
            record,
            payload: payload.to_owned(),
        }
    }

    #[test]
    fn data_of_messages_and_updates() {
        let message = stored(
            Some(RecordType::Update),
            EventType::ProgressMessage,
            Some(update::MESSAGE),
            r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#,
        );
        assert_eq!(message.data(), json!({"role": "assistant", "text": "hi"}));
        assert_eq!(message.raw()["update"]["content"]["text"], "hi");
        let call = stored(
            Some(RecordType::Update),
            EventType::ProgressUpdate,
            Some("tool_call"),
            r#"{"update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","kind":"execute","status":"pending"}}"#,
        );
        assert_eq!(
            call.data(),
            json!({"method":"session/update","kind":"tool_call","toolCallId":"1","title":"ls","toolKind":"execute","status":"pending"})
        );
    }

    #[test]
    fn half_a_surrogate_pair_costs_one_character() {
        let message = stored(
            Some(RecordType::Update),
            EventType::ProgressMessage,
            Some(update::MESSAGE),
            r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello \ud83d"}}}"#,
        );
        assert_eq!(message.data(), json!({"role": "assistant", "text": "hello \u{fffd}"}));
        assert_eq!(message.raw()["update"]["content"]["text"], "hello \u{fffd}");
        let view =
            ApprovalView::of(r#"{"toolCall":{"kind":"edit","title":"\ud83d"},"options":[{"optionId":"a"}]}"#);
        assert_eq!(
            (view.message.as_str(), view.options.len()),
            ("Permission requested for edit: \u{fffd}", 1)
        );
    }

    #[test]
    fn a_damaged_payload_shows_empty_data() {
        assert_eq!(stored(Some(RecordType::Noise), EventType::ProgressUpdate, None, "{").data(), json!({}));
        assert_eq!(stored(None, EventType::TurnStarted, None, "x").data(), json!({}));
    }

    #[test]
    fn a_permission_request_with_only_a_kind_gets_default_options() {
        let view = ApprovalView::of(r#"{"sessionId":"s","toolCall":{"kind":"edit"}}"#);
        assert_eq!(view.message, "Permission requested for edit");
        assert_eq!(view.options.iter().map(|o| o.id.as_str()).collect::<Vec<_>>(), ["allow", "deny"]);
        assert_eq!(ApprovalView::of("garbage").options.len(), 2);
    }

    #[test]
    fn a_permission_request_says_what_it_is_asked_for() {
        let asked = stored(
            Some(RecordType::ApprovalRequested),
            EventType::ApprovalRequested,
            None,
            r#"{"requestId":"ap_0123456789","params":{"toolCall":{"toolCallId":"1","kind":"edit","status":"pending",
                "rawInput":{"command":["rm","a b"]},"locations":[{"path":"/a"},7],
                "content":[{"type":"diff","path":"/a","oldText":"x","newText":"y"}]}}}"#,
        );
        let mut data = asked.data();
        let options = data.as_object_mut().unwrap().remove("options").unwrap();
        assert_eq!(options.as_array().unwrap().len(), 2);
        assert_eq!(
            data,
            json!({
                "requestId": "ap_0123456789", "kind": "tool.call", "message": "Permission requested for edit",
                "toolCallId": "1", "rawInput": {"command": ["rm", "a b"]}, "command": "rm 'a b'",
                "locations": [{"path": "/a"}],
                "content": [{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}],
            })
        );
    }

    #[test]
    fn raw_says_who_carried_the_turn_out() {
        let mut event = stored(None, EventType::TurnStarted, None, "{}");
        assert_eq!(event.raw(), json!({"runtime": "acp-stdio", "phase": "turn.started"}));
        event.carrier = Carrier::Local;
        assert_eq!(event.raw(), json!({"runtime": "local", "phase": "turn.started"}));
    }

    #[test]
    fn internal_types_are_hidden() {
        assert!(EventType::RuntimeDispatching.is_internal());
        assert!(!EventType::WorkerLost.is_internal());
    }
}
