//! Frames of the command socket between daemon and runtime: one JSON object a line, at most
//! [`crate::MAX_LINE_BYTES`].
//!
//! `hello`, `end`, `cancel` and `terminate` are frozen for ever: a runtime may be months older than the daemon.
//! Anything else needs a capability in `hello`. The socket carries commands and positions, never events: those
//! are read from the journal.

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

/// The capability of a runtime that asks elicitations, and takes the answers.
pub const ELICITATION: &str = "elicitation";

/// The capability of a runtime that ends when it is told to hibernate, and knows when it must not.
pub const HIBERNATE: &str = "hibernate";

/// The capability of a runtime that asks before it reads, writes or runs something for the agent.
pub const CLIENT_RULES: &str = "clientRules";

/// The capability of a runtime that cancels a session which its agent runs below its own.
pub const CANCEL_CHILD: &str = "cancelChild";

/// The capability of a runtime that takes another definition of its agent with a prompt.
pub const CHANGE_AGENT: &str = "changeAgent";

/// Another definition of the agent, for the session that it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What the agent hears.
    pub instructions: Instructions,
    /// Mode and model of the session; what is absent stays.
    pub options: Options,
    /// What the runtime asks about from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_rules: Option<ClientRules>,
}

/// What the daemon writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToRuntime {
    /// The first frame of a connection.
    Hello {
        /// The protocol of the daemon.
        protocol: u32,
        /// Raised at every start of a daemon; only the highest one ever heard is served.
        generation: u64,
        /// What the runtime should be doing. `stop` ends it.
        desired: Desired,
    },
    /// A command; its reply quotes `id`.
    Command {
        /// Chosen by the daemon, unique within the connection.
        id: u64,
        /// What to do.
        command: Command,
    },
}

/// What a runtime is told to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "c", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Command {
    /// Send a prompt. Taken only if `turn` is higher than the last one taken: so each is taken at most once. Numbers may
    /// be left out, as those of turns that were canceled before they were sent.
    Prompt {
        /// The worker's number of the turn.
        turn: u64,
        /// Its id.
        turn_id: TurnId,
        /// The content blocks of ACP's `session/prompt`.
        prompt: Vec<Value>,
        /// Files that go along. Needs the capability `attachments`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// What changes of the agent's definition before it is sent. Needs [`CHANGE_AGENT`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Box<Change>>,
    },
    /// Cancel a turn.
    Cancel {
        /// Which one; another than the open one is refused with [`Refusal::NoSuchTurn`].
        turn: u64,
        /// Why, for the journal.
        reason: String,
    },
    /// Answer a permission request.
    Answer {
        /// Which one.
        request_id: RequestId,
        /// The option to select; `None` answers `cancelled`.
        option_id: Option<String>,
        /// The rule that decided, as it is written; only for what the client itself asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// Set options of the session. Needs the capability `options`. Taken means: they will be asked for, one after the
    /// other; each outcome is a record of its own.
    SetOptions {
        /// Chosen by the daemon; the records quote it.
        request: String,
        /// What to set.
        options: Options,
    },
    /// Answer an elicitation. Needs [`ELICITATION`].
    AnswerElicitation {
        /// Which one.
        request_id: RequestId,
        /// What to answer.
        action: ElicitationAction,
        /// What was filled in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Secret<Map<String, Value>>>,
    },
    /// Cancel a session that the agent runs below its own. Needs [`CANCEL_CHILD`]. Taken means: the agent is told; what
    /// comes of it the agent tells by itself.
    CancelChild {
        /// The agent's id of it.
        session_id: String,
    },
    /// End the agent, everything it started, and the runtime, unless something of it is open. Needs [`HIBERNATE`].
    Hibernate {
        /// Refused with [`Refusal::WrongTurn`] if a later turn was taken.
        last_turn: u64,
        /// Why, for the journal.
        reason: String,
    },
    /// End the agent, everything it started, and the runtime.
    Terminate {
        /// Why, for the journal.
        reason: String,
    },
}

/// What a runtime writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromRuntime {
    /// The answer to `hello`.
    Hello(Box<RuntimeHello>),
    /// The `hello` was not taken; the connection ends.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The highest generation that the runtime has heard.
        generation: u64,
    },
    /// The journal now ends here.
    End(JournalEnd),
    /// The reply to a command. An accepted one is in the journal already.
    Reply {
        /// The command's id.
        id: u64,
        /// Why it was not taken; `None` when it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<Refusal>,
    },
}

/// Why a runtime did not take a frame. The daemon decides what that means for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Refusal {
    /// A newer daemon was heard.
    OldGeneration,
    /// The peer runs below an agent.
    BelowGuard,
    /// The protocol is not understood.
    Protocol,
    /// This turn, or a later one, was taken already.
    WrongTurn {
        /// The last turn that was taken.
        last: u64,
    },
    /// A turn is open, or a question, or something that the agent asked of its client.
    Busy,
    /// There is no session yet, or none any more.
    NotReady,
    /// No such turn is open.
    NoSuchTurn,
    /// No such permission request is open.
    NoSuchRequest,
    /// The agent has told of no such session below its own, or takes no cancel for it.
    NoSuchSession,
    /// The journal cannot be written, or could not when this prompt came by the same connection for the first time.
    StorageFull,
    /// It is for an agent that can do more. Only for what needs a capability.
    NotSupported {
        /// What it cannot do.
        error: Box<Error>,
    },
    /// Too much of this kind waits already.
    TooMany,
    /// The runtime is ending.
    Ending,
    /// The frame could not be read, or is not known to this runtime.
    Unknown {
        /// What was wrong with it.
        message: String,
    },
}

/// Where a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEnd {
    /// The segment that is being written.
    pub segment: u64,
    /// Its length in bytes.
    pub offset: u64,
    /// The number of the last record.
    pub number: u64,
}

/// What a runtime says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeHello {
    /// The protocol of the runtime.
    pub protocol: u32,
    /// The version of its package.
    pub version: String,
    /// What it can do beyond the frozen frames.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Whose runtime it is.
    pub worker_id: WorkerId,
    /// Which one of the worker's runtimes.
    pub incarnation: u64,
    /// Its process.
    pub process: ProcessId,
    /// The guard, once it runs.
    pub guard: Option<ProcessId>,
    /// How far it is.
    pub phase: Phase,
    /// Where its journal ends.
    pub journal_end: JournalEnd,
    /// The last turn that was taken, 0 for none.
    pub last_turn: u64,
    /// The turn that is open.
    pub open_turn: Option<u64>,
    /// The permission requests that are open.
    pub open_approvals: Vec<RequestId>,
}

/// How far a runtime is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Phase {
    /// The agent is being started.
    Starting,
    /// The agent has a session.
    Ready,
    /// The agent is being ended.
    Ending,
    /// The agent could not be started; the runtime ends.
    Failed {
        /// Why.
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
            ToRuntime::Command { id: 3, command: Command::Cancel { turn: 2, reason: "r".to_owned() } };
        assert_eq!(
            serde_json::to_string(&cancel).unwrap(),
            r#"{"t":"command","id":3,"command":{"c":"cancel","turn":2,"reason":"r"}}"#
        );
        let end = FromRuntime::End(JournalEnd { segment: 1, offset: 2, number: 3 });
        assert_eq!(serde_json::to_string(&end).unwrap(), r#"{"t":"end","segment":1,"offset":2,"number":3}"#);
        let terminate =
            ToRuntime::Command { id: 4, command: Command::Terminate { reason: "stop".to_owned() } };
        assert_eq!(
            serde_json::to_string(&terminate).unwrap(),
            r#"{"t":"command","id":4,"command":{"c":"terminate","reason":"stop"}}"#
        );
    }
}
