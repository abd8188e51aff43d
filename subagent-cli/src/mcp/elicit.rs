//! Shows a task's questions to the client's user, if the client supports elicitation. The question also
//! stays in the inbox; the first answer counts.

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer};
use serde_json::{Map, Value, json};
use subagent_protocol::clean::one_line;

use super::server::ToolServerState;
use crate::client::{ApiRequest, QuestionReader, segment};
use crate::failure::Result;
use crate::output::rule::task_path;

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
            let path =
                format!("/v1/approvals/{}", segment(question["requestId"].as_str().unwrap_or_default()));
            let asked = client.ask(&ApiRequest::get(path)).await?;
            let Some(params) = params(&asked) else { continue };
            if let Some(answer) = ask(peer, params, QuestionReader::over(&mut watch, &asked)).await
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
fn params(asked: &Value) -> Option<ElicitRequestParams> {
    let word = |key: &str| one_line(asked[key].as_str().unwrap_or_default());
    let who = task_path(asked).map_or_else(|| word("label"), |path| one_line(&path));
    let (message, schema) = if asked["kind"] == "elicitation" {
        (format!("{who}: {}", word("message")), asked["request"]["schema"].clone())
    } else {
        let options: Vec<&Value> = asked["options"].as_array()?.iter().collect();
        let schema = json!({
            "type": "object", "required": ["decision"],
            "properties": {"decision": {
                "type": "string", "title": "Decision",
                "oneOf": options.iter().map(|option| json!({"const": option["id"], "title": option["label"]}))
                    .collect::<Vec<_>>(),
            }},
        });
        (format!("{who} asks: {}", word("subject")), schema)
    };
    let requested_schema: ElicitationSchema = serde_json::from_value(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the request with the answer for the daemon. A declined or closed form of a permission request
/// leaves it open.
fn change(asked: &Value, answer: ElicitResult) -> Result<Option<ApiRequest>> {
    let [worker, request] =
        ["workerId", "requestId"].map(|key| segment(asked[key].as_str().unwrap_or_default()).to_string());
    let content = answer.content.as_ref().and_then(Value::as_object);
    if asked["kind"] == "elicitation" {
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

    fn permission() -> Value {
        json!({
            "requestId": "ap_1", "workerId": "w_2", "kind": "permission", "path": ["root", "docs"],
            "subject": "rm -rf x\nand more",
            "options": [{"id": "yes", "label": "Allow once"}, {"id": "no", "label": "Reject"}],
        })
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
        let form =
            json!({"kind": "elicitation", "message": "Which?", "request": {"schema": {"type": "array"}}});
        assert!(params(&form).is_none());
    }
}
