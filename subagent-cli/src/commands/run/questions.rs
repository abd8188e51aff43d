//! What a run answers when its agent asks: it has nobody to pass a question on to.
//!
//! Rules of the worker (its policy) are the daemon's: what they decide is decided when the run sees the question, and
//! the answer given here comes too late, which is no error.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::Decide;

use super::transcript::Question;
use crate::client::{Ask, Client, segment};
use crate::failure::{Failure, Result};

/// Why, for the journal.
const NOTE: &str = "a run has nobody to ask";

/// Answers a question of the worker's agent: with no.
pub(super) async fn answer(client: &mut Client, worker_id: &str, question: &Question) -> Result<()> {
    let worker = segment(worker_id);
    let answered = match question {
        Question::Permission(request) => {
            let path = format!("/v1/workers/{worker}/approvals/{}", segment(request));
            let rejected = decide(client, &path, "reject").await;
            match rejected {
                // It offers nothing that rejects: what is left is to end the turn's question without a choice.
                Err(failure) if failure.is(Code::InvalidApprovalDecision) => {
                    decide(client, &path, "cancel").await
                }
                rejected => rejected,
            }
        }
        Question::Elicitation(request) => {
            let path = format!("/v1/workers/{worker}/elicitations/{}", segment(request));
            client.ask(&Ask::change(path, &json!({"action": "cancel"}))?).await.map(drop)
        }
    };
    match answered {
        Err(failure) if is_too_late(&failure) => Ok(()),
        answered => answered,
    }
}

async fn decide(client: &mut Client, path: &str, word: &str) -> Result<()> {
    let decision =
        Decide { decision: Some(word.to_owned()), note: Some(NOTE.to_owned()), ..Decide::default() };
    client.ask(&Ask::change(path, &decision)?).await.map(drop)
}

/// Somebody else answered, the turn has ended, or its runtime is gone: what became of it is in the events.
fn is_too_late(failure: &Failure) -> bool {
    [Code::ApprovalNotPending, Code::ApprovalNotFound, Code::WorkerNotWaitingApproval, Code::WorkerStopped]
        .iter()
        .any(|code| failure.is(*code))
}
