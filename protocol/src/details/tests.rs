//! Details resulting from reports.

use proptest::prelude::*;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;

/// Takes a record as a runtime writes it.
fn take(details: &mut Details, t: RecordType, kind: Option<&str>, body: &Value) {
    let body = to_raw_value(body).unwrap();
    let record = JournalRecord { n: 1, at: 0, t, turn: None, k: kind.map(Into::into), b: Some(&body) };
    if let Some(report) = RecordDetail::of(&record) {
        details.take(report);
    }
    // Stored details must equal the parsed ones.
    let stored = serde_json::to_string(details).unwrap();
    assert_eq!(serde_json::from_str::<Details>(&stored).unwrap(), *details, "{stored}");
}

fn update(details: &mut Details, kind: &str, update: Value) {
    take(details, RecordType::Update, Some(kind), &json!({"sessionId": "s", "update": update}));
}

fn started(details: &mut Details) {
    take(details, RecordType::AgentStarted, None, &json!({}));
}

fn session(details: &mut Details, id: &str, opened: Value) {
    let agent = json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1.2"}});
    let body =
        json!({"sessionId": id, "origin": "new", "contextLost": false, "agent": agent, "opened": opened});
    take(details, RecordType::Session, None, &body);
}

fn options(model: &str) -> Value {
    json!([{"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": []},
           {"id": "mode", "category": "mode", "currentValue": "ask"},
           {"id": "fast", "currentValue": true}, {"id": 7}, {"id": "odd", "currentValue": {"x": 1}}])
}

#[test]
fn nothing_is_known_before_anything_is_reported() {
    let mut details = Details::default();
    assert_eq!(serde_json::to_value(&details).unwrap(), json!({}));
    started(&mut details);
    session(&mut details, "s", Value::Null);
    assert_eq!(
        serde_json::to_value(&details).unwrap(),
        json!({"name": "a", "version": "1.2", "restores": false, "sessionId": "s"})
    );
}

#[test]
fn mode_and_model_come_from_the_session_and_change_with_updates() {
    let mut details = Details::default();
    started(&mut details);
    let modes = json!({"currentModeId": "default", "availableModes": []});
    session(&mut details, "s", json!({"modes": modes, "models": {"currentModelId": "auto"}}));
    assert_eq!((details.mode.as_deref(), details.model.as_deref()), (Some("default"), Some("auto")));
    assert_eq!(details.config_options, None);
    update(&mut details, "mode", json!({"currentModeId": "plan"}));
    update(&mut details, "mode", json!({"currentModeId": 7}));
    assert_eq!(details.mode.as_deref(), Some("plan"));
    update(&mut details, "config_option", json!({"configOptions": options("fast")}));
    assert_eq!((details.mode.as_deref(), details.model.as_deref()), (Some("ask"), Some("fast")));
    let values: Vec<Value> =
        details.config_options.unwrap().into_iter().map(|option| option.current_value).collect();
    assert_eq!(values, [json!("fast"), json!("ask"), json!(true), json!(null)]);
}

/// An option that the runtime has set; `result` is the agent's response.
fn set(details: &mut Details, choice: Value, current: Value, result: Value) {
    let body = json!({"choice": choice, "last": true, "result": result, "current": current});
    take(details, RecordType::OptionSet, None, &body);
}

#[test]
fn a_set_option_counts_even_without_an_update() {
    let mut details = Details::default();
    started(&mut details);
    // Before the session is ready, with an agent that returns nothing.
    let current = json!({"mode": "plan", "model": null, "configOptions": {}});
    set(&mut details, json!({"option": "mode", "value": "plan"}), current, json!({}));
    let modes = json!({"currentModeId": "default", "availableModes": []});
    session(&mut details, "s", json!({"modes": modes, "configOptions": options("slow")}));
    assert_eq!((details.mode.as_deref(), details.model.as_deref()), (Some("plan"), Some("slow")));
    // With an agent that returns all options, and one whose response was too long.
    let current =
        |model: &str, fast: bool| json!({"model": model, "configOptions": {"fast": fast, "m": model}});
    let choice = json!({"option": "configOption", "configId": "fast", "value": false});
    set(&mut details, choice.clone(), current("quick", true), json!({"configOptions": options("quick")}));
    assert_eq!(details.model.as_deref(), Some("quick"));
    let body = json!({"choice": choice, "last": true, "current": current("quick", false)});
    take(&mut details, RecordType::OptionSet, None, &body);
    let fast = details.config_options.iter().flatten().find(|option| option.id == "fast").unwrap();
    assert_eq!((fast.current_value.clone(), details.model.as_deref()), (json!(false), Some("quick")));
}

#[test]
fn a_new_session_keeps_earlier_updates() {
    let mut details = Details::default();
    started(&mut details);
    update(&mut details, "config_option", json!({"configOptions": options("early")}));
    session(&mut details, "s", json!({"configOptions": options("late")}));
    assert_eq!(details.model.as_deref(), Some("early"));
}

#[test]
fn the_last_report_sets_use_cost_and_tokens() {
    let mut details = Details::default();
    update(
        &mut details,
        "usage",
        json!({"used": 5, "size": 100, "cost": {"amount": 0.25, "currency": "USD"}}),
    );
    update(&mut details, "usage", json!({"used": 7, "size": null, "cost": {"amount": "x"}}));
    assert_eq!((details.session.context_used, details.session.context_size), (Some(7), Some(100)));
    assert_eq!(details.session.cost, Some(Cost { amount: 0.25, currency: "USD".to_owned() }));
    let end =
        json!({"end": "answered", "stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 4}});
    take(&mut details, RecordType::TurnEnd, None, &end);
    take(&mut details, RecordType::TurnEnd, None, &json!({"end": "answered"}));
    assert_eq!(details.session.tokens, Some(json!({"inputTokens": 3, "outputTokens": 4})));
    // Another session's facts must not count.
    let child = json!({"sessionId": "child", "update": {"used": 1}});
    take(&mut details, RecordType::ChildUpdate, Some("usage"), &child);
    assert_eq!(details.session.context_used, Some(7));
}

#[test]
fn another_process_keeps_only_data_of_the_same_session() {
    for (id, used) in [("s", Some(5)), ("other", None)] {
        let mut details = Details::default();
        started(&mut details);
        session(&mut details, "s", json!({"modes": {"currentModeId": "plan"}}));
        update(&mut details, "usage", json!({"used": 5}));
        update(&mut details, "session_info", json!({"title": "before"}));
        started(&mut details);
        assert_eq!((details.session.context_used, details.mode.as_deref()), (None, None));
        // It dies before it has a session; the next one has one.
        started(&mut details);
        update(&mut details, "session_info", json!({"title": "after"}));
        session(&mut details, id, Value::Null);
        assert_eq!((details.session.context_used, details.session.title.as_deref()), (used, Some("after")));
        assert_eq!(details.mode, None, "what a new process does not report is not known");
    }
}

#[test]
fn hostile_input_is_bounded() {
    let mut details = Details::default();
    update(&mut details, "session_info", json!({"title": "ä".repeat(9999)}));
    assert_eq!(details.session.title.as_ref().unwrap().chars().count(), MAX_CHARS);
    let many: Vec<Value> = (0..1000).map(|id| json!({"id": id.to_string()})).collect();
    update(&mut details, "config_option", json!({"configOptions": many}));
    assert_eq!(details.config_options.unwrap().len(), MAX_OPTIONS);
}

proptest! {
    #[test]
    fn arbitrary_reports_never_panic(text in r#"[\[\]{}:,"a-zA-Z0-9]{0,80}"#, kind in 0usize..4) {
        let kind = ["usage", "mode", "config_option", "session_info"][kind];
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let mut details = Details::default();
            update(&mut details, kind, value.clone());
            session(&mut details, "s", value.clone());
            take(&mut details, RecordType::TurnEnd, None, &value);
        }
    }
}

#[test]
fn only_agents_with_the_capability_restore_a_session() {
    for (capabilities, expected) in [
        (json!({}), false),
        (json!({"loadSession": true}), true),
        (json!({"loadSession": false}), false),
        (json!({"loadSession": "yes"}), false),
        (json!({"loadSession": false, "sessionCapabilities": {"resume": {}}}), true),
        (json!({"sessionCapabilities": {"resume": null, "close": {}}}), false),
    ] {
        let body = json!({
            "sessionId": "s", "origin": "new", "contextLost": false,
            "agent": {"agentCapabilities": capabilities}, "opened": null,
        });
        let session: SessionRecord = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(RecordDetail::Session(Box::new(session)).restores(), Some(expected), "{body}");
    }
}
