//! Invariants of parking: only a rate limit parks a worker, and nothing is sent twice.

use subagent_protocol::event::EventType;

use crate::model::{
    Fact, LifecycleState, MAX_BACKOFFS, RuntimeStatus, Transition, Worker, WorkerAction, WorkerInput,
};

/// Checks that only a rate limit parks a worker, that nothing is sent twice, and that both ends are
/// reported.
pub(super) fn check(before: &Worker, input: &WorkerInput, step: &Transition) {
    let next = &step.worker;
    let has_event = |wanted| {
        let event = |fact: &&Fact| fact.event_type() == Some(wanted);
        step.facts.iter().filter(event).count()
    };
    let parks = has_event(EventType::WorkerParked) == 1;
    assert!(!parks || matches!(input, WorkerInput::RateLimited { .. }), "parked without a rate limit");
    assert!(!parks || next.is_parked());
    let unparks = has_event(EventType::WorkerUnparked) == 1;
    let stops = matches!(next.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
    assert_eq!(
        before.is_parked() && !next.is_parked(),
        unparks || (before.is_parked() && stops),
        "its end is told"
    );
    assert_eq!(!before.is_parked() && next.is_parked(), parks && !before.is_parked(), "its begin is told");
    assert!(next.parking.backoffs <= MAX_BACKOFFS);
    if parks && let Some(turn) = before.turn() {
        let ends =
            step.facts.iter().any(|fact| matches!(fact, Fact::TurnClosed { no, .. } if *no == turn.no));
        // A turn that may have been sent has ended. A turn that was provably not sent is kept.
        let WorkerInput::RateLimited { input, .. } = input else { panic!("{input:?}") };
        let starts = matches!(**input, WorkerInput::StartFailed { .. });
        assert_eq!(ends, turn.dispatching || !starts, "{input:?}");
        assert!(ends || next.holds_turn());
    }
    if parks {
        assert!(
            !step
                .facts
                .iter()
                .any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. }))
        );
    }
    if next.holds_turn() && next.link == RuntimeStatus::None {
        let starts = |action: &WorkerAction| {
            matches!(action, WorkerAction::StartRuntime | WorkerAction::Prompt { .. })
        };
        assert!(!step.actions.iter().any(starts), "its turn is given to a runtime while it is parked");
    }
}
