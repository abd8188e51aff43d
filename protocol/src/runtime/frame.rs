//! Frames of the command socket between daemon and runtime: one JSON object per line, at most
//! [`crate::MAX_LINE_BYTES`].

// `hello`, `end`, `cancel` and `terminate` are frozen: a runtime may be months older than the
// daemon. Everything else requires a capability in `hello`. The socket carries commands and
// positions, never events: those are read from the journal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attachment::Attachment;
use crate::definition::Instructions;
use crate::error::Error;
use crate::ids::{RequestId, TurnId, WorkerId};
use crate::options::Options;
use crate::process::ProcessId;
use crate::secret::Secret;
use crate::start::ClientRules;
use crate::state::{Desired, ElicitationAction};

/// The capability of a runtime that supports elicitations and their answers.
pub const ELICITATION: &str = "elicitation";

/// The capability of a runtime that can hibernate on command, and knows when it must not.
pub const HIBERNATE: &str = "hibernate";

/// The capability of a runtime that asks before it reads, writes or runs something for the agent.
pub const CLIENT_RULES: &str = "clientRules";

/// The capability of a runtime that can cancel a session below its agent's own.
pub const CANCEL_CHILD: &str = "cancelChild";

/// The capability of a runtime that accepts another definition of its agent with a prompt.
pub const CHANGE_AGENT: &str = "changeAgent";

/// Another definition of the agent, for its present session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionChange {
    /// The instructions for the agent.
    pub instructions: Instructions,
    /// Mode and model of the session; absent ones stay.
    pub options: Options,
    /// Which client requests need a permission from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_rules: Option<ClientRules>,
}

/// A frame from the daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToRuntime {
    /// The first frame of a connection.
    Hello {
        /// Protocol version of the daemon.
        protocol: u32,
        /// Incremented at every start of a daemon; only the highest one seen is served.
        generation: u64,
        /// The desired state of the runtime. `stop` ends it.
        desired: Desired,
    },
    /// A command; its reply quotes `id`.
    Command {
        /// Chosen by the daemon, unique within the connection.
        id: u64,
        /// The command to carry out.
        command: RuntimeCommand,
    },
}

/// A command for a runtime.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "c", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RuntimeCommand {
    /// Send a prompt. Accepted only if `turn` exceeds the last accepted one, so each is accepted at
    /// most once. Numbers may have gaps, for turns that were canceled before they were sent.
    Prompt {
        /// The worker's number of the turn.
        turn: u64,
        /// Id of the turn.
        turn_id: TurnId,
        /// The content blocks of ACP's `session/prompt`.
        prompt: Vec<Value>,
        /// Attached files. Needs the capability `attachments`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Changes of the agent's definition before it is sent. Needs [`CHANGE_AGENT`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Box<DefinitionChange>>,
    },
    /// Cancel an open turn.
    Cancel {
        /// Number of the turn. If it is not the open one, the answer is [`Refusal::NoSuchTurn`].
        turn: u64,
        /// The reason, for the journal.
        reason: String,
    },
    /// Answer a permission request.
    Answer {
        /// Id of the request.
        request_id: RequestId,
        /// The option to select; `None` answers `cancelled`.
        option_id: Option<String>,
        /// The deciding rule, as written; only for requests of the client itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// Set options of the session. Needs the capability `options`. Acceptance means that they will
    /// be requested one after the other; each outcome is a separate record.
    SetOptions {
        /// Chosen by the daemon and quoted by the records.
        request: String,
        /// The options to set.
        options: Options,
    },
    /// Answer an elicitation. Needs [`ELICITATION`].
    AnswerElicitation {
        /// Id of the request.
        request_id: RequestId,
        /// The kind of answer.
        action: ElicitationAction,
        /// The values that were filled in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Secret<Map<String, Value>>>,
    },
    /// Cancel a session below the agent's own. Needs [`CANCEL_CHILD`]. Acceptance means that the
    /// agent is notified; the agent reports the result itself.
    CancelChild {
        /// The agent's id of it.
        session_id: String,
    },
    /// End the agent, everything it started, and the runtime, unless something
    /// is open. Needs [`HIBERNATE`].
    Hibernate {
        /// Refused with [`Refusal::WrongTurn`] if a later turn was accepted.
        last_turn: u64,
        /// The reason, for the journal.
        reason: String,
    },
    /// End the agent, everything it started, and the runtime.
    Terminate {
        /// The reason, for the journal.
        reason: String,
    },
}

/// A frame from the runtime.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromRuntime {
    /// The response to `hello`.
    Hello(Box<RuntimeHello>),
    /// The `hello` was refused; the connection ends.
    Refused {
        /// Reason for the refusal.
        refusal: Refusal,
        /// The highest generation that the runtime has seen.
        generation: u64,
    },
    /// The new end of the journal.
    End(JournalEnd),
    /// The reply to a command. An accepted one is in the journal already.
    Reply {
        /// Id of the command.
        id: u64,
        /// Reason for a refusal; `None` if it was accepted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<Refusal>,
    },
}

/// Why a runtime refused a frame. The daemon decides what that means for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Refusal {
    /// A newer daemon has connected before.
    OldGeneration,
    /// The peer runs below an agent.
    BelowGuard,
    /// The protocol version is not supported.
    Protocol,
    /// This turn, or a later one, was accepted already.
    WrongTurn {
        /// Number of the last accepted turn.
        last: u64,
    },
    /// A turn, a question, or a client request of the agent is open.
    Busy,
    /// There is no session yet, or no longer one.
    NotReady,
    /// No such turn is open.
    NoSuchTurn,
    /// No such permission request is open.
    NoSuchRequest,
    /// The agent has not reported this session, or does not support canceling it.
    NoSuchSession,
    /// The journal cannot be written, or could not when this prompt first
    /// arrived on this connection.
    StorageFull,
    /// The agent lacks a feature. Only for commands that need a capability.
    NotSupported {
        /// The error that names the missing feature.
        error: Box<Error>,
    },
    /// The limit for such commands is reached.
    TooMany,
    /// The runtime is ending.
    Ending,
    /// The frame is unreadable, or unknown to this runtime.
    Unknown {
        /// Description of the error.
        message: String,
    },
}

/// The end of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEnd {
    /// Number of the segment being written.
    pub segment: u64,
    /// Its length in bytes.
    pub offset: u64,
    /// Number of the last record.
    pub number: u64,
}

/// A runtime's information about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeHello {
    /// Protocol version of the runtime.
    pub protocol: u32,
    /// Version of its package.
    pub version: String,
    /// Its capabilities beyond the frozen frames.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The worker that it serves.
    pub worker_id: WorkerId,
    /// Counts the runtimes of this worker.
    pub incarnation: u64,
    /// The runtime's process identity.
    pub process: ProcessId,
    /// The guard, once it is running.
    pub guard: Option<ProcessId>,
    /// Phase of its life.
    pub phase: RuntimePhase,
    /// The end of its journal.
    pub journal_end: JournalEnd,
    /// Number of the last accepted turn, or 0.
    pub last_turn: u64,
    /// Number of the open turn.
    pub open_turn: Option<u64>,
    /// Ids of the open permission requests.
    pub open_approvals: Vec<RequestId>,
}

/// The phase of a runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RuntimePhase {
    /// The agent is being started.
    Starting,
    /// The agent has a session.
    Ready,
    /// The agent is being ended.
    Ending,
    /// The agent could not be started; the runtime ends.
    Failed {
        /// Error of the start.
        error: Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frozen_frames_keep_their_spelling() {
        let hello = ToRuntime::Hello { protocol: 1, generation: 7, desired: Desired::Run };
        assert_eq!(
            serde_json::to_string(&hello).unwrap(),
            r#"{"t":"hello","protocol":1,"generation":7,"desired":"run"}"#
        );
        let cancel =
            ToRuntime::Command { id: 3, command: RuntimeCommand::Cancel { turn: 2, reason: "r".to_owned() } };
        assert_eq!(
            serde_json::to_string(&cancel).unwrap(),
            r#"{"t":"command","id":3,"command":{"c":"cancel","turn":2,"reason":"r"}}"#
        );
        let end = FromRuntime::End(JournalEnd { segment: 1, offset: 2, number: 3 });
        assert_eq!(serde_json::to_string(&end).unwrap(), r#"{"t":"end","segment":1,"offset":2,"number":3}"#);
        let terminate =
            ToRuntime::Command { id: 4, command: RuntimeCommand::Terminate { reason: "stop".to_owned() } };
        assert_eq!(
            serde_json::to_string(&terminate).unwrap(),
            r#"{"t":"command","id":4,"command":{"c":"terminate","reason":"stop"}}"#
        );
    }
}
