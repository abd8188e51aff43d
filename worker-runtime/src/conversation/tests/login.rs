//! Agents that require a login, at their start and later.

use super::*;

const REFUSED: i64 = -32000;

fn refused(id: u64) -> Value {
    json!({"id": id, "error": {"code": REFUSED, "message": "Login first"}})
}

/// A conversation up to the response to `initialize`, which offers these methods.
/// The launcher names one.
fn offering(session: Option<&str>, named: Option<&str>, methods: Value) -> Talk {
    let mut talk = Talk::new(session, None);
    let login = Login { launcher: Some("my agent".to_owned()), method: named.map(str::to_owned) };
    talk.conversation.config.login = login;
    talk.started();
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "close": {}}});
    talk.line(json!({"id": 1, "result": {"agentCapabilities": capabilities, "authMethods": methods}}));
    talk.forget();
    talk
}

fn one_way() -> Value {
    json!([{"id": "key", "name": "Key"}, {"id": "tui", "type": "terminal"}, {"id": "odd", "type": "_odd"}])
}

#[test]
fn the_way_that_the_launcher_names_is_gone_once_and_the_same_session_asked_for_again() {
    let mut talk = offering(Some("old"), Some("key"), one_way());
    talk.line(refused(2));
    assert_eq!(talk.sent()[0]["params"], json!({"methodId": "key"}));
    assert_eq!(
        (talk.methods(), talk.conversation.phase()),
        (vec!["authenticate".to_owned()], RuntimePhase::Starting)
    );
    talk.line(json!({"id": 3, "result": {}}));
    assert_eq!(talk.methods(), ["authenticate", "session/resume"]);
    talk.line(json!({"id": 4, "result": {}}));
    assert_eq!(talk.conversation.phase(), RuntimePhase::Ready);
    assert_eq!(body(&talk, T::Session)["contextLost"], false);

    // An agent that still refuses is not asked again, and the session is not replaced by a new one.
    let mut talk = offering(Some("old"), Some("key"), one_way());
    talk.line(refused(2));
    talk.line(json!({"id": 3, "result": {}}));
    talk.line(refused(4));
    assert_eq!(talk.methods(), ["authenticate", "session/resume"]);
    assert_eq!(body(&talk, T::StartFailed)["error"]["details"]["method"], "session/resume");
}

#[test]
fn without_a_usable_login_method_the_start_fails_with_advice() {
    for named in [None, Some("tui"), Some("odd"), Some("other")] {
        let mut talk = offering(Some("old"), named, one_way());
        talk.line(refused(2));
        assert!(talk.methods().is_empty(), "{named:?}: nothing else is tried: {:?}", talk.methods());
        let error = body(&talk, T::StartFailed)["error"].clone();
        let details = &error["details"];
        assert_eq!(
            (&error["code"], &error["retryable"], &details["recommendedCommand"]),
            (&json!("BACKEND_RPC_ERROR"), &json!(false), &json!("subagent launcher login 'my agent'"))
        );
        assert_eq!(details["authMethods"], json!(["key", "tui", "odd"]));
        let action = details["recommendedAction"].as_str().unwrap();
        assert_eq!(action.contains("authMethod"), named.is_some(), "{action}");
    }
}

#[test]
fn an_agent_without_any_login_fails_in_its_own_words() {
    let mut talk = offering(Some("old"), None, json!([]));
    talk.line(refused(2));
    talk.line(refused(3));
    assert_eq!(talk.methods(), ["session/load", "session/new"], "the session is not there, it seems");
    talk.line(refused(4));
    assert_eq!(body(&talk, T::StartFailed)["error"]["details"]["method"], "session/new");
}

#[test]
fn a_login_that_fails_or_hangs_is_the_error_of_the_start() {
    let mut talk = offering(None, Some("key"), one_way());
    talk.line(refused(2));
    talk.line(json!({"id": 3, "error": {"code": -32603, "message": "wrong key"}}));
    let error = body(&talk, T::StartFailed)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("authenticate: wrong key"), "{error}");
    for timer in [Timer::Startup, Timer::Phase] {
        let mut talk = offering(None, Some("key"), one_way());
        talk.line(refused(2));
        talk.input(ConversationInput::Timer(timer));
        let error = body(&talk, T::StartFailed)["error"].clone();
        let phase = (&error["code"], &error["details"]["phase"]);
        assert_eq!(phase, (&json!("BACKEND_TIMEOUT"), &json!("authenticate")));
    }
}

/// A session with a turn whose prompt was rejected.
fn refused_in_turn(named: Option<&str>) -> Talk {
    let mut talk = offering(None, named, one_way());
    talk.line(json!({"id": 2, "result": {"sessionId": "s"}}));
    talk.prompt(5).unwrap();
    talk.forget();
    talk.line(refused(3));
    talk
}

#[test]
fn a_prompt_is_not_sent_again_after_a_login() {
    let mut talk = refused_in_turn(Some("key"));
    assert_eq!((talk.methods(), talk.types()), (vec!["authenticate".to_owned()], vec![]));
    assert_eq!(talk.prompt(6), Err(Refusal::Busy));
    // A second response is noise.
    talk.line(refused(3));
    talk.line(json!({"id": 4, "result": {}}));
    assert_eq!(talk.types(), [T::Noise, T::TurnEnd]);
    let error = body(&talk, T::TurnEnd)["error"].clone();
    assert_eq!((&error["retryable"], &error["details"]["loggedIn"]), (&json!(true), &json!(true)));
    assert_eq!(body(&talk, T::TurnEnd)["answer"]["code"], REFUSED);
    assert_eq!(talk.methods(), ["authenticate"]);
    talk.prompt(6).unwrap();
}

#[test]
fn an_agent_without_login_is_ended_so_that_the_next_start_finds_the_login() {
    let failed = |talk: &mut Talk| talk.line(json!({"id": 4, "error": {"code": 1, "message": "no"}}));
    let late = |talk: &mut Talk| talk.input(ConversationInput::Timer(Timer::Phase));
    for (named, then) in [
        (None, None),
        (Some("tui"), None),
        (Some("key"), Some(&failed as &dyn Fn(&mut Talk))),
        (Some("key"), Some(&late)),
    ] {
        let mut talk = refused_in_turn(named);
        if let Some(then) = then {
            then(&mut talk);
        }
        assert_eq!(talk.types(), [T::TurnEnd, T::Terminating], "{named:?}");
        assert_eq!(body(&talk, T::TurnEnd)["error"]["retryable"], false);
        assert_eq!(talk.methods().last().map(String::as_str), Some("session/close"));
        assert_eq!(talk.prompt(6), Err(Refusal::Ending));
    }
    // An agent that cannot restore the session is not ended.
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    talk.forget();
    talk.line(refused(3));
    assert_eq!(talk.types(), [T::TurnEnd]);
    talk.prompt(6).unwrap();
}

#[test]
fn a_cancel_does_not_wait_for_a_login() {
    let mut talk = refused_in_turn(Some("key"));
    talk.command(RuntimeCommand::Cancel { turn: 5, reason: "r".to_owned() }).unwrap();
    assert_eq!(talk.types(), [T::CancelRequested, T::TurnEnd]);
    assert!(
        !talk
            .actions
            .iter()
            .any(|action| matches!(action, ConversationAction::SetTimer(Timer::CancelGrace, _)))
    );
    talk.line(json!({"id": 4, "result": {}}));
    assert_eq!(talk.types().last(), Some(&T::Noise));
    talk.prompt(6).unwrap();
    // A stop allows it the time of one step.
    let mut talk = refused_in_turn(Some("key"));
    talk.command(RuntimeCommand::Terminate { reason: "r".to_owned() }).unwrap();
    talk.input(ConversationInput::Timer(Timer::StopGrace));
    assert_eq!(talk.types(), [T::Terminating, T::TurnEnd]);
}
