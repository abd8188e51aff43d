//! Table tests of the `--input` contract.

use serde_json::json;
use subagent_protocol::Code;

use super::*;
use crate::commands::approve::INPUT as APPROVE;
use crate::commands::send::INPUT as SEND;
use crate::commands::task::run::INPUT as TASK_RUN;
use crate::commands::wait::INPUT as WAIT;
use crate::commands::worker::start::INPUT as WORKER_START;

fn parse(text: &str, fields: &[InputField], typed: &TypedFlags) -> Result<InputObject> {
    InputObject::parse(text, fields, typed)
}

#[track_caller]
fn refused(text: &str, fields: &[InputField], typed: &TypedFlags, message: &str, details: Value) {
    let failure = parse(text, fields, typed).unwrap_err();
    assert!(failure.is(Code::InvalidInput), "{failure}");
    assert!(failure.message.contains(message), "{failure}");
    assert_eq!(Value::Object(failure.details), details);
}

#[test]
fn what_is_no_object_is_refused() {
    let none = TypedFlags::default();
    let failure = parse("{", SEND, &none).unwrap_err();
    assert!(failure.details.contains_key("error"), "{failure}");
    for text in ["[]", "1", "null", "\"x\""] {
        refused(text, SEND, &none, "JSON object", json!({}));
    }
}

#[test]
fn a_key_whose_flag_was_typed_is_a_duplicate_even_if_null() {
    for (fields, key, flag) in [
        (SEND, "workerId", "worker_id"),
        (SEND, "text", "text"),
        (SEND, "blocks", "blocks_json"),
        (SEND, "wait", "wait_for_match"),
        (SEND, "debugMode", "debug_mode"),
        (WORKER_START, "debugMode", "debug_mode"),
        (SEND, "waitUntil", "wait_until"),
        (SEND, "waitTimeoutSeconds", "wait_timeout_seconds"),
        (SEND, "waitNoProgressTimeoutSeconds", "wait_no_progress_timeout_seconds"),
        (WAIT, "workerId", "worker_id"),
        (WAIT, "until", "until"),
        (WAIT, "fromEventId", "from_event_id"),
        (WAIT, "afterLatest", "after_latest"),
        (WAIT, "timeoutSeconds", "timeout_seconds"),
        (WAIT, "noProgressTimeoutSeconds", "no_progress_timeout_seconds"),
        (APPROVE, "requestId", "request_id"),
        (APPROVE, "optionId", "option_id"),
        (APPROVE, "note", "note"),
        (WORKER_START, "launcher", "launcher"),
        (WORKER_START, "cwd", "cwd"),
        (WORKER_START, "controllerId", "controller_id"),
    ] {
        let text = format!("{{\"{key}\": null}}");
        refused(&text, fields, &TypedFlags::from([flag]), key, json!({"field": key, "flag": flag}));
    }
}

#[test]
fn the_other_flag_of_a_pair_is_the_same_flag() {
    let expected = json!({"field": "wait", "flag": "wait_for_match"});
    refused(r#"{"wait": true}"#, SEND, &TypedFlags::from(["no_wait"]), "once", expected);
    for fields in [SEND, WORKER_START] {
        let expected = json!({"field": "debugMode", "flag": "debug_mode"});
        refused(r#"{"debugMode": false}"#, fields, &TypedFlags::from(["no_debug_mode"]), "once", expected);
    }
    let expected = json!({"field": "afterLatest", "flag": "after_latest"});
    refused(r#"{"afterLatest": true}"#, WAIT, &TypedFlags::from(["include_history"]), "once", expected);
}

#[test]
fn flags_for_other_keys_do_not_conflict() {
    let input = parse(r#"{"workerId": "w"}"#, SEND, &TypedFlags::from(["text", "json"])).unwrap();
    assert_eq!(input.text("workerId").as_deref(), Some("w"));
}

#[test]
fn null_and_empty_strings_are_absent_but_for_the_text() {
    let input =
        parse(r#"{"workerId": "", "waitUntil": null, "text": ""}"#, SEND, &TypedFlags::default()).unwrap();
    assert_eq!((input.text("workerId"), input.text("waitUntil")), (None, None));
    assert_eq!(input.text("text").as_deref(), Some(""));
}

#[test]
fn values_are_read() {
    let text = r#"{"wait": false, "waitTimeoutSeconds": 2, "waitNoProgressTimeoutSeconds": 0.5, "blocks": [{"type": "text"}]}"#;
    let input = parse(text, SEND, &TypedFlags::default()).unwrap();
    assert_eq!(input.flag("wait"), Some(false));
    assert_eq!(input.seconds("waitTimeoutSeconds"), Some(2.0));
    assert_eq!(input.seconds("waitNoProgressTimeoutSeconds"), Some(0.5));
    assert_eq!(input.objects("blocks"), Some(vec![json!({"type": "text"})]));
    assert_eq!(input.seconds("timeoutSeconds"), None);
}

#[test]
fn wrong_shapes_have_no_details() {
    let none = TypedFlags::default();
    for (text, message) in [
        (r#"{"workerId": 1}"#, "a string"),
        (r#"{"text": ["x"]}"#, "a string"),
        (r#"{"wait": null}"#, "true or false"),
        (r#"{"debugMode": null}"#, "true or false"),
        (r#"{"wait": 1}"#, "true or false"),
        (r#"{"blocks": null}"#, "list of objects"),
        (r#"{"blocks": [1]}"#, "list of objects"),
        (r#"{"blocks": {}}"#, "list of objects"),
        (r#"{"waitTimeoutSeconds": -1}"#, "0 or more"),
        (r#"{"waitTimeoutSeconds": true}"#, "0 or more"),
        (r#"{"waitTimeoutSeconds": "5"}"#, "0 or more"),
    ] {
        refused(text, SEND, &none, message, json!({}));
    }
    for (text, message) in [
        (r#"{"maxSteps": 0}"#, "a whole number, 1 or more"),
        (r#"{"maxSteps": 1.5}"#, "a whole number, 1 or more"),
        (r#"{"timeoutSeconds": -1}"#, "a number of seconds, 0 or more"),
    ] {
        refused(text, TASK_RUN, &none, message, json!({}));
    }
    let input = parse(r#"{"maxSteps": 3, "timeoutSeconds": 0}"#, TASK_RUN, &none).unwrap();
    assert_eq!((input.count("maxSteps"), input.seconds("timeoutSeconds")), (Some(3), Some(0.0)));
}

#[test]
fn the_key_worker_is_refused_even_beside_the_right_one() {
    for fields in [SEND, WAIT, APPROVE] {
        refused(
            r#"{"worker": "w", "workerId": "w"}"#,
            fields,
            &TypedFlags::default(),
            "not supported",
            json!({}),
        );
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused_and_named() {
    for twice in [
        r#"{"label": "a", "role": "r", "label": "b"}"#,
        r#"{"label": "a", "l\u0061bel": null}"#,
        r#"{"x": {"y": 1, "y": 1}, "label": 1, "label": 2}"#,
    ] {
        let failure = InputObject::parse(twice, WORKER_START, &TypedFlags::default()).unwrap_err();
        assert!(failure.is(Code::InvalidInput));
        assert_eq!(Value::Object(failure.details), json!({"field": "label"}), "{twice}");
    }
    // Only the agent interprets blocks.
    let nested = r#"{"blocks": [{"type": "text", "x": 1, "x": 2}]}"#;
    InputObject::parse(nested, SEND, &TypedFlags::default()).unwrap();
}

#[test]
fn unknown_keys_are_refused_and_named() {
    let failure =
        parse(r#"{"lable": "y", "launcher": "x"}"#, WORKER_START, &TypedFlags::default()).unwrap_err();
    assert!(failure.is(Code::InvalidInput) && failure.message.contains("lable"), "{failure}");
    assert_eq!(failure.details["unknown"], json!(["lable"]));
    assert!(failure.details["known"].as_array().unwrap().contains(&json!("label")));
}

#[test]
fn a_byte_order_mark_means_nothing() {
    assert!(parse("\u{feff}{}", SEND, &TypedFlags::default()).is_ok());
}

#[test]
fn numbers_and_depths_beyond_all_measure_are_no_json() {
    let deep = format!("{{\"blocks\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [
        &deep,
        r#"{"waitTimeoutSeconds": 1e999}"#,
        r#"{"waitTimeoutSeconds": NaN}"#,
        r#"{"text": "\ud800"}"#,
        "",
    ] {
        let failure = parse(text, SEND, &TypedFlags::default()).unwrap_err();
        assert!(failure.is(Code::InvalidInput) && failure.details.contains_key("error"), "{failure}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.json");
    let odd = dir.path().join("odd.json");
    std::fs::write(&odd, b"\xff").unwrap();
    for path in [missing.as_path(), odd.as_path(), dir.path()] {
        let failure = InputObject::load(Some(path), SEND, &TypedFlags::default()).unwrap_err();
        assert!(failure.is(Code::InvalidInput), "{failure}");
        assert_eq!(failure.details["path"], path.to_str().unwrap());
        assert!(failure.details.contains_key("error"));
    }
}
