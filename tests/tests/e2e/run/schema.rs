//! Tests of the flag `--result-schema`.

use std::fs;

use serde_json::json;
use subagent_tests::harness::TestSandbox;

use super::{all_stopped, result, running};

const SCHEMA: &str = r#"{"type": "object", "required": ["verdict"],
    "properties": {"verdict": {"enum": ["approve", "reject"]}, "comments": {"type": "array"}}}"#;

#[test]
fn a_result_is_checked_against_its_schema() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.workspace().join("review.json"), SCHEMA).unwrap();
    let run = |text: &str| running(&sandbox, text).args(["--json", "--result-schema", "review.json"]).run();
    let data = result(&run(r#"{"verdict": "approve"}"#), "completed", 0);
    assert_eq!((&data["result"], &data["schemaErrors"]), (&json!({"verdict": "approve"}), &json!([])));

    let data = result(
        &run("!tool read x\nSee:\n!say \n```json\n{\"verdict\":\n\"maybe\"}\n!say \n```"),
        "schema_not_met",
        14,
    );
    assert_eq!(
        data["result"],
        serde_json::Value::Null,
        "lines of a script must be printed without their ends: {data}"
    );

    let data = result(&run(r#"{"verdict": "maybe", "comments": 7}"#), "schema_not_met", 14);
    let mut paths: Vec<&str> = data["schemaErrors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/comments", "/verdict"]);

    let output = running(&sandbox, "I have no verdict.").args(["--result-schema", "review.json"]).run();
    assert_eq!(
        (output.status.code(), output.stdout.as_str()),
        (Some(14), "I have no verdict.\n"),
        "{output}"
    );
    assert!(output.stderr.contains("run: schema not met: the message is not JSON"), "{output}");
    all_stopped(&sandbox, 4);
    sandbox.finish();
}

#[test]
fn a_file_that_is_no_schema_is_refused_with_its_place_before_anything_starts() {
    let sandbox = TestSandbox::new();
    let refused = |schema: &str| {
        fs::write(sandbox.workspace().join("schema.json"), schema).unwrap();
        let args = ["run", "--text", "hello", "--result-schema", "schema.json"];
        sandbox.run(&args).error("INVALID_INPUT")["details"].take()
    };
    let details = refused("{\n  \"type\": }");
    assert_eq!((&details["line"], &details["column"]), (&json!(2), &json!(11)));
    let details = refused(r#"{"properties": {"a": {"type": "text"}}}"#);
    assert_eq!(details["position"], "/properties/a/type");
    refused(r#"{"$ref": "https://example.com/schema.json"}"#);
    assert!(!sandbox.state_dir().exists());
    sandbox.finish();
}
