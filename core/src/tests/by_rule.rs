//! Decisions by rules of the owner, and violations of them.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::data::questions::{DecidingRule, PolicyViolated};
use subagent_protocol::event::EventType;

use super::{decide, events_of, rule, send};
use crate::checker::request;
use crate::model::{Approval, Fact, LifecycleState, PermissionDecision, Worker, WorkerAction, WorkerInput};

fn by_rule(no: u8, option: &str) -> WorkerInput {
    let choice =
        PermissionDecision { option_id: Some(option.to_owned()), alias: None, decision: "allow".to_owned() };
    WorkerInput::DecideByRule { request_id: request(no), choice, rule: rule() }
}

pub(super) fn violation(turn: Option<u64>) -> WorkerInput {
    let decided = DecidingRule {
        action: "deny".to_owned(),
        subject: Some("rm x".to_owned()),
        rule: Some("execute(rm *)".to_owned()),
        ..rule()
    };
    let call = PolicyViolated { tool_call_id: "1".to_owned(), evidence: "seen".to_owned(), decided };
    WorkerInput::Violation { turn, call }
}

/// Returns a worker after these inputs.
fn after(inputs: Vec<WorkerInput>) -> Worker {
    let start = Worker::without_runtime();
    inputs.into_iter().fold(start, |worker, input| worker.step(input).unwrap().worker)
}

fn running() -> Worker {
    after(vec![send(1), WorkerInput::Dispatching { turn: 1 }])
}

#[test]
fn a_rule_decides_once_and_is_reported() {
    let asked = running().step(WorkerInput::ApprovalRequested { request_id: request(1) }).unwrap().worker;
    let step = asked.step(by_rule(1, "yes")).unwrap();
    let decided = events_of(&step.facts, EventType::ApprovalDecided);
    assert_eq!(decided.len(), 1);
    assert_eq!((&decided[0]["policy"], &decided[0]["optionId"]), (&json!(rule()), &json!("yes")));
    let answer = WorkerAction::Answer { request_id: request(1), option_id: Some("yes".to_owned()) };
    assert_eq!(step.actions, [answer]);
    assert_eq!(
        step.worker.approvals[&request(1)].approval,
        Approval::Decided { option_id: Some("yes".to_owned()) }
    );
    for late in [by_rule(1, "no"), decide(request(1), Some("no"))] {
        assert_eq!(step.worker.step(late).unwrap_err().code, Code::ApprovalNotPending);
    }
    let person = asked.step(decide(request(1), Some("no"))).unwrap().worker;
    assert_eq!(
        person.step(by_rule(1, "yes")).unwrap_err().code,
        Code::ApprovalNotPending,
        "a person was first"
    );
    assert_eq!(running().step(by_rule(1, "yes")).unwrap_err().code, Code::ApprovalNotFound);
    let elicited =
        running().step(WorkerInput::ElicitationRequested { request_id: request(1) }).unwrap().worker;
    assert!(elicited.step(by_rule(1, "accept")).is_err(), "no rule answers what only a person knows");
}

#[test]
fn a_violation_cancels_its_turn_and_no_other() {
    let step = running().step(violation(Some(1))).unwrap();
    let LifecycleState::Turn(turn) = &step.worker.state else { panic!("{:?}", step.worker.state) };
    let reason = &turn.cancel.as_ref().unwrap().reason;
    assert!(reason.starts_with("POLICY_VIOLATION: ") && reason.contains("rm x"), "{reason}");
    assert!(matches!(&step.actions[..], [WorkerAction::Cancel { turn: 1, .. }]));
    assert_eq!(events_of(&step.facts, EventType::PolicyViolated).len(), 1);
    let failed =
        |fact: &Fact| matches!(fact, Fact::LastError(Some(error)) if error.code == Code::PolicyViolation);
    assert!(step.facts.iter().any(failed));
    let again = step.worker.step(violation(Some(1))).unwrap();
    assert_eq!((again.worker, again.actions), (step.worker, vec![]), "it is canceled already");
    for other in [None, Some(2)] {
        let step = running().step(violation(other)).unwrap();
        assert_eq!((step.worker, step.actions), (running(), vec![]));
        assert_eq!(events_of(&step.facts, EventType::PolicyViolated).len(), 1, "it is told all the same");
    }
    let idle = Worker::without_runtime();
    assert_eq!(idle.step(violation(None)).unwrap().worker, idle);
}
