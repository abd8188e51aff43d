//! What can happen in one turn.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use subagent_tests::harness::wait_until;

use super::world::{DEADLINE, World};

const YES: &str = "yes";

pub(crate) fn text(world: &World) -> String {
    world.say("a text in pieces, grüß dich");
    YES.into()
}

pub(crate) fn command_allowed(world: &World) -> String {
    let made = world.sandbox.workspace().join("made by a command");
    let waited = world.question("RUN: touch 'made by a command'");
    assert!(!made.exists(), "nothing may run before it was allowed");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert!(made.exists());
    YES.into()
}

pub(crate) fn command_denied(world: &World) -> String {
    let file = world.sandbox.workspace().join("kept");
    fs::write(&file, "").unwrap();
    denied(world, "RUN: rm kept", || file.exists())
}

pub(crate) fn edit_allowed(world: &World) -> String {
    let (file, prompt) = edit(world, "written");
    let waited = world.question(&prompt);
    assert!(!file.exists(), "nothing may be written before it was allowed");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(fs::read_to_string(file).unwrap().trim_end(), "new text");
    YES.into()
}

pub(crate) fn edit_denied(world: &World) -> String {
    let (file, prompt) = edit(world, "not written");
    denied(world, &prompt, || !file.exists())
}

fn edit(world: &World, name: &str) -> (PathBuf, String) {
    let file = world.sandbox.workspace().join(name);
    let prompt = format!("WRITE: {}=new text", file.display());
    (file, prompt)
}

/// What a refusal means to the agent.
fn denied(world: &World, prompt: &str, untouched: impl Fn() -> bool) -> String {
    let waited = world.question(prompt);
    let end = world.decide(&waited, "deny");
    assert!(untouched(), "it was denied");
    let said = world.said(&waited["turnId"]);
    let cell = match end["type"].as_str() {
        Some("turn.completed") if said.contains("DONE: ") => "the model is told, the turn goes on",
        Some("turn.completed") => "the turn completes, without a word",
        Some("turn.canceled") => "the turn is canceled",
        _ => panic!("{end}"),
    };
    world.say("after the refusal");
    cell.into()
}

pub(crate) fn mcp(world: &World) -> String {
    let waited = world.send(r#"MCP: echo/echo {"text":"over the wire"}"#);
    let asks = waited["matchedEvent"]["type"] == "approval.requested";
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let said = world.said(&waited["turnId"]);
    assert!(said.contains("echo: over the wire"), "{said}");
    if asks { "yes, asks first".into() } else { "yes, never asks".into() }
}

pub(crate) fn cancel_text(world: &World) -> String {
    let gate = world.sandbox.gate("canceled");
    let accepted = world.waiting(&world.worker, &gate);
    world.cancel(&accepted);
    YES.into()
}

pub(crate) fn cancel_question(world: &World) -> String {
    let waited = world.question("RUN: touch never-made");
    world.cancel(&waited);
    assert!(!world.sandbox.workspace().join("never-made").exists());
    YES.into()
}

pub(crate) fn cancel_command(world: &World) -> String {
    let waited = world.question("RUN: touch running && exec tail -f running");
    let request = &waited["matchedEvent"]["data"]["requestId"];
    world.sandbox.approve(&world.worker, request, "allow").data_of("approval.decided");
    let file = world.sandbox.workspace().join("running");
    wait_until("the command to run", DEADLINE, || file.exists().then_some(()));
    world.cancel(&waited);
    YES.into()
}

pub(crate) fn bad_request(world: &World) -> String {
    trouble(world, "FAIL: 400")
}

pub(crate) fn too_many(world: &World) -> String {
    trouble(world, "FAIL: 429")
}

pub(crate) fn server_error(world: &World) -> String {
    trouble(world, "FAIL: 500")
}

pub(crate) fn cut(world: &World) -> String {
    trouble(world, "CUT: half of an answer")
}

/// What the user sees when the provider fails. An agent that asks the provider again is canceled: that may go on for
/// minutes.
fn trouble(world: &World, prompt: &str) -> String {
    let accepted = world.sandbox.send_no_wait(&world.worker, prompt);
    let turn = &accepted["turnId"];
    let ended = |event: &Value| {
        event["turnId"] == *turn
            && ["turn.completed", "turn.failed", "turn.canceled"].iter().any(|end| event["type"] == *end)
    };
    let end = wait_until("the end of the turn, or another attempt", DEADLINE, || {
        if world.asked(prompt) > 1 {
            return Some(None);
        }
        world.sandbox.events(&world.worker).into_iter().find(ended).map(Some)
    });
    let Some(end) = end else {
        let cancel = ["cancel", "--worker-id", &world.worker];
        let _ = world.sandbox.subagent(&cancel).deadline(DEADLINE).run().data_of("turn.canceled");
        world.say("after the trouble");
        return "tries again".into();
    };
    let said = world.said(turn);
    let cell = match end["type"].as_str() {
        Some("turn.failed") => format!("the turn fails, `{}`", end["data"]["error"]["code"].as_str().unwrap()),
        Some("turn.completed") if said.contains("half of an answer") => "the turn completes with what there was".into(),
        Some("turn.completed") => "the turn completes, the error is its text".into(),
        _ => panic!("{end}"),
    };
    world.say("after the trouble");
    cell
}
