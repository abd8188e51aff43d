//! The life of a runtime: its hello, its end, and what that means for an open turn.

use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::Because;
use subagent_protocol::record::TurnEnd;
use subagent_protocol::state::{Dispatched, QueuePause};
use subagent_protocol::{Code, Error};

use super::{hibernation, restart};
use crate::model::{
    Approval, ApprovalInput, Cancel, Fact, Hibernation, LifecycleState, Restart, RuntimeStatus, RuntimeTurn,
    WorkerAction,
};
use crate::rules::permissions::approvals;
use crate::rules::recovered;
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::{queue, turn_end};

pub(in crate::rules) fn prompt_refused(next: &mut TransitionBuilder, turn: u64, error: Option<Error>) {
    if !next.worker.turn().is_some_and(|open| open.no == turn && !open.dispatching) {
        // The turn has ended, or the journal says that the prompt was taken. The refusal
        // belongs to a repetition.
        return;
    }
    match error {
        // Any other state of the link is newer than the refusal: the runtime is gone, or its
        // session will send the prompt.
        None if next.worker.link == RuntimeStatus::Ready => next.worker.link = RuntimeStatus::Ending,
        None => {}
        Some(error) => {
            turn_end::close_turn(next, Some(TurnEnd::Failed { error: error.with("dispatched", "no") }))
        }
    }
}

pub(in crate::rules) fn ending(next: &mut TransitionBuilder, reason: Option<String>) {
    if next.worker.link != RuntimeStatus::None {
        next.worker.link = RuntimeStatus::Ending;
    }
    // A runtime that is asked to end cancels its turn. This is stored, because a daemon that
    // restarts before the end of the turn must reach the same result.
    let stopping =
        matches!(next.worker.state, LifecycleState::Stopping(_)) || next.worker.restart == Restart::Wanted;
    let (LifecycleState::Stopping(Some(turn)) | LifecycleState::Turn(turn)) = &mut next.worker.state else {
        return;
    };
    let by_others = turn.cancel.is_none();
    let cancel = match (&turn.cancel, reason) {
        (Some(cancel), _) if cancel.requested => return,
        (Some(cancel), reported) if stopping || reported.is_some() => cancel.reason.clone(),
        (None, Some(reason)) if turn.dispatching => reason,
        // The agent ended by itself. Its turn failed, or was canceled before.
        _ => return,
    };
    let (cancel, id) = (Cancel { reason: cancel, requested: true }, turn.id.clone());
    turn.cancel = Some(cancel.clone());
    next.facts.push(Fact::TurnCancel { no: turn.no, cancel });
    if by_others {
        queue::pause(next, QueuePause::RuntimeEnded, Some(&id));
    }
}

/// Sends again what the runtime may not have received. It takes each of these at most once.
pub(in crate::rules) fn attached(next: &mut TransitionBuilder, reported: RuntimeStatus, last_turn: u64) {
    if hibernation::attached_awake(next, reported, last_turn) {
        return;
    }
    // The runtime was ready when it took the turn. Neither the turn nor the runtime's end is in
    // the journal yet, so no cancel may assume that no runtime has the prompt.
    let unwritten = next.worker.turn().is_some_and(|turn| !turn.dispatching && turn.no <= last_turn);
    let known = if unwritten { reported.min(RuntimeStatus::Ready) } else { reported };
    // A hello can be older than what was read from the journal. A runtime only moves forward.
    next.worker.link = next.worker.link.max(known);
    let link = next.worker.link;
    if link == RuntimeStatus::Ready && next.worker.hibernation == Hibernation::Begun {
        // The store was replaced by an older copy and describes an earlier runtime.
        next.worker.hibernation = Hibernation::None;
    }
    // The runtime does not accept a turn number twice.
    next.worker.last_turn = next.worker.last_turn.max(last_turn);
    match &next.worker.state {
        LifecycleState::Stopping(_) => next.actions.push(WorkerAction::Terminate),
        // The old runtime did not get the command to end.
        LifecycleState::Starting
        | LifecycleState::Idle
        | LifecycleState::Local(_)
        | LifecycleState::Turn(_)
            if next.worker.restart == Restart::Wanted && reported < RuntimeStatus::Ending =>
        {
            return restart::end_for_restart(next);
        }
        LifecycleState::Turn(turn) => {
            let (no, cancel) = (turn.no, turn.cancel.clone());
            let unsent = !turn.dispatching && turn.no > last_turn;
            let untaken = turn.dispatching && turn.no > last_turn && reported != RuntimeStatus::Ending;
            match cancel {
                _ if untaken => recovered::end_untaken(next),
                None if unsent && link == RuntimeStatus::Ready => {
                    next.actions.push(WorkerAction::Prompt { turn: no })
                }
                // The runtime did not get the turn, and will not get it.
                Some(_) if unsent && reported != RuntimeStatus::Ending => turn_end::close_turn(next, None),
                Some(cancel) if !cancel.requested && link == RuntimeStatus::Ready => {
                    next.actions.push(WorkerAction::Cancel { turn: no, reason: cancel.reason });
                }
                _ => {}
            }
        }
        _ => {}
    }
    for (request_id, asked) in &next.worker.approvals {
        if let Approval::Decided { option_id } = &asked.approval {
            let (request_id, option_id) = (request_id.clone(), option_id.clone());
            next.actions.push(WorkerAction::Answer { request_id, option_id });
        }
    }
}

pub(in crate::rules) fn runtime_gone(
    next: &mut TransitionBuilder,
    clean: bool,
    rebooted: bool,
    place: Option<&str>,
) {
    let was = next.worker.restart;
    next.worker.link = RuntimeStatus::None;
    approvals::end_approvals(next, &ApprovalInput::Lost, |_| true);
    // The runtime had to end with nothing open, so nothing is lost, however it ended.
    let hibernated = hibernation::hibernates(next);
    let holds_turn = next.worker.holds_turn();
    if !clean && !hibernated {
        let reason = "the runtime ended without its last record".to_owned();
        next.event(EventData::WorkerLost(Because { reason }), None);
    }
    match &mut next.worker.state {
        // The runtime was ended on request.
        LifecycleState::Starting if was == Restart::Wanted => return restart::begin_restart(next),
        LifecycleState::Starting => {
            next.worker.state = LifecycleState::Error;
            next.facts.push(Fact::LastError(Some(runtime_lost(None, place))));
            queue::pause(next, QueuePause::StartFailed, None);
        }
        // The turn waits for the end of a rate limit, and is then given to the next runtime.
        LifecycleState::Turn(_) if !rebooted && holds_turn => {}
        // The whole journal was read and contains no record of the prompt. Another runtime may
        // take it, so that an accepted turn is executed once.
        LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. })
            if !rebooted && was == Restart::Wanted =>
        {
            // The runtime was ended on request.
            return restart::begin_restart(next);
        }
        LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. })
            if !rebooted && hibernated =>
        {
            return hibernation::start_for_waking(next);
        }
        LifecycleState::Turn(RuntimeTurn {
            no,
            dispatching: false,
            retried: retried @ false,
            cancel: None,
            ..
        }) if !rebooted => {
            // Only once, because an agent that always dies would be restarted without end. A
            // restart continues.
            *retried = true;
            next.facts.push(Fact::TurnRetried { no: *no });
            next.worker.link = RuntimeStatus::Starting;
            next.actions.push(WorkerAction::StartRuntime);
            return;
        }
        LifecycleState::Turn(_) | LifecycleState::Stopping(Some(_)) => turn_lost(next, rebooted, place),
        LifecycleState::Idle | LifecycleState::Local(_) if was == Restart::Begun => {
            // The runtime had no prompt. The client can request another restart.
            next.facts.push(Fact::LastError(Some(runtime_lost(None, place).retryable())));
        }
        LifecycleState::Idle | LifecycleState::Local(_) if !clean && !hibernated => {
            next.facts.push(Fact::LastError(Some(runtime_lost(None, place))));
        }
        LifecycleState::Idle
        | LifecycleState::Local(_)
        | LifecycleState::Stopping(None)
        | LifecycleState::Error
        | LifecycleState::Stopped => {}
    }
    match (was, &next.worker.state) {
        (Restart::Wanted, LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error) => {
            return restart::begin_restart(next);
        }
        // The new runtime is gone, too.
        _ => next.worker.restart = Restart::None,
    }
    if !hibernated && (!clean || was == Restart::Begun) {
        next.worker.hibernation = Hibernation::None;
    }
}

fn turn_lost(next: &mut TransitionBuilder, rebooted: bool, place: Option<&str>) {
    let (LifecycleState::Turn(turn) | LifecycleState::Stopping(Some(turn))) = &mut next.worker.state else {
        return;
    };
    if rebooted && !turn.dispatching {
        // The record of the prompt may have been in the missing part of the journal.
        turn.dispatching = true;
        next.facts.push(Fact::TurnDispatching { no: turn.no });
    }
    let dispatched = if turn.dispatching { Dispatched::Maybe } else { Dispatched::No };
    turn_end::close_turn(next, Some(TurnEnd::Failed { error: runtime_lost(Some(dispatched), place) }));
}

/// Returns the error for a lost runtime. `dispatched` says whether the prompt of the open turn was
/// sent; `None` if no turn was open. `place` is how an engine has ended its place.
fn runtime_lost(dispatched: Option<Dispatched>, place: Option<&str>) -> Error {
    let (when, advice) = match dispatched {
        None => ("", "the next message starts another one"),
        Some(Dispatched::No) => (" before the prompt was sent", "send it again"),
        Some(Dispatched::Maybe | Dispatched::Yes) => {
            (" in the middle of the turn", "look at what it has done before sending again")
        }
    };
    let ended = place.map(|place| format!(" ({place})")).unwrap_or_default();
    let mut error =
        Error::new(Code::RuntimeLost, format!("the worker's runtime died{when}{ended}; {advice}"));
    if let Some(place) = place {
        error = error.with("place", place).recommend(
            "if a limit of time or memory has ended it, raise that in the `args` or the template of the placement",
        );
    }
    match dispatched {
        None => error,
        Some(Dispatched::No) => error.with("dispatched", Dispatched::No.as_str()).retryable(),
        Some(dispatched) => error.with("dispatched", dispatched.as_str()),
    }
}
