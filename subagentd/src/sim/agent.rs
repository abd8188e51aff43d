//! The scripted agent: it speaks ACP over pipes that the world holds, and what it was told is remembered for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use subagent_testkit::Random;

/// Ids of its permission requests begin here, so that they are not those of the client.
const FIRST_ASK: u64 = 1_000_000;

/// What all agents of a worker were told and did.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// How often each prompt came.
    pub(super) prompts: BTreeMap<String, u32>,
    /// The prompts that were answered well.
    pub(super) answered: BTreeSet<String>,
    /// The answer to each permission request; `None` is `cancelled`.
    pub(super) answers: BTreeMap<u64, Option<String>>,
    /// How many were asked.
    pub(super) asked: u64,
    /// Whether the session holds what the definition adds.
    instructed: bool,
}

/// A prompt that is being worked on.
struct Open {
    rpc: Value,
    text: String,
    canceled: bool,
    /// Whether it came with what the definition adds.
    instructs: bool,
}

/// One agent's process.
pub(super) struct Agent {
    /// What it has not read yet.
    pub(super) inbox: VecDeque<Vec<u8>>,
    /// What it has written and nobody has read.
    pub(super) output: Vec<u8>,
    /// It has ended, with this code or by a signal.
    pub(super) exit: Option<(Option<i32>, Option<i32>)>,
    open: Option<Open>,
    /// Ignores cancels, SIGTERM and the end of its input.
    stubborn: bool,
    loads: bool,
}

impl Agent {
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

    /// Reads one line, and answers what must be answered. Whether there was one.
    pub(super) fn read(&mut self, deeds: &mut Deeds, random: &mut Random, calm: bool) -> bool {
        if self.exit.is_some() {
            return false;
        }
        let Some(line) = self.inbox.pop_front() else { return false };
        if line.is_empty() {
            // The end of its input.
            self.told_to_end();
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
                self.open = Some(Open { rpc: id, text, canceled: false, instructs });
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

    /// Does something by itself.
    pub(super) fn act(&mut self, deeds: &mut Deeds, random: &mut Random) {
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
    pub(super) fn finish(&mut self, deeds: &mut Deeds) {
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

    /// The end of its input, or SIGTERM.
    pub(super) fn told_to_end(&mut self) {
        if !self.stubborn && self.exit.is_none() {
            self.exit = Some((Some(0), None));
        }
    }

    pub(super) fn killed(&mut self) {
        self.exit.get_or_insert((None, Some(9)));
    }

    fn ask(&mut self, deeds: &mut Deeds) {
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

/// What an agent says that its session has cost: sometimes less than before, and sometimes nothing that is a number.
fn cost(deeds: &Deeds) -> Value {
    let amount = (1 + deeds.prompts.len() as u64 + deeds.asked) % 7;
    if amount == 6 { json!({"amount": "much"}) } else { json!({"amount": amount, "currency": "USD"}) }
}

/// Whether this question is an elicitation.
const fn is_elicitation(ask: u64) -> bool {
    ask % 3 == 1
}

/// Which question a request's parameters are.
pub(super) fn ask_of(params: &str) -> u64 {
    let params: Value = serde_json::from_str(params).unwrap();
    let name = params["toolCall"]["toolCallId"].as_str().or_else(|| params["message"].as_str());
    name.unwrap().strip_prefix("ask-").unwrap().parse().unwrap()
}
