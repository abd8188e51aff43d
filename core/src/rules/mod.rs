//! The rules: what can happen to a worker, its turn and its approvals, and what follows. One file for
//! each kind of input, by topic. `docs/state-machines.md` has the table.

pub mod lifecycle;
pub mod permissions;
pub mod reasons;
pub mod recovered;
mod simulated;
mod task;
mod transition;
pub mod turns;
pub mod usage;

use subagent_protocol::api::DecidedBy;
use subagent_protocol::state::{QuestionKind, UnparkReason};
use subagent_protocol::{Code, Error, Result};

use crate::model::{
    ApprovalInput, Fact, LifecycleState, Restart, RuntimeStatus, Spent, Transition, Worker, WorkerInput,
};
use lifecycle::{hibernation, restart, runtime, start, stop};
use permissions::{approvals, hooks, policy, questions};
use transition::TransitionBuilder;
use turns::{cancel, enqueue, parking, queue, send, turn, turn_end};

impl Worker {
    /// Applies an input.
    ///
    /// # Errors
    /// The error of the client, with its code. `INTERNAL_ERROR` for an impossible input of a
    /// damaged or foreign journal. The worker is unchanged.
    pub fn step(&self, input: WorkerInput) -> Result<Transition> {
        let (limit, input) = match input {
            WorkerInput::RateLimited { limit, input } => (Some(limit), *input),
            input => (None, input),
        };
        let mut next = TransitionBuilder::new(self.clone(), limit);
        if self.state == LifecycleState::Stopped && !is_of_client(&input) {
            // Inputs about runtimes of a stopped worker are late and ignored.
            return Ok(next.finish());
        }
        apply(&mut next, input)?;
        enqueue::open_next(&mut next);
        usage::spend(&mut next, self);
        Ok(next.finish())
    }
}

/// Returns whether a client gets the result of the input.
const fn is_of_client(input: &WorkerInput) -> bool {
    matches!(
        input,
        WorkerInput::Send { .. }
            | WorkerInput::Enqueue { .. }
            | WorkerInput::DropQueued { .. }
            | WorkerInput::MoveQueued { .. }
            | WorkerInput::ResumeQueue
            | WorkerInput::AppendQueued { .. }
            | WorkerInput::Decide { .. }
            | WorkerInput::Answer { .. }
            | WorkerInput::Inbox(_)
            | WorkerInput::Cancel { .. }
            | WorkerInput::Stop
            | WorkerInput::GiveUp
            | WorkerInput::Retire
            | WorkerInput::Restart { .. }
    )
}

/// Applies an input by the rule of its kind.
fn apply(next: &mut TransitionBuilder, input: WorkerInput) -> Result<()> {
    match input {
        WorkerInput::Send { turn_id, message, input, by } => send::send(next, turn_id, message, input, by)?,
        WorkerInput::Enqueue { queued, urgency, most } => enqueue::enqueue(next, queued, urgency, most)?,
        WorkerInput::DropQueued { turn_id } => queue::drop_queued(next, &turn_id)?,
        WorkerInput::MoveQueued { turn_id, to } => queue::move_queued(next, &turn_id, to)?,
        WorkerInput::ResumeQueue => {
            enqueue::resume_queue(next)?;
            parking::unpark(next, UnparkReason::Resumed);
        }
        WorkerInput::ParkingOver => parking::unpark(next, UnparkReason::Due),
        WorkerInput::RateLimited { .. } => {
            return Err(Error::new(Code::Internal, "a rate limit is reported of nothing that failed"));
        }
        WorkerInput::Decide { request_id, choice, note } => {
            questions::decide_as(next, request_id, choice, note, DecidedBy::Owner, None)?;
        }
        WorkerInput::Inbox(input) => questions::inbox(next, input)?,
        WorkerInput::DecideByRule { request_id, choice, rule } => {
            policy::decide_by_rule(next, request_id, choice, rule)?
        }
        WorkerInput::HoldForHooks { request_id } => hooks::hold_for_hooks(next, request_id),
        WorkerInput::HooksAnswered { request_id, outcome } => {
            hooks::hooks_answered(next, request_id, outcome)?
        }
        WorkerInput::Violation { turn, call } => policy::violation(next, turn, call)?,
        WorkerInput::OverBudget { error } => cancel::over_budget(next, error)?,
        WorkerInput::CostReported { cost } => next.facts.push(Fact::Spent(Spent::Cost(cost))),
        WorkerInput::Answer { request_id, reply } => questions::answer(next, request_id, reply)?,
        WorkerInput::Cancel { turn: None, reason } => cancel::cancel(next, reason)?,
        WorkerInput::Cancel { turn: Some(turn), reason } => cancel::cancel_only(next, &turn, reason)?,
        WorkerInput::Stop => stop::stop(next),
        WorkerInput::GiveUp => stop::give_up(next),
        WorkerInput::Retire => stop::retire(next)?,
        WorkerInput::Restart { force, beside } => restart::restart(next, force, beside)?,
        WorkerInput::OpenQueued { refused } => enqueue::open_queued(next, refused),
        WorkerInput::Hibernate { idle_seconds } => hibernation::hibernate(next, idle_seconds),
        WorkerInput::HibernateRefused => hibernation::hibernate_refused(next),
        WorkerInput::EndTask { ending, reason } => task::end_task(next, ending, &reason)?,
        WorkerInput::AppendQueued { turn_id, text } => task::append_queued(next, turn_id, text)?,
        WorkerInput::Wake => hibernation::wake(next),
        WorkerInput::Session { origin, context_lost, context_lost_reason, took_ms } => {
            start::session(next, origin, context_lost, context_lost_reason, took_ms);
        }
        WorkerInput::StartFailed { error } => {
            next.worker.link = RuntimeStatus::Ending;
            start::start_failed(next, error);
        }
        WorkerInput::SpawnFailed { error } => {
            next.worker.link = RuntimeStatus::None;
            next.worker.restart = Restart::None;
            // Not stopped yet: processes of an earlier agent may have caused the failure.
            start::start_failed(next, error);
        }
        WorkerInput::Dispatching { turn } => turn::dispatching(next, turn)?,
        WorkerInput::TurnRecovered { turn, turn_id } => recovered::recover_turn(next, turn, turn_id)?,
        WorkerInput::ApprovalRecovered { request_id } => recovered::recover_approval(next, request_id),
        WorkerInput::ApprovalRequested { request_id } => {
            approvals::asked(next, request_id, QuestionKind::Permission)?
        }
        WorkerInput::ElicitationRequested { request_id } => {
            approvals::asked(next, request_id, QuestionKind::Elicitation)?
        }
        WorkerInput::ApprovalClosed { request_id, reason } => {
            approvals::end_approval(next, &request_id, &ApprovalInput::Closed(reason));
        }
        WorkerInput::AnswerWritten { request_id } => {
            approvals::end_approval(next, &request_id, &ApprovalInput::AnswerWritten)
        }
        WorkerInput::AnswerRefused { request_id } => {
            approvals::end_approval(next, &request_id, &ApprovalInput::AnswerRefused)
        }
        WorkerInput::PromptRefused { turn, error } => runtime::prompt_refused(next, turn, error),
        WorkerInput::CancelRequested { turn, reason } => cancel::cancel_requested(next, turn, reason)?,
        WorkerInput::TurnEnd { turn, end } => {
            turn::open_turn(next, turn)?;
            turn_end::close_turn(next, Some(end));
        }
        WorkerInput::Ending => runtime::ending(next, None),
        WorkerInput::Terminating { reason } => runtime::ending(next, Some(reason)),
        WorkerInput::RuntimeGone { clean, rebooted, place } => {
            runtime::runtime_gone(next, clean, rebooted, place.as_deref());
        }
        WorkerInput::Attached { link, last_turn } => runtime::attached(next, link, last_turn),
        WorkerInput::NothingLeft => stop::stopped_if_stopping(next),
    }
    Ok(())
}
