//! Everything that can happen in one turn.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{wait_until, wait_while};

use super::world::{DEADLINE, NEXT, RealAgentWorld};

const YES: &str = "yes";
/// A process that remains after another turn and this time is not ended by its agent.
const ENDED: Duration = Duration::from_secs(20);
/// Time limit for a subagent with instructions to ask; one that asks does so within two seconds.
const ASKS_WITHIN: Duration = Duration::from_secs(20);
/// It is ended after ignoring a cancel for `cancelGraceSeconds`, and restarted
/// for the next message.
pub(crate) const FORCED: &str = "no: it is ended by force";
const GOES_ON: &str = "yes, but the command goes on";
const NEVER_ASKS: &str = "never asks: the turn waits until it is canceled";
const ENDS: &str = "turn.completed,turn.failed,turn.canceled";

pub(crate) fn text(world: &RealAgentWorld) -> String {
    world.say("a text in pieces, grüß dich");
    YES.into()
}

pub(crate) fn command_allowed(world: &RealAgentWorld) -> String {
    let made = world.sandbox.workspace().join("made by a command");
    let waited = world.question("RUN: touch 'made by a command'", "touch 'made by a command'");
    assert!(!made.exists(), "nothing may run before it was allowed");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert!(made.exists());
    YES.into()
}

pub(crate) fn command_denied(world: &RealAgentWorld) -> String {
    let file = world.sandbox.workspace().join("kept");
    fs::write(&file, "").unwrap();
    denied(world, "RUN: rm kept", "rm kept", || file.exists())
}

pub(crate) fn edit_allowed(world: &RealAgentWorld) -> String {
    let (file, prompt) = edit(world, "written");
    let waited = world.question(&prompt, "new text");
    assert!(!file.exists(), "nothing may be written before it was allowed");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(fs::read_to_string(file).unwrap().trim_end(), "new text");
    YES.into()
}

pub(crate) fn edit_denied(world: &RealAgentWorld) -> String {
    let (file, prompt) = edit(world, "not written");
    denied(world, &prompt, "new text", || !file.exists())
}

/// Returns a file of the workspace, and a prompt that writes it.
pub(crate) fn edit(world: &RealAgentWorld, name: &str) -> (PathBuf, String) {
    let file = world.sandbox.workspace().join(name);
    let prompt = format!("WRITE: {}=new text", file.display());
    (file, prompt)
}

/// Returns the effect of a refusal on the agent.
fn denied(world: &RealAgentWorld, prompt: &str, about: &str, untouched: impl Fn() -> bool) -> String {
    let waited = world.question(prompt, about);
    let end = world.decide(&waited, "deny");
    assert!(untouched(), "it was denied");
    let said = world.said(&waited["turnId"]);
    // An agent may end the turn itself for its own reason; it was not canceled.
    assert_eq!(end["type"], "turn.completed", "{end}");
    let reason = end["data"]["stopReason"].as_str().unwrap();
    let cell = match said.contains("DONE: ") {
        true => format!("the model is told, `{reason}`"),
        false => format!("the turn ends, `{reason}`"),
    };
    world.say("after the refusal");
    cell
}

/// A subagent of the agent requests permission for a command.
pub(crate) fn subagent_asks(world: &RealAgentWorld) -> String {
    let command = "touch 'made by a subagent'";
    let made = world.sandbox.workspace().join("made by a subagent");
    let accepted = world.sandbox.send_no_wait(&world.worker, &format!("DELEGATE: RUN: {command}"));
    let mut waiting = world.waiting_for(&world.worker, &accepted["acceptedEventId"], NEXT).spawn();
    wait_until("an event, or the subagent's prompt", DEADLINE, || {
        (world.asked(command) >= 2 || !waiting.runs()).then_some(())
    });
    let patience = world.patience("a subagent of the agent asks", NEVER_ASKS, ASKS_WITHIN);
    if wait_while(patience, || waiting.runs().then_some(())).is_some() {
        waiting.kill();
        world.run(&["cancel", "--worker-id", &world.worker]).data_of("turn.canceled");
        return NEVER_ASKS.into();
    }
    let event = waiting.output().data_of("event.matched");
    if event["type"] != "approval.requested" {
        let said = world.said(&accepted["turnId"]);
        if said.contains("denied by policy") {
            return "never starts it: denied by its own policy".into();
        }
        assert!(said.starts_with("no tool for Delegate"), "{event}: {said}");
        return "its model is offered no tool for it".into();
    }
    let question = &event["data"];
    assert!(question.to_string().contains(command), "the question must show its subject: {question}");
    assert!(!made.exists(), "nothing may run before it was allowed");
    let end = world.decide(&json!({"matchedEvent": event}), "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert!(made.exists());
    if question["sessionId"].is_null() {
        return "yes, as the agent itself".into();
    }
    let shown = world.run(&["worker", "show", &world.worker]).data_of("worker.shown");
    let children = shown["childSessions"].as_array().unwrap();
    assert!(children.iter().any(|child| child["sessionId"] == question["sessionId"]), "{shown}");
    "yes, in a session of its own".into()
}

pub(crate) fn mcp(world: &RealAgentWorld) -> String {
    let waited = world.send(r#"MCP: echo/echo {"text":"over the wire"}"#);
    let asks = waited["matchedEvent"]["type"] == "approval.requested";
    let question = &waited["matchedEvent"]["data"];
    assert!(!asks || question.to_string().contains("echo"), "the question must show its subject: {question}");
    let end = world.decide(&waited, "allow");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let said = world.said(&waited["turnId"]);
    if said.starts_with("no tool echo/echo") {
        return "its model is not offered it at once".into();
    }
    assert!(said.contains("echo: over the wire"), "{said}");
    if asks { "yes, asks first".into() } else { "yes, never asks".into() }
}

pub(crate) fn cancel_text(world: &RealAgentWorld) -> String {
    let accepted = world.speaking(&world.worker, "SLOW: 300");
    let obeys = world.cancel(&accepted);
    assert!(!world.said(&accepted["turnId"]).contains("tick 6000"), "it must complete its output");
    canceled(obeys)
}

pub(crate) fn cancel_question(world: &RealAgentWorld) -> String {
    let waited = world.question("RUN: touch never-made", "touch never-made");
    let obeys = world.cancel(&waited);
    assert!(!world.sandbox.workspace().join("never-made").exists());
    canceled(obeys)
}

pub(crate) fn cancel_command(world: &RealAgentWorld) -> String {
    let waited = world.question("RUN: touch running && exec tail -f running", "tail -f running");
    let request = &waited["matchedEvent"]["data"]["requestId"];
    world.sandbox.approve(&world.worker, request, "allow").data_of("approval.decided");
    let file = world.sandbox.workspace().join("running");
    wait_until("the command to run", DEADLINE, || file.exists().then_some(()));
    let obeys = world.cancel(&waited);
    let command = || world.sandbox.processes().into_iter().find(|p| p.command_line() == "tail -f running");
    match wait_while(world.patience("cancel during a command", GOES_ON, ENDED), command) {
        None => canceled(obeys),
        Some(_) => {
            assert!(obeys, "nothing may survive an agent that is ended by force");
            GOES_ON.into()
        }
    }
}

fn canceled(obeys: bool) -> String {
    if obeys { YES.into() } else { FORCED.into() }
}

pub(crate) fn bad_request(world: &RealAgentWorld) -> String {
    trouble(world, "FAIL: 400")
}

pub(crate) fn too_many(world: &RealAgentWorld) -> String {
    trouble(world, "FAIL: 429")
}

pub(crate) fn server_error(world: &RealAgentWorld) -> String {
    trouble(world, "FAIL: 500")
}

pub(crate) fn cut(world: &RealAgentWorld) -> String {
    trouble(world, "CUT: half of an answer")
}

/// A worker that a rate limit has parked: a message waits, and is sent once when its owner resumes it.
fn goes_on(world: &RealAgentWorld) {
    let prompt = "SAY: no longer limited";
    let sending = world.sandbox.sending(&world.worker, prompt).args(["--queue", "--no-wait"]);
    let queued = sending.run().data_of("turn.queued");
    assert_eq!(world.asked(prompt), 0, "it is sent to a provider that wants fewer requests");
    let resumed = world.run(&["worker", "resume", &world.worker]).data_of("worker.resumed");
    assert_eq!((&resumed["unparked"], &resumed["turnId"]), (&true.into(), &queued["turnId"]));
    let end = world.next(&world.worker, &queued["acceptedEventId"]);
    assert_eq!((&end["type"], world.asked(prompt)), (&"turn.completed".into(), 1));
}

/// Returns what the user sees when the provider fails. An agent that keeps
/// retrying is canceled meanwhile.
fn trouble(world: &RealAgentWorld, prompt: &str) -> String {
    let accepted = world.sandbox.send_no_wait(&world.worker, prompt);
    let mut end = world.waiting_for(&world.worker, &accepted["acceptedEventId"], ENDS).spawn();
    let again = wait_until("the end of the turn, or another attempt", DEADLINE, || {
        let again = !world.agent.gives_up && world.asked(prompt) > 1;
        (again || !end.runs()).then_some(again)
    });
    let cell = if again {
        let cancel =
            world.sandbox.subagent(&["cancel", "--worker-id", &world.worker]).deadline(DEADLINE).run();
        if !cancel.status.success() {
            // It was its last attempt.
            cancel.error("WORKER_NOT_RUNNING");
        }
        "it tries again".into()
    } else {
        let end = end.output().data_of("event.matched");
        let said = world.said(&accepted["turnId"]);
        match end["type"].as_str().unwrap() {
            "turn.failed" => format!("the turn fails, `{}`", end["data"]["error"]["code"].as_str().unwrap()),
            "turn.completed" if said.is_empty() => "the turn completes without a word".into(),
            "turn.completed" if said.contains("half of an answer") => {
                "the turn completes with what there was".into()
            }
            "turn.completed" => "the turn completes, the error is its text".into(),
            _ => panic!("{end}"),
        }
    };
    if !world.sandbox.show(&world.worker)["parked"].is_null() {
        goes_on(world);
    }
    world.say("after the trouble");
    cell
}
