//! The request that a person means by a worker, by its own id, or by nothing at all.

use serde_json::{Value, json};
use subagent_protocol::Code;
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
        let shown = client.ask(&ApiRequest::get(format!("/v1/approvals/{}", segment(request_id)))).await?;
        return request(&shown)
            .ok_or_else(|| Failure::internal("the daemon's answer names no worker that asks"));
    }
    let listed =
        client.ask(&ApiRequest::get(RequestPath::new("/v1/approvals").with("workerId", target))).await?;
    let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    choose(items, target, kind)
}

fn request(item: &Value) -> Option<OpenRequest> {
    let text = |key: &str| item[key].as_str().map(str::to_owned);
    let worker = human::named(item).to_owned();
    Some(OpenRequest { worker_id: text("workerId")?, worker, request_id: text("requestId")? })
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
fn choose(items: &[Value], target: Option<&str>, kind: QuestionKind) -> Result<OpenRequest> {
    let (command, other) = match kind {
        QuestionKind::Permission => ("approve", "answer"),
        QuestionKind::Elicitation => ("answer", "approve"),
    };
    let wanted = kind.as_str();
    let (fitting, others): (Vec<&Value>, Vec<&Value>) = items.iter().partition(|item| item["kind"] == wanted);
    match fitting.as_slice() {
        [one] => request(one).ok_or_else(|| Failure::internal("the inbox has an item without its ids")),
        [] => {
            let failure = none(target, kind);
            Err(match others.first().and_then(|item| item["requestId"].as_str()) {
                Some(request_id) => {
                    failure.with("recommendedCommand", format!("subagent {other} {request_id}"))
                }
                None => failure,
            })
        }
        several => {
            let named = several.iter().take(MAX_NAMED);
            let requests: Vec<Value> = named
                .map(|item| {
                    json!({
                        "requestId": item["requestId"], "workerId": item["workerId"], "name": item["name"],
                        "subject": item["subject"],
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

    fn item(number: u8, kind: &str) -> Value {
        json!({"requestId": format!("ap_000000000{number}"), "workerId": "w_1", "kind": kind})
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
