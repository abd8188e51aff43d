//! What a run learns from the events of its turn. Pure.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subagent_protocol::budget::Money;
use subagent_protocol::event::{EventType, SeenEvent};
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
    requests: HashMap<String, AskedPermission>,
    tools: HashSet<String>,
    cost: Option<Money>,
    pub(crate) denied: Vec<DeniedRequest>,
    pub(crate) denied_count: usize,
    pub(crate) turned_away: usize,
    end: Option<(TurnExitStatus, TurnEnding)>,
}

/// The data of the events of a turn, as far as all of them are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TurnData<'a> {
    text: Option<&'a str>,
    kind: Option<&'a str>,
    tool_call_id: Option<&'a str>,
    session_id: Option<&'a str>,
    request_id: Option<&'a str>,
    action: Option<&'a str>,
    cost: Option<Value>,
}

/// A permission request, as far as its denial is reported.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedPermission {
    message: Option<String>,
    options: Vec<AskedOption>,
    tool_kind: Option<String>,
    title: Option<String>,
    command: Option<String>,
}

#[derive(Debug, Deserialize)]
struct AskedOption {
    id: String,
    kind: Option<String>,
}

/// The decision of a permission request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DecidedPermission {
    request_id: String,
    option_id: Option<String>,
    note: Option<String>,
    policy: Option<Value>,
}

/// A call that a rule denies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeniedCall<'a> {
    kind: Option<&'a str>,
    subject: Option<&'a str>,
}

/// A request that was denied, or a call that was made without one.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeniedRequest {
    pub(crate) request_id: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) option_id: Option<String>,
    pub(crate) note: Option<String>,
    /// Null for a call of an unknown kind; absent for a request that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_kind: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Value>,
    /// Of a task: the names from the root to it, and its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker_id: Option<String>,
}

/// How a turn ended, from the data of its last event.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TurnEnding {
    pub(crate) stop_reason: Option<String>,
    pub(crate) usage: Option<Value>,
    pub(crate) error: Option<Value>,
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
        let seen: SeenEvent<'_, TurnData<'_>> = SeenEvent::of(event);
        let data = &seen.data;
        match seen.event_type()? {
            EventType::ProgressMessage => self.text.push(data.text.unwrap_or_default()),
            EventType::ProgressUpdate if message_text::is_tool_call(event) => {
                self.text.tool_call();
                // An agent may begin a call twice.
                if self.tools.len() < MAX_TOOLS {
                    self.tools.insert(data.tool_call_id.unwrap_or_default().to_owned());
                }
            }
            EventType::ProgressUpdate if data.kind == Some("usage") && data.session_id.is_none() => {
                let cost = data.cost.as_ref();
                self.cost = cost.and_then(Money::of).or(self.cost.take());
            }
            EventType::ApprovalRequested => {
                if self.requests.len() < MAX_REQUESTS {
                    let asked: SeenEvent<'_, AskedPermission> = SeenEvent::of(event);
                    self.requests.insert(data.request_id.unwrap_or_default().to_owned(), asked.data);
                }
                return QuestionRef::of_event(event);
            }
            EventType::ElicitationRequested => return QuestionRef::of_event(event),
            EventType::ElicitationAnswered if data.action != Some("accept") => self.turned_away += 1,
            EventType::ApprovalDecided => self.decided(&SeenEvent::of(event)),
            EventType::PolicyViolated => self.violated(event),
            EventType::TurnCompleted => self.ended(TurnExitStatus::Completed, event),
            EventType::TurnFailed => self.ended(TurnExitStatus::Failed, event),
            EventType::TurnCanceled => self.ended(TurnExitStatus::Canceled, event),
            _ => {}
        }
        None
    }

    fn ended(&mut self, status: TurnExitStatus, event: &Value) {
        self.end = Some((status, SeenEvent::of(event).data));
    }

    /// Records a decision as denied unless it allows the request. It does not matter who decided.
    fn decided(&mut self, event: &SeenEvent<'_, DecidedPermission>) {
        let DecidedPermission { request_id, option_id, note, policy } = event.data.clone();
        let asked = self.requests.remove(&request_id).unwrap_or_default();
        let chosen = option_id.as_deref().unwrap_or_default();
        let option = asked.options.iter().find(|option| option.id == chosen);
        let allowed = match option.and_then(|option| option.kind.as_deref()) {
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
        let AskedPermission { message, tool_kind, title, command, .. } = asked;
        let denied = DeniedRequest {
            request_id: Some(request_id),
            message,
            option_id,
            note,
            tool_kind: tool_kind.map(Some),
            title,
            command,
            policy,
            ..DeniedRequest::default()
        };
        self.deny(denied, event);
    }

    /// The agent did what a rule denies, and did not ask.
    fn violated(&mut self, event: &Value) {
        let seen: SeenEvent<'_, DeniedCall<'_>> = SeenEvent::of(event);
        let DeniedCall { kind, subject } = seen.data;
        let mut policy: Map<String, Value> = SeenEvent::of(event).data;
        policy.remove("toolCallId");
        policy.remove("evidence");
        let what = subject.or(kind).unwrap_or("a tool call");
        let denied = DeniedRequest {
            message: Some(format!("done without asking: {what}")),
            tool_kind: Some(kind.map(str::to_owned)),
            policy: Some(policy.into()),
            ..DeniedRequest::default()
        };
        self.deny(denied, &seen);
    }

    /// `event` says so; of a task it has the path.
    fn deny<D>(&mut self, mut denied: DeniedRequest, event: &SeenEvent<'_, D>) {
        if let Some(path) = &event.path {
            denied.path = Some(path.iter().map(|name| (*name).to_owned()).collect());
            denied.worker_id = Some(event.worker_id.to_owned());
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
    pub(crate) fn end(&self) -> Option<(TurnExitStatus, &TurnEnding)> {
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
    use serde_json::json;
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
                assert_eq!(json!(transcript.denied[0])["toolKind"], "execute");
            }
        }
    }

    #[test]
    fn what_was_done_against_a_rule_is_denied() {
        let violated = json!({"toolCallId": "t", "action": "deny", "kind": "execute", "subject": "rm x", "rule": "execute(rm *)"});
        let transcript = of(&[json!({"type": "policy.violated", "data": violated})]);
        let denied = json!(transcript.denied[0]);
        assert_eq!((transcript.denied_count, &denied["requestId"]), (1, &Value::Null));
        assert_eq!(denied["message"], "done without asking: rm x");
        assert_eq!(
            denied["policy"],
            json!({"action": "deny", "kind": "execute", "subject": "rm x", "rule": "execute(rm *)"})
        );
        let unnamed = of(&[
            json!({"type": "policy.violated", "data": {"action": "deny", "kind": null, "subject": null}}),
        ]);
        assert_eq!(json!(unnamed.denied[0])["message"], "done without asking: a tool call");
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
        let first = json!(denied.denied[0]);
        assert_eq!((&first["path"], &first["workerId"]), (&json!(["run", "child"]), &json!("w_2")));
        assert_eq!((denied.denied_count, denied.end()), (1, None));
    }
}
