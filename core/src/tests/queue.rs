//! The queue: one test for each rule.

use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::event::EventType;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{QueuePause, WorkerState};

use super::{decide, enqueue, events_of, failure, queued_id, send, simulate_asking};
use crate::checker::{Checker, request};
use crate::model::QueuePosition::{Queued, Retried, Steered};
use crate::model::{WorkerAction, WorkerInput};

fn ready() -> Checker {
    let mut checker = Checker::new();
    let session = WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    };
    checker.step(&session).unwrap();
    checker
}

/// Returns a worker with a running turn and this number of queued messages.
fn busy(waiting: u16) -> Checker {
    let mut checker = ready();
    checker.step(&send(1)).unwrap();
    checker.step(&WorkerInput::Dispatching { turn: 1 }).unwrap();
    for number in 1..=waiting {
        assert!(checker.step(&enqueue(number, Queued)).unwrap().is_empty());
    }
    checker
}

fn ends(turn: u64, well: bool) -> WorkerInput {
    let end = match well {
        true => TurnEnd::Answered { stop_reason: None, usage: None, meta: None },
        false => TurnEnd::Failed { error: failure() },
    };
    WorkerInput::TurnEnd { turn, end }
}

fn waiting(checker: &Checker) -> Vec<u16> {
    let number = |turn_id| (0..100).find(|number| queued_id(*number) == turn_id).unwrap();
    checker.worker.queue.turns.iter().cloned().map(number).collect()
}

#[test]
fn what_waits_for_a_limited_worker_is_opened_only_by_a_look_at_its_budgets() {
    let look = |refused| WorkerInput::OpenQueued { refused };
    let mut checker = busy(2);
    checker.worker.queue.gated = true;
    // One turn is open.
    assert_eq!(checker.step(&look(None)), Ok(Vec::new()));
    assert_eq!(checker.step(&ends(1, true)), Ok(Vec::new()));
    assert_eq!((checker.worker.open_turn(), waiting(&checker)), (None, vec![1, 2]));
    assert_eq!(checker.step(&send(3)).unwrap_err(), Code::WorkerBusy);
    assert_eq!(checker.step(&look(None)), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
    checker.step(&WorkerInput::Dispatching { turn: 2 }).unwrap();
    checker.step(&ends(2, true)).unwrap();
    checker.step(&look(Some(failure()))).unwrap();
    assert_eq!((checker.worker.queue.paused, waiting(&checker)), (Some(QueuePause::Budget), vec![2]));
    // The queue stays paused until a client resumes it.
    assert_eq!(checker.step(&look(None)), Ok(Vec::new()));
    assert_eq!(checker.step(&send(3)).unwrap_err(), Code::QueuePaused);
    assert_eq!(checker.step(&WorkerInput::ResumeQueue), Ok(Vec::new()));
    assert_eq!(checker.step(&look(None)), Ok(vec![WorkerAction::Prompt { turn: 3 }]));
    // The queue is empty, so there is nothing to refuse.
    checker.step(&look(Some(failure()))).unwrap();
    assert_eq!(checker.worker.queue.paused, None);
}

#[test]
fn what_waits_is_begun_in_its_order_by_the_end_of_the_turn_before() {
    let mut checker = busy(3);
    for turn in 1..=3 {
        assert_eq!(checker.step(&ends(turn, true)), Ok(vec![WorkerAction::Prompt { turn: turn + 1 }]));
        let id = queued_id(u16::try_from(turn).unwrap());
        assert_eq!(checker.worker.open_turn(), Some(&id));
        checker.step(&WorkerInput::Dispatching { turn: turn + 1 }).unwrap();
    }
    checker.step(&ends(4, true)).unwrap();
    assert_eq!(checker.worker.public_state(), WorkerState::Idle);
}

#[test]
fn an_idle_worker_is_sent_it_at_once() {
    for urgency in [Queued, Retried, Steered] {
        let mut checker = ready();
        assert_eq!(checker.step(&enqueue(1, urgency)), Ok(vec![WorkerAction::Prompt { turn: 1 }]));
        assert!(waiting(&checker).is_empty());
    }
}

#[test]
fn what_waits_for_the_first_session_is_begun_with_it() {
    let mut checker = Checker::new();
    checker.step(&enqueue(1, Queued)).unwrap();
    checker.step(&enqueue(2, Steered)).unwrap();
    assert_eq!(waiting(&checker), [2, 1]);
    let session = WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    };
    assert_eq!(checker.step(&session), Ok(vec![WorkerAction::Prompt { turn: 1 }]));
    assert_eq!(waiting(&checker), [1]);
}

#[test]
fn a_turn_that_fails_pauses_it_and_one_that_is_canceled_does_not() {
    let mut checker = busy(2);
    assert!(checker.step(&ends(1, false)).unwrap().is_empty());
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::TurnFailed));
    assert_eq!(checker.step(&send(9)), Err(Code::QueuePaused));
    checker.step(&enqueue(3, Queued)).unwrap();
    assert_eq!(waiting(&checker), [1, 2, 3]);
    assert_eq!(checker.step(&WorkerInput::ResumeQueue), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
    assert_eq!(checker.step(&WorkerInput::ResumeQueue), Ok(vec![]), "a second time it is nothing");

    let mut checker = busy(1);
    checker.step(&WorkerInput::Cancel { turn: None, reason: "enough".to_owned() }).unwrap();
    checker.step(&WorkerInput::CancelRequested { turn: 1, reason: "enough".to_owned() }).unwrap();
    assert_eq!(checker.step(&ends(1, true)), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
}

#[test]
fn a_loss_a_violation_and_an_end_by_others_pause_it() {
    let mut checker = busy(1);
    checker.step(&WorkerInput::RuntimeGone { clean: false, rebooted: false, place: None }).unwrap();
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::TurnLost));

    let mut checker = busy(1);
    checker.step(&super::by_rule::violation(Some(1))).unwrap();
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::PolicyViolation));

    let mut checker = busy(1);
    checker.step(&WorkerInput::Terminating { reason: "SIGTERM".to_owned() }).unwrap();
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::RuntimeEnded));

    let mut checker = Checker::new();
    checker.step(&enqueue(1, Queued)).unwrap();
    checker.step(&WorkerInput::StartFailed { error: failure() }).unwrap();
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::StartFailed));
    checker.step(&WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None }).unwrap();
    assert_eq!(checker.step(&WorkerInput::ResumeQueue), Ok(vec![WorkerAction::StartRuntime]));
}

#[test]
fn a_message_that_steers_is_next_and_ends_the_open_turn() {
    let mut checker = busy(2);
    let actions = checker.step(&enqueue(3, Steered)).unwrap();
    assert_eq!(actions, [WorkerAction::Cancel { turn: 1, reason: "steered".to_owned() }]);
    assert_eq!(waiting(&checker), [3, 1, 2]);
    checker.step(&WorkerInput::CancelRequested { turn: 1, reason: "steered".to_owned() }).unwrap();
    checker.step(&ends(1, true)).unwrap();
    assert_eq!(checker.worker.open_turn(), Some(&queued_id(3)));
}

#[test]
fn a_simulated_question_holds_the_queue_up_until_it_is_answered_or_steered_past() {
    let mut checker = ready();
    checker.step(&simulate_asking(1)).unwrap();
    checker.step(&enqueue(1, Queued)).unwrap();
    let mut answered = checker.clone();
    assert_eq!(
        answered.step(&decide(request(super::LOCAL), Some("allow"))),
        Ok(vec![WorkerAction::Prompt { turn: 2 }])
    );
    assert_eq!(checker.step(&enqueue(2, Steered)), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
    assert_eq!(checker.worker.open_turn(), Some(&queued_id(2)));
}

#[test]
fn a_message_that_goes_first_leaves_the_rest_paused() {
    let mut checker = busy(1);
    checker.step(&ends(1, false)).unwrap();
    for urgency in [Steered, Retried] {
        let mut checker = checker.clone();
        assert_eq!(checker.step(&enqueue(5, urgency)), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
        assert_eq!(checker.step(&enqueue(6, Steered)), Err(Code::QueuePaused));
        checker.step(&WorkerInput::Dispatching { turn: 2 }).unwrap();
        assert!(checker.step(&ends(2, true)).unwrap().is_empty());
        assert_eq!((waiting(&checker), checker.worker.queue.paused), (vec![1], Some(QueuePause::TurnFailed)));
    }
}

#[test]
fn dropping_the_last_one_resumes_the_queue() {
    let mut checker = busy(2);
    checker.step(&ends(1, false)).unwrap();
    checker.step(&WorkerInput::DropQueued { turn_id: queued_id(1) }).unwrap();
    assert!(checker.worker.queue.paused.is_some());
    checker.step(&WorkerInput::DropQueued { turn_id: queued_id(2) }).unwrap();
    assert_eq!(checker.worker.queue.paused, None);
    checker.step(&send(9)).unwrap();
    assert_eq!(checker.step(&WorkerInput::DropQueued { turn_id: queued_id(2) }), Err(Code::TurnNotQueued));
}

#[test]
fn what_waits_can_be_moved_and_never_behind_the_last_or_before_the_first() {
    let mut checker = busy(3);
    for (number, to, order) in [(3, 1, [3, 1, 2]), (3, 99, [1, 2, 3]), (1, 2, [2, 1, 3]), (2, 0, [2, 1, 3])] {
        checker.step(&WorkerInput::MoveQueued { turn_id: queued_id(number), to }).unwrap();
        assert_eq!(waiting(&checker), order);
    }
}

#[test]
fn no_more_wait_than_may() {
    let mut checker = busy(3);
    for urgency in [Queued, Retried, Steered] {
        assert_eq!(checker.step(&enqueue(4, urgency)), Err(Code::QueueFull));
    }
    checker.step(&WorkerInput::DropQueued { turn_id: queued_id(2) }).unwrap();
    checker.step(&enqueue(4, Queued)).unwrap();
}

#[test]
fn a_stop_drops_what_waits() {
    let checker = busy(2);
    let step = checker.worker.step(WorkerInput::Stop).unwrap();
    let dropped = events_of(&step.facts, EventType::TurnDropped);
    let stopped = |data: &&Value| data["reason"] == "worker stopped by manager";
    assert_eq!(dropped.iter().filter(stopped).count(), 2);
    assert!(step.worker.queue.turns.is_empty());
}

#[test]
fn a_turn_that_its_runtime_was_given_does_not_wait_any_more() {
    let mut checker = busy(2);
    checker.step(&ends(1, false)).unwrap();
    checker.step(&WorkerInput::TurnRecovered { turn: 2, turn_id: queued_id(1) }).unwrap();
    assert_eq!((waiting(&checker), checker.worker.open_turn()), (vec![2], Some(&queued_id(1))));
}
