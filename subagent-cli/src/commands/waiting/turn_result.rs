//! What a turn came to, read from the daemon: its result, and what was denied in it.
//!
//! The outcome follows from the same events as that of a run.

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::clean::one_line;

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
        let turn = client.ask(&ApiRequest::get(format!("/v1/turns/{}", segment(turn_id)))).await?;
        let end = match turn["status"].as_str() {
            Some("completed") => TurnExitStatus::Completed,
            Some("failed") => TurnExitStatus::Failed,
            Some("canceled") => TurnExitStatus::Canceled,
            _ => return Err(open(&turn)),
        };
        let worker = segment(turn["workerId"].as_str().unwrap_or_default()).to_string();
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

    fn judged(end: TurnExitStatus, mut turn: Value, transcript: &RunTranscript) -> Self {
        let mut data = match turn["result"].take() {
            Value::Object(result) => Value::Object(result),
            // A daemon that is older than this command.
            _ => json!({"message": null, "stopReason": turn["end"]["stopReason"],
                        "usage": turn["end"]["usage"], "error": turn["end"]["error"]}),
        };
        let (denied, turned_away) = (transcript.denied_count, transcript.turned_away);
        let outcome = TurnOutcome::of(end, data["stopReason"].as_str(), denied, turned_away);
        data["workerId"] = turn["workerId"].take();
        data["turnId"] = turn["turnId"].take();
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

/// The error for a turn that has no result so far.
pub(crate) fn open(turn: &Value) -> Failure {
    let worker = one_line(turn["workerId"].as_str().unwrap_or_default());
    let status = turn["status"].as_str().unwrap_or("open");
    let message = match status {
        "queued" => "the turn waits in the queue and has no result yet",
        _ => "the turn is still open and has no result yet",
    };
    Failure::new(Code::TurnOpen, message)
        .retryable()
        .with("turnId", turn["turnId"].clone())
        .with("workerId", turn["workerId"].clone())
        .with("status", status)
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
