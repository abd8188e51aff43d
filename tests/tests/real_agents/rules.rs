//! The input of rules: permission requests as the agent writes them, and its report of a refusal.

use std::fs;

use serde_json::{Value, json};
use subagent_protocol::codec::{Decoded, decode};

use super::turns::edit;
use super::world::RealAgentWorld;

/// Maximum length of a record, in bytes.
const LIMIT: usize = 1 << 24;
/// The fields of a request that describe its call, besides the id.
const FIELDS: [&str; 5] = ["kind", "title", "rawInput", "content", "locations"];

pub(crate) fn command(world: &RealAgentWorld) -> String {
    asked(world, "RUN: rm request-file", |call| described(&call))
}

pub(crate) fn edited(world: &RealAgentWorld) -> String {
    let (_, prompt) = edit(world, "never written");
    asked(world, &prompt, |call| described(&call))
}

pub(crate) fn mcp(world: &RealAgentWorld) -> String {
    asked(world, r#"MCP: echo/echo {"text":"denied"}"#, |call| described(&call))
}

/// Returns the agent's name of a server's tool, `echo` of `echo`.
pub(crate) fn mcp_name(world: &RealAgentWorld) -> String {
    let title = |call: &Value| call["title"].as_str().map(str::to_owned);
    let waited = world.send(r#"MCP: echo/echo {"text":"named"}"#);
    let asks = waited["matchedEvent"]["type"] == "approval.requested";
    let asked = asks.then(|| Records::read(world).unwrap());
    let asked = asked.and_then(|records| title(&records.request).or_else(|| title(&records.call)));
    world.decide(&waited, "deny");
    let calls = calls_of(world, &waited["turnId"]);
    let title = asked.or_else(|| calls.iter().find_map(title));
    title.map_or_else(|| "its model is not offered it".into(), |title| format!("`{title}`"))
}

/// Which of the agent's own tools are asked about where a rule denies all tools of some MCP server.
pub(crate) fn taken_for_mcp(world: &RealAgentWorld) -> String {
    let offered = world.models.offered();
    let own = offered.iter().filter(|name| !name.contains("echo"));
    let rules = ["--allow", "*", "--deny", "mcp__elsewhere__*"];
    let is_asked = |name: &str| {
        let test = [&["policy", "test", name], rules.as_slice()].concat();
        let tested = world.run(&test).data_of("policy.tested");
        // What is of a kind is judged by what it is about.
        tested["action"] != "allow" && tested["judged"][0]["kind"] == "other"
    };
    let asked: Vec<_> = own.filter(|name| is_asked(name)).map(|name| format!("`{name}`")).collect();
    if asked.is_empty() { "none".into() } else { asked.join(", ") }
}

/// Returns the last status of a denied call.
pub(crate) fn denied(world: &RealAgentWorld) -> String {
    let waited = world.send("RUN: rm request-file");
    world.decide(&waited, "deny");
    let calls = calls_of(world, &waited["turnId"]);
    let status = calls.iter().rev().find_map(|data| data["status"].as_str());
    match status {
        // Our own status of a call that was open at the end of the turn.
        None | Some("unknown") => "the call stays open".into(),
        Some(status) => format!("`{status}`"),
    }
}

/// Makes a worker that may do everything else run a command that a rule denies. Returns what became
/// of the command.
pub(crate) fn denied_by_rule(world: &RealAgentWorld) -> String {
    let worker = world.start_with(&["--allow", "*", "--deny", "execute(touch *)"]);
    let made = |name: &str| world.sandbox.workspace().join(name).exists();
    let waited = world.send_to(&worker, "RUN: touch 'made against a rule'");
    let end = &waited["matchedEvent"];
    assert!(!made("made against a rule"), "a rule denies it: {end}");
    let cell = match end["type"].as_str().unwrap() {
        "turn.completed" => {
            let decided = decided_by(world, &worker);
            let rule = json!(["deny", "rule", "execute(touch *)"]);
            assert!(!decided.is_empty() && decided.iter().all(|by| *by == rule), "{end}: {decided:?}");
            "denied, no one is asked"
        }
        "approval.requested" => "not made, its owner is asked",
        _ => panic!("{end}"),
    };
    // A rule for one command leaves the others as they are.
    if cell.starts_with("denied") {
        let done = world.send_to(&worker, "RUN: mkdir 'made by the rules'");
        assert_eq!(done["matchedEvent"]["type"], "turn.completed", "{done}");
        assert!(made("made by the rules"), "the rules allow it: {done}");
    }
    world.stop(&worker);
    cell.into()
}

/// Returns decision, decider and rule of each decided question of a worker.
fn decided_by(world: &RealAgentWorld, worker: &str) -> Vec<Value> {
    let mut events = world.sandbox.events(worker);
    events.retain(|event| event["type"] == "approval.decided");
    let parts = |data: &Value| json!([data["decision"], data["by"], data["policy"]["rule"]]);
    events.iter().map(|event| parts(&event["data"])).collect()
}

/// Returns what the worker's events report about the tool calls of a turn.
fn calls_of(world: &RealAgentWorld, turn: &Value) -> Vec<Value> {
    let mut events = world.sandbox.events(&world.worker);
    events.retain(|event| event["turnId"] == *turn && event["data"]["toolCallId"].is_string());
    events.into_iter().map(|mut event| event["data"].take()).collect()
}

/// Causes a question, inspects it, and denies it.
fn asked(world: &RealAgentWorld, prompt: &str, look: impl Fn(Records) -> String) -> String {
    let waited = world.send(prompt);
    if waited["matchedEvent"]["type"] != "approval.requested" {
        return "never asks".into();
    }
    let found = look(Records::read(world).unwrap());
    let end = world.decide(&waited, "deny");
    assert_eq!(end["type"], "turn.completed", "{end}");
    found
}

fn described(records: &Records) -> String {
    let has = |field: &&str| {
        let value = &records.request[*field];
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    };
    let fields: Vec<_> = FIELDS.into_iter().filter(has).collect();
    let id = match (records.is_known, records.call.is_null()) {
        (true, _) => "",
        (false, false) => "; another id than its call",
        (false, true) => "; no call before it",
    };
    let fields = if fields.is_empty() { "only its id".into() } else { fields.join(", ") };
    format!("{fields}{id}")
}

/// The journal's data about the newest permission request of the worker.
struct Records {
    /// The `toolCall` of the request, as the agent wrote it.
    request: Value,
    /// The agent's earlier data about the same call.
    call: Value,
    /// Whether there was a call with the id of the request.
    is_known: bool,
}

impl Records {
    fn read(world: &RealAgentWorld) -> Option<Self> {
        let folder = world.sandbox.state_dir().join("runtimes").join(&world.worker);
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let texts = files.filter(|file| file.extension().is_some_and(|end| end == "journal"));
        let lines: Vec<Value> = texts.flat_map(|file| records(&fs::read(file).unwrap())).collect();
        let newest = lines.iter().filter(|line| line["t"] == "approvalRequested");
        let newest = newest.max_by_key(|line| line["n"].as_u64())?;
        let request = newest["b"]["params"]["toolCall"].clone();
        let turn = |line: &&Value| line["t"] == "update" && line["turn"] == newest["turn"];
        let before = |line: &&Value| line["n"].as_u64() < newest["n"].as_u64();
        let calls: Vec<&Value> = lines
            .iter()
            .filter(turn)
            .filter(before)
            .map(|line| &line["b"]["update"])
            .filter(|update| update["sessionUpdate"] == "tool_call")
            .collect();
        let is_known = calls.iter().any(|call| call["toolCallId"] == request["toolCallId"]);
        let call = calls.last().map_or(Value::Null, |call| (*call).clone());
        Some(Self { request, call, is_known })
    }
}

/// Returns the records of a segment of a journal.
fn records(mut bytes: &[u8]) -> Vec<Value> {
    let mut records = Vec::new();
    while let Decoded::Record { json, size } = decode(bytes, LIMIT) {
        records.push(serde_json::from_slice(json).unwrap());
        bytes = &bytes[size..];
    }
    records
}
