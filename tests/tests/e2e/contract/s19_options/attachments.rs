//! `send --attach`: attachments of a message, in the form that the agent accepts.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
const WAV: &[u8] = b"RIFF\x04\0\0\0WAVE";

/// A world with a worker whose agent accepts these kinds, and the files `notes.md`, `a
/// b.png`, `a.wav` and `a.bin`.
fn taking(what: &str) -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &["--takes", what]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    for (name, bytes) in
        [("notes.md", &b"# Notes\n"[..]), ("a b.png", PNG), ("a.wav", WAV), ("a.bin", b"\0\x01")]
    {
        fs::write(sandbox.workspace().join(name), bytes).unwrap();
    }
    let worker = sandbox.start("sdk");
    (sandbox, worker)
}

/// Returns the blocks after the text that the agent received, from its report of the prompt.
fn blocks(waited: &Value) -> Vec<Value> {
    let text = waited["assistantText"].as_str().unwrap();
    let list = text.strip_suffix("blocks ").unwrap();
    let blocks: Vec<Value> = serde_json::from_str(list).unwrap();
    assert_eq!(blocks[0], json!({"type": "text", "text": "blocks"}));
    blocks[1..].to_vec()
}

fn send(sandbox: &TestSandbox, worker: &str, flags: &[&str]) -> Value {
    let args = [&["send", "--worker-id", worker, "--text", "blocks"], flags].concat();
    sandbox.run(&args).data_of("turn.waited")
}

fn uri(sandbox: &TestSandbox, name: &str) -> String {
    format!("file://{}/{name}", sandbox.workspace().to_str().unwrap())
}

#[test]
fn every_kind_goes_along_as_what_it_is() {
    let (sandbox, worker) = taking("image,audio,embedded");
    let flags = ["--attach", "notes.md", "--attach", "a b.png", "--attach", "a.wav", "--attach", "a.bin"];
    let waited = send(&sandbox, &worker, &flags);
    let (notes, image, bin) = (uri(&sandbox, "notes.md"), uri(&sandbox, "a%20b.png"), uri(&sandbox, "a.bin"));
    let expected = [
        json!({"type": "resource", "resource": {"mimeType": "text/markdown", "text": "# Notes\n", "uri": notes}}),
        json!({"type": "image", "data": "iVBORw0KGgpyZXN0", "mimeType": "image/png", "uri": image}),
        json!({"type": "audio", "data": "UklGRgQAAABXQVZF", "mimeType": "audio/wav"}),
        json!({"type": "resource_link", "name": "a.bin", "size": 2, "uri": bin}),
    ];
    assert_eq!(blocks(&waited), expected);
    let input = json!({"workerId": worker, "text": "blocks", "attachments": ["a.bin"]}).to_string();
    let waited = sandbox.subagent(&["send", "--input", "-"]).stdin(input).run().data_of("turn.waited");
    assert_eq!(blocks(&waited), expected[3..]);
    sandbox.finish();
}

#[test]
fn events_report_what_was_attached_and_not_what_is_in_it() {
    let (sandbox, worker) = taking("image,embedded");
    let _ = send(&sandbox, &worker, &["--attach", "notes.md", "--attach", "a b.png", "--attach", "a.bin"]);
    let events = sandbox.events(&worker);
    let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
    let described = json!({"name": "str", "uri": "str", "mimeType!": "str", "size": "int", "kind": "str", "sha256!": "str"});
    assert_shape(&sent["data"], &json!({"text": "=blocks", "blocks": [], "attachments": [described]}));
    let kinds: Vec<&Value> =
        sent["data"]["attachments"].as_array().unwrap().iter().map(|file| &file["kind"]).collect();
    assert_eq!(kinds, ["text", "image", "link"]);
    assert_eq!(sent["data"]["attachments"][1]["sha256"].as_str().unwrap().len(), 64);
    sandbox.finish();
}

#[test]
fn text_is_a_link_for_an_agent_that_takes_nothing_else_and_media_are_refused() {
    let (sandbox, worker) = taking("nothing");
    let waited = send(&sandbox, &worker, &["--attach", "notes.md"]);
    let link = json!({
        "type": "resource_link", "name": "notes.md", "mimeType": "text/markdown", "size": 8,
        "uri": uri(&sandbox, "notes.md"),
    });
    assert_eq!(blocks(&waited), [link]);
    for (name, kind) in [("a b.png", "image"), ("a.wav", "audio")] {
        let args = ["send", "--worker-id", &worker, "--text", "x", "--attach", "notes.md", "--attach", name];
        let error = sandbox.run(&args).error("ATTACHMENT_NOT_SUPPORTED");
        let details = &error["details"];
        assert_eq!((&details["attachment"], &details["kind"]), (&json!(name), &json!(kind)));
        assert_eq!((&details["supported"], &details["dispatched"]), (&json!(["text", "link"]), &json!("no")));
        assert_eq!(error["retryable"], false);
    }
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well ");
    sandbox.finish();
}

#[test]
fn attachments_outlive_the_daemon_and_wait_for_an_agent() {
    let (sandbox, worker) = taking("image,embedded");
    sandbox.kill(&sandbox.runtime(&worker));
    let args = ["send", "--worker-id", &worker, "--text", "blocks", "--attach", "a b.png", "--turn-id", "k"];
    let accepted = sandbox.run(&[&args[..], &["--no-wait"]].concat()).data_of("turn.accepted");
    fs::write(sandbox.workspace().join("a b.png"), "changed since").unwrap();
    sandbox.kill_daemon();
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let events = sandbox.events(&worker);
    let text = events.iter().find(|event| event["type"] == "progress.message").unwrap();
    assert!(text["data"]["text"].as_str().unwrap().contains("iVBORw0KGgpyZXN0"), "{text}");
    // Different content is another message.
    sandbox.run(&args).error("IDEMPOTENCY_CONFLICT");
    sandbox.finish();
}

#[test]
fn a_message_may_be_attachments_alone() {
    let (sandbox, worker) = taking("embedded");
    let input = json!({"workerId": worker, "text": "", "attachments": ["notes.md"]}).to_string();
    let waited = sandbox.subagent(&["send", "--input", "-"]).stdin(input).run().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn what_cannot_be_read_is_reported_before_anything_is_sent() {
    let (sandbox, worker) = taking("embedded");
    let workspace = sandbox.workspace();
    nix::unistd::mkfifo(&workspace.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("notes.md", workspace.join("link")).unwrap();
    for name in ["none", "pipe", ".", "/dev/zero"] {
        let args = ["send", "--worker-id", &worker, "--text", "x", "--attach", name];
        let error = sandbox.run(&args).error("INVALID_INPUT");
        assert!(error["details"]["path"].is_string() && error["details"]["error"].is_string(), "{error}");
    }
    fs::File::create(workspace.join("large")).unwrap().set_len(1 << 40).unwrap();
    let waited = send(&sandbox, &worker, &["--attach", "large", "--attach", "link"]);
    assert_eq!(blocks(&waited)[0]["size"], 1_u64 << 40, "linked files must not be read");
    fs::write(workspace.join("text"), "x".repeat(64 * 1024 * 1024 + 1)).unwrap();
    let args = ["send", "--worker-id", &worker, "--text", "x", "--attach", "text"];
    let error = sandbox.run(&args).error("PAYLOAD_TOO_LARGE");
    assert_eq!(error["details"]["limitBytes"], 64 * 1024 * 1024);
    for bad in [
        json!({"workerId": worker, "text": "x", "attachments": "notes.md"}),
        json!({"workerId": worker, "text": "x", "attachments": [""]}),
    ] {
        sandbox.subagent(&["send", "--input", "-"]).stdin(bad.to_string()).run().error("INVALID_INPUT");
    }
    let both = ["send", "--worker-id", &worker, "--text", "x", "--attach", "notes.md", "--input", "-"];
    let error = sandbox.subagent(&both).stdin("{\"attachments\": []}").run().error("INVALID_INPUT");
    assert_eq!(error["details"], json!({"field": "attachments", "flag": "attach"}));
    sandbox.finish();
}
