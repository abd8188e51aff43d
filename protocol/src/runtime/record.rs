//! Journal records: what a runtime writes before any process is notified.

// A record is one JSON object in the framing of [`crate::codec`]. Its head (`n`, `at`, `t`) is
// frozen; `b` is the body, whose shape depends on `t`. The body of an agent's update is the
// agent's text verbatim. It is neither parsed nor copied on its way into the database.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::event::EventType;
use crate::ids::{RequestId, TurnId, WorkerId};
use crate::options::{Current, Options, SessionOption};
use crate::process::ProcessId;
use crate::state::words;

words! {
    /// The type of a record.
    RecordType {
        /// A segment begins. Body: [`Segment`].
        Segment = "segment",
        /// The segment ends here; the next one exists. Body: [`Sealed`].
        Sealed = "sealed",
        /// The guard started the agent. Body: [`AgentStarted`].
        AgentStarted = "agentStarted",
        /// The agent opened or restored a session. Body: [`SessionRecord`].
        Session = "session",
        /// The agent could not open a session. Body: [`StartFailed`].
        StartFailed = "startFailed",
        /// The prompt of a turn is about to be written. Body: [`Dispatching`].
        Dispatching = "dispatching",
        /// A `session/update`. Body: its `params` as the agent sent them.
        Update = "update",
        /// A `session/update` of a session below the worker's. Body: as for [`Self::Update`].
        ChildUpdate = "childUpdate",
        /// Any other notification. Body: [`Notification`].
        Notification = "notification",
        /// A line that is not a message or is too long. Body: [`Noise`].
        Noise = "noise",
        /// The agent requests a permission. Body: [`ApprovalRequested`].
        ApprovalRequested = "approvalRequested",
        /// The agent asks its user a question, as a form or a link. Body: [`ElicitationRequested`].
        /// It ends like a permission request.
        ElicitationRequested = "elicitationRequested",
        /// A permission request ended without our answer. Body: [`ApprovalClosed`].
        ApprovalClosed = "approvalClosed",
        /// The answer to a permission request is about to be written. Body: [`AnswerWritten`].
        AnswerWritten = "answerWritten",
        /// A cancel was accepted. Body: [`CancelRequested`].
        CancelRequested = "cancelRequested",
        /// A turn has ended. Body: [`TurnEnd`].
        TurnEnd = "turnEnd",
        /// The end of the runtime was requested. Body: [`Terminating`].
        Terminating = "terminating",
        /// The agent's process ended. Body: [`AgentExited`].
        AgentExited = "agentExited",
        /// The guard proved that no process is left: the last record of a runtime. Body: [`EndedRecord`].
        Ended = "ended",
        /// The agent requests access to a file or a terminal, with the
        /// body [`crate::client::ClientRequest`].
        ClientRequest = "clientRequest",
        /// The outcome of that request. Body: [`crate::client::ClientResponse`].
        ClientResponse = "clientResponse",
        /// The command of a terminal ended. Body: [`crate::client::TerminalExited`].
        TerminalExited = "terminalExited",
        /// An option of the session was set, or could not be. Body: [`OptionSet`].
        OptionSet = "optionSet",
    }
}

/// One record, borrowed from its buffer.
#[derive(Debug, Serialize, Deserialize)]
pub struct JournalRecord<'a> {
    /// The worker's number of this record: 1, 2, 3, ... over all its runtimes, without a gap.
    pub n: u64,
    /// When it was written, milliseconds since 1970.
    pub at: i64,
    /// Type of the record.
    pub t: RecordType,
    /// The number of the turn that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The kind of an update (see [`crate::update::classify`]).
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::words::borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub k: Option<Cow<'a, str>>,
    /// The body, whose shape depends on the type.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub b: Option<&'a RawValue>,
}

impl JournalRecord<'_> {
    /// Returns the event type of the record.
    #[must_use]
    pub fn event_type(&self) -> EventType {
        match self.t {
            RecordType::Update if self.k.as_deref() == Some(crate::update::MESSAGE) => {
                EventType::ProgressMessage
            }
            RecordType::Update
            | RecordType::ChildUpdate
            | RecordType::Notification
            | RecordType::Noise
            | RecordType::Session
            | RecordType::ClientRequest
            | RecordType::ClientResponse
            | RecordType::TerminalExited
            | RecordType::OptionSet => EventType::ProgressUpdate,
            RecordType::ApprovalRequested => EventType::ApprovalRequested,
            RecordType::ElicitationRequested => EventType::ElicitationRequested,
            RecordType::Segment => EventType::RuntimeSegment,
            RecordType::Sealed => EventType::RuntimeSealed,
            RecordType::AgentStarted => EventType::RuntimeAgentStarted,
            RecordType::StartFailed => EventType::RuntimeStartFailed,
            RecordType::Dispatching => EventType::RuntimeDispatching,
            RecordType::ApprovalClosed => EventType::RuntimeApprovalClosed,
            RecordType::AnswerWritten => EventType::RuntimeAnswerWritten,
            RecordType::CancelRequested => EventType::RuntimeCancelRequested,
            // The daemon writes the public turn.completed, turn.failed or turn.canceled when it
            // reads this record: only the daemon knows which one it is.
            RecordType::TurnEnd => EventType::RuntimeTurnEnd,
            RecordType::Terminating => EventType::RuntimeTerminating,
            RecordType::AgentExited => EventType::RuntimeAgentExited,
            RecordType::Ended => EventType::RuntimeEnded,
        }
    }

    /// Parses the body as the given type.
    ///
    /// # Errors
    ///
    /// `serde_json`'s error, if the body is absent or has another shape.
    pub fn body<T: for<'b> Deserialize<'b>>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.b.map_or("null", RawValue::get))
    }
}

/// Body of [`RecordType::Segment`], the first record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// The worker that owns the journal.
    pub worker_id: WorkerId,
    /// Counts the worker's runtimes: 1, 2, 3, ...
    pub incarnation: u64,
    /// The number in the file's name.
    pub segment: u64,
    /// Id of the boot: after another boot, the segment's tail may be missing.
    pub boot_id: String,
    /// Protocol version of the runtime.
    pub protocol: u32,
}

/// Body of [`RecordType::Sealed`], the last record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sealed {
    /// Number of the following segment.
    pub next: u64,
}

/// Body of [`RecordType::AgentStarted`], with both processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStarted {
    /// The agent's process id.
    pub agent_pid: i32,
    /// The guard above it.
    pub guard: ProcessId,
}

words! {
    /// How a session was opened.
    SessionOrigin {
        /// By `session/new`, without history.
        New = "new",
        /// `session/load`: the agent replayed its history.
        Loaded = "loaded",
        /// `session/resume`: without a replay.
        Resumed = "resumed",
    }
}

/// Body of [`RecordType::Session`], with the agent's responses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The agent's id of the session.
    pub session_id: String,
    /// How it was opened.
    pub origin: SessionOrigin,
    /// Whether an earlier session was requested and could not be restored.
    pub context_lost: bool,
    /// Why it could not be restored, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_lost_reason: Option<String>,
    /// The result of `initialize` as the agent sent it.
    pub agent: Box<RawValue>,
    /// The result that opened or restored the session, as the agent sent it; absent if
    /// it is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<Box<RawValue>>,
    /// How the prompt of a definition is sent to the agent; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_by: Option<PromptBy>,
    /// The preferred model of the definition that the agent does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_model: Option<String>,
    /// The mode and model of a new session before any option was set.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub began: Options,
}

words! {
    /// How the prompt of a definition is sent to the agent.
    PromptBy {
        /// As ACP's `systemPrompt` of the session.
        SystemPrompt = "system_prompt",
        /// As a marked block before the first prompt of the session.
        FirstPrompt = "first_prompt",
    }
}

/// Body of [`RecordType::StartFailed`], with the error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailed {
    /// The error, with the agent's last lines in `details.logTail`.
    pub error: Error,
}

/// Body of [`RecordType::Dispatching`], with the turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispatching {
    /// Id of the turn.
    pub turn_id: TurnId,
}

/// Body of [`RecordType::Notification`], kept verbatim.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Name of the method.
    pub method: String,
    /// Its parameters as the agent sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

words! {
    /// Why a line is not a message.
    NoiseReason {
        /// It is not a JSON object.
        NotJson = "not_json",
        /// It is JSON but not a JSON-RPC message.
        NotAMessage = "not_a_message",
        /// It is longer than the limit.
        TooLong = "too_long",
        /// A response to a request that is not open.
        UnexpectedResponse = "unexpected_response",
    }
}

/// Body of [`RecordType::Noise`], a rejected line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Noise {
    /// Why the line was rejected.
    pub reason: NoiseReason,
    /// Length of the whole line in bytes.
    pub bytes: u64,
    /// CRC-32C of the whole line, 8 hex digits.
    pub digest: String,
    /// Its beginning, at most 4 KiB, with U+FFFD for invalid UTF-8.
    pub head: String,
}

/// Body of [`RecordType::ApprovalRequested`], also of elicitations.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// Our id of the request.
    pub request_id: RequestId,
    /// The parameters as the agent sent them.
    pub params: Box<RawValue>,
    /// The agent's earlier data about the tool call from `tool_call` and `tool_call_update`,
    /// without values that the request repeats verbatim. Its `toolCallId` differs from the
    /// request's if the request names an unknown call and fits the only open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Box<RawValue>>,
    /// The agent's request for a file or a terminal for which the client itself asks (see
    /// [`crate::client::ClientRequest::call`]); absent for the agent's own requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_call: Option<u64>,
    /// The session that asks, if it is not the worker's own.
    #[serde(flatten)]
    pub child: Child,
}

/// A session that the agent runs below the worker's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// The agent's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its title, if the agent sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
}

/// Body of [`RecordType::ElicitationRequested`], in the same format.
pub type ElicitationRequested = ApprovalRequested;

words! {
    /// Why a permission request ended without our answer.
    ApprovalClosedReason {
        /// The agent withdrew it (`$/cancel_request`).
        Withdrawn = "withdrawn",
        /// A cancel of the turn answered it with `cancelled`.
        TurnCanceled = "turn_canceled",
        /// The turn ended while it was open.
        TurnEnded = "turn_ended",
        /// The agent or its pipe is gone.
        AgentGone = "agent_gone",
        /// The worker was stopped.
        Stopped = "stopped",
    }
}

/// Body of [`RecordType::ApprovalClosed`], with the reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalClosed {
    /// Id of the request.
    pub request_id: RequestId,
    /// Reason for its end.
    pub reason: ApprovalClosedReason,
}

/// Body of [`RecordType::AnswerWritten`], with the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerWritten {
    /// Id of the request.
    pub request_id: RequestId,
}

/// Body of [`RecordType::CancelRequested`], with the reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequested {
    /// The reason given by the client.
    pub reason: String,
}

/// Body of [`RecordType::TurnEnd`]: how the prompt ended, as seen by the runtime.
///
/// The daemon's core decides from the order of the journal whether that is
/// `turn.completed`, `turn.failed` or `turn.canceled`: after
/// [`RecordType::CancelRequested`] every end is `turn.canceled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "camelCase", rename_all_fields = "camelCase", try_from = "TurnEndParts")]
pub enum TurnEnd {
    /// The agent answered the prompt.
    Answered {
        /// ACP's `stopReason` in the agent's spelling; absent if it sent none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// ACP's `usage` as the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// ACP's `_meta` as the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// The prompt failed with an error.
    Failed {
        /// Error of the prompt.
        error: Error,
    },
}

/// Parses a [`TurnEnd`] field by field, so that other fields are skipped without a look. They may
/// contain an agent's verbatim text, with half of a surrogate pair or deeply nested.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnEndParts {
    end: EndWord,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    meta: Option<Value>,
    #[serde(default)]
    error: Option<Error>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum EndWord {
    Answered,
    Failed,
}

impl TryFrom<TurnEndParts> for TurnEnd {
    type Error = &'static str;

    fn try_from(parts: TurnEndParts) -> Result<Self, Self::Error> {
        let TurnEndParts { end, stop_reason, usage, meta, error } = parts;
        match end {
            EndWord::Answered => Ok(Self::Answered { stop_reason, usage, meta }),
            EndWord::Failed => error.map(|error| Self::Failed { error }).ok_or("missing field `error`"),
        }
    }
}

/// Body of [`RecordType::TurnEnd`] as a runtime writes it, with the agent's verbatim response.
#[derive(Debug, Serialize)]
pub struct TurnEndBody<'a> {
    /// The end as the runtime interpreted it.
    #[serde(flatten)]
    pub end: &'a TurnEnd,
    /// The `result` or the `error` of the response to the prompt, if there was one and it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'a RawValue>,
}

/// Body of [`RecordType::Terminating`], with the reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminating {
    /// Reason for the end.
    pub reason: String,
}

/// Body of [`RecordType::AgentExited`], with the status.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentExited {
    /// The exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal, if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The last lines of its standard error, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
}

/// Body of [`RecordType::Ended`], the final proof.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedRecord {
    /// Number of processes that had to be killed.
    pub killed: u64,
    /// How long the guard took, in milliseconds.
    pub millis: u64,
}

/// Body of [`RecordType::OptionSet`], with the outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionSet {
    /// The option and its value.
    pub choice: SessionOption,
    /// The method of the request; absent if no request was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The command that set it; absent for options set before a session is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether it is the last record for that command.
    pub last: bool,
    /// The agent's response as it was sent; absent with an error, or if it was very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The values after the operation.
    pub current: Current,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_update_is_kept_to_the_letter() {
        let text = r#"{"n":7,"at":1,"t":"update","turn":2,"k":"plan","b":{"b" : 1e3,"a":[ ]}}"#;
        let record: JournalRecord = serde_json::from_str(text).unwrap();
        assert_eq!(record.b.unwrap().get(), r#"{"b" : 1e3,"a":[ ]}"#);
        assert_eq!(record.event_type(), EventType::ProgressUpdate);
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }

    #[test]
    fn an_end_without_usage_is_parsed() {
        let text = r#"{"end":"answered","stopReason":"end_turn"}"#;
        let end: TurnEnd = serde_json::from_str(text).unwrap();
        let stop_reason = Some("end_turn".to_owned());
        assert_eq!(end, TurnEnd::Answered { stop_reason, usage: None, meta: None });
        assert_eq!(serde_json::to_string(&end).unwrap(), text);
    }

    #[test]
    fn an_answer_is_kept_beside_the_end_to_the_letter() {
        let text = r#"{"stopReason" : "end_turn","x":1e3}"#;
        let answer = RawValue::from_string(text.to_owned()).unwrap();
        let end = TurnEnd::Answered { stop_reason: Some("end_turn".to_owned()), usage: None, meta: None };
        let body = serde_json::to_string(&TurnEndBody { end: &end, answer: Some(&answer) }).unwrap();
        assert!(body.contains(text), "{body}");
        assert_eq!(serde_json::from_str::<TurnEnd>(&body).unwrap(), end);
    }

    #[test]
    fn no_answer_is_too_odd_for_the_end_beside_which_it_is_kept() {
        let deep = format!(r#"{{"stopReason":"end_turn","x":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        let answers = [r#"{"stopReason":"end_turn","text":"\ud83d"}"#.to_owned(), deep];
        let failed = TurnEnd::Failed { error: Error::new(crate::Code::BackendRpcError, "m") };
        let answered = TurnEnd::Answered { stop_reason: None, usage: None, meta: None };
        for (answer, end) in answers.iter().flat_map(|answer| [(answer, &answered), (answer, &failed)]) {
            let answer = RawValue::from_string(answer.clone()).unwrap();
            let body = serde_json::to_string(&TurnEndBody { end, answer: Some(&answer) }).unwrap();
            assert_eq!(serde_json::from_str::<TurnEnd>(&body).unwrap(), *end);
        }
        assert!(serde_json::from_str::<TurnEnd>(r#"{"end":"failed"}"#).is_err());
        assert!(serde_json::from_str::<TurnEnd>(r#"{"end":"newer"}"#).is_err());
    }

    #[test]
    fn unknown_fields_of_newer_runtimes_are_ignored() {
        let text = r#"{"n":1,"at":1,"t":"ended","new":true,"b":{"killed":0,"millis":3,"x":1}}"#;
        let record: JournalRecord = serde_json::from_str(text).unwrap();
        assert_eq!(record.body::<EndedRecord>().unwrap().millis, 3);
        assert!(record.body::<Segment>().is_err());
    }
}
