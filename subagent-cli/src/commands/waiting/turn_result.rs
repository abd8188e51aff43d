//! What a turn came to, read from the daemon: its result, and what was denied in it.
//!
//! The outcome follows from the same events as that of a run.

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::api::{TurnProgress, TurnResult, TurnShown};
use subagent_protocol::clean::one_line;
use subagent_protocol::ids::{TurnId, WorkerId};

use crate::client::{ApiRequest, DaemonClient, RequestPath, segment};
use crate::commands::run::transcript::RunTranscript;
use crate::exit_code::{TurnExitStatus, TurnOutcome};
use crate::failure::{Failure, Result};
use crate::output::advice;

/// The events that say what was denied or turned away.
const ANSWERS: &str = "approval.requested,approval.decided,policy.violated,elicitation.answered";
/// The most events of a turn that the daemon shows at once.
const MAX_EVENTS: &str = "1000";

/// The result of a turn that has ended.
#[derive(Debug)]
pub(crate) struct EndedTurn {
    pub(crate) outcome: TurnOutcome,
    /// `outcome`, `exitCode`, `message`, `stopReason`, `usage`, `error`, `denied`, `deniedCount`, `turnedAway`.
    pub(crate) data: Value,
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
        let inspected = client.ask(&ApiRequest::get(query)).await?;
        let mut transcript = RunTranscript::default();
        for event in inspected["events"].as_array().into_iter().flatten() {
            let _ = transcript.see(event);
        }
        Ok(Self::judged(end, turn, &transcript))
    }

    fn judged(end: TurnExitStatus, turn: TurnShown, transcript: &RunTranscript) -> Self {
        // A daemon that is older than this command has no result.
        let result = turn.result.unwrap_or_else(|| without_message(turn.end.as_ref()));
        let (denied, turned_away) = (transcript.denied_count, transcript.turned_away);
        let outcome = TurnOutcome::of(end, result.stop_reason.as_deref(), denied, turned_away);
        let mut data = json!(result);
        data["workerId"] = json!(turn.worker_id);
        data["turnId"] = json!(turn.turn.turn_id);
        data["outcome"] = outcome.word().into();
        data["exitCode"] = outcome.code().into();
        data["denied"] = transcript.denied.clone().into();
        data["deniedCount"] = denied.into();
        data["turnedAway"] = turned_away.into();
        Self { outcome, data }
    }

    /// Returns the agent's final message. It is empty without one, and for an agent that printed
    /// only blank lines.
    pub(crate) fn message(&self) -> &str {
        self.data["message"].as_str().filter(|text| !text.trim().is_empty()).unwrap_or_default()
    }

    /// Says why the turn is no success, in one line; nothing of a success.
    pub(crate) fn reason(&self) -> Option<String> {
        let word = |value: &Value| one_line(value.as_str().unwrap_or_default());
        let more = match self.outcome {
            TurnOutcome::Completed => return None,
            TurnOutcome::Failed => {
                let error = &self.data["error"];
                format!(": {}: {}", word(&error["code"]), word(&error["message"]))
            }
            TurnOutcome::PermissionDenied => format!(": {}", word(&self.data["denied"][0]["message"])),
            _ => String::new(),
        };
        Some(format!("{}{more}", self.outcome.sentence()))
    }
}

/// What to do about the error of a turn with this result, each in a line.
pub(crate) fn advice(result: &Value) -> Vec<String> {
    let failure: Option<Failure> = serde_json::from_value(result["error"].clone()).ok();
    failure.iter().flat_map(advice::lines).map(|line| one_line(&line)).collect()
}

/// Returns the result as far as the end of the turn has it.
fn without_message(end: Option<&Value>) -> TurnResult {
    let field = |key: &str| end.and_then(|end| end.get(key)).cloned();
    TurnResult {
        message: None,
        message_truncated: false,
        stop_reason: field("stopReason").and_then(|reason| reason.as_str().map(str::to_owned)),
        usage: field("usage"),
        error: field("error"),
    }
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
            let result =
                EndedTurn { outcome: TurnOutcome::Completed, data: serde_json::json!({"message": text}) };
            result.message().to_owned()
        };
        assert_eq!((message("\n \n"), message(" Done.\n")), (String::new(), " Done.\n".to_owned()));
    }
}
