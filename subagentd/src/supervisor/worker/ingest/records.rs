//! What a record of the journal means: an input of the rules, or content that concerns the actor.

use serde::Deserialize;
use subagent_core::model::WorkerInput;
use subagent_core::rules::recovered::missing_end;
use subagent_protocol::budget::Money;
use subagent_protocol::definition::is_kept;
use subagent_protocol::options::Options;
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::{
    AgentStarted, AnswerWritten, ApprovalClosed, ApprovalRequested, CancelRequested, Dispatching,
    ElicitationRequested, JournalRecord, OptionSet, RecordType, SessionOrigin, SessionRecord, StartFailed,
    Terminating, TurnEnd,
};
use subagent_protocol::{Error, surrogates};

/// Content of records that concerns the actor, not the rules.
#[derive(Debug, Default)]
pub(crate) struct SessionUpdates {
    pub(crate) session_id: Option<String>,
    /// Why the agent could not restore the session.
    pub(crate) restore_failure: Option<String>,
    pub(crate) guard: Option<ProcessId>,
    /// Options that were set or refused.
    pub(crate) set: Vec<OptionSet>,
    /// Whether the newest record is the guard's proof.
    pub(crate) ended: bool,
    /// Whether the session contains a prompt with the definition's instructions. `None` if
    /// unchanged.
    pub(crate) instructed: Option<bool>,
    /// Mode and model at the start of a new session.
    pub(crate) began: Option<Options>,
}

impl SessionUpdates {
    /// Returns whether the records contained nothing of this. Ignores `ended`, which every record
    /// sets.
    pub(super) fn is_empty(&self) -> bool {
        let Self { session_id, restore_failure, guard, set, ended: _, instructed, began } = self;
        session_id.is_none()
            && restore_failure.is_none()
            && guard.is_none()
            && set.is_empty()
            && instructed.is_none()
            && began.is_none()
    }
}

/// Returns the input that follows from a record. `known_turn` is the newest known turn of the
/// worker. `located` adds file locations to the error of a start.
///
/// # Errors
/// If the body does not match the type of the record.
pub(crate) fn input(
    record: &JournalRecord<'_>,
    known_turn: u64,
    aside: &mut SessionUpdates,
    located: impl FnOnce(Error) -> Error,
) -> serde_json::Result<Option<WorkerInput>> {
    aside.ended = record.t == RecordType::Ended;
    let turn = record.turn.unwrap_or(0);
    Ok(match record.t {
        RecordType::Session => {
            let session: SessionRecord = record.body()?;
            if session.origin == SessionOrigin::New || session.context_lost {
                aside.instructed = Some(false);
            }
            if session.origin == SessionOrigin::New {
                aside.began = Some(session.began);
            }
            aside.session_id = Some(session.session_id);
            Some(WorkerInput::Session {
                origin: session.origin,
                context_lost: session.context_lost,
                context_lost_reason: session.context_lost_reason,
                took_ms: None,
            })
        }
        RecordType::StartFailed => {
            let error = body::<StartFailed>(record)?.error;
            let facts = error.facts();
            // A missing login and a rate limit do not concern the session.
            let other = matches!(facts.reason_category.0, Some("auth" | "rate_limit"));
            let restoring = !other && matches!(facts.phase.0, Some("session/load" | "session/resume"));
            aside.restore_failure = restoring.then(|| error.message.clone());
            Some(WorkerInput::StartFailed { error: located(error) })
        }
        RecordType::Dispatching if turn > known_turn => {
            Some(WorkerInput::TurnRecovered { turn, turn_id: body::<Dispatching>(record)?.turn_id })
        }
        RecordType::Dispatching => Some(WorkerInput::Dispatching { turn }),
        RecordType::ApprovalRequested => {
            Some(WorkerInput::ApprovalRequested { request_id: body::<ApprovalRequested>(record)?.request_id })
        }
        RecordType::ElicitationRequested => Some(WorkerInput::ElicitationRequested {
            request_id: body::<ElicitationRequested>(record)?.request_id,
        }),
        RecordType::ApprovalClosed => {
            let closed: ApprovalClosed = record.body()?;
            Some(WorkerInput::ApprovalClosed { request_id: closed.request_id, reason: closed.reason })
        }
        RecordType::AnswerWritten => {
            Some(WorkerInput::AnswerWritten { request_id: body::<AnswerWritten>(record)?.request_id })
        }
        RecordType::CancelRequested => {
            Some(WorkerInput::CancelRequested { turn, reason: body::<CancelRequested>(record)?.reason })
        }
        // An unreadable body still ends the turn, which must not stay open.
        RecordType::TurnEnd => {
            let end = record.body().unwrap_or_else(|_| missing_end());
            if let TurnEnd::Answered { stop_reason, .. } = &end
                && is_kept(stop_reason.as_deref())
            {
                aside.instructed = Some(true);
            }
            Some(WorkerInput::TurnEnd { turn, end })
        }
        RecordType::AgentStarted => {
            aside.guard = Some(body::<AgentStarted>(record)?.guard);
            None
        }
        RecordType::AgentExited => Some(WorkerInput::Ending),
        RecordType::OptionSet => {
            aside.set.push(record.body()?);
            None
        }
        RecordType::Terminating => {
            Some(WorkerInput::Terminating { reason: body::<Terminating>(record)?.reason })
        }
        RecordType::Update => cost(record),
        RecordType::Ended
        | RecordType::Segment
        | RecordType::Sealed
        | RecordType::ChildUpdate
        | RecordType::Notification
        | RecordType::Noise
        | RecordType::ClientRequest
        | RecordType::ClientResponse
        | RecordType::TerminalExited => None,
    })
}

/// Returns the cost of the session that an update reports.
fn cost(record: &JournalRecord<'_>) -> Option<WorkerInput> {
    let text = record.b?.get();
    if record.k.as_deref() != Some("usage") || !text.contains("\"cost\"") {
        return None;
    }
    let body: serde_json::Value = surrogates::parse(text).ok()?;
    Some(WorkerInput::CostReported { cost: Money::of(&body["update"]["cost"])? })
}

pub(crate) fn body<T: for<'b> Deserialize<'b>>(record: &JournalRecord<'_>) -> serde_json::Result<T> {
    record.body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_cannot_be_read_ends_the_turn_all_the_same() {
        for body in ["null", r#"{"end":"swallowed"}"#, "[1]", "\"answered\""] {
            let text = format!(r#"{{"n":7,"at":1,"t":"turnEnd","turn":3,"b":{body}}}"#);
            let record: JournalRecord<'_> = serde_json::from_str(&text).unwrap();
            let input = input(&record, 3, &mut SessionUpdates::default(), |error| error).unwrap();
            assert_eq!(input, Some(WorkerInput::TurnEnd { turn: 3, end: missing_end() }), "{body}");
        }
    }
}
