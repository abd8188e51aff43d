//! What a live runtime says: its hello, notices about its journal, and answers to commands.

use subagent_core::model::{AgentRequest, Approval, RuntimeStatus, WorkerInput};
use subagent_core::rules::recovered::missing_end;
use subagent_protocol::frame::{FromRuntime, Refusal, RuntimeHello, RuntimePhase};
use subagent_protocol::ids::TurnId;
use subagent_protocol::{Code, Error};

use super::connection;
use super::live::{PendingCommand, refusal_of_full_disk};
use crate::supervisor::entropy;
use crate::supervisor::runtimes::place::RuntimePlace;
use crate::supervisor::runtimes::process::ExitWatch;
use crate::supervisor::runtimes::stream;
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::{self, Goal};
use crate::supervisor::worker::questions::client_rules;
use crate::supervisor::worker::{child_cancel, tasks};

pub(crate) async fn on_frame(actor: &mut Actor, frame: Option<FromRuntime>) {
    let Some(runtime) = &mut actor.runtime.live else { return };
    let Some(frame) = frame else {
        // The process ends or closed the connection. The exit watch reports its end.
        runtime.reconnect_after(actor.runtime.place.next_pause());
        actor.runtime.fenced = runtime.reach.fenced();
        return;
    };
    runtime.unresponsive = false;
    runtime.answer_by = None;
    match frame {
        FromRuntime::Hello(hello) => on_hello(actor, *hello).await,
        FromRuntime::Refused { refusal, generation } => {
            tracing::error!(worker = %actor.identity.worker_id, ?refusal, generation, "a runtime refuses this daemon");
            actor.runtime.not_served();
            if refusal == Refusal::OldGeneration && actor.runtime.place.is_placed() {
                actor.runtime.fenced = Some(stream::fenced(generation));
            } else if refusal == Refusal::OldGeneration {
                actor.shared.raise_generation(generation).await;
            }
        }
        // One read of the journal can cover several end notices.
        FromRuntime::End(end) if end.number <= actor.journal.cursor.number => {}
        FromRuntime::End(_) => {
            ingest::ingest_or_retry(actor, Goal::Some).await;
        }
        FromRuntime::Reply { id, refusal } => {
            match (runtime.answered(id), refusal) {
                (Some(asked), Some(refusal)) => on_refusal(actor, asked, refusal).await,
                (Some(PendingCommand::Hibernate), None) => actor.runtime.ends_soon(),
                (Some(PendingCommand::CancelChild(reply)), None) => {
                    // The client may be gone.
                    let _ = reply.send(Ok(()));
                }
                _ => {}
            }
        }
    }
}

async fn on_hello(actor: &mut Actor, hello: RuntimeHello) {
    // A runtime that is newer than the store reports itself in its journal.
    if hello.worker_id != actor.identity.worker_id || hello.incarnation < actor.runtime.incarnation {
        return not_ours(actor, &hello);
    }
    actor.runtime.place.answered();
    let watch = match actor.runtime.place {
        RuntimePlace::Local => ExitWatch::of(hello.process).ok().flatten(),
        RuntimePlace::Placed(_) => None,
    };
    if let Some(runtime) = &mut actor.runtime.live {
        runtime.hello(&hello, watch);
    }
    let is_here = actor.runtime.is_here(&actor.shared.boot_id);
    actor.shared.live.set_guard(&actor.identity.worker_id, hello.guard.filter(|_| is_here));
    if hello.guard.is_some() && is_here {
        actor.shared.live.set_runtime(&actor.identity.worker_id, hello.process);
    }
    let ends = client_rules::starts_without_rules(actor, &hello).await;
    if !ingest::ingest_or_retry(actor, Goal::Record(hello.journal_end.number)).await {
        return actor.runtime.say_again_later();
    }
    if hello.incarnation != actor.runtime.incarnation {
        return not_ours(actor, &hello);
    }
    actor.runtime.stored_process = Some(hello.process);
    connection::store_processes(actor, hello.process, hello.guard).await;
    let link = match hello.phase {
        RuntimePhase::Starting => RuntimeStatus::Starting,
        RuntimePhase::Ready => RuntimeStatus::Ready,
        RuntimePhase::Ending | RuntimePhase::Failed { .. } => RuntimeStatus::Ending,
    };
    actor.runtime.settled = true;
    if ends || client_rules::ends_without_rules(actor, &hello).await {
        return;
    }
    recover_what_is_open(actor, &hello).await;
    attach(actor, link, hello.last_turn).await;
    if link == RuntimeStatus::Ending && actor.worker.sleeps() {
        actor.runtime.ends_soon();
    }
    let open = actor.worker.turn().map(|turn| turn.no);
    if let Some(open) = open
        && hello.last_turn >= open
        && hello.open_turn != Some(open)
        && actor.journal.cursor.number >= hello.journal_end.number
    {
        end_unknown_turn(actor, open).await;
    }
}

/// Applies the state that the runtime reports. Writes nothing if it is known, as for most
/// runtimes that outlived a daemon, except for tasks that may need to be settled.
async fn attach(actor: &mut Actor, link: RuntimeStatus, last_turn: u64) {
    let input = WorkerInput::Attached { link, last_turn };
    match actor.worker.step(input.clone()) {
        Ok(step)
            if step.facts.is_empty()
                && step.worker.is_stored_like(&actor.worker)
                && !actor.tasks.is_task() =>
        {
            actor.adopt(step, None);
        }
        _ => actor.apply(input).await,
    }
}

fn not_ours(actor: &mut Actor, hello: &RuntimeHello) {
    tracing::error!(
        worker = %actor.identity.worker_id, other = %hello.worker_id, incarnation = hello.incarnation,
        "another runtime answers on this worker's socket"
    );
    actor.runtime.not_served();
}

/// Recovers turns and questions that the runtime reports and the store does not know although
/// the whole journal was read: their records are missing, as after a restore. Ignores a hello
/// that is older than the journal.
async fn recover_what_is_open(actor: &mut Actor, hello: &RuntimeHello) {
    if !actor.journal.gap || actor.journal.cursor.number != hello.journal_end.number {
        return;
    }
    if let Some(turn) = hello.open_turn
        && turn > actor.worker.known_turn
    {
        if let Some(open) = actor.worker.turn().map(|open| open.no) {
            actor.apply(WorkerInput::TurnEnd { turn: open, end: missing_end() }).await;
        }
        match entropy::random() {
            Ok(bytes) => {
                actor.apply(WorkerInput::TurnRecovered { turn, turn_id: TurnId::from_random(bytes) }).await;
            }
            Err(error) => tracing::error!(%error, "an open turn gets no id"),
        }
    }
    for request_id in &hello.open_approvals {
        if !actor.worker.approvals.contains_key(request_id) {
            actor.apply(WorkerInput::ApprovalRecovered { request_id: request_id.clone() }).await;
        }
    }
    let over = |asked: &AgentRequest| matches!(asked.approval, Approval::Held | Approval::Pending);
    let pending = actor.worker.approvals.iter().filter(|(_, asked)| over(asked)).map(|(id, _)| id.clone());
    for request_id in pending.collect::<Vec<_>>() {
        if !hello.open_approvals.contains(&request_id) {
            actor.apply(WorkerInput::AnswerRefused { request_id }).await;
        }
    }
}

async fn on_refusal(actor: &mut Actor, asked: PendingCommand, refusal: Refusal) {
    // Records written before the refusal come first. If reading them fails, or the refusal is
    // temporary, everything is sent again after the next hello.
    if !ingest::ingest_or_retry(actor, Goal::End).await {
        return actor.runtime.say_again_later();
    }
    match (asked, refusal) {
        (PendingCommand::Prompt { turn }, Refusal::WrongTurn { last }) if last >= turn => {}
        (PendingCommand::Prompt { turn }, refusal) => {
            let error = match refusal {
                Refusal::NotReady | Refusal::Ending => None,
                Refusal::StorageFull => Some(refusal_of_full_disk()),
                Refusal::NotSupported { error } => Some(*error),
                other => {
                    let message = format!("the worker's runtime did not take the prompt: {other:?}");
                    Some(Error::new(Code::BackendRuntimeError, message))
                }
            };
            actor.apply(WorkerInput::PromptRefused { turn, error }).await;
        }
        (PendingCommand::Set { request }, refusal) => actor.settings.refuse(&request, &refusal),
        (PendingCommand::CancelChild(reply), refusal) => {
            let _ = reply.send(Err(child_cancel::refused(&refusal)));
        }
        (PendingCommand::Answer { .. }, Refusal::StorageFull) => actor.runtime.say_again_later(),
        (PendingCommand::Answer { request_id }, _) => {
            actor.apply(WorkerInput::AnswerRefused { request_id }).await
        }
        // The turn's end is missing in the journal, or the turn began after the command. The
        // next hello shows which.
        (PendingCommand::Cancel { turn }, Refusal::NoSuchTurn)
            if actor.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) =>
        {
            actor.runtime.say_again_later();
        }
        // The command was taken before.
        (PendingCommand::Hibernate, Refusal::Ending) => {}
        (PendingCommand::Hibernate, refusal) => {
            tracing::info!(worker = %actor.identity.worker_id, ?refusal, "a runtime does not hibernate yet");
            actor.session.is_active();
            actor.apply(WorkerInput::HibernateRefused).await;
            tasks::end_all_the_same(actor);
        }
        (PendingCommand::Cancel { .. } | PendingCommand::Terminate, refusal) => {
            tracing::info!(worker = %actor.identity.worker_id, ?refusal, "a runtime had nothing to cancel or to end");
        }
    }
}

/// Ends a turn that the runtime does not report although the whole journal was read: its end
/// was in an unreadable part.
async fn end_unknown_turn(actor: &mut Actor, turn: u64) {
    if actor.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) {
        tracing::error!(worker = %actor.identity.worker_id, turn, "the end of a turn is missing in the journal");
        actor.apply(WorkerInput::TurnEnd { turn, end: missing_end() }).await;
    }
}
