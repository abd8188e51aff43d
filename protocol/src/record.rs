//! Journal records: what a runtime writes down before anyone hears of it.
//!
//! A record is one JSON object in the framing of [`crate::codec`]. Its head (`n`, `at`, `t`) is frozen; `b` is
//! the body, whose shape depends on `t`. For an update of the agent the body is the agent's own text, byte for
//! byte, so that it is neither parsed nor copied on its way into the database.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::event::EventType;
use crate::ids::{RequestId, TurnId, WorkerId};
use crate::options::{Choice, Current, Options};
use crate::process::ProcessId;
use crate::state::words;

words! {
    /// What a record says.
    RecordType {
        /// A segment begins. Body: [`Segment`].
        Segment = "segment",
        /// The segment ends here; the next one exists. Body: [`Sealed`].
        Sealed = "sealed",
        /// The guard started the agent. Body: [`AgentStarted`].
        AgentStarted = "agentStarted",
        /// The agent gave or restored a session. Body: [`Session`].
        Session = "session",
        /// The agent could not be brought to a session. Body: [`StartFailed`].
        StartFailed = "startFailed",
        /// The prompt of a turn is about to be written. Body: [`Dispatching`].
        Dispatching = "dispatching",
        /// A `session/update`. Body: its `params` as the agent sent them.
        Update = "update",
        /// A `session/update` of another session than the worker's, which the agent runs below it. Body: as there.
        ChildUpdate = "childUpdate",
        /// Any other notification. Body: [`Notification`].
        Notification = "notification",
        /// A line that is no message, or one that is too long. Body: [`Noise`].
        Noise = "noise",
        /// The agent asks for a permission. Body: [`ApprovalRequested`].
        ApprovalRequested = "approvalRequested",
        /// The agent asks its user something, in a form or behind a link. Body: [`ElicitationRequested`]. It ends as a
        /// permission request does.
        ElicitationRequested = "elicitationRequested",
        /// A permission request ended without an answer of ours. Body: [`ApprovalClosed`].
        ApprovalClosed = "approvalClosed",
        /// The answer to a permission request is about to be written. Body: [`AnswerWritten`].
        AnswerWritten = "answerWritten",
        /// A cancel was taken. Body: [`CancelRequested`].
        CancelRequested = "cancelRequested",
        /// A turn is over. Body: [`TurnEnd`].
        TurnEnd = "turnEnd",
        /// The end of the runtime was asked for. Body: [`Terminating`].
        Terminating = "terminating",
        /// The agent's process ended. Body: [`AgentExited`].
        AgentExited = "agentExited",
        /// The guard proved that nothing is left: the last record of a runtime. Body: [`Ended`].
        Ended = "ended",
        /// The agent asks its client for a file or a terminal. Body: [`crate::client::ClientRequest`].
        ClientRequest = "clientRequest",
        /// What became of that. Body: [`crate::client::ClientResponse`].
        ClientResponse = "clientResponse",
        /// The command of a terminal ended. Body: [`crate::client::TerminalExited`].
        TerminalExited = "terminalExited",
        /// An option of the session was set, or could not be. Body: [`OptionSet`].
        OptionSet = "optionSet",
    }
}

/// One record, borrowed from the buffer that it was read from.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record<'a> {
    /// The worker's number of this record: 1, 2, 3, ... over all its runtimes, without a gap.
    pub n: u64,
    /// When it was written, milliseconds since 1970.
    pub at: i64,
    /// What it says.
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
    /// The body.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub b: Option<&'a RawValue>,
}

impl Record<'_> {
    /// The type under which the record appears among the events.
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
            // The public turn.completed, turn.failed or turn.canceled is written by the daemon when it takes
            // this record: only there is it known which of them it is.
            RecordType::TurnEnd => EventType::RuntimeTurnEnd,
            RecordType::Terminating => EventType::RuntimeTerminating,
            RecordType::AgentExited => EventType::RuntimeAgentExited,
            RecordType::Ended => EventType::RuntimeEnded,
        }
    }

    /// Reads the body.
    ///
    /// # Errors
    /// `serde_json`'s, when the body is absent or has another shape.
    pub fn body<T: for<'b> Deserialize<'b>>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.b.map_or("null", RawValue::get))
    }
}

/// Body of [`RecordType::Segment`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// Whose journal this is.
    pub worker_id: WorkerId,
    /// Which runtime of the worker writes it: 1, 2, 3, ...
    pub incarnation: u64,
    /// The number in the file's name.
    pub segment: u64,
    /// The boot that it is written in: after another boot its tail may be missing.
    pub boot_id: String,
    /// The protocol of the runtime.
    pub protocol: u32,
}

/// Body of [`RecordType::Sealed`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sealed {
    /// The segment that goes on.
    pub next: u64,
}

/// Body of [`RecordType::AgentStarted`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStarted {
    /// The agent's process.
    pub agent_pid: i32,
    /// The guard above it.
    pub guard: ProcessId,
}

words! {
    /// How a session came to be.
    SessionOrigin {
        /// `session/new`.
        New = "new",
        /// `session/load`: the agent replayed its history.
        Loaded = "loaded",
        /// `session/resume`: without a replay.
        Resumed = "resumed",
    }
}

/// Body of [`RecordType::Session`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The agent's own id.
    pub session_id: String,
    /// How it came to be.
    pub origin: SessionOrigin,
    /// Whether an earlier session was asked for and could not be restored.
    pub context_lost: bool,
    /// Why it could not be restored, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_lost_reason: Option<String>,
    /// The result of `initialize` as the agent sent it.
    pub agent: Box<RawValue>,
    /// The result of the request that gave or restored the session, as the agent sent it, unless it is too long to be
    /// what it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<Box<RawValue>>,
    /// Which way the prompt of a definition goes to the agent; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_by: Option<PromptBy>,
    /// The model of the definition that the agent does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_model: Option<String>,
    /// Mode and model in which a new session began, before anything of it was set.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub began: Options,
}

words! {
    /// Which way the prompt of a definition goes to the agent.
    PromptBy {
        /// As ACP's `systemPrompt` of the session.
        SystemPrompt = "system_prompt",
        /// As a marked block before the first prompt of the session.
        FirstPrompt = "first_prompt",
    }
}

/// Body of [`RecordType::StartFailed`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailed {
    /// What went wrong, with the agent's last words in `details.logTail`.
    pub error: Error,
}

/// Body of [`RecordType::Dispatching`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispatching {
    /// The turn's id.
    pub turn_id: TurnId,
}

/// Body of [`RecordType::Notification`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// The method.
    pub method: String,
    /// Its parameters as the agent sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

words! {
    /// Why a line was not taken as a message.
    NoiseReason {
        /// It is not a JSON object.
        NotJson = "not_json",
        /// It is JSON but no JSON-RPC message.
        NotAMessage = "not_a_message",
        /// It is longer than the limit.
        TooLong = "too_long",
        /// A response to a request that is not open.
        UnexpectedResponse = "unexpected_response",
    }
}

/// Body of [`RecordType::Noise`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Noise {
    /// Why it was not taken.
    pub reason: NoiseReason,
    /// The whole line's length in bytes.
    pub bytes: u64,
    /// CRC-32C of the whole line, 8 hex digits.
    pub digest: String,
    /// Its beginning, at most 4 KiB, with U+FFFD for what is not UTF-8.
    pub head: String,
}

/// Body of [`RecordType::ApprovalRequested`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// Our id of the request.
    pub request_id: RequestId,
    /// The parameters as the agent sent them.
    pub params: Box<RawValue>,
    /// What the agent said of the tool call before, in its `tool_call` and every `tool_call_update`, but what the request
    /// repeats to the letter. Its `toolCallId` differs from the request's where the request names an unknown call and
    /// fits the only one that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Box<RawValue>>,
    /// The agent's request for a file or a terminal that the client itself asks for here (see
    /// [`crate::client::ClientRequest::call`]); absent of what the agent asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_call: Option<u64>,
    /// Which session asks, if it is not the worker's own.
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
    /// Its title, if the agent gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
}

/// Body of [`RecordType::ElicitationRequested`].
pub type ElicitationRequested = ApprovalRequested;

words! {
    /// Why a permission request ended without an answer of ours.
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

/// Body of [`RecordType::ApprovalClosed`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalClosed {
    /// The request.
    pub request_id: RequestId,
    /// Why.
    pub reason: ApprovalClosedReason,
}

/// Body of [`RecordType::AnswerWritten`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerWritten {
    /// The request.
    pub request_id: RequestId,
}

/// Body of [`RecordType::CancelRequested`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequested {
    /// Why, in the words of whoever canceled.
    pub reason: String,
}

/// Body of [`RecordType::TurnEnd`]: how the prompt ended, as the runtime saw it.
///
/// Whether that is `turn.completed`, `turn.failed` or `turn.canceled` is decided by the daemon's core from the
/// order of the journal: after [`RecordType::CancelRequested`] every end is `turn.canceled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "camelCase", rename_all_fields = "camelCase", try_from = "TurnEndParts")]
pub enum TurnEnd {
    /// The agent answered the prompt.
    Answered {
        /// ACP's `stopReason` in the agent's spelling; absent when it gave none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// ACP's `usage` as the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// ACP's `_meta` as the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// The prompt failed.
    Failed {
        /// What went wrong.
        error: Error,
    },
}

/// How a [`TurnEnd`] is read: field by field, so that what stands beside it is passed over and not looked into. It may be
/// an agent's text to the letter, with half of a surrogate pair in it or nested without end.
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

/// Body of [`RecordType::TurnEnd`] as a runtime writes it: with what the agent answered, to the letter.
#[derive(Debug, Serialize)]
pub struct TurnEndBody<'a> {
    /// What it means.
    #[serde(flatten)]
    pub end: &'a TurnEnd,
    /// The `result` or the `error` of the answer to the prompt, if there was one and it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'a RawValue>,
}

/// Body of [`RecordType::Terminating`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminating {
    /// Why.
    pub reason: String,
}

/// Body of [`RecordType::AgentExited`].
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

/// Body of [`RecordType::Ended`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Processes that had to be killed.
    pub killed: u64,
    /// How long the guard took, in milliseconds.
    pub millis: u64,
}

/// Body of [`RecordType::OptionSet`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionSet {
    /// What was chosen.
    pub choice: Choice,
    /// The method that it was asked for with; absent when it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The command that it was set for; absent for what is set before a session is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether nothing more follows for that command.
    pub last: bool,
    /// What the agent answered, as it sent it; absent with an error, and when it was very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// What is set now.
    pub current: Current,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_update_is_kept_to_the_letter() {
        let text = r#"{"n":7,"at":1,"t":"update","turn":2,"k":"plan","b":{"b" : 1e3,"a":[ ]}}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(record.b.unwrap().get(), r#"{"b" : 1e3,"a":[ ]}"#);
        assert_eq!(record.event_type(), EventType::ProgressUpdate);
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }

    #[test]
    fn an_end_of_before_there_was_usage_is_read() {
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
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(record.body::<Ended>().unwrap().millis, 3);
        assert!(record.body::<Segment>().is_err());
    }
}
