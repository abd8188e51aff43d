//! Shows a task's questions to the client's user, if the client supports elicitation. The question also
//! stays in the inbox; the first answer counts.

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer};
use serde_json::{Map, Value, json};
use subagent_protocol::api::{ApprovalShown, ElicitationForm, InboxItem};
use subagent_protocol::clean::one_line;
use subagent_protocol::state::QuestionKind;

use super::server::ToolServerState;
use crate::client::{ApiRequest, QuestionReader, segment};
use crate::failure::Result;
use crate::output::rule::path_of;

/// Shows each question of a task and of the tasks below it, one at a time. Never ends.
pub(super) async fn ask_user(shared: &ToolServerState, peer: &Peer<RoleServer>, task: &str) {
    if shared.submitter.token().is_none() && has_forms(peer) {
        // Without a daemon there are no questions; the call reports the error.
        let _ = ask_all(shared, peer, task).await;
    }
    std::future::pending().await
}

/// Whether the client can show forms.
fn has_forms(peer: &Peer<RoleServer>) -> bool {
    let info = peer.peer_info();
    let elicitation = info.as_ref().and_then(|info| info.capabilities.elicitation.as_ref());
    // The older revision of MCP has only forms and does not declare them.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

async fn ask_all(shared: &ToolServerState, peer: &Peer<RoleServer>, task: &str) -> Result<()> {
    let (mut client, mut watch) = (shared.submitter.client()?, shared.submitter.client()?);
    let mut questions = QuestionReader::of(task);
    loop {
        for question in questions.next(&mut client).await? {
            let path = format!("/v1/approvals/{}", segment(question.request_id.as_str()));
            let asked: ApprovalShown = client.ask_for(&ApiRequest::get(path)).await?;
            let Some(params) = params(&asked) else { continue };
            if let Some(answer) = ask(peer, params, QuestionReader::over(&mut watch, &question)).await
                && let Some(change) = change(&asked, answer)?
            {
                // The daemon refuses it if the question was answered elsewhere.
                let _ = client.ask(&change).await;
            }
        }
    }
}

/// Returns the user's answer; `None` if there is none, or the question closed first.
async fn ask(
    peer: &Peer<RoleServer>,
    params: ElicitRequestParams,
    over: impl Future<Output = ()>,
) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.ok()?;
    let mut form = OpenForm(Some(handle));
    tokio::select! {
        answer = form.answer() => answer,
        () = over => None,
    }
}

/// A form that the client shows. Dropping it before an answer cancels the form, even when the task ends.
struct OpenForm(Option<RequestHandle<RoleServer>>);

impl OpenForm {
    async fn answer(&mut self) -> Option<ElicitResult> {
        let response = (&mut self.0.as_mut()?.rx).await;
        self.0 = None;
        match response.ok()?.ok()? {
            ClientResult::ElicitResult(answer) => Some(answer),
            _ => None,
        }
    }
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let reason = "the question was answered elsewhere".to_owned();
        // Without a runtime the connection is closed anyway.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { handle.cancel(Some(reason)).await });
        }
    }
}

/// Converts the question to MCP; `None` if MCP cannot express it.
fn params(asked: &ApprovalShown) -> Option<ElicitRequestParams> {
    let who = one_line(path_of(&asked.item.path).as_ref().unwrap_or(&asked.item.label));
    let (message, schema) = if asked.item.kind == QuestionKind::Elicitation {
        (format!("{who}: {}", one_line(&asked.message)), ElicitationForm::of(&asked.request).schema)
    } else {
        let options = asked.options.iter();
        let schema = json!({
            "type": "object", "required": ["decision"],
            "properties": {"decision": {
                "type": "string", "title": "Decision",
                "oneOf": options.map(|option| json!({"const": option.id, "title": option.label}))
                    .collect::<Vec<_>>(),
            }},
        });
        (format!("{who} asks: {}", one_line(&asked.item.subject)), schema)
    };
    let requested_schema: ElicitationSchema = serde_json::from_value(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the request with the answer for the daemon. A declined or closed form of a permission request
/// leaves it open.
fn change(asked: &ApprovalShown, answer: ElicitResult) -> Result<Option<ApiRequest>> {
    let InboxItem { worker_id: worker, request_id: request, .. } = &asked.item;
    let content = answer.content.as_ref().and_then(Value::as_object);
    if asked.item.kind == QuestionKind::Elicitation {
        let action = match answer.action {
            ElicitationAction::Accept => "accept",
            ElicitationAction::Decline => "decline",
            _ => return Ok(None),
        };
        let empty = Map::new();
        let content = (action == "accept").then(|| content.unwrap_or(&empty));
        let answer = json!({"action": action, "content": content});
        return Ok(Some(ApiRequest::change(
            format!("/v1/workers/{worker}/elicitations/{request}"),
            &answer,
        )?));
    }
    let Some(option) = content.filter(|_| answer.action == ElicitationAction::Accept) else {
        return Ok(None);
    };
    let decide = json!({"optionId": option.get("decision"), "note": "the client's user decided"});
    Ok(Some(ApiRequest::change(format!("/v1/workers/{worker}/approvals/{request}"), &decide)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: &str, request: Value) -> ApprovalShown {
        let asked = json!({
            "requestId": "ap_0123456789", "workerId": "w_0123456789", "kind": kind, "path": ["root", "docs"],
            "label": "x", "controllerId": "ctl_1", "turnId": null, "toolKind": null, "rule": null,
            "subject": "rm -rf x\nand more", "status": "pending", "createdAt": "2026-11-21T20:29:42+00:00",
            "deadlineAt": null, "onTimeout": null, "message": "Which?", "cwd": "/w", "request": request,
            "options": [
                {"id": "yes", "alias": "yes", "label": "Allow once"}, {"id": "no", "alias": "no", "label": "Reject"},
            ],
            "decidedBy": null, "answers": [],
        });
        serde_json::from_value(asked).unwrap()
    }

    fn permission() -> ApprovalShown {
        asked("permission", json!({}))
    }

    #[test]
    fn a_permission_request_is_a_choice_of_its_options() {
        let shown = serde_json::to_value(params(&permission()).unwrap()).unwrap();
        let message = shown["message"].as_str().unwrap();
        assert!(message.starts_with("root › docs asks: rm -rf x") && !message.contains('\n'), "{message}");
        let decision = &shown["requestedSchema"]["properties"]["decision"];
        assert_eq!(decision["oneOf"][1], json!({"const": "no", "title": "Reject"}), "{shown}");
    }

    #[test]
    fn only_an_accepted_form_decides_a_permission_request() {
        let accepted = ElicitResult::new(ElicitationAction::Accept).with_content(json!({"decision": "no"}));
        assert!(change(&permission(), accepted).unwrap().is_some());
        for action in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            assert!(change(&permission(), ElicitResult::new(action)).unwrap().is_none());
        }
    }

    #[test]
    fn a_form_that_mcp_cannot_express_is_left_in_the_inbox() {
        assert!(params(&asked("elicitation", json!({"schema": {"type": "array"}}))).is_none());
    }
}
