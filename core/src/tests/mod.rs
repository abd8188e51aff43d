//! Invariants of every worker, checked after each step of generated histories.

mod accounts;
mod budget;
mod by_rule;
mod hibernation;
mod hooks;
mod inbox;
mod ops;
mod parking;
mod properties;
mod queue;
mod recovered;
mod restart;
mod table;
mod task;
mod task_limits;
mod world;

use serde_json::{Value, json};
use subagent_protocol::budget::Money;
use subagent_protocol::data::questions::DecidingRule;
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ElicitationAction;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error};

use crate::checker::{LOCAL, request};
use crate::model::{
    By, ElicitationReply, Fact, PermissionDecision, QueuePosition, Queued, RateLimit, WorkerInput,
};

/// Returns the type, the turn and the data of an event.
fn event(fact: &Fact) -> Option<(EventType, Option<u64>, Value)> {
    match fact {
        Fact::Event { data, turn } => Some((data.event_type(), *turn, data.to_value())),
        Fact::MessageSent { message, turn } => Some((EventType::MessageSent, Some(*turn), message.clone())),
        _ => None,
    }
}

/// Returns the data of all events of a type.
fn events_of(facts: &[Fact], wanted: EventType) -> Vec<Value> {
    facts
        .iter()
        .filter_map(event)
        .filter(|(event_type, ..)| *event_type == wanted)
        .map(|(.., data)| data)
        .collect()
}

fn input(text: &str) -> TurnInput {
    TurnInput { text: text.to_owned(), blocks_count: 0, subagent: None }
}

/// Returns a rule that denies or allows `ls`.
fn rule() -> DecidingRule {
    DecidingRule {
        action: "allow".to_owned(),
        kind: "execute".to_owned(),
        subject: Some("ls".to_owned()),
        rule: Some("execute(ls *)".to_owned()),
        layer: None,
        source: None,
        line: None,
        path: None,
        note: None,
    }
}

fn turn_id(no: u64) -> TurnId {
    TurnId::from_random([u8::try_from(no % 251).unwrap(); TurnId::BYTES])
}

fn send(no: u64) -> WorkerInput {
    send_by(no, By::Runtime)
}

fn simulate(no: u64) -> WorkerInput {
    send_by(no, By::Local)
}

fn simulate_asking(no: u64) -> WorkerInput {
    send_by(no, By::LocalAsking { request_id: request(LOCAL) })
}

fn send_by(no: u64, by: By) -> WorkerInput {
    WorkerInput::Send { turn_id: turn_id(no), message: json!({"text": "t"}), input: input("t"), by }
}

/// Builds a message that may be queued. `number` is not the number of a turn.
fn enqueue(number: u16, urgency: QueuePosition) -> WorkerInput {
    let (message, input) = (json!({"text": "q"}), input("q"));
    let queued = Queued { turn_id: queued_id(number), message, input, sender: None };
    WorkerInput::Enqueue { queued, urgency, most: 3 }
}

fn queued_id(number: u16) -> TurnId {
    let [a, b] = number.to_be_bytes();
    TurnId::from_random([255, 255, 255, a, b])
}

fn decide(request_id: RequestId, option: Option<&str>) -> WorkerInput {
    let choice = PermissionDecision {
        option_id: option.map(str::to_owned),
        alias: None,
        decision: option.unwrap_or("cancelled").to_owned(),
    };
    WorkerInput::Decide { request_id, choice, note: None }
}

fn answer(request_id: RequestId, action: ElicitationAction) -> WorkerInput {
    let content = (action == ElicitationAction::Accept).then(|| Secret(r#"{"a":"x"}"#.to_owned()));
    WorkerInput::Answer { request_id, reply: ElicitationReply { action, fields: Vec::new(), content } }
}

fn over_budget() -> WorkerInput {
    WorkerInput::OverBudget { error: Error::new(Code::BudgetExceeded, "the worker has used all") }
}

fn costs(micros: u64) -> WorkerInput {
    WorkerInput::CostReported { cost: Money { micros, currency: "USD".to_owned() } }
}

fn failure() -> Error {
    Error::new(Code::BackendUnavailable, "the agent ended")
}

/// Wraps a failed turn or start in a rate limit that ends after this many milliseconds, or without
/// a time.
fn limited(input: WorkerInput, after: Option<i64>) -> WorkerInput {
    let at = Timestamp(1_000);
    let limit = RateLimit { at, until: after.map(|after| Timestamp(at.0 + after)) };
    WorkerInput::RateLimited { limit, input: Box::new(input) }
}
