//! What the end of a wait means: the exit code, and what people read about it.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::WorkerOutcome;
use subagent_protocol::clean::one_line;
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::{Code, lenient};

use super::turn_result::EndedTurn;
use crate::client::DaemonClient;
use crate::dialog::AboutRequest;
use crate::exit_code::{NEEDS_ANSWER, TIMEOUT, TurnOutcome};
use crate::failure::{Failure, Result};
use crate::output::advice::at_typed_host;
use crate::output::rule::path_of;

/// The event that ended a wait, as far as it is read.
pub(crate) type WaitedEvent<'a> = SeenEvent<'a, AboutRequest<'a>>;

/// What a wait found of a worker, as far as it is read; the rest stays in its JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FoundWorker<'a> {
    pub(crate) worker_id: Option<&'a str>,
    pub(crate) outcome: Option<&'a str>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) matched_event: Option<WaitedEvent<'a>>,
}

impl<'a> FoundWorker<'a> {
    pub(crate) fn of(item: &'a Value) -> Self {
        lenient::read(item)
    }

    /// Whether the event has not occurred yet.
    pub(crate) fn waits(&self) -> bool {
        self.outcome == Some(WorkerOutcome::Waiting.as_str())
    }

    /// Returns the event that ended the wait; one without a type if there is none.
    pub(crate) fn event(self) -> WaitedEvent<'a> {
        self.matched_event.unwrap_or_default()
    }
}

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
    pub(crate) async fn of(
        client: &mut DaemonClient,
        address: &str,
        event: &WaitedEvent<'_>,
    ) -> Result<Self> {
        let without = |code, reason| Self { code, result: None, reason };
        Ok(match event.event_type() {
            Some(kind) if kind.ends_turn() => {
                let result = EndedTurn::of(client, event.turn_id.unwrap_or_default()).await?;
                Self { code: result.outcome.code(), reason: result.reason(), result: Some(result) }
            }
            Some(kind) if kind.is_question() => without(NEEDS_ANSWER, Some(question(address, event))),
            Some(EventType::TurnDropped) => without(
                TurnOutcome::Canceled.code(),
                Some("the message was dropped from the queue".to_owned()),
            ),
            Some(EventType::QueuePaused) => {
                let reason =
                    format!("the queue is paused; go on with: subagent queue resume --worker-id {address}");
                without(TurnOutcome::Failed.code(), Some(reason))
            }
            _ => without(0, None),
        })
    }
}

/// A question with the command that answers it.
fn question(address: &str, event: &WaitedEvent<'_>) -> String {
    let who = one_line(event.task().and_then(path_of).as_deref().unwrap_or(address));
    let (asked, command) = (event.data.message.unwrap_or_default(), answer_command(address, event));
    format!("{who} asks: {}; answer with: {command}", one_line(asked))
}

/// The command that answers a question of the worker with this address.
pub(crate) fn answer_command(address: &str, event: &WaitedEvent<'_>) -> String {
    // A task has no address that was typed.
    let address = if event.task().is_some() { event.worker_id } else { address };
    let is_form = event.event_type() == Some(EventType::ElicitationRequested);
    let command = if is_form { "answer" } else { "approve" };
    at_typed_host(&format!("subagent {command} {}", one_line(address))).into_owned()
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
        let event = SeenEvent::of(&event);
        assert_eq!(question("codex-1", &event), "codex-1 asks: rm x; answer with: subagent approve codex-1");
        let below = json!({"type": "elicitation.requested", "workerId": "w_2", "path": ["root", "docs"],
                           "data": {"message": "which?"}});
        let below = SeenEvent::of(&below);
        assert_eq!(question("codex-1", &below), "root › docs asks: which?; answer with: subagent answer w_2");
    }

    #[test]
    fn only_a_turn_that_was_begun_has_failed() {
        let failure = Failure::new(Code::BackendRpcError, "x").with("turnId", "turn_1");
        assert_eq!((code_of(&failure), code_of(&failure.clone().with("eventId", "ev_1"))), (1, 10));
        assert_eq!(code_of(&Failure::new(Code::WaitTimeout, "x")), 13);
    }
}
