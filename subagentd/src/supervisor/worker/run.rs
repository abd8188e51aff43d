//! The event loop of a worker's actor: waits for what happens, and calls the part that handles it.

use std::sync::Arc;

use subagent_core::model::{Fact, LifecycleState};
use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::Forbidden;
use tokio::sync::Notify;

use super::actor::Actor;
use super::ingest::Goal;
use super::message::ActorMessage;
use super::runtime::{fenced, frames, gone, place_ends, placed, proof, recovery, starting};
use super::{budget, child_cancel, deadlines, ingest, order, perform, questions, settings, tasks};
use crate::alarm;
use crate::or_never::or_never;
use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::place::RuntimeExit;
use crate::supervisor::shared::is_ending;

/// Starts when signaled. Runs until the worker is stopped or the daemon ends.
pub(super) async fn run(mut actor: Actor, wanted: Arc<Notify>) {
    let actor = &mut actor;
    let mut ending = actor.shared.ending.subscribe();
    tokio::select! {
        biased;
        () = is_ending(&mut ending) => return,
        () = wanted.notified() => {}
    }
    recovery::recover(actor).await;
    loop {
        if let Some(error) = actor.runtime.fenced.clone() {
            return fenced::rest(actor, error, &mut ending).await;
        }
        while let Some(action) = actor.todo.pop_front() {
            perform::perform(actor, action).await;
        }
        if matches!(actor.worker.state, LifecycleState::Stopping(_)) {
            actor.worktree.drop_making();
            if actor.runtime.live.is_none() && actor.runtime.leftovers.at.is_none() {
                gone::check_leftovers(actor).await;
            }
        }
        settings::look_after_sleepers(actor).await;
        questions::check(actor).await;
        questions::hooks::check(actor);
        // A reset may lie before the actor's start. Its timer would fire only after the first
        // message.
        deadlines::unpark_if_due(actor).await;
        let looked =
            budget::check(actor).await || tasks::limits::check(actor).await || tasks::check(actor).await;
        if looked || !actor.todo.is_empty() {
            continue;
        }
        actor.publish();
        if actor.worker.state == LifecycleState::Stopped {
            actor.shared.changes.bells.forget(actor.identity.id);
            actor.shared.changes.noted.forget(actor.identity.id);
            return;
        }
        let serve = actor.serves();
        let refusal = if serve { None } else { actor.journal.refusal(&actor.identity.worker_id) };
        let deadline = deadlines::next(actor);
        let unparks_at = deadlines::unparks_at(actor);
        let (link, exit, silent) = match &mut actor.runtime.live {
            Some(runtime) => {
                let exit = runtime.exit.as_ref();
                (runtime.link.as_mut(), exit, exit.filter(|_| runtime.reach.is_silent()))
            }
            None => (None, None, None),
        };
        let ends = &mut actor.runtime.queue.ends.running;
        let ends = if ends.is_empty() { None } else { Some(ends.join_next()) };
        let asking = &mut actor.runtime.queue.asking;
        let asking = if asking.is_empty() { None } else { Some(asking.join_next()) };
        tokio::select! {
            biased;
            () = is_ending(&mut ending) => return,
            // New rules apply before anything else is decided.
            Ok(()) = actor.questions.rules.changed() => actor.questions.rules_stale = true,
            // Before the frames and proofs that follow from it.
            () = or_never(silent.map(RuntimeExit::greeted)) => placed::is_reached(actor).await,
            frame = or_never(link.map(RuntimeConnection::next)) => frames::on_frame(actor, frame).await,
            () = or_never(exit.map(RuntimeExit::ended)) => proof::on_end(actor).await,
            deadline = deadlines::reached(deadline) => deadlines::act(actor, deadline).await,
            () = alarm::reached(unparks_at) => deadlines::unpark_if_due(actor).await,
            Ok(()) = actor.budgets.news.changed() => actor.budgets.is_news(),
            Ok(()) = actor.tasks.bell.changed() => {
                actor.tasks.is_rung();
                actor.budgets.is_news();
            }
            // Published at the start of the next iteration.
            Ok(()) = actor.published.noted.changed() => actor.published.see_noted(),
            Some(Ok(answer)) = or_never(asking) => starting::place_answered(actor, answer).await,
            Some(Ok(ended)) = or_never(ends) => place_ends::ended(actor, ended).await,
            made = actor.worktree.made() => starting::worktree_made(actor, made).await,
            answered = actor.questions.hooks.next(), if serve => {
                questions::hooks::answered(actor, answered).await;
            }
            message = actor.mailbox.recv(), if serve || refusal.is_some() => match (message, refusal) {
                (Some(message), Some(error)) => message.refuse(&actor.identity.worker_id, error),
                (Some(message), None) => carry_out(actor, message).await,
                (None, _) => return,
            },
            () = std::future::ready(()), if actor.journal.more => {
                ingest::ingest_or_retry(actor, Goal::Some).await;
            }
        }
    }
}

async fn carry_out(actor: &mut Actor, message: ActorMessage) {
    match message {
        ActorMessage::Order(order) => order::carry_out(actor, *order).await,
        ActorMessage::Set(order) => settings::set(actor, *order).await,
        ActorMessage::Limits(order) => budget::set_limits(actor, *order).await,
        ActorMessage::CancelChild(order) => child_cancel::cancel(actor, order),
        ActorMessage::Forbidden { what } => {
            let turn = actor.worker.turn().map(|turn| turn.no);
            let data = EventData::WorkerForbidden(Forbidden { request: what });
            actor.note(vec![Fact::Event { data, turn }]).await;
        }
        ActorMessage::Revive { cooldown, reply } => {
            // The sender may be gone.
            let _ = reply.send(starting::demand(actor, cooldown));
        }
    }
}
