//! What a turn came to, read from the daemon: its result, and what was denied in it.
//!
//! The outcome follows from the same events as that of a run.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use subagent_protocol::api::{TurnProgress, TurnResult, TurnShown};
use subagent_protocol::clean::one_line;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::{Code, lenient};

use crate::client::{ApiRequest, DaemonClient, RequestPath, segment};
use crate::commands::diff::InspectedEvents;
use crate::commands::run::transcript::{DeniedRequest, RunTranscript, TurnEnding};
use crate::exit_code::{TurnExitStatus, TurnOutcome};
use crate::failure::{ErrorText, Failure, Result};
use crate::output::advice;

/// The events that say what was denied or turned away.
const ANSWERS: &str = "approval.requested,approval.decided,policy.violated,elicitation.answered";
/// The most events of a turn that the daemon shows at once.
const MAX_EVENTS: &str = "1000";

/// The result of a turn that has ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndedTurn {
    #[serde(flatten)]
    result: TurnResult,
    worker_id: WorkerId,
    turn_id: TurnId,
    #[serde(serialize_with = "word_of")]
    pub(crate) outcome: TurnOutcome,
    exit_code: u8,
    denied: Vec<DeniedRequest>,
    denied_count: usize,
    turned_away: usize,
}

fn word_of<S: Serializer>(outcome: &TurnOutcome, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.word())
}

impl EndedTurn {
    /// Reads the result of a turn.
    ///
    /// # Errors
    /// `TURN_NOT_FOUND`, `TURN_OPEN{turnId,status}`, and those of [`DaemonClient::ask`].
    pub(crate) async fn of(client: &mut DaemonClient, turn_id: &str) -> Result<Self> {
        let turn: TurnShown =
            client.ask_for(&ApiRequest::get(format!("/v1/turns/{}", segment(turn_id)))).await?;
        let end = match turn.turn.status {
            TurnProgress::Completed => TurnExitStatus::Completed,
            TurnProgress::Failed => TurnExitStatus::Failed,
            TurnProgress::Canceled => TurnExitStatus::Canceled,
            status @ (TurnProgress::Queued | TurnProgress::Open) => {
                return Err(open(&turn.worker_id, &turn.turn.turn_id, status));
            }
        };
        let worker = segment(turn.worker_id.as_str());
        let query = RequestPath::new(format!("/v1/workers/{worker}/inspect"))
            .with("eventsLimit", Some(MAX_EVENTS))
            .with("turnId", Some(turn_id))
            .with("eventTypes", Some(ANSWERS));
        let inspected: InspectedEvents = client.ask_for(&ApiRequest::get(query)).await?;
        let mut transcript = RunTranscript::default();
        for event in &inspected.events {
            let _ = transcript.see(event);
        }
        Ok(Self::judged(end, turn, transcript))
    }

    fn judged(end: TurnExitStatus, turn: TurnShown, transcript: RunTranscript) -> Self {
        // A daemon that is older than this command has no result.
        let result = turn.result.unwrap_or_else(|| without_message(turn.end.as_ref()));
        let (denied, turned_away) = (transcript.denied_count, transcript.turned_away);
        let outcome = TurnOutcome::of(end, result.stop_reason.as_deref(), denied, turned_away);
        Self {
            result,
            worker_id: turn.worker_id,
            turn_id: turn.turn.turn_id,
            outcome,
            exit_code: outcome.code(),
            denied: transcript.denied,
            denied_count: denied,
            turned_away,
        }
    }

    /// The result as a document.
    pub(crate) fn data(&self) -> Value {
        json!(self)
    }

    /// Returns the agent's final message. It is empty without one, and for an agent that printed
    /// only blank lines.
    pub(crate) fn message(&self) -> &str {
        self.result.message.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or_default()
    }

    /// Says why the turn is no success, in one line; nothing of a success.
    pub(crate) fn reason(&self) -> Option<String> {
        let more = match self.outcome {
            TurnOutcome::Completed => return None,
            TurnOutcome::Failed => {
                let error: ErrorText<'_> = self.result.error.as_ref().map(lenient::read).unwrap_or_default();
                format!(": {}: {}", one_line(error.code), one_line(error.message))
            }
            TurnOutcome::PermissionDenied => {
                let denied = self.denied.first().and_then(|denied| denied.message.as_deref());
                format!(": {}", one_line(denied.unwrap_or_default()))
            }
            _ => String::new(),
        };
        Some(format!("{}{more}", self.outcome.sentence()))
    }

    /// What to do about the error of the turn, each in a line.
    pub(crate) fn advice(&self) -> Vec<String> {
        let failure = self.result.error.as_ref().and_then(|error| Failure::deserialize(error).ok());
        failure.iter().flat_map(advice::lines).map(|line| one_line(&line)).collect()
    }
}

/// Returns the result as far as the end of the turn has it.
fn without_message(end: Option<&Value>) -> TurnResult {
    let TurnEnding { stop_reason, usage, error } = end.map(lenient::read).unwrap_or_default();
    TurnResult { message: None, message_truncated: false, stop_reason, usage, error }
}

/// The error for a turn that has no result so far.
pub(crate) fn open(worker: &WorkerId, turn: &TurnId, status: TurnProgress) -> Failure {
    let message = match status {
        TurnProgress::Queued => "the turn waits in the queue and has no result yet",
        _ => "the turn is still open and has no result yet",
    };
    Failure::new(Code::TurnOpen, message)
        .retryable()
        .with("turnId", turn.as_str())
        .with("workerId", worker.as_str())
        .with("status", status.as_str())
        .with("recommendedCommand", format!("subagent wait {worker}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_no_message() {
        let message = |text: &str| {
            let mut result = without_message(None);
            result.message = Some(text.to_owned());
            let ended = EndedTurn {
                result,
                worker_id: "w_0123456789".parse().unwrap(),
                turn_id: "turn_0123456789".parse().unwrap(),
                outcome: TurnOutcome::Completed,
                exit_code: 0,
                denied: Vec::new(),
                denied_count: 0,
                turned_away: 0,
            };
            ended.message().to_owned()
        };
        assert_eq!((message("\n \n"), message(" Done.\n")), (String::new(), " Done.\n".to_owned()));
    }
}
