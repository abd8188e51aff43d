//! The chosen session options, and what the agent reports about them.

use super::*;

fn options(text: &str) -> subagent_protocol::options::Options {
    serde_json::from_str(text).unwrap()
}

/// A session with modes of the older kind; `chosen` is the JSON of its options.
fn opened_with(chosen: &str, result: Value) -> Talk {
    let mut talk = Talk::new(None, None);
    talk.conversation.config.options = options(chosen);
    talk.started();
    talk.line(json!({"id": 1, "result": {"protocolVersion": 1}}));
    talk.forget();
    talk.line(json!({"id": 2, "result": result}));
    talk
}

fn modes() -> Value {
    json!({"sessionId": "s", "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "plan"}]}})
}

#[test]
fn a_session_is_ready_once_its_chosen_options_are_set() {
    let mut talk = opened_with(r#"{"mode": "plan"}"#, modes());
    assert_eq!(
        (talk.methods(), talk.conversation.phase()),
        (vec!["session/set_mode".to_owned()], RuntimePhase::Starting)
    );
    assert_eq!(talk.prompt(5), Err(Refusal::NotReady));
    talk.line(json!({"id": 3, "result": {}}));
    assert_eq!(
        (talk.types(), talk.conversation.phase()),
        (vec![T::OptionSet, T::Session], RuntimePhase::Ready)
    );
    assert_eq!(talk.records[0].body["current"]["mode"], "plan");
}

#[test]
fn a_start_fails_with_the_option_that_cannot_be_set() {
    let talk = opened_with(r#"{"mode": "yolo"}"#, modes());
    assert_eq!(talk.types(), [T::OptionSet, T::StartFailed]);
    let error = &talk.records[1].body["error"];
    assert_eq!(
        (&error["code"], &error["details"]["available"]),
        (&json!("OPTION_NOT_AVAILABLE"), &json!(["ask", "plan"]))
    );
    let mut talk = opened_with(r#"{"mode": "plan", "model": "x"}"#, modes());
    assert_eq!(talk.types(), [T::OptionSet, T::StartFailed], "the mode is not tried any more");
    talk.input(ConversationInput::Timer(Timer::Option));
    let mut talk = opened_with(r#"{"mode": "plan"}"#, modes());
    talk.line(json!({"id": 3, "error": {"code": -32601, "message": "no"}}));
    assert_eq!(talk.records[1].body["error"]["code"], "OPTION_NOT_AVAILABLE");
    let mut talk = opened_with(r#"{"mode": "plan"}"#, modes());
    talk.input(ConversationInput::Timer(Timer::Option));
    let error = &talk.records[1].body["error"];
    assert_eq!(
        (&error["code"], &error["details"]["phase"]),
        (&json!("BACKEND_TIMEOUT"), &json!("session/set_mode"))
    );
    assert!(error["details"]["logTail"].is_string(), "{error}");
    // A late response changes nothing.
    talk.line(json!({"id": 3, "result": {}}));
    assert_eq!(talk.types().last(), Some(&T::Noise));
}

#[test]
fn options_are_set_one_after_the_other_also_in_a_turn_and_an_error_ends_the_command() {
    let mut talk = opened_with("{}", modes());
    talk.prompt(5).unwrap();
    talk.forget();
    let set = |request: &str, chosen: &str| RuntimeCommand::SetOptions {
        request: request.to_owned(),
        options: options(chosen),
    };
    talk.command(set("a", r#"{"mode": "plan"}"#)).unwrap();
    talk.command(set("b", r#"{"mode": "none", "configOptions": {"x": "y"}}"#)).unwrap();
    talk.command(set("c", r#"{"mode": "ask"}"#)).unwrap();
    assert_eq!(talk.methods(), ["session/set_mode"], "one at a time");
    talk.line(json!({"id": 4, "result": {}}));
    let reported = |talk: &Talk| {
        let reported = |record: &OwnedRecord| {
            (
                record.body["request"].clone(),
                record.body["last"].clone(),
                record.body["error"]["code"].clone(),
            )
        };
        talk.records.iter().map(reported).collect::<Vec<_>>()
    };
    assert_eq!(
        reported(&talk),
        [(json!("a"), json!(true), json!(null)), (json!("b"), json!(true), json!("OPTION_NOT_AVAILABLE"))]
    );
    talk.update("current_mode_update");
    talk.forget();
    // Options that still wait when the agent is ended are reported too.
    talk.command(RuntimeCommand::Terminate { reason: "r".to_owned() }).unwrap();
    assert_eq!(reported(&talk).pop(), Some((json!("c"), json!(true), json!("BACKEND_UNAVAILABLE"))));
    assert_eq!(talk.command(set("d", r#"{"mode": "ask"}"#)), Err(Refusal::Ending));
}

#[test]
fn unsolicited_updates_count_only_for_the_agents_own_session() {
    let mut talk = opened_with("{}", modes());
    let update = |session: &str, mode: &str| {
        json!({"method": "session/update", "params": {"sessionId": session, "update": {
            "sessionUpdate": "current_mode_update", "currentModeId": mode}}})
    };
    talk.line(update("child", "other"));
    assert_eq!(talk.conversation.settings.offer.current().mode.as_deref(), Some("ask"));
    talk.line(update("s", "plan"));
    assert_eq!(talk.conversation.settings.offer.current().mode.as_deref(), Some("plan"));
}

#[test]
fn a_session_whose_start_ends_after_it_was_made_is_closed() {
    let closing = |capabilities: Value, restores: bool| {
        let mut talk = Talk::new(restores.then_some("old"), None);
        talk.conversation.config.options = options(r#"{"mode": "none"}"#);
        talk.started();
        talk.line(json!({"id": 1, "result": {"agentCapabilities": capabilities}}));
        talk.forget();
        talk
    };
    let closes = json!({"loadSession": true, "sessionCapabilities": {"close": {}}});
    let mut talk = closing(closes.clone(), false);
    talk.line(json!({"id": 2, "result": modes()}));
    assert_eq!(talk.types(), [T::OptionSet, T::StartFailed]);
    assert_eq!(talk.methods(), ["session/close"]);
    assert!(!talk.actions.contains(&ConversationAction::Terminate));
    talk.line(json!({"id": 3, "result": {}}));
    assert!(talk.actions.contains(&ConversationAction::CloseInput));
    // The same while the history still arrives.
    let mut talk = closing(closes, true);
    talk.line(json!({"id": 2, "result": null}));
    talk.command(RuntimeCommand::Terminate { reason: "r".to_owned() }).unwrap();
    assert_eq!(
        (talk.methods(), &talk.sent()[0]["params"]["sessionId"]),
        (vec!["session/close".to_owned()], &json!("old"))
    );
    // An agent that cannot close sessions is ended as before.
    let mut talk = closing(json!({}), false);
    talk.line(json!({"id": 2, "result": modes()}));
    assert!(talk.methods().is_empty() && talk.actions.contains(&ConversationAction::Terminate));
}

#[test]
fn an_agent_that_opens_another_session_than_it_was_asked_for_is_held_to_it() {
    let answered = |method: &str, only: bool, reported: Value| {
        let offers = json!({"loadSession": true, "sessionCapabilities": {method: {}}});
        let mut talk = restoring(0, only, Timeouts::default(), offers);
        talk.line(json!({"id": 2, "result": reported}));
        talk.input(ConversationInput::Timer(Timer::Replay));
        talk
    };
    for method in ["resume", "none"] {
        for reported in
            [json!(null), json!({"sessionId": "old"}), json!({"sessionId": ""}), json!({"sessionId": 7})]
        {
            let talk = answered(method, false, reported);
            let session = body(&talk, T::Session);
            assert_eq!((&session["sessionId"], &session["contextLost"]), (&json!("old"), &json!(false)));
        }
        let mut talk = answered(method, false, json!({"sessionId": "new"}));
        let session = body(&talk, T::Session);
        assert_eq!((&session["sessionId"], &session["contextLost"]), (&json!("new"), &json!(true)));
        assert!(session["contextLostReason"].as_str().unwrap().contains("session new instead"), "{session}");
        talk.forget();
        talk.prompt(5).unwrap();
        assert_eq!(talk.sent()[0]["params"]["sessionId"], "new");
        // A client that named the session accepts no other one.
        let talk = answered(method, true, json!({"sessionId": "new"}));
        let error = &body(&talk, T::StartFailed)["error"];
        assert_eq!(error["code"], "SESSION_NOT_FOUND");
    }
}
