//! Stores what has happened to a worker. It cannot be refused, so a full disk only delays it.

use subagent_core::model::{Fact, WorkerInput};
use subagent_protocol::Result;
use subagent_protocol::hook::HookFailed;
use subagent_protocol::time::Timestamp;
use tokio::time::Instant;

use super::STORE_RETRY;
use super::actor::Actor;
use crate::store::{Durability, RowId, Tx, facts, tasks, workers};
use crate::supervisor::entropy;
use crate::supervisor::shared::is_ending;
use crate::supervisor::turns::agent_change::changed;

impl Actor {
    /// Applies an input that no request caused, and stores the outcome.
    pub(super) async fn apply(&mut self, input: WorkerInput) {
        // Without a check, nothing can refuse it.
        let _ = self.apply_if(input, |_, _, _| Ok(())).await;
    }

    /// Like [`Self::apply`], unless `check` refuses it in the transaction that stores it.
    pub(super) async fn apply_if(
        &mut self,
        input: WorkerInput,
        check: impl Fn(&Tx<'_>, RowId, Timestamp) -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        self.worker.queue.gated |= self.budgets.has_news();
        let mut step = match self.worker.step(input) {
            Ok(step) => step,
            Err(error) => {
                tracing::error!(worker = %self.identity.worker_id, %error, "the rules refuse what has happened");
                return Ok(());
            }
        };
        if subagent_failpoint::sabotaged("approval.keep_open") {
            step.facts.retain(|fact| !matches!(fact, Fact::ApprovalClosed { .. }));
        }
        let (id, cursor, now, may_live) =
            (self.identity.id, self.journal.cursor, entropy::now(), self.runtime.may_live);
        let cwd = self.identity.cwd.clone();
        loop {
            let (taken, check, cwd) = (step.clone(), check.clone(), cwd.clone());
            let write = self.shared.store.write(Durability::Full, 4, move |tx| {
                if let Err(refused) = check(tx, id, now) {
                    return Ok(Err(refused));
                }
                let mut added = facts::store(tx, id, &taken.facts, None, now)?;
                workers::update(tx, id, &taken.worker, cursor, now)?;
                if !may_live {
                    workers::end_incarnation(tx, id)?;
                }
                let changed = changed(tx, id, &taken.worker, &cwd, now)?;
                tasks::ends::settle(tx, id, &taken.worker, now, &mut added)?;
                Ok(Ok((added, changed)))
            });
            match write.await {
                Ok(Err(refused)) => return Err(refused),
                Ok(Ok((added, changed))) => {
                    self.take_changed(changed);
                    if self.journal.retry.is_none() {
                        self.journal.is_free();
                    }
                    self.adopt(step, added.last().map(|(_, seq)| *seq));
                    return Ok(());
                }
                Err(_) if *self.shared.ending.borrow() => return Ok(()),
                // The change has happened, so it is stored as soon as there is room.
                Err(error) => {
                    tracing::error!(worker = %self.identity.worker_id, %error, "a change cannot be stored; trying again");
                    self.journal.is_blocked(error);
                    self.publish();
                    if !self.pause().await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits before a change that could not be stored is tried again. Meanwhile the actor refuses
    /// requests and notices the end of its runtime. Returns `false` if the daemon ends.
    async fn pause(&mut self) -> bool {
        let mut ending = self.shared.ending.subscribe();
        let until = Instant::now() + STORE_RETRY;
        loop {
            let refusal = self.journal.refusal(&self.identity.worker_id);
            tokio::select! {
                biased;
                () = is_ending(&mut ending) => return false,
                () = tokio::time::sleep_until(until) => return true,
                () = self.runtime.ended() => self.see_end(),
                message = self.mailbox.recv(), if refusal.is_some() => match (message, refusal) {
                    (Some(message), Some(error)) => message.refuse(&self.identity.worker_id, error),
                    (_, _) => return false,
                },
            }
        }
    }

    /// Publishes that the runtime's process has ended. The consequences are handled later.
    pub(super) fn see_end(&mut self) {
        if let Some(runtime) = &mut self.runtime.live {
            runtime.ended = true;
        }
        self.publish();
    }

    /// Stores facts that do not change the worker. Returns whether they were stored.
    pub(super) async fn note(&mut self, facts: Vec<Fact>) -> bool {
        let (id, now, stored) = (self.identity.id, entropy::now(), facts.clone());
        let write =
            self.shared.store.write(Durability::Full, 1, move |tx| facts::store(tx, id, &stored, None, now));
        match write.await {
            Ok(added) => {
                self.has_stored(facts, added.last().map(|(_, seq)| *seq));
                true
            }
            Err(error) => {
                tracing::error!(worker = %self.identity.worker_id, %error, "an event could not be journaled");
                false
            }
        }
    }

    /// Stores the failure of a hook as an event. Returns whether it was stored.
    pub(super) async fn note_hook_failed(&mut self, failed: &HookFailed) -> bool {
        let fact = Fact::hook_failed(failed, self.worker.turn().map(|turn| turn.no));
        self.note(vec![fact]).await
    }
}
