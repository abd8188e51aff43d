//! Rate limits that park a worker: the end time, what continues afterwards, and what is never sent
//! twice.

use subagent_protocol::event::EventType;
use subagent_protocol::rate_limit::{self, Reset};
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{Dispatched, QueuePause, TurnStatus};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error};

use super::{enqueue, events_of, failure, limited, send};
use crate::checker::Checker;
use crate::model::{
    LifecycleState, MAX_BACKOFFS, Parking, QueuePosition, RateLimit, RuntimeStatus, WorkerAction, WorkerInput,
};

const SESSION: WorkerInput = WorkerInput::Session {
    origin: SessionOrigin::New,
    context_lost: false,
    context_lost_reason: None,
    took_ms: None,
};
const GONE: WorkerInput = WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None };

fn fails(turn: u64) -> WorkerInput {
    WorkerInput::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } }
}

fn answered(turn: u64) -> WorkerInput {
    WorkerInput::TurnEnd { turn, end: TurnEnd::Answered { stop_reason: None, usage: None, meta: None } }
}

fn after(inputs: &[WorkerInput]) -> Checker {
    let mut checker = Checker::new();
    for input in inputs {
        checker.step(input).unwrap();
    }
    checker
}

/// Returns a worker with a running turn and one queued message.
fn at_work() -> Checker {
    after(&[SESSION, send(1), WorkerInput::Dispatching { turn: 1 }, enqueue(1, QueuePosition::Queued)])
}

#[test]
fn the_queue_waits_for_the_reset_and_goes_on_by_itself() {
    let mut checker = at_work();
    checker.step(&limited(fails(1), Some(60_000))).unwrap();
    assert_eq!(checker.worker.parking, Parking { until: Some(Timestamp(61_000)), backoffs: 0 });
    assert_eq!((checker.worker.queue.paused, checker.worker.queue.turns.len()), (None, 1));
    let row = &checker.rows.turns[&1];
    assert_eq!((row.status, row.dispatched), (TurnStatus::Failed, Dispatched::Maybe));
    assert_eq!(checker.step(&send(2)), Err(Code::WorkerBusy));
    checker.step(&enqueue(2, QueuePosition::Steered)).unwrap();
    assert_eq!(checker.worker.queue.turns.len(), 2, "nothing is sent while it is parked");
    checker.reload();
    assert!(checker.worker.is_parked());
    checker.worker.link = RuntimeStatus::Ready;
    assert_eq!(checker.step(&WorkerInput::ParkingOver).unwrap(), [WorkerAction::Prompt { turn: 2 }]);
    assert!(!checker.worker.is_parked());
    assert_eq!(checker.rows.turns[&2].id, super::queued_id(2), "what steers is first");
    assert!(checker.step(&WorkerInput::ParkingOver).unwrap().is_empty());
}

#[test]
fn a_turn_whose_prompt_was_never_written_is_given_to_the_next_runtime() {
    let mut checker = after(&[SESSION, GONE]);
    assert_eq!(checker.step(&send(1)).unwrap(), [WorkerAction::StartRuntime]);
    checker.step(&limited(WorkerInput::StartFailed { error: failure() }, Some(60_000))).unwrap();
    assert!(checker.worker.holds_turn());
    assert_eq!(checker.worker.unparks_at(), None, "the runtime lives that could not start");
    assert!(checker.step(&GONE).unwrap().is_empty());
    assert_eq!(
        (checker.worker.link, checker.worker.unparks_at()),
        (RuntimeStatus::None, Some(Timestamp(61_000)))
    );
    assert_eq!(checker.step(&WorkerInput::ParkingOver).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(checker.step(&SESSION).unwrap(), [WorkerAction::Prompt { turn: 1 }]);
    checker.step(&WorkerInput::Dispatching { turn: 1 }).unwrap();
    checker.step(&answered(1)).unwrap();
    assert_eq!(checker.rows.turns[&1].status, TurnStatus::Completed);
}

#[test]
fn a_held_turn_can_be_canceled_and_its_worker_stopped() {
    let held = || {
        after(&[SESSION, GONE, send(1), limited(WorkerInput::StartFailed { error: failure() }, None), GONE])
    };
    let mut checker = held();
    checker.step(&WorkerInput::Cancel { turn: None, reason: "enough".to_owned() }).unwrap();
    assert_eq!((&checker.worker.state, checker.worker.is_parked()), (&LifecycleState::Idle, true));
    assert_eq!(checker.rows.turns[&1].dispatched, Dispatched::No);
    let mut checker = held();
    checker.step(&WorkerInput::Stop).unwrap();
    checker.step(&WorkerInput::NothingLeft).unwrap();
    assert_eq!((&checker.worker.state, checker.worker.is_parked()), (&LifecycleState::Stopped, false));
    let mut checker = held();
    assert_eq!(checker.step(&WorkerInput::Restart { force: false, beside: false }), Err(Code::WorkerBusy));
    assert_eq!(
        checker.step(&WorkerInput::Restart { force: true, beside: false }).unwrap(),
        [WorkerAction::StartRuntime]
    );
}

#[test]
fn without_a_time_it_waits_longer_each_time_and_then_the_queue_is_paused() {
    let mut waits = Vec::new();
    let mut checker = at_work();
    for turn in 1..=u64::from(MAX_BACKOFFS) {
        checker.step(&limited(fails(turn), None)).unwrap();
        waits.push((checker.worker.parking.until.unwrap().0 - 1_000) / 1000);
        checker.step(&enqueue(100 + u16::try_from(turn).unwrap(), QueuePosition::Queued)).unwrap();
        checker.step(&WorkerInput::ParkingOver).unwrap();
        checker.step(&WorkerInput::Dispatching { turn: turn + 1 }).unwrap();
    }
    assert_eq!(waits, [30, 60, 120, 240, 480]);
    let last = u64::from(MAX_BACKOFFS) + 1;
    checker.step(&limited(fails(last), None)).unwrap();
    assert_eq!(
        (checker.worker.parking, checker.worker.queue.paused),
        (Parking::default(), Some(QueuePause::TurnFailed))
    );
}

#[test]
fn a_reset_that_comes_at_once_is_believed_once() {
    let mut checker = at_work();
    let mut waits = Vec::new();
    for turn in 1..=3 {
        checker.step(&limited(fails(turn), Some(1_000))).unwrap();
        waits.push(checker.worker.parking.until.unwrap().0 - 1_000);
        checker.step(&enqueue(100 + u16::try_from(turn).unwrap(), QueuePosition::Queued)).unwrap();
        checker.step(&WorkerInput::ParkingOver).unwrap();
        checker.step(&WorkerInput::Dispatching { turn: turn + 1 }).unwrap();
    }
    assert_eq!(waits, [1_000, 60_000, 120_000]);
    checker.step(&limited(fails(4), Some(3_600_000))).unwrap();
    assert_eq!(checker.worker.parking.until, Some(Timestamp(3_601_000)), "a later one is always believed");
}

#[test]
fn a_completed_turn_and_its_owner_end_the_count() {
    let mut checker = at_work();
    checker.step(&limited(fails(1), None)).unwrap();
    checker.step(&WorkerInput::ParkingOver).unwrap();
    assert_eq!(checker.worker.parking.backoffs, 1);
    checker.step(&WorkerInput::Dispatching { turn: 2 }).unwrap();
    checker.step(&answered(2)).unwrap();
    assert_eq!(checker.worker.parking, Parking::default());
    let mut checker = at_work();
    checker.step(&limited(fails(1), None)).unwrap();
    assert_eq!(checker.step(&WorkerInput::ResumeQueue).unwrap(), [WorkerAction::Prompt { turn: 2 }]);
    assert_eq!(checker.worker.parking, Parking::default());
}

#[test]
fn a_first_start_that_is_limited_leaves_its_queue_to_go_on() {
    let mut checker = after(&[enqueue(1, QueuePosition::Queued)]);
    checker.step(&limited(WorkerInput::StartFailed { error: failure() }, Some(60_000))).unwrap();
    checker.step(&GONE).unwrap();
    assert_eq!((&checker.worker.state, checker.worker.queue.paused), (&LifecycleState::Error, None));
    assert_eq!(checker.step(&WorkerInput::ParkingOver).unwrap(), [WorkerAction::StartRuntime]);
}

#[test]
fn a_canceled_turn_does_not_park_its_worker() {
    let mut checker = at_work();
    checker.step(&WorkerInput::Cancel { turn: None, reason: "enough".to_owned() }).unwrap();
    checker.step(&WorkerInput::CancelRequested { turn: 1, reason: "enough".to_owned() }).unwrap();
    checker.step(&limited(fails(1), Some(60_000))).unwrap();
    assert!(!checker.worker.is_parked());
}

#[test]
fn what_an_error_reports_is_believed_within_bounds() {
    let at = Timestamp(1_795_292_982_000);
    let limit = |reset| {
        let error = rate_limit::mark(Error::new(Code::BackendRpcError, "m"), reset);
        RateLimit::reported(&error, at).unwrap().until
    };
    let soon = Timestamp(at.0 + 5_000);
    assert_eq!(limit(Some(Reset::At(soon))), Some(soon));
    assert_eq!(limit(Some(Reset::AfterMs(5_000))), Some(soon));
    let between_seconds = limit(Some(Reset::At(Timestamp(at.0 + 5_123))));
    assert!(between_seconds.is_some_and(|until| until.0 >= at.0 + 5_123), "never before the reset");
    for reset in [
        None,
        Some(Reset::At(Timestamp(at.0 - 5_000))),
        Some(Reset::AfterMs(i64::MAX)),
        Some(Reset::AfterMs(-1)),
    ] {
        assert_eq!(limit(reset), None, "{reset:?}");
    }
    let year = Reset::AfterMs(365 * 24 * 3600 * 1000);
    assert_eq!(limit(Some(year)), None);
    assert_eq!(RateLimit::reported(&failure(), at), None);
}

#[test]
fn both_ends_are_reported() {
    let mut checker = at_work();
    let facts = checker.worker.step(limited(fails(1), None)).unwrap().facts;
    let has_event = events_of(&facts, EventType::WorkerParked);
    let turn = super::turn_id(1);
    let until = Timestamp(31_000);
    assert_eq!(
        has_event,
        [serde_json::json!({"until": until, "reason": "rate_limit", "backoff": 1, "turnId": turn})]
    );
    checker.step(&limited(fails(1), None)).unwrap();
    let facts = checker.worker.step(WorkerInput::ParkingOver).unwrap().facts;
    assert_eq!(events_of(&facts, EventType::WorkerUnparked), [serde_json::json!({"reason": "due"})]);
}
