//! A runtime that knows more than the store, which was replaced by an older copy.

use subagent_protocol::Code;
use subagent_protocol::data::EventData;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{Dispatched, TurnStatus, WorkerState};

use super::{decide, send, turn_id};
use crate::checker::{Checker, request};
use crate::model::{Fact, LifecycleState, RuntimeStatus, WorkerAction, WorkerInput};
use crate::rules::recovered::missing_end;

fn recovered(turn: u64) -> WorkerInput {
    WorkerInput::TurnRecovered { turn, turn_id: turn_id(turn) }
}

fn after(inputs: &[WorkerInput]) -> (Checker, Vec<WorkerAction>) {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Ready;
    let session = WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    };
    let mut actions = checker.step(&session).unwrap();
    for input in inputs {
        actions = checker.step(input).unwrap_or_else(|code| panic!("{code} for {input:?}"));
    }
    (checker, actions)
}

#[test]
fn a_turn_that_is_not_stored_is_open_and_ends_like_any_other() {
    let answered = TurnEnd::Answered { stop_reason: None, usage: None, meta: None };
    let (mut checker, actions) = after(&[recovered(3)]);
    assert_eq!((checker.worker.public_state(), actions), (WorkerState::Running, vec![]));
    assert_eq!((checker.worker.last_turn, checker.worker.known_turn), (3, 3));
    let actions = checker.step(&WorkerInput::Cancel { turn: None, reason: "enough".to_owned() }).unwrap();
    assert!(matches!(&actions[..], [WorkerAction::Cancel { turn: 3, .. }]), "{actions:?}");
    checker.step(&WorkerInput::TurnEnd { turn: 3, end: answered }).unwrap();
    assert_eq!(checker.worker.state, LifecycleState::Idle);
    assert_eq!(checker.rows.turns[&3].status, TurnStatus::Completed);
    checker.step(&send(4)).unwrap();
    assert_eq!(checker.worker.turn().unwrap().no, 4);
}

#[test]
fn a_turn_that_is_stored_or_comes_between_is_not_made_again() {
    let (mut checker, _) = after(&[send(1), WorkerInput::Dispatching { turn: 1 }]);
    assert_eq!(checker.step(&recovered(1)), Err(Code::Internal));
    assert_eq!(checker.step(&recovered(2)), Err(Code::Internal), "an agent has one turn at a time");
    checker.step(&WorkerInput::TurnEnd { turn: 1, end: missing_end() }).unwrap();
    assert_eq!(checker.step(&recovered(1)), Err(Code::Internal), "it is over");
    checker.step(&recovered(2)).unwrap();
    assert_eq!(checker.rows.turns[&1].dispatched, Dispatched::Maybe);
}

#[test]
fn what_the_runtime_counts_is_not_counted_again() {
    let (mut checker, _) = after(&[WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 7 }]);
    checker.step(&send(8)).unwrap();
    assert_eq!(checker.worker.turn().unwrap().no, 8);
}

#[test]
fn a_waiting_turn_that_was_not_taken_is_not_sent() {
    let (mut checker, _) = after(&[send(1), WorkerInput::Dispatching { turn: 1 }]);
    let actions = checker.step(&WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 0 }).unwrap();
    assert_eq!((actions, &checker.worker.state), (vec![], &LifecycleState::Idle));
    assert_eq!(checker.rows.turns[&1].status, TurnStatus::Failed);
}

#[test]
fn a_question_whose_words_are_lost_can_be_answered_with_a_cancel() {
    let asked = WorkerInput::ApprovalRecovered { request_id: request(1) };
    let step = after(&[recovered(1)]).0.worker.step(asked.clone()).unwrap();
    let [
        Fact::Event { data: EventData::ApprovalRequested(data), turn: Some(1) },
        Fact::ApprovalOpened { .. },
        Fact::Spent(_),
    ] = &step.facts[..]
    else {
        panic!("{:?}", step.facts)
    };
    assert!(data.options.is_empty());
    let (mut checker, actions) = after(&[recovered(1), asked.clone(), asked]);
    assert_eq!((checker.worker.public_state(), actions), (WorkerState::WaitingApproval, vec![]));
    let actions = checker.step(&decide(request(1), None)).unwrap();
    assert!(matches!(&actions[..], [WorkerAction::Answer { option_id: None, .. }]), "{actions:?}");
}

#[test]
fn a_question_from_before_the_turn_that_waits_is_not_the_turns() {
    let asked = WorkerInput::ApprovalRecovered { request_id: request(1) };
    let cancel = WorkerInput::Cancel { turn: None, reason: "enough".to_owned() };
    let (mut checker, _) = after(&[send(1), asked, cancel]);
    assert_eq!(checker.worker.approvals[&request(1)].turn, None);
    checker.step(&WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 0 }).unwrap();
    assert_eq!(checker.worker.state, LifecycleState::Idle);
    assert!(checker.worker.approvals.contains_key(&request(1)), "it outlives the turn");
}

#[test]
fn what_was_decided_is_said_again_to_a_runtime_that_has_not_taken_the_turn() {
    let asked = WorkerInput::ApprovalRequested { request_id: request(1) };
    let (mut checker, _) =
        after(&[asked, send(1), WorkerInput::Dispatching { turn: 1 }, decide(request(1), Some("allow"))]);
    let actions = checker.step(&WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 0 }).unwrap();
    assert_eq!(checker.worker.state, LifecycleState::Idle);
    assert!(matches!(&actions[..], [WorkerAction::Answer { .. }]), "{actions:?}");
}
