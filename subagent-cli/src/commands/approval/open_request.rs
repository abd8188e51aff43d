//! The request that a person means by a worker, by its own id, or by nothing at all.

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::api::{ApprovalShown, Inbox, InboxItem};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

use crate::client::{ApiRequest, DaemonClient, RequestPath, segment};
use crate::failure::{Failure, Result};
use crate::output::human;

/// An error names at most this many requests.
const MAX_NAMED: usize = 20;

/// A request, and the worker that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenRequest {
    pub(crate) worker_id: String,
    /// The name of the worker, or its id where the daemon gives no name.
    pub(crate) worker: String,
    pub(crate) request_id: String,
}

/// Finds the one request of this kind that `target` leads to.
///
/// # Errors
/// `APPROVAL_NOT_FOUND` if nothing is asked, `REQUEST_AMBIGUOUS{requests}` if several requests are open; those of
/// [`DaemonClient::ask`].
pub(crate) async fn find(
    client: &mut DaemonClient,
    target: Option<&str>,
    kind: QuestionKind,
) -> Result<OpenRequest> {
    if let Some(request_id) = target.filter(|target| target.parse::<RequestId>().is_ok()) {
        let path = format!("/v1/approvals/{}", segment(request_id));
        let shown: ApprovalShown = client.ask_for(&ApiRequest::get(path)).await?;
        return Ok(request(&shown.item));
    }
    let path = RequestPath::new("/v1/approvals").with("workerId", target);
    let listed: Inbox = client.ask_for(&ApiRequest::get(path)).await?;
    choose(&listed.items, target, kind)
}

fn request(item: &InboxItem) -> OpenRequest {
    OpenRequest {
        worker_id: item.worker_id.to_string(),
        worker: human::called(&item.name, item.worker_id.as_str()).to_owned(),
        request_id: item.request_id.to_string(),
    }
}

const fn what(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Permission => "permission request",
        QuestionKind::Elicitation => "question",
    }
}

/// The error where no request of this kind is open.
pub(crate) fn none(target: Option<&str>, kind: QuestionKind) -> Failure {
    let of = target.map(|target| format!(" of {target}")).unwrap_or_default();
    Failure::new(Code::ApprovalNotFound, format!("no {}{of} is open", what(kind)))
        .with("requestId", Value::Null)
        .recommend("`subagent approval list` shows what agents ask")
}

/// The one of the inbox's items that has this kind.
fn choose(items: &[InboxItem], target: Option<&str>, kind: QuestionKind) -> Result<OpenRequest> {
    let (command, other) = match kind {
        QuestionKind::Permission => ("approve", "answer"),
        QuestionKind::Elicitation => ("answer", "approve"),
    };
    let (fitting, others): (Vec<&InboxItem>, Vec<&InboxItem>) =
        items.iter().partition(|item| item.kind == kind);
    match fitting.as_slice() {
        [one] => Ok(request(one)),
        [] => {
            let failure = none(target, kind);
            Err(match others.first() {
                Some(item) => {
                    failure.with("recommendedCommand", format!("subagent {other} {}", item.request_id))
                }
                None => failure,
            })
        }
        several => {
            let named = several.iter().take(MAX_NAMED);
            let requests: Vec<Value> = named
                .map(|item| {
                    json!({
                        "requestId": item.request_id, "workerId": item.worker_id, "name": item.name,
                        "subject": item.subject,
                    })
                })
                .collect();
            let message = format!("{} {}s are open; name one", several.len(), what(kind));
            Err(Failure::new(Code::RequestAmbiguous, message)
                .with("requests", requests)
                .recommend(format!("`subagent {command} REQUEST`; `subagent approval list` shows them")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(number: u8, kind: &str) -> InboxItem {
        let item = json!({
            "requestId": format!("ap_000000000{number}"), "workerId": "w_0123456789", "label": "x", "kind": kind,
            "controllerId": "ctl_1", "turnId": null, "toolKind": null, "subject": "s", "status": "pending",
            "createdAt": "2026-11-21T20:29:42+00:00", "deadlineAt": null, "onTimeout": null, "rule": null,
        });
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn one_request_of_its_kind_is_found() {
        let items = [item(1, "elicitation"), item(2, "permission")];
        let permission = choose(&items, None, QuestionKind::Permission).unwrap();
        assert_eq!(permission.request_id, "ap_0000000002");
        assert_eq!(choose(&items, None, QuestionKind::Elicitation).unwrap().request_id, "ap_0000000001");
    }

    #[test]
    fn none_and_several_are_errors_that_say_what_to_type() {
        let none = choose(&[item(1, "elicitation")], Some("codex-1"), QuestionKind::Permission).unwrap_err();
        assert!(none.is(Code::ApprovalNotFound) && none.to_string().contains("codex-1"));
        assert_eq!(none.details["recommendedCommand"], "subagent answer ap_0000000001");
        let several = choose(&[item(1, "permission"), item(2, "permission")], None, QuestionKind::Permission);
        let several = several.unwrap_err();
        assert!(several.is(Code::RequestAmbiguous));
        assert_eq!(several.details["requests"].as_array().unwrap().len(), 2);
    }
}
