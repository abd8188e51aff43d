//! Answers the questions of a run's worker and of the tasks below it: a run has no user to pass them on to.
//!
//! The daemon applies the worker's rules before the run sees a question. An answer that comes too late is not an error.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::Decide;
use subagent_protocol::state::QuestionKind;

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::dialog::{QuestionRef, is_over};
use crate::failure::Result;

/// Why, for the journal.
const NOTE: &str = "this run has no user to ask";

/// Answers a question with no.
pub(crate) async fn answer(client: &mut DaemonClient, question: &QuestionRef) -> Result<()> {
    let (worker, request) = (segment(&question.worker_id), segment(&question.request_id));
    let answered = match question.kind {
        QuestionKind::Permission => {
            let path = format!("/v1/workers/{worker}/approvals/{request}");
            let rejected = decide(client, &path, "reject").await;
            match rejected {
                // It offers nothing that rejects: what is left is to end the turn's question without a choice.
                Err(failure) if failure.is(Code::InvalidApprovalDecision) => {
                    decide(client, &path, "cancel").await
                }
                rejected => rejected,
            }
        }
        QuestionKind::Elicitation => {
            let path = format!("/v1/workers/{worker}/elicitations/{request}");
            client.ask(&ApiRequest::change(path, &json!({"action": "cancel"}))?).await.map(drop)
        }
    };
    match answered {
        Err(failure) if is_over(&failure) => Ok(()),
        answered => answered,
    }
}

async fn decide(client: &mut DaemonClient, path: &str, word: &str) -> Result<()> {
    let decision =
        Decide { decision: Some(word.to_owned()), note: Some(NOTE.to_owned()), ..Decide::default() };
    client.ask(&ApiRequest::change(path, &decision)?).await.map(drop)
}
