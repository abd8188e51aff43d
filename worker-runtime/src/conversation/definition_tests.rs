//! What a definition adds to a session, without any process.

use serde_json::{Value, json};
use subagent_protocol::definition::Instructions;
use subagent_protocol::frame::{DefinitionChange, RuntimeCommand};
use subagent_protocol::ids::TurnId;
use subagent_protocol::options::Options;
use subagent_protocol::record::RecordType as T;

use super::tests::Talk;

fn instructions(delivered: bool) -> Instructions {
    Instructions { name: "a".to_owned(), prompt: "Read.".to_owned(), delivered, model: None, replaces: false }
}

/// A conversation with instructions, up to the request for a session.
fn opening(session: Option<&str>, instructions: Instructions, capabilities: Value) -> Talk {
    let mut talk = Talk::new(session, None);
    talk.conversation.config.context.instructions = Some(instructions);
    talk.started();
    talk.line(json!({"id": 1, "result": {"agentCapabilities": capabilities}}));
    talk
}

fn session(talk: &Talk) -> Value {
    talk.records.iter().find(|record| record.t == T::Session).unwrap().body.clone()
}

/// Returns the block before the next prompt. The prompt ends with this stop reason.
fn before(talk: &mut Talk, turn: u64, reason: &str) -> Option<String> {
    talk.forget();
    talk.prompt(turn).unwrap();
    let sent = talk.sent().remove(0);
    talk.line(json!({"id": sent["id"], "result": {"stopReason": reason}}));
    let blocks = sent["params"]["prompt"].as_array().unwrap().clone();
    assert_eq!(blocks.last().unwrap()["text"], "p");
    (blocks.len() > 1).then(|| blocks[0]["text"].as_str().unwrap().to_owned())
}

#[test]
fn the_prompt_stands_before_the_first_message_until_one_is_kept() {
    let mut talk = opening(None, instructions(true), json!({}));
    talk.line(json!({"id": 2, "result": {"sessionId": "s"}}));
    assert_eq!(session(&talk)["promptBy"], "first_prompt");
    let text = before(&mut talk, 5, "cancelled").expect("a new session knows nothing");
    assert!(text.starts_with("<agent_instructions agent=\"a\">\nRead.\n</agent_instructions>"), "{text}");
    assert!(before(&mut talk, 6, "refusal").is_some());
    assert!(before(&mut talk, 7, "end_turn").is_some());
    assert!(before(&mut talk, 8, "end_turn").is_none());
}

#[test]
fn a_resumed_session_knows_its_instructions() {
    for (delivered, wanted) in [(true, false), (false, true)] {
        let mut talk =
            opening(Some("s"), instructions(delivered), json!({"sessionCapabilities": {"resume": {}}}));
        talk.line(json!({"id": 2, "result": {}}));
        assert_eq!(before(&mut talk, 5, "end_turn").is_some(), wanted);
    }
    // The session could not be resumed.
    let mut talk = opening(
        Some("s"),
        instructions(true),
        json!({"loadSession": false, "sessionCapabilities": {"resume": {}}}),
    );
    talk.line(json!({"id": 2, "error": {"code": -32002, "message": "none"}}));
    talk.line(json!({"id": 3, "result": {"sessionId": "s"}}));
    assert!(before(&mut talk, 5, "end_turn").is_some(), "also under the same id");
}

#[test]
fn an_agent_that_takes_a_system_prompt_gets_one_with_every_session() {
    let offers = json!({"loadSession": true, "sessionCapabilities": {"systemPrompt": {}, "resume": {}}});
    let mut talk = opening(Some("s"), instructions(false), offers);
    let wanted = json!({"mode": "append", "content": [{"type": "text", "text": "Read."}]});
    for (id, method) in [(2, "session/resume"), (3, "session/load"), (4, "session/new")] {
        let sent = talk.sent().pop().unwrap();
        assert_eq!((&sent["method"], &sent["params"]["systemPrompt"]), (&json!(method), &wanted));
        talk.forget();
        match method {
            "session/new" => talk.line(json!({"id": id, "result": {"sessionId": "s"}})),
            _ => talk.line(json!({"id": id, "error": {"code": -1, "message": "no"}})),
        }
    }
    assert_eq!(session(&talk)["promptBy"], "system_prompt");
    assert!(before(&mut talk, 5, "end_turn").is_none());
}

#[test]
fn a_definition_without_a_prompt_adds_none() {
    let offers = json!({"sessionCapabilities": {"systemPrompt": {}}});
    let mut talk = opening(None, Instructions { prompt: String::new(), ..instructions(false) }, offers);
    assert!(talk.sent().pop().unwrap()["params"].get("systemPrompt").is_none());
    talk.line(json!({"id": 2, "result": {"sessionId": "s"}}));
    assert!(session(&talk).get("promptBy").is_none());
    assert!(before(&mut talk, 5, "end_turn").is_none());
}

#[test]
fn a_preferred_model_is_set_if_offered_and_otherwise_ignored() {
    let models = json!({"currentModelId": "m1", "availableModels": [
        {"modelId": "m1", "name": "Small One"}, {"modelId": "m2", "name": "Large One"}]});
    let opened = |wish: &str| {
        let wish = Instructions { model: Some(wish.to_owned()), ..instructions(false) };
        let mut talk = opening(None, wish, json!({}));
        talk.forget();
        talk.line(json!({"id": 2, "result": {"sessionId": "s", "models": models}}));
        talk
    };
    for wish in ["m2", "large one", "Large"] {
        let mut talk = opened(wish);
        assert_eq!(talk.sent()[0]["params"]["modelId"], "m2", "{wish}");
        talk.line(json!({"id": 3, "result": {}}));
        assert!(session(&talk).get("noModel").is_none());
    }
    for wish in ["m3", "one", "opus"] {
        let talk = opened(wish);
        assert_eq!(session(&talk)["noModel"], wish);
    }
    let mut talk = opened("m2");
    talk.line(json!({"id": 3, "error": {"code": -1, "message": "no"}}));
    assert_eq!(session(&talk)["noModel"], "m2", "what the agent does not take, either");
    assert!(talk.conversation.failed.is_none());
}

/// A session in mode `calm`, out of two, that already knows the definition `a`.
fn with_modes() -> Talk {
    let mut talk = opening(None, instructions(false), json!({}));
    let modes = json!({"currentModeId": "calm", "availableModes": [{"id": "calm", "name": "C"}, {"id": "bold", "name": "B"}]});
    talk.line(json!({"id": 2, "result": {"sessionId": "s", "modes": modes}}));
    assert_eq!(session(&talk)["began"], json!({"mode": "calm"}));
    assert!(before(&mut talk, 5, "end_turn").is_some());
    talk.forget();
    talk
}

fn changing(talk: &mut Talk, turn: u64, mode: &str) {
    let instructions = Instructions {
        name: "b".to_owned(),
        prompt: "Write.".to_owned(),
        replaces: true,
        ..instructions(false)
    };
    let options = Options { mode: Some(mode.to_owned()), ..Options::default() };
    let change = Some(Box::new(DefinitionChange { instructions, options, client_rules: None }));
    let (prompt, turn_id) = (vec![json!({"type": "text", "text": "p"})], TurnId::from_random([0; 5]));
    talk.command(RuntimeCommand::Prompt { turn, turn_id, prompt, attachments: vec![], change }).unwrap();
}

fn text_before(sent: &Value) -> &str {
    sent["params"]["prompt"][0]["text"].as_str().unwrap()
}

#[test]
fn a_prompt_with_another_definition_goes_out_when_its_mode_is_set() {
    let mut talk = with_modes();
    changing(&mut talk, 6, "bold");
    let sent = talk.sent();
    assert_eq!((sent.len(), &sent[0]["method"]), (1, &json!("session/set_mode")), "{sent:?}");
    talk.forget();
    talk.line(json!({"id": sent[0]["id"], "result": {}}));
    let sent = talk.sent();
    assert!(text_before(&sent[0]).starts_with("<agent_instructions agent=\"b\">\nWrite."), "{sent:?}");
    assert!(text_before(&sent[0]).contains("do not hold any more"), "{sent:?}");
    talk.line(json!({"id": sent[0]["id"], "result": {"stopReason": "end_turn"}}));
    // The same definition in the same mode: nothing is sent or set again.
    talk.forget();
    changing(&mut talk, 7, "bold");
    assert_eq!(text_before(&talk.sent()[0]), "p");
}

#[test]
fn a_prompt_that_waits_for_its_mode_is_not_sent_after_a_cancel_or_without_the_mode() {
    let mut talk = with_modes();
    changing(&mut talk, 6, "bold");
    let asked = talk.sent().remove(0);
    talk.forget();
    talk.command(RuntimeCommand::Cancel { turn: 6, reason: "r".to_owned() }).unwrap();
    let end = talk.records.iter().find(|record| record.t == T::TurnEnd).unwrap();
    assert_eq!(end.body["error"]["details"]["dispatched"], "no");
    talk.forget();
    talk.line(json!({"id": asked["id"], "result": {}}));
    assert!(talk.sent().is_empty(), "the mode is set, and nothing else is sent");
    let next = before(&mut talk, 7, "end_turn").unwrap();
    assert!(next.contains("agent=\"b\""), "{next}");

    talk.forget();
    changing(&mut talk, 8, "none");
    assert!(talk.sent().is_empty());
    let end = talk.records.iter().find(|record| record.t == T::TurnEnd).unwrap();
    assert_eq!(end.body["error"]["code"], "OPTION_NOT_AVAILABLE");
    assert!(before(&mut talk, 9, "end_turn").is_none(), "the next turn may begin");
}
