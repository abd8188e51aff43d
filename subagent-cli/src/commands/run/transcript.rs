//! What a run learns from the events of its turn. Pure.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use subagent_protocol::budget::Money;
use subagent_protocol::message_text::{self, MessageText};

use crate::dialog::QuestionRef;
use crate::exit_code::TurnExitStatus;

/// More bytes of the final message are not kept.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// More denied requests are counted, but not listed.
const MAX_DENIED: usize = 100;
/// More open requests are not remembered.
const MAX_REQUESTS: usize = 1000;
/// More tool calls are not counted.
const MAX_TOOLS: usize = 100_000;

/// The turn so far.
#[derive(Debug)]
pub(crate) struct RunTranscript {
    text: MessageText,
    requests: HashMap<String, Value>,
    tools: HashSet<String>,
    cost: Option<Money>,
    pub(crate) denied: Vec<Value>,
    pub(crate) denied_count: usize,
    pub(crate) turned_away: usize,
    end: Option<(TurnExitStatus, Value)>,
}

impl Default for RunTranscript {
    fn default() -> Self {
        Self {
            text: MessageText::up_to(MAX_MESSAGE_BYTES),
            requests: HashMap::new(),
            tools: HashSet::new(),
            cost: None,
            denied: Vec::new(),
            denied_count: 0,
            turned_away: 0,
            end: None,
        }
    }
}

impl RunTranscript {
    /// Takes an event in; gives the question that it asks.
    pub(crate) fn see(&mut self, event: &Value) -> Option<QuestionRef> {
        let data = &event["data"];
        let event_type = event["type"].as_str().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let request = || text(&data["requestId"]);
        match event_type {
            "progress.message" => self.text.push(data["text"].as_str().unwrap_or_default()),
            "progress.update" if message_text::is_tool_call(event) => {
                self.text.tool_call();
                // An agent may begin a call twice.
                if self.tools.len() < MAX_TOOLS {
                    self.tools.insert(text(&data["toolCallId"]));
                }
            }
            "progress.update" if data["kind"] == "usage" && data.get("sessionId").is_none() => {
                self.cost = Money::of(&data["cost"]).or(self.cost.take());
            }
            "approval.requested" => {
                if self.requests.len() < MAX_REQUESTS {
                    self.requests.insert(request(), data.clone());
                }
                return QuestionRef::of_event(event);
            }
            "elicitation.requested" => return QuestionRef::of_event(event),
            "elicitation.answered" if data["action"] != "accept" => self.turned_away += 1,
            "approval.decided" => self.decided(&request(), event),
            "policy.violated" => self.violated(event),
            "turn.completed" => self.end = Some((TurnExitStatus::Completed, data.clone())),
            "turn.failed" => self.end = Some((TurnExitStatus::Failed, data.clone())),
            "turn.canceled" => self.end = Some((TurnExitStatus::Canceled, data.clone())),
            _ => {}
        }
        None
    }

    /// Records a decision as denied unless it allows the request. It does not matter who decided.
    fn decided(&mut self, request_id: &str, event: &Value) {
        let data = &event["data"];
        let asked = self.requests.remove(request_id).unwrap_or_default();
        let chosen = data["optionId"].as_str().unwrap_or_default();
        let option = asked["options"].as_array().into_iter().flatten().find(|option| option["id"] == chosen);
        let allowed = match option.and_then(|option| option["kind"].as_str()) {
            Some(kind) => kind.starts_with("allow"),
            // Some agents do not say which of their options allow something.
            None => {
                let word = chosen.to_lowercase();
                option.is_some() && !["reject", "deny", "cancel", "no"].iter().any(|no| word.contains(no))
            }
        };
        if allowed {
            return;
        }
        let mut denied = json!({
            "requestId": request_id, "message": asked["message"], "optionId": data["optionId"], "note": data["note"],
        });
        for (key, of) in [("toolKind", &asked), ("title", &asked), ("command", &asked), ("policy", data)] {
            if let Some(found) = of.get(key) {
                denied[key] = found.clone();
            }
        }
        self.deny(denied, event);
    }

    /// The agent did what a rule denies, and did not ask.
    fn violated(&mut self, event: &Value) {
        let data = &event["data"];
        let mut policy = data.clone();
        if let Some(policy) = policy.as_object_mut() {
            policy.remove("toolCallId");
            policy.remove("evidence");
        }
        let what = data["subject"].as_str().or_else(|| data["kind"].as_str()).unwrap_or("a tool call");
        let denied = json!({
            "requestId": null, "message": format!("done without asking: {what}"), "optionId": null, "note": null,
            "toolKind": data["kind"], "policy": policy,
        });
        self.deny(denied, event);
    }

    /// `event` says so; of a task it has the path.
    fn deny(&mut self, mut denied: Value, event: &Value) {
        if event["path"].is_array() {
            denied["path"] = event["path"].clone();
            denied["workerId"] = event["workerId"].clone();
        }
        self.denied_count += 1;
        if self.denied.len() < MAX_DENIED {
            self.denied.push(denied);
        }
    }

    /// The number of tool calls.
    pub(crate) fn tools(&self) -> usize {
        self.tools.len()
    }

    /// What the session has cost, as the agent said last.
    pub(crate) fn cost(&self) -> Option<&Money> {
        self.cost.as_ref()
    }

    /// How the turn ended, with the data of that event.
    pub(crate) fn end(&self) -> Option<(TurnExitStatus, &Value)> {
        self.end.as_ref().map(|(end, data)| (*end, data))
    }

    /// The final message; `None` if the agent has said nothing but blank lines.
    pub(crate) fn message(&self) -> Option<&str> {
        Some(self.text.last()).filter(|message| !message.trim().is_empty())
    }

    /// Whether the final message was too long and its rest is left out.
    pub(crate) fn is_truncated(&self) -> bool {
        self.text.is_truncated()
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::state::QuestionKind;

    use super::*;

    fn said(text: &str) -> Value {
        json!({"type": "progress.message", "data": {"role": "assistant", "text": text}})
    }

    fn tool() -> Value {
        json!({"type": "progress.update", "data": {"kind": "tool_call", "toolCallId": "t"}})
    }

    fn of(events: &[Value]) -> RunTranscript {
        let mut transcript = RunTranscript::default();
        events.iter().for_each(|event| drop(transcript.see(event)));
        transcript
    }

    #[test]
    fn the_final_message_is_what_is_said_after_the_last_tool_call() {
        assert_eq!(of(&[said("a"), said("b")]).message(), Some("ab"));
        assert_eq!(of(&[said("a"), tool(), said("b"), said("c")]).message(), Some("bc"));
        assert_eq!(of(&[said("a"), tool()]).message(), Some("a"), "nothing is said after it");
        assert_eq!(of(&[said("a"), tool(), said("\n")]).message(), Some("a\n"), "blanks are no message");
        assert_eq!(of(&[said("a"), tool(), said("b"), tool()]).message(), Some("a\n\nb"), "the whole text");
        assert_eq!(of(&[tool()]).message(), None);
        let mut below = tool();
        below["data"]["sessionId"] = json!("another");
        assert_eq!(of(&[said("a"), below, said("b")]).message(), Some("ab"), "of another session");
    }

    #[test]
    fn tool_calls_and_cost_are_those_of_the_own_session() {
        let call =
            |id: &str| json!({"type": "progress.update", "data": {"kind": "tool_call", "toolCallId": id}});
        let usage = |cost: Value| json!({"type": "progress.update", "data": {"kind": "usage", "cost": cost}});
        let mut below = call("c");
        below["data"]["sessionId"] = json!("another");
        let mut other = usage(json!({"amount": 9, "currency": "USD"}));
        other["data"]["sessionId"] = json!("another");
        let transcript = of(&[
            call("a"),
            call("b"),
            call("a"),
            below,
            usage(json!({"amount": 0.25, "currency": "USD"})),
            usage(json!({"amount": 0.3125, "currency": "USD"})),
            usage(json!({"amount": "x"})),
            other,
        ]);
        assert_eq!(transcript.tools(), 2);
        let cost = transcript.cost().unwrap();
        assert_eq!((cost.micros, cost.currency.as_str()), (312_500, "USD"));
    }

    #[test]
    fn a_message_is_bounded() {
        let half = "ä".repeat(MAX_MESSAGE_BYTES / 4 + 1);
        let long = of(&[said(&half), said(&half), said("x")]);
        assert!(long.is_truncated() && long.message().unwrap().len() <= MAX_MESSAGE_BYTES);
        assert!(!of(&[said(&half), said(&half), tool(), said("x")]).is_truncated());
    }

    #[test]
    fn an_option_that_does_not_allow_denies() {
        let options = json!([
            {"id": "a", "kind": "allow_once"}, {"id": "r", "kind": "reject_once"}, {"id": "deny-it"}, {"id": "yes"},
        ]);
        for (chosen, denied) in
            [("a", false), ("r", true), ("deny-it", true), ("yes", false), ("cancelled", true)]
        {
            let data =
                json!({"requestId": "ap_1", "message": "rm", "options": options, "toolKind": "execute"});
            let asked = json!({"type": "approval.requested", "data": data});
            let decided =
                json!({"type": "approval.decided", "data": {"requestId": "ap_1", "optionId": chosen}});
            let transcript = of(&[asked, decided]);
            assert_eq!(transcript.denied_count, usize::from(denied), "{chosen}");
            assert_eq!(transcript.denied.len(), usize::from(denied));
            if denied {
                assert_eq!(transcript.denied[0]["toolKind"], "execute");
            }
        }
    }

    #[test]
    fn what_was_done_against_a_rule_is_denied() {
        let violated = json!({"toolCallId": "t", "action": "deny", "kind": "execute", "subject": "rm x", "rule": "execute(rm *)"});
        let transcript = of(&[json!({"type": "policy.violated", "data": violated})]);
        let denied = &transcript.denied[0];
        assert_eq!((transcript.denied_count, &denied["requestId"]), (1, &Value::Null));
        assert_eq!(denied["message"], "done without asking: rm x");
        assert_eq!(
            denied["policy"],
            json!({"action": "deny", "kind": "execute", "subject": "rm x", "rule": "execute(rm *)"})
        );
        let unnamed = of(&[
            json!({"type": "policy.violated", "data": {"action": "deny", "kind": null, "subject": null}}),
        ]);
        assert_eq!(unnamed.denied[0]["message"], "done without asking: a tool call");
    }

    #[test]
    fn questions_say_who_asks() {
        let mut transcript = RunTranscript::default();
        let asks = |kind: &str| json!({"type": kind, "workerId": "w_1", "data": {"requestId": "ap_1"}});
        for (event, kind) in [
            ("approval.requested", QuestionKind::Permission),
            ("elicitation.requested", QuestionKind::Elicitation),
        ] {
            let question = transcript.see(&asks(event)).unwrap();
            assert_eq!(question.kind, kind);
            assert_eq!((question.worker_id.as_str(), question.request_id.as_str()), ("w_1", "ap_1"));
        }
    }

    #[test]
    fn what_a_task_was_denied_has_its_path() {
        let data =
            json!({"requestId": "ap_1", "message": "rm", "options": [{"id": "r", "kind": "reject_once"}]});
        let of_task = |event_type: &str, data: Value| json!({"type": event_type, "workerId": "w_2", "path": ["run", "child"], "data": data});
        let denied = of(&[
            of_task("approval.requested", data),
            of_task("approval.decided", json!({"requestId": "ap_1", "optionId": "r"})),
        ]);
        assert_eq!(denied.denied[0]["path"], json!(["run", "child"]));
        assert_eq!(denied.denied[0]["workerId"], "w_2");
        assert_eq!((denied.denied_count, denied.end()), (1, None));
    }
}
