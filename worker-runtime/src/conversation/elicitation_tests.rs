//! Cases of elicitations and of sessions below the worker's, without any process.

use serde_json::{Value, json};
use subagent_protocol::frame::{Refusal, RuntimeCommand};
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::RecordType as T;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ElicitationAction;

use super::tests::Talk;

fn elicit(talk: &mut Talk) -> RequestId {
    let params = json!({"sessionId": "s", "mode": "form", "message": "m", "requestedSchema": {}});
    talk.line(json!({"id": "e", "method": "elicitation/create", "params": params}));
    talk.conversation.open_approvals().pop().unwrap()
}

fn answer(request_id: RequestId, action: ElicitationAction) -> RuntimeCommand {
    let content = json!({"a": "hunter2"}).as_object().cloned().map(Secret);
    RuntimeCommand::AnswerElicitation { request_id, action, content }
}

#[test]
fn an_elicitation_is_answered_once_and_its_content_is_in_no_record() {
    let mut talk = Talk::ready(None, json!({}));
    let id = elicit(&mut talk);
    assert_eq!((talk.records[0].t, talk.records[0].turn), (T::ElicitationRequested, None));
    talk.forget();
    talk.command(answer(id.clone(), ElicitationAction::Accept)).unwrap();
    assert_eq!(talk.sent()[0]["result"], json!({"action": "accept", "content": {"a": "hunter2"}}));
    assert_eq!(talk.records.len(), 1);
    assert_eq!((talk.records[0].t, &talk.records[0].body), (T::AnswerWritten, &json!({"requestId": id})));
    assert_eq!(talk.command(answer(id, ElicitationAction::Accept)), Err(Refusal::NoSuchRequest));
}

#[test]
fn an_answer_of_the_wrong_kind_is_refused_but_a_cancel_fits_all() {
    let mut talk = Talk::ready(None, json!({}));
    talk.line(json!({"id": "p", "method": "session/request_permission", "params": {}}));
    let permission = talk.conversation.open_approvals().pop().unwrap();
    let refused = talk.command(answer(permission, ElicitationAction::Decline));
    assert_eq!(refused, Err(Refusal::NoSuchRequest));
    let id = elicit(&mut talk);
    let select =
        RuntimeCommand::Answer { request_id: id.clone(), option_id: Some("allow".to_owned()), rule: None };
    assert_eq!(talk.command(select), Err(Refusal::NoSuchRequest));
    talk.forget();
    talk.command(RuntimeCommand::Answer { request_id: id, option_id: None, rule: None }).unwrap();
    assert_eq!(talk.sent()[0]["result"], json!({"action": "cancel"}));
}

#[test]
fn a_cancel_answers_all_questions_and_is_passed_on_to_those_that_take_one() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    for (id, capabilities, state) in [
        ("c1", json!({"cancel": {}}), "running"),
        ("c2", json!({}), "running"),
        ("c3", json!({"cancel": {}}), "idle"),
    ] {
        let update = json!({
            "sessionUpdate": "subagent_update", "sessionId": id, "title": "T", "capabilities": capabilities,
            "state": {"state": state},
        });
        talk.line(json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}));
    }
    elicit(&mut talk);
    talk.line(json!({"id": "p", "method": "session/request_permission", "params": {"sessionId": "c1"}}));
    let asked = &talk.records.last().unwrap().body;
    assert_eq!((&asked["sessionId"], &asked["sessionTitle"]), (&json!("c1"), &json!("T")));
    talk.forget();
    talk.command(RuntimeCommand::Cancel { turn: 5, reason: "r".to_owned() }).unwrap();
    let sent = talk.sent();
    let results: Vec<&Value> = sent.iter().filter_map(|message| message.get("result")).collect();
    assert_eq!(results, [&json!({"action": "cancel"}), &json!({"outcome": {"outcome": "cancelled"}})]);
    let canceled = sent.iter().filter(|message| message["method"] == "session/cancel");
    let canceled: Vec<&Value> = canceled.map(|message| &message["params"]["sessionId"]).collect();
    assert_eq!(canceled, ["s", "c1"]);
}
