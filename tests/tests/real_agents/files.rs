//! Files: attached to a message, and accessed through the client.

use std::fs;

use serde_json::Value;

use super::turns::edit;
use super::world::RealAgentWorld;

/// A PNG image with one pixel.
const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\
    \x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\
    \x00\x00\x00\x00IEND\xaeB`\x82";
/// The beginning of it, as encoded on the wire.
const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42m";

pub(crate) fn text_attached(world: &RealAgentWorld) -> String {
    attached(world, "notes.md", b"only the file knows this\n", "only the file knows this")
}

pub(crate) fn image_attached(world: &RealAgentWorld) -> String {
    attached(world, "dot.png", PNG, PNG_BASE64)
}

/// Returns whether the model gets the attachment.
fn attached(world: &RealAgentWorld, name: &str, contents: &[u8], wanted: &str) -> String {
    let file = world.sandbox.workspace().join(name);
    fs::write(&file, contents).unwrap();
    let before = world.models.requests().len();
    let send = ["send", "--worker-id", &world.worker, "--text", "look at it", "--attach", name];
    let waited = world.run(&send).data_of("turn.waited");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let bodies: Vec<_> =
        world.models.requests().into_iter().skip(before).map(|request| request.body.to_string()).collect();
    let sees = |wanted: &str| bodies.iter().any(|body| body.contains(wanted));
    match (sees(wanted), sees(name)) {
        (true, _) => "the model gets it".into(),
        (false, true) => "the model gets its name".into(),
        (false, false) => "the model gets nothing of it".into(),
    }
}

pub(crate) fn through_client(world: &RealAgentWorld) -> String {
    let (file, prompt) = edit(world, "through");
    let waited = world.send(&prompt);
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(fs::read_to_string(file).unwrap().trim_end(), "new text");
    let reported = world.progress(&waited["turnId"], "fs");
    let uses = |method: &str| reported.iter().any(|data| data["method"] == method);
    let uses = [("reads", "fs/read_text_file"), ("writes", "fs/write_text_file")]
        .map(|(what, method)| uses(method).then_some(what));
    if uses[1].is_some() {
        let written = |data: &Value| data["method"] == "fs/write_text_file" && data["status"] == "completed";
        assert!(reported.iter().any(written), "{reported:?}");
    }
    let uses: Vec<_> = uses.into_iter().flatten().collect();
    if uses.is_empty() { "no".into() } else { uses.join(" and ") }
}

pub(crate) fn outside(world: &RealAgentWorld) -> String {
    let file = world.sandbox.file("outside");
    let waited = world.send(&format!("WRITE: {}=new text", file.display()));
    let asked = waited["matchedEvent"]["type"] == "approval.requested";
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let reported = world.progress(&waited["turnId"], "fs");
    let done = |data: &Value| data["status"] == "completed";
    assert!(!reported.iter().any(done), "the client must give access to it: {reported:?}");
    let asked = if asked { ", when allowed" } else { "" };
    match (file.exists(), reported.is_empty()) {
        (true, true) => format!("the agent writes it itself{asked}"),
        (true, false) => format!("the client refuses, the agent writes it itself{asked}"),
        (false, true) => "the agent refuses".into(),
        (false, false) => "the client refuses".into(),
    }
}

pub(crate) fn commands(world: &RealAgentWorld) -> String {
    let waited = world.send("RUN: touch 'where it runs'");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert!(world.sandbox.workspace().join("where it runs").exists());
    let reported = world.progress(&waited["turnId"], "terminal");
    if reported.is_empty() { "no".into() } else { "yes".into() }
}
