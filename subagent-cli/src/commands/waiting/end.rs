//! What the end of a wait means: the exit code, and what people read about it.

use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::clean::one_line;

use super::turn_result::EndedTurn;
use crate::client::DaemonClient;
use crate::exit_code::{NEEDS_ANSWER, TIMEOUT, TurnOutcome};
use crate::failure::{Failure, Result};
use crate::output::rule::task_path;

/// The end of a wait for one worker.
#[derive(Debug)]
pub(crate) struct WaitEnd {
    pub(crate) code: u8,
    /// Of a turn that has ended.
    pub(crate) result: Option<EndedTurn>,
    /// Why the code is not 0, in one line.
    pub(crate) reason: Option<String>,
}

impl WaitEnd {
    /// Reads what the event means that ended a wait for the worker with this address.
    ///
    /// # Errors
    /// Those of [`EndedTurn::of`].
    pub(crate) async fn of(client: &mut DaemonClient, address: &str, event: &Value) -> Result<Self> {
        let without = |code, reason| Self { code, result: None, reason };
        Ok(match event["type"].as_str().unwrap_or_default() {
            "turn.completed" | "turn.failed" | "turn.canceled" => {
                let turn_id = event["turnId"].as_str().unwrap_or_default();
                let result = EndedTurn::of(client, turn_id).await?;
                Self { code: result.outcome.code(), reason: result.reason(), result: Some(result) }
            }
            "approval.requested" | "elicitation.requested" => {
                without(NEEDS_ANSWER, Some(question(address, event)))
            }
            "turn.dropped" => without(
                TurnOutcome::Canceled.code(),
                Some("the message was dropped from the queue".to_owned()),
            ),
            "queue.paused" => {
                let reason =
                    format!("the queue is paused; go on with: subagent queue resume --worker-id {address}");
                without(TurnOutcome::Failed.code(), Some(reason))
            }
            _ => without(0, None),
        })
    }
}

/// A question with the command that answers it.
fn question(address: &str, event: &Value) -> String {
    let word = |value: &Value| one_line(value.as_str().unwrap_or_default());
    let who = one_line(task_path(event).as_deref().unwrap_or(address));
    let command = answer_command(address, event);
    format!("{who} asks: {}; answer with: {command}", word(&event["data"]["message"]))
}

/// The command that answers a question of the worker with this address.
pub(crate) fn answer_command(address: &str, event: &Value) -> String {
    // A task has no address that was typed.
    let address = match task_path(event) {
        Some(_) => event["workerId"].as_str().unwrap_or_default(),
        None => address,
    };
    let command = if event["type"] == "elicitation.requested" { "answer" } else { "approve" };
    format!("subagent {command} {}", one_line(address))
}

/// Returns the exit code for a wait that ended with an error.
pub(crate) fn code_of(failure: &Failure) -> u8 {
    if failure.is(Code::WaitTimeout) || failure.is(Code::WaitNoProgress) {
        return TIMEOUT;
    }
    // The turn was begun and has ended with this error.
    let ended = failure.details.contains_key("turnId") && failure.details.contains_key("eventId");
    if ended { TurnOutcome::Failed.code() } else { 1 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_names_the_command_that_answers_it() {
        let event =
            json!({"type": "approval.requested", "workerId": "w_1", "data": {"message": "rm\u{1b}[2J x"}});
        assert_eq!(question("codex-1", &event), "codex-1 asks: rm x; answer with: subagent approve codex-1");
        let below = json!({"type": "elicitation.requested", "workerId": "w_2", "path": ["root", "docs"],
                           "data": {"message": "which?"}});
        assert_eq!(question("codex-1", &below), "root › docs asks: which?; answer with: subagent answer w_2");
    }

    #[test]
    fn only_a_turn_that_was_begun_has_failed() {
        let failure = Failure::new(Code::BackendRpcError, "x").with("turnId", "turn_1");
        assert_eq!((code_of(&failure), code_of(&failure.clone().with("eventId", "ev_1"))), (1, 10));
        assert_eq!(code_of(&Failure::new(Code::WaitTimeout, "x")), 13);
    }
}
