//! Decisions in the inbox: several at once, one that becomes a rule, and an expiry.

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, RuleId};
use subagent_protocol::state::ElicitationAction;
use subagent_protocol::time::Timestamp;

use super::{answer, decide, events_of, send, simulate_asking};
use crate::checker::request;
use crate::model::{
    Approval, Expiry, Fact, InboxFact, LifecycleState, NewRule, PermissionDecision, QuestionInput,
    Transition, Worker, WorkerAction, WorkerInput,
};

fn choice(option: &str) -> PermissionDecision {
    PermissionDecision { option_id: Some(option.to_owned()), alias: None, decision: option.to_owned() }
}

/// Returns one of the inbox inputs, for generated histories.
pub(super) fn in_the_inbox(how: u8, request_id: RequestId, all: Vec<RequestId>) -> WorkerInput {
    let expired = |expiry| QuestionInput::Expired { request_id: request_id.clone(), expiry };
    WorkerInput::Inbox(match how {
        0 => {
            let choices = all.into_iter().map(|request_id| (request_id, choice("allow"))).collect();
            QuestionInput::DecideAll { choices, note: None }
        }
        1 => QuestionInput::DecideAlways {
            request_id: request_id.clone(),
            choice: choice("allow"),
            note: None,
            rule: NewRule {
                rule_id: RuleId::from_random([1; RuleId::BYTES]),
                rule: "execute(ls)".to_owned(),
                action: "allow",
                for_controller: false,
                request_id,
                created_at: Timestamp(0),
            },
        },
        2 => expired(Expiry::Decide(choice("allow"))),
        3 => expired(Expiry::Decline),
        _ => expired(Expiry::Cancel),
    })
}

fn after(inputs: Vec<WorkerInput>) -> Worker {
    let start = Worker::without_runtime();
    inputs.into_iter().fold(start, |worker, input| worker.step(input).unwrap().worker)
}

/// Returns a worker whose turn asks for this number of permissions.
fn asking(permissions: u8) -> Worker {
    let mut inputs = vec![send(1), WorkerInput::Dispatching { turn: 1 }];
    inputs.extend((1..=permissions).map(|no| WorkerInput::ApprovalRequested { request_id: request(no) }));
    after(inputs)
}

fn decided(step: &Transition) -> Vec<Value> {
    events_of(&step.facts, EventType::ApprovalDecided)
}

#[test]
fn several_are_decided_together_or_not_at_all() {
    let asked = asking(3);
    let all = vec![request(1), request(2), request(3)];
    let step = asked.step(in_the_inbox(0, request(1), all.clone())).unwrap();
    let by: Vec<Value> = decided(&step).into_iter().map(|mut data| data["by"].take()).collect();
    assert_eq!(by, vec![json!("owner"); 3]);
    assert_eq!(step.actions.len(), 3);
    let one = asked.step(decide(request(2), Some("deny"))).unwrap().worker;
    let late = one.step(in_the_inbox(0, request(1), all)).unwrap_err();
    assert_eq!(late.code, Code::ApprovalNotPending);
}

#[test]
fn a_decision_that_becomes_a_rule_is_reported_with_it() {
    let step = asking(1).step(in_the_inbox(1, request(1), vec![])).unwrap();
    let data = &decided(&step)[0];
    let rule =
        json!({"ruleId": "rule_0101010101", "rule": "execute(ls)", "action": "allow", "scope": "worker"});
    assert_eq!((&data["always"], &data["by"]), (&rule, &json!("owner")));
    let added = |fact: &Fact| matches!(fact, Fact::Inbox(InboxFact::RuleAdded(_)));
    assert_eq!(step.facts.iter().filter(|fact| added(fact)).count(), 1);
    let late = step.worker.step(in_the_inbox(1, request(1), vec![])).unwrap_err();
    assert_eq!(late.code, Code::ApprovalNotPending, "and adds no rule");
}

#[test]
fn of_an_answer_and_a_deadline_the_first_counts() {
    let asked = asking(1);
    for how in 2..5 {
        let late = asked.step(decide(request(1), Some("allow"))).unwrap().worker;
        let error = late.step(in_the_inbox(how, request(1), vec![])).unwrap_err();
        assert_eq!(error.code, Code::ApprovalNotPending);
        let expired = asked.step(in_the_inbox(how, request(1), vec![])).unwrap();
        assert_eq!(decided(&expired)[0]["by"], "deadline");
        let error = expired.worker.step(decide(request(1), Some("allow"))).unwrap_err();
        assert_eq!(error.code, Code::ApprovalNotPending);
    }
}

#[test]
fn what_a_deadline_cancels_is_the_turn_that_asked() {
    let step = asking(2).step(in_the_inbox(4, request(1), vec![])).unwrap();
    let LifecycleState::Turn(turn) = &step.worker.state else { panic!("{:?}", step.worker.state) };
    assert!(turn.cancel.is_some());
    let by: Vec<Value> = decided(&step).into_iter().map(|mut data| data["by"].take()).collect();
    assert_eq!(by, [json!("deadline"), json!("cancel")], "the other one goes with the turn");
    assert!(
        matches!(&step.actions[..], [WorkerAction::Cancel { turn: 1, .. }]),
        "no answer that is there before the cancel"
    );
    // A question from outside of a turn cancels no turn.
    let outside = after(vec![WorkerInput::ApprovalRequested { request_id: request(1) }]);
    let step = outside.step(in_the_inbox(4, request(1), vec![])).unwrap();
    assert_eq!(step.worker.state, LifecycleState::Idle);
    assert_eq!(step.worker.approvals[&request(1)].approval, Approval::Decided { option_id: None });
    let local = after(vec![simulate_asking(1)]);
    let step = local.step(in_the_inbox(4, request(super::LOCAL), vec![])).unwrap();
    assert_eq!((&step.worker.state, &decided(&step)[0]["by"]), (&LifecycleState::Idle, &json!("deadline")));
}

#[test]
fn an_elicitation_is_declined_when_its_time_is_over() {
    let asked = after(vec![
        send(1),
        WorkerInput::Dispatching { turn: 1 },
        WorkerInput::ElicitationRequested { request_id: request(1) },
    ]);
    let step = asked.step(in_the_inbox(3, request(1), vec![])).unwrap();
    let decline = WorkerAction::Answer { request_id: request(1), option_id: Some("decline".to_owned()) };
    assert_eq!(step.actions, [decline]);
    assert!(step.worker.step(answer(request(1), ElicitationAction::Accept)).is_err());
}
