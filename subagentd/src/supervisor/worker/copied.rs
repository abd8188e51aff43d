//! A worker that came with a copied state dir: it is stopped, without a look at any process. Its runtime, its agent, its
//! session and its working folder are the original's.

use serde_json::json;
use subagent_protocol::event::EventType;

use super::actor::Actor;
use super::ingest::Goal;
use crate::core::worker::{Link, State};
use crate::core::{Fact, Input};

impl Actor {
    /// Takes in what the copied journal says, and stops the worker. Interrupted, it is done again by the next daemon.
    pub(super) async fn retire_copy(&mut self) {
        // Nothing that carries the worker's marker is this daemon's to end.
        self.swept = true;
        if !self.ingest_or_retry(Goal::End).await {
            return;
        }
        self.may_live = false;
        self.apply(Input::RuntimeGone { clean: true, rebooted: true }).await;
        let error = self.shared.copies.error();
        let reason = error.message.clone();
        let lost =
            Fact::Event { event_type: EventType::WorkerLost, data: json!({ "reason": reason }), turn: None };
        self.note(vec![lost, Fact::LastError(Some(error))]).await;
        self.apply(Input::Stop).await;
        // What the rules wanted done was for a runtime that is not this daemon's.
        self.todo.clear();
        self.worker.link = Link::None;
        if matches!(self.worker.state, State::Stopping(_)) {
            self.apply(Input::NothingLeft).await;
        }
        self.settled = true;
        tracing::info!(worker = %self.worker_id, "a copied worker is stopped");
    }
}
