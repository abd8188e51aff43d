//! Tests with valid and hostile schemas and messages.

use proptest::prelude::*;

use super::*;

#[test]
fn the_json_is_found_where_it_may_be() {
    let one = json!({"a": 1});
    for message in [
        "{\"a\": 1}",
        " \n{\"a\": 1}\n",
        "Here it is:\n```json\n{\"a\": 1}\n```\nBye.",
        "```\n{\"a\": 1}\n```",
        "````JSON title\n{\"a\":\n1}\n````",
        "```sh\nls\n```\nand\n```json\n{\"a\": 1}\n```\n",
    ] {
        assert_eq!(json_of(message).as_ref(), Ok(&one), "{message}");
    }
    for (message, why) in [
        ("I did it.", "has no code block"),
        ("", "has no code block"),
        ("```json\n{\"a\": 1}", "has no code block"),
        ("x\n```json\n{a}\n```", "line 2"),
        ("```json\n1\n```\n```json\n2\n```", "several"),
        ("```\n1\n```\n```\n2\n```", "several"),
    ] {
        let error = json_of(message).unwrap_err();
        assert!(error.contains(why), "{message}: {error}");
    }
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for read in [ResultSchema::of, ResultSchema::bounded] {
        let refused = read(&json!({"properties": {"a": {"type": "objekt"}}})).unwrap_err();
        assert_eq!(refused.at, "/properties/a/type", "{refused}");
        for outside in ["https://example.com/schema.json", "file:///etc/passwd", "other.json"] {
            read(&json!({"properties": {"a": {"$ref": outside}}})).unwrap_err();
        }
        assert!(read(&json!(true)).is_ok() && read(&json!(7)).is_err());
    }
}

#[test]
fn what_is_wrong_with_a_result_is_listed() {
    let schema = json!({"type": "object", "required": ["verdict"], "properties": {"n": {"maximum": 3}}});
    let schema = ResultSchema::bounded(&schema).unwrap();
    assert_eq!(schema.check(r#"{"verdict": "ok"}"#).errors, Vec::<Value>::new());
    let checked = schema.check(r#"{"n": 4}"#);
    let paths: Vec<&Value> = checked.errors.iter().map(|error| &error["path"]).collect();
    assert_eq!((paths.len(), checked.result), (2, json!({"n": 4})));
    assert!(paths.contains(&&json!("/n")) && paths.contains(&&json!("")));
    let none = schema.check("no JSON");
    assert_eq!((none.result, none.errors.len()), (Value::Null, 1));
}

#[test]
fn what_others_have_written_is_bounded() {
    let nested = (0..MAX_SCHEMA_DEPTH).fold(json!(true), |below, _| json!({"not": below}));
    let large = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)});
    for schema in [nested, large, json!({"pattern": "((a{99}){99}){99}"}), json!({"pattern": "(?=x)"})] {
        ResultSchema::bounded(&schema).unwrap_err();
    }
    let slow = ResultSchema::bounded(&json!({"pattern": "^(a+)+$"})).unwrap();
    let text = json!(format!("{}b", "a".repeat(50_000))).to_string();
    assert_eq!(slow.check(&text).errors.len(), 1);
}

#[test]
fn a_schema_that_leads_to_itself_ends() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"items": {"$ref": "#"}}),
    ] {
        // The process must survive, whether the schema is refused or not.
        if let Ok(schema) = ResultSchema::bounded(&schema) {
            let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
            let _ = with_stack(move || schema.check(&deep));
        }
    }
}

/// Returns a schema of maximum size in which each part refers to the next.
fn chain(last: &Value) -> Value {
    let mut parts = serde_json::Map::new();
    let most = 900;
    for no in 0..most {
        let part = if no + 1 == most { last.clone() } else { json!({"$ref": format!("#/$defs/{}", no + 1)}) };
        parts.insert(no.to_string(), part);
    }
    json!({"$ref": "#/$defs/0", "$defs": parts})
}

#[test]
fn a_long_way_from_part_to_part_ends() {
    let schema = chain(&json!({"items": {"$ref": "#/$defs/0"}}));
    assert!(schema.to_string().len() > MAX_SCHEMA_BYTES * 3 / 4, "{}", schema.to_string().len());
    let schema = ResultSchema::bounded(&schema).unwrap();
    let checked = with_stack(move || schema.check(&format!("{}{}", "[".repeat(120), "]".repeat(120))));
    assert_eq!(checked.unwrap().errors, Vec::<Value>::new());
}

proptest! {
    #[test]
    fn no_message_is_too_much(message in "[`a-z{}\" \n0-9:]{0,200}") {
        let _ = json_of(&message);
    }
}

/// Returns parts that each refer to the next one twice, through `by`.
fn doubled(most: usize, by: impl Fn(Value, Value) -> Value) -> Value {
    let mut parts = serde_json::Map::new();
    for no in 0..most {
        let next = || json!({"$ref": format!("#/$defs/{}", no + 1)});
        parts.insert(no.to_string(), by(next(), next()));
    }
    parts.insert(most.to_string(), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/0", "$defs": parts})
}

#[test]
fn ways_that_part_again_and_again_are_read_at_once() {
    for schema in [
        doubled(200, |one, other| json!({"allOf": [one, other]})),
        doubled(200, |one, other| json!({"anyOf": [one, {"not": other}]})),
        doubled(200, |one, other| json!({"properties": {"a": one, "b": other}})),
        doubled(200, |one, other| json!({"items": one, "contains": other, "unevaluatedProperties": false})),
        doubled(200, |one, other| json!({"if": one, "then": other, "unevaluatedItems": false})),
    ] {
        let begun = std::time::Instant::now();
        let _ = ResultSchema::bounded(&schema);
        assert!(begun.elapsed().as_secs() < 20, "{schema}");
    }
}
