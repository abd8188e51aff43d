//! A scripted agent: it speaks ACP over simulated pipes and records all requests and actions
//! permanently.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use subagent_testkit::Random;

/// First id of its permission requests, distinct from the client's ids.
const FIRST_ASK: u64 = 1_000_000;

/// Requests and actions of all agents of a worker.
#[derive(Debug, Default)]
pub(super) struct AgentLog {
    /// How often each prompt arrived.
    pub(super) prompts: BTreeMap<String, u32>,
    /// Texts of the prompts that completed.
    pub(super) answered: BTreeSet<String>,
    /// Answer to each permission request; `None` means `cancelled`.
    pub(super) answers: BTreeMap<u64, Option<String>>,
    /// Number of permission requests.
    pub(super) asked: u64,
    /// Whether the session has received the definition's prompt.
    instructed: bool,
}

/// A prompt in progress.
struct SimulatedPrompt {
    rpc: Value,
    text: String,
    canceled: bool,
    /// Whether it contains the definition's prompt.
    instructs: bool,
}

/// A simulated agent process.
pub(super) struct SimulatedAgent {
    /// Input that it has not read.
    pub(super) inbox: VecDeque<Vec<u8>>,
    /// Output that is not yet read.
    pub(super) output: Vec<u8>,
    /// Exit code or signal, after its end.
    pub(super) exit: Option<(Option<i32>, Option<i32>)>,
    open: Option<SimulatedPrompt>,
    /// Whether it ignores cancels, SIGTERM and the end of its input.
    stubborn: bool,
    loads: bool,
}

impl SimulatedAgent {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            inbox: VecDeque::new(),
            output: Vec::new(),
            exit: None,
            open: None,
            stubborn: random.below(8) == 0,
            loads: random.below(2) == 0,
        }
    }

    /// Reads one line and responds. Returns whether there was one.
    pub(super) fn read(&mut self, deeds: &mut AgentLog, random: &mut Random, calm: bool) -> bool {
        if self.exit.is_some() {
            return false;
        }
        let Some(line) = self.inbox.pop_front() else { return false };
        if line.is_empty() {
            // An empty line marks the end of its input.
            self.ask_to_end();
            return true;
        }
        let message: Value = serde_json::from_slice(&line).expect("the runtime writes JSON");
        let id = message["id"].clone();
        match message["method"].as_str() {
            Some("initialize") if !calm && random.below(30) == 0 => self.refuse(&id),
            Some("initialize") => {
                let offers = if self.loads { json!({"close": {}}) } else { json!({"resume": {}}) };
                let able = json!({"loadSession": self.loads, "sessionCapabilities": offers});
                self.answer(&id, json!({"protocolVersion": 1, "agentCapabilities": able}));
            }
            Some("session/load" | "session/resume") if random.below(3) == 0 => self.refuse(&id),
            Some(method @ ("session/load" | "session/resume" | "session/new")) => {
                deeds.instructed &= method != "session/new";
                self.answer(&id, json!({"sessionId": "s"}));
            }
            Some("session/close") => self.answer(&id, json!({})),
            Some("session/cancel") => {
                if let Some(open) = &mut self.open
                    && !self.stubborn
                {
                    open.canceled = true;
                }
            }
            Some("session/prompt") => {
                let blocks = message["params"]["prompt"].as_array().unwrap();
                let text = blocks.last().unwrap()["text"].as_str().unwrap().to_owned();
                let instructs = blocks.len() > 1;
                assert!(instructs || deeds.instructed, "{text} came without what the definition adds");
                let times = deeds.prompts.entry(text.clone()).or_default();
                *times += 1;
                assert_eq!(*times, 1, "an agent was given {text} twice");
                assert!(self.open.is_none(), "two prompts at a time");
                self.open = Some(SimulatedPrompt { rpc: id, text, canceled: false, instructs });
            }
            Some(other) => panic!("the runtime asks for {other}"),
            None if message.get("result").is_some() => {
                let ask = id.as_u64().unwrap() - FIRST_ASK;
                let outcome = &message["result"]["outcome"];
                let option = outcome["optionId"].as_str().map(str::to_owned);
                let option = match message["result"]["action"].as_str() {
                    None => option,
                    Some(action) => {
                        let content = if action == "accept" { json!({"a": "x"}) } else { Value::Null };
                        assert_eq!(message["result"]["content"], content, "another content than was given");
                        Some(action.to_owned()).filter(|action| action != "cancel")
                    }
                };
                assert_eq!(deeds.answers.insert(ask, option), None, "an agent was answered twice");
            }
            None => {}
        }
        true
    }

    /// Performs a random action without a prompt.
    pub(super) fn act(&mut self, deeds: &mut AgentLog, random: &mut Random) {
        if self.exit.is_some() {
            return;
        }
        match random.below(24) {
            0 => self.say(&json!({"method": "x/y", "params": {"a": [1, 2]}})),
            1 => self.output.extend_from_slice(b"no message at all\n\n"),
            2 => self.say(&json!({"id": 500 + random.below(12), "result": {"stopReason": "end_turn"}})),
            3 => self.ask(deeds),
            4 if random.below(3) == 0 => self.exit = Some((Some(1), None)),
            5..=9 if self.open.is_some() => self.ask(deeds),
            10..=14 if self.open.is_some() => {
                let update = match deeds.asked % 2 {
                    0 => json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost(deeds)}),
                    _ => {
                        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "t"}})
                    }
                };
                self.say(
                    &json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}),
                );
            }
            15 => {
                if let Some(open) = self.open.take() {
                    self.refuse(&open.rpc);
                }
            }
            16 if deeds.asked > 0 => {
                let ask = FIRST_ASK + deeds.asked - 1;
                self.say(&json!({"method": "$/cancel_request", "params": {"requestId": ask}}));
            }
            _ => self.finish(deeds),
        }
    }

    /// Answers the open prompt.
    pub(super) fn finish(&mut self, deeds: &mut AgentLog) {
        if self.exit.is_some() {
            return;
        }
        let Some(open) = self.open.take() else { return };
        let reason = if open.canceled { "cancelled" } else { "end_turn" };
        deeds.instructed |= open.instructs && !open.canceled;
        let mut result = json!({"stopReason": reason});
        match deeds.prompts.len() % 4 {
            0 => result["usage"] = json!({"totalTokens": 10}),
            1 => result["usage"] = json!({"totalTokens": -1}),
            _ => {}
        }
        self.answer(&open.rpc, result);
        deeds.answered.insert(open.text);
    }

    /// Handles the end of its input, or SIGTERM.
    pub(super) fn ask_to_end(&mut self) {
        if !self.stubborn && self.exit.is_none() {
            self.exit = Some((Some(0), None));
        }
    }

    pub(super) fn killed(&mut self) {
        self.exit.get_or_insert((None, Some(9)));
    }

    fn ask(&mut self, deeds: &mut AgentLog) {
        let (id, tool) = (FIRST_ASK + deeds.asked, format!("ask-{}", deeds.asked));
        deeds.asked += 1;
        if is_elicitation(deeds.asked - 1) {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            let params =
                json!({"sessionId": "s", "mode": "form", "message": tool, "requestedSchema": schema});
            return self.say(&json!({"id": id, "method": "elicitation/create", "params": params}));
        }
        let options = json!([
            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
            {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": tool}, "options": options});
        self.say(&json!({"id": id, "method": "session/request_permission", "params": params}));
    }

    fn answer(&mut self, id: &Value, result: Value) {
        self.say(&json!({"id": id, "result": result}));
    }

    fn refuse(&mut self, id: &Value) {
        self.say(&json!({"id": id, "error": {"code": -32603, "message": "no"}}));
    }

    fn say(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }
}

/// Returns the reported session cost. It sometimes decreases, and sometimes is not a number.
fn cost(deeds: &AgentLog) -> Value {
    let amount = (1 + deeds.prompts.len() as u64 + deeds.asked) % 7;
    if amount == 6 { json!({"amount": "much"}) } else { json!({"amount": amount, "currency": "USD"}) }
}

/// Whether this question is an elicitation.
const fn is_elicitation(ask: u64) -> bool {
    ask % 3 == 1
}

/// Returns the number of the question in a request's parameters.
pub(super) fn ask_of(params: &str) -> u64 {
    let params: Value = serde_json::from_str(params).unwrap();
    let name = params["toolCall"]["toolCallId"].as_str().or_else(|| params["message"].as_str());
    name.unwrap().strip_prefix("ask-").unwrap().parse().unwrap()
}
