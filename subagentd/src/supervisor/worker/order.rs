//! A change that somebody asked for: checked, decided by the rules, and stored in one transaction.

use std::path::Path;

use serde_json::Value;
use subagent_protocol::api::Handle;
use subagent_protocol::event::EventType;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use super::actor::Actor;
use crate::core::inbox::InboxFact;
use crate::core::worker::{Link, Restart};
use crate::core::{By, Fact, Input, Step, Worker};
use crate::store::{Durability, OwnerCheck, RowId, Tx};
use crate::supervisor::agent_change::changed;
use crate::supervisor::environment::Kept;
use crate::supervisor::spec::Spec;
use crate::supervisor::{delegation, entropy, environment};

/// Makes the response from the new state and the events that were added.
pub(in crate::supervisor) type Respond = Box<dyn FnOnce(&Worker, &[(EventType, i64)]) -> Value + Send>;

/// A change of other rows, in the same transaction.
pub(in crate::supervisor) type Also = Box<dyn FnOnce(&mut Tx<'_>, RowId) -> Result<()> + Send>;

/// A change that somebody asked for.
pub(in crate::supervisor) struct Order {
    /// The owner handle that came along; `None`: nobody has to own anything for it. The daemon itself wants it, or the agent of a
    /// worker, of a task that it has given.
    pub(in crate::supervisor) owner: Option<OwnerCheck>,
    /// The idempotency key, with what tells this request from another one.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// What the rules are asked.
    pub(in crate::supervisor) input: Input,
    /// The response, which is stored under the key.
    pub(in crate::supervisor) respond: Respond,
    /// What else is stored with it.
    pub(in crate::supervisor) also: Option<Also>,
    /// An environment for the agent, in case that the worker's is not kept any more.
    pub(in crate::supervisor) environment: Option<Kept>,
    /// Where the response goes.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

impl Actor {
    pub(super) async fn carry_out(&mut self, order: Order) {
        let Order { owner, key, input, respond, also, environment, reply } = order;
        let result = self.decide_and_store(owner, key, input, respond, also, environment).await;
        // Whoever asked may have gone; the change stands.
        let _ = reply.send(result);
    }

    fn stepped(&mut self, input: Input, owner: Option<&OwnerCheck>) -> Stepped {
        let begins = |fact: &Fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. });
        let again = self.tasks.is_task().then(|| input.clone());
        let (step, opens) = self.stepped_at_once(input);
        let again = again.filter(|_| step.as_ref().is_ok_and(|step| step.facts.iter().any(begins)));
        let waits = again.map(|input| {
            let sender = owner.and_then(|owner| owner.0.as_ref()).and_then(Handle::epoch_number);
            input.waiting(sender).map(|input| self.worker.step(input))
        });
        Stepped { step, opens, waits }
    }

    /// What an order leads to, and whether it is to be held against the budgets: it opens a turn, or ends one for another.
    fn stepped_at_once(&mut self, input: Input) -> (Result<Step>, bool) {
        // What a queue that is resumed begins is looked at here, with what its agent needs.
        let resumes = matches!(input, Input::ResumeQueue);
        let gated = self.worker.queue.gated || self.budgets.has_news();
        self.worker.queue.gated = gated && !resumes;
        let mut step = self.worker.step(input);
        self.worker.queue.gated = gated;
        let opens = |fact: &Fact| match fact {
            Fact::TurnOpened { .. } | Fact::TurnQueued { first: true, .. } => true,
            Fact::QueuedTurnOpened { .. } => resumes,
            _ => false,
        };
        if let Ok(step) = &mut step {
            step.worker.queue.gated = gated;
        }
        let opens = step.as_ref().is_ok_and(|step| step.facts.iter().any(opens));
        (step, opens)
    }

    async fn decide_and_store(
        &mut self,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: Input,
        respond: Respond,
        also: Option<Also>,
        environment: Option<Kept>,
    ) -> Result<Value> {
        let (before, after) = points(&input);
        subagent_failpoint::hit(before);
        let starts = matches!(
            input,
            Input::Restart { .. }
                | Input::Send { by: By::Runtime, .. }
                | Input::Enqueue { .. }
                | Input::ResumeQueue
        );
        let Stepped { step, opens, waits } = self.stepped(input, owner.as_ref());
        let lacking = match &step {
            Ok(step) if starts && needs_runtime(&step.worker) => environment::read(&self.environment).err(),
            _ => None,
        };
        let given = match (&lacking, environment) {
            // Without its servers, or with others, the agent would not be what was started.
            (Some(_), Some(Kept { variables, mcp_servers, .. })) => mcp_servers
                .named(&self.spec.mcp_servers)
                .map(|servers| delegation::again(&self.spec, variables, servers))
                .transpose()?,
            _ => None,
        };
        let (spec, file) = (given.as_ref().map(|(spec, _)| spec.clone()), self.environment.clone());
        let (id, controller, cursor) = (self.id, self.controller.clone(), self.cursor);
        let (now, servers) = (entropy::now(), self.spec.mcp_servers.clone());
        // A stop tells of everything that waits.
        let weight = step.as_ref().map_or(0, |step| step.facts.len()).max(4);
        let cwd = self.cwd.clone();
        let (response, added, stored) = self
            .shared
            .store
            .write(Durability::Full, weight, move |tx| {
                let (mut added, mut stored) = (Vec::new(), None);
                let (response, _) = tx.once(key.as_ref(), now, |tx| {
                    if let Some(owner) = &owner {
                        tx.check_owner(owner, &controller)?;
                    }
                    let mut step = step?;
                    if opens {
                        tx.may_open_turn(id, now)?;
                    }
                    if let Some(waits) = waits
                        && let Err(busy) = tx.may_take_place(id)
                    {
                        step = or_busy(waits, busy)?;
                    }
                    match (given, lacking) {
                        (Some((spec, kept)), _) => restore(tx, id, &spec, &file, &kept)?,
                        (None, Some(required)) if servers.is_empty() => return Err(required),
                        (None, Some(required)) => {
                            let advice = "put these MCP servers into the config and send a message or restart the worker from the right shell, or start a new one";
                            return Err(required.with("mcpServers", servers).recommend(advice));
                        }
                        (None, None) => {}
                    }
                    added = tx.store_facts(id, &step.facts, None, now)?;
                    if let Some(owner) = &owner {
                        tx.note_decider(owner, controller.id, &step.facts)?;
                    }
                    tx.update_worker(id, &step.worker, cursor, now)?;
                    if let Some(also) = also {
                        also(tx, id)?;
                    }
                    let changed = changed(tx, id, &step.worker, &cwd, now)?;
                    tx.settle_task(id, &step.worker, now, &mut added)?;
                    let response = respond(&step.worker, &added);
                    stored = Some((step, changed));
                    Ok(response)
                })?;
                Ok((response, added, stored))
            })
            .await?;
        subagent_failpoint::hit(after);
        // Of a repetition nothing was.
        if let Some((Step { worker, facts, actions }, changed)) = stored {
            if let Some(spec) = spec {
                self.spec = spec;
            }
            self.take_changed(changed);
            self.is_active();
            self.adopt(worker, &facts, added.last().map(|(_, seq)| *seq));
            self.todo.extend(actions);
            if facts.iter().any(|fact| matches!(fact, Fact::Inbox(InboxFact::RuleAdded(_)))) {
                self.shared.rules.send_modify(|changes| *changes += 1);
            }
        }
        Ok(response)
    }
}

/// What an order leads to.
struct Stepped {
    step: Result<Step>,
    /// Whether the budgets are asked.
    opens: bool,
    /// Of what begins a turn of a task, what it leads to if there is no place for it; none in it of what cannot wait.
    waits: Option<Option<Result<Step>>>,
}

/// What waits instead of what there is no place for; what overtakes others that are paused would wait for ever.
fn or_busy(waits: Option<Result<Step>>, busy: Error) -> Result<Step> {
    match waits {
        Some(Err(error)) if error.code == Code::QueuePaused => Err(busy),
        Some(step) if busy.code == Code::WorkerBusy => step,
        _ => Err(busy),
    }
}

/// Whether the next thing to be done for this worker is to start a runtime, now or when the old one has ended.
fn needs_runtime(next: &Worker) -> bool {
    next.restart != Restart::None || matches!(next.link, Link::Starting | Link::Ending)
}

/// Keeps an environment again. The values go into the file only; a change that fails afterwards leaves it there, where it
/// is right for the next.
fn restore(tx: &mut Tx<'_>, id: RowId, spec: &Spec, file: &Path, kept: &Kept) -> Result<()> {
    let names = serde_json::to_string(spec).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    environment::write(file, kept)?;
    tx.update_spec(id, &names)
}

/// The failpoints around the commit of an order.
const fn points(input: &Input) -> (&'static str, &'static str) {
    match input {
        Input::Decide { .. } | Input::Answer { .. } | Input::Inbox(_) => {
            ("decision.before_commit", "decision.after_commit")
        }
        Input::Cancel { .. } | Input::EndTask { .. } => ("cancel.before_commit", "cancel.after_commit"),
        Input::Stop => ("stop.before_commit", "stop.after_commit"),
        Input::Restart { .. } => ("restart.before_commit", "restart.after_commit"),
        Input::Enqueue { .. }
        | Input::DropQueued { .. }
        | Input::MoveQueued { .. }
        | Input::AppendQueued { .. }
        | Input::ResumeQueue => ("queue.before_commit", "queue.after_commit"),
        _ => ("turn.before_commit", "turn.after_commit"),
    }
}
