//! Changes by clients: checked, decided by `core`, and stored in one transaction.

use std::path::Path;

use serde_json::Value;
use subagent_core::model::{By, Fact, InboxFact, Restart, RuntimeStatus, Transition, Worker, WorkerInput};
use subagent_protocol::api::ControllerHandle;
use subagent_protocol::{Code, Error, Result};

use super::actor::Actor;
use super::message::{Also, ChangeRequest, Respond};
use super::runtime::placed;
use crate::store::questions::inbox;
use crate::store::{
    Durability, OwnerCheck, RowId, Tx, accounts, controllers, facts, requests, tasks, workers,
};
use crate::supervisor::entropy;
use crate::supervisor::start::environment::AgentEnvironment;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::start::{delegation, environment};
use crate::supervisor::turns::agent_change::changed;

pub(super) async fn carry_out(actor: &mut Actor, order: ChangeRequest) {
    if let Some(runtime) = &mut actor.runtime.live {
        // Also for one that changes nothing, such as a second stop.
        runtime.dial_now();
    }
    actor.runtime.place.hurry();
    let ChangeRequest { owner, key, input, respond, also, environment, reply } = order;
    let result = decide_and_store(actor, owner, key, input, respond, also, environment).await;
    // The client may be gone. The change remains.
    let _ = reply.send(result);
}

fn stepped(actor: &mut Actor, input: WorkerInput, owner: Option<&OwnerCheck>) -> Stepped {
    let begins = |fact: &Fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. });
    let again = actor.tasks.is_task().then(|| input.clone());
    let (step, opens) = stepped_at_once(actor, input);
    let again = again.filter(|_| step.as_ref().is_ok_and(|step| step.facts.iter().any(begins)));
    let waits = again.map(|input| {
        let sender = owner.and_then(|owner| owner.0.as_ref()).and_then(ControllerHandle::epoch_number);
        input.waiting(sender).map(|input| actor.worker.step(input))
    });
    Stepped { step, opens, waits }
}

/// Returns the outcome of an order, and whether it must pass the budget check because it opens
/// a turn.
fn stepped_at_once(actor: &mut Actor, input: WorkerInput) -> (Result<Transition>, bool) {
    // A resumed queue passes the check in the same transaction, with the environment for its
    // agent.
    let resumes = matches!(input, WorkerInput::ResumeQueue);
    let gated = actor.worker.queue.gated || actor.budgets.has_news();
    // An order to end a runtime that does not exist yet would be for the next one.
    let link = actor.worker.link;
    if actor.runtime.live.is_none() && matches!(input, WorkerInput::Restart { beside: true, .. }) {
        actor.worker.link = RuntimeStatus::None;
    }
    actor.worker.queue.gated = gated && !resumes;
    let mut step = actor.worker.step(input);
    (actor.worker.queue.gated, actor.worker.link) = (gated, link);
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
    actor: &mut Actor,
    owner: Option<OwnerCheck>,
    key: Option<(String, String)>,
    input: WorkerInput,
    respond: Respond,
    also: Option<Also>,
    environment: Option<AgentEnvironment>,
) -> Result<Value> {
    let (before, after) = points(&input);
    subagent_failpoint::hit(before);
    let starts = matches!(
        input,
        WorkerInput::Restart { .. }
            | WorkerInput::Send { by: By::Runtime, .. }
            | WorkerInput::Enqueue { .. }
            | WorkerInput::ResumeQueue
    );
    let gives_up = matches!(input, WorkerInput::Restart { beside: true, .. } | WorkerInput::GiveUp);
    if gives_up {
        placed::may_give_up(actor)?;
    }
    let Stepped { step, opens, waits } = stepped(actor, input, owner.as_ref());
    let lacking = match &step {
        Ok(step) if starts && needs_runtime(&step.worker) => {
            environment::read(&actor.identity.environment).err()
        }
        _ => None,
    };
    let given = match (&lacking, environment) {
        // Without the same MCP servers, the agent would not be what was started.
        (Some(_), Some(AgentEnvironment { variables, mcp_servers, .. }))
            if actor.runtime.place.elsewhere().is_some() =>
        {
            // The caller's other variables are of this machine.
            let known = |name: &[u8]| actor.spec.environment.iter().any(|one| one.as_bytes() == name);
            let task_variables = actor.spec.delegation.is_some().then(|| variables.clone());
            let variables = variables.into_iter().filter(|(name, _)| known(&name.0)).collect();
            mcp_servers
                .named(&actor.spec.mcp_servers)
                .map(|mcp_servers| AgentEnvironment {
                    variables,
                    mcp_servers,
                    task_variables,
                    task_token: None,
                })
                .map(|kept| delegation::again(&actor.spec, kept))
                .transpose()?
        }
        (Some(_), Some(AgentEnvironment { variables, mcp_servers, .. })) => mcp_servers
            .named(&actor.spec.mcp_servers)
            .map(|mcp_servers| AgentEnvironment { variables, mcp_servers, ..AgentEnvironment::default() })
            .map(|kept| delegation::again(&actor.spec, kept))
            .transpose()?,
        _ => None,
    };
    let (spec, file) = (given.as_ref().map(|(spec, _)| spec.clone()), actor.identity.environment.clone());
    let (id, controller, cursor) =
        (actor.identity.id, actor.identity.controller.clone(), actor.journal.cursor);
    let (now, servers) = (entropy::now(), actor.spec.mcp_servers.clone());
    // A stop adds an event for each queued message.
    let weight = step.as_ref().map_or(0, |step| step.facts.len()).max(4);
    let cwd = actor.identity.cwd.clone();
    let write = actor.shared.store.write(Durability::Full, weight, move |tx| {
        let (mut added, mut stored) = (Vec::new(), None);
        let (response, _) = requests::once(tx, key.as_ref(), now, |tx| {
            if let Some(owner) = &owner {
                controllers::check_owner(tx.connection(), owner, &controller)?;
            }
            let mut step = step?;
            if opens {
                accounts::may_open_turn(tx, id, now)?;
            }
            if let Some(waits) = waits
                && let Err(busy) = tasks::places::may_take(tx, id)
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
            added = facts::store(tx, id, &step.facts, None, now)?;
            if let Some(owner) = &owner {
                inbox::note_decider(tx, owner, controller.id, &step.facts)?;
            }
            workers::update(tx, id, &step.worker, cursor, now)?;
            if let Some(also) = also {
                also(tx, id)?;
            }
            let changed = changed(tx, id, &step.worker, &cwd, now)?;
            tasks::ends::settle(tx, id, &step.worker, now, &mut added)?;
            let response = respond(&step.worker, &added);
            stored = Some((step, changed));
            Ok(response)
        })?;
        Ok((response, added, stored))
    });
    let (response, added, stored) = write.await?;
    subagent_failpoint::hit(after);
    // `None` for a repetition.
    if let Some((step, changed)) = stored {
        if let Some(spec) = spec {
            actor.spec = spec;
        }
        actor.take_changed(changed);
        actor.session.is_active();
        let adds_rule = |fact: &Fact| matches!(fact, Fact::Inbox(InboxFact::RuleAdded(_)));
        let adds_rule = step.facts.iter().any(adds_rule);
        actor.adopt(step, added.last().map(|(_, seq)| *seq));
        if adds_rule {
            actor.shared.changes.rules.send_modify(|changes| *changes += 1);
        }
        // A stop goes on as any other if the place has answered meanwhile.
        if gives_up && !(actor.stops() && placed::answers(actor)) {
            placed::give_up(actor).await;
        }
    }
    Ok(response)
}

/// The outcome of an order.
struct Stepped {
    step: Result<Transition>,
    /// Whether the budgets must be checked.
    opens: bool,
    /// For an order that starts a turn of a task: the outcome if the task tree has no free slot.
    /// The inner `None` means that the order cannot be queued.
    waits: Option<Option<Result<Transition>>>,
}

/// Returns the queued outcome for a missing slot. A message that would overtake a paused queue is
/// refused.
fn or_busy(waits: Option<Result<Transition>>, busy: Error) -> Result<Transition> {
    match waits {
        Some(Err(error)) if error.code == Code::QueuePaused => Err(busy),
        Some(step) if busy.code == Code::WorkerBusy => step,
        _ => Err(busy),
    }
}

/// Returns whether the worker's next action is the start of a runtime, now or after the old one has
/// ended.
fn needs_runtime(next: &Worker) -> bool {
    next.restart != Restart::None || matches!(next.link, RuntimeStatus::Starting | RuntimeStatus::Ending)
}

/// Stores an environment again. The values are only in the file. If the transaction fails later,
/// the file remains and is valid for the next order.
fn restore(tx: &mut Tx<'_>, id: RowId, spec: &Spec, file: &Path, kept: &AgentEnvironment) -> Result<()> {
    let names = serde_json::to_string(spec).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    environment::write(file, kept)?;
    workers::update_spec(tx, id, &names)
}

/// Returns the failpoints around the commit of an order.
const fn points(input: &WorkerInput) -> (&'static str, &'static str) {
    match input {
        WorkerInput::Decide { .. } | WorkerInput::Answer { .. } | WorkerInput::Inbox(_) => {
            ("decision.before_commit", "decision.after_commit")
        }
        WorkerInput::Cancel { .. } | WorkerInput::EndTask { .. } => {
            ("cancel.before_commit", "cancel.after_commit")
        }
        WorkerInput::Stop | WorkerInput::GiveUp => ("stop.before_commit", "stop.after_commit"),
        WorkerInput::Restart { .. } => ("restart.before_commit", "restart.after_commit"),
        WorkerInput::Enqueue { .. }
        | WorkerInput::DropQueued { .. }
        | WorkerInput::MoveQueued { .. }
        | WorkerInput::AppendQueued { .. }
        | WorkerInput::ResumeQueue => ("queue.before_commit", "queue.after_commit"),
        _ => ("turn.before_commit", "turn.after_commit"),
    }
}
