//! Sets options of a session. Without an agent they are stored for its next start. A running agent
//! gets them, and they are stored with the record that it accepted them.

pub(crate) mod pending;

use pending::{PendingOptions, Rest, WHEN_READY, as_text};
use serde_json::{Value, json};
use subagent_core::model::{RuntimeStatus, WorkerInput};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{SetOptions, WorkerSet};
use subagent_protocol::frame::RuntimeCommand;
use subagent_protocol::ids::hex;
use subagent_protocol::options::Current;
use subagent_protocol::record::OptionSet;
use subagent_protocol::{Code, Error, Result};

use super::actor::Actor;
use super::message::SetOrder;
use crate::store::{Durability, Execution, OwnerCheck, Tx, controllers, requests, workers};
use crate::supervisor::entropy;
use crate::supervisor::start::environment;
use crate::supervisor::start::spec::Spec;

/// Capability of runtimes that can set options.
const CAPABILITY: &str = "options";

/// The first outcome of an order.
enum Begun {
    Done(Value),
    Sent(String),
}

pub(crate) async fn set(actor: &mut Actor, order: SetOrder) {
    if actor.worker.sleeps() && !order.request.options.is_empty() {
        return wake_for(actor, order).await;
    }
    set_awake(actor, order).await;
}

/// Executes an order with the running agent, or without one.
pub(crate) async fn set_awake(actor: &mut Actor, order: SetOrder) {
    actor.session.is_active();
    let Some(order) = actor.settings.repeated(order) else { return };
    let SetOrder { owner, key, request, reply } = order;
    let response = match begin_set(actor, owner, key.clone(), &request).await {
        Ok(Begun::Sent(sent)) => {
            let rest = Rest::of(&request);
            return actor.settings.push(PendingOptions { request: sent, key, rest, replies: vec![reply] });
        }
        Ok(Begun::Done(response)) => Ok(response),
        Err(error) => Err(error),
    };
    // The client may be gone.
    let _ = reply.send(response);
}

async fn begin_set(
    actor: &mut Actor,
    owner: OwnerCheck,
    key: Option<(String, String)>,
    request: &SetOptions,
) -> Result<Begun> {
    let reaches_agent = reaches_agent(actor, request);
    let stores = matches!(reaches_agent, Ok(false));
    let mut spec = actor.spec.clone();
    if stores {
        Rest::of(request).apply(&mut spec);
        request.options.choices().into_iter().for_each(|choice| spec.options.choose(choice));
    }
    let response = response(actor, &spec, None)?;
    let (text, next) = (as_text(&spec)?, spec);
    let (id, controller, now) = (actor.identity.id, actor.identity.controller.clone(), entropy::now());
    subagent_failpoint::hit("options.before_commit");
    let write = actor.shared.store.write(Durability::Full, 1, move |tx| {
        let may = |tx: &mut Tx<'_>| {
            controllers::check_owner(tx.connection(), &owner, &controller)
                .and_then(|()| reaches_agent.map(|_| ()))
        };
        if stores {
            let stored = |tx: &mut Tx<'_>| {
                may(tx)?;
                workers::update_spec(tx, id, &text).map(|()| response)
            };
            return requests::once(tx, key.as_ref(), now, stored)
                .map(|(response, once)| (Some(response), once));
        }
        if let Some((key, fingerprint)) = &key
            && let Some(earlier) = requests::recall(tx.connection(), key, fingerprint)?
        {
            return Ok((serde_json::from_str(&earlier).ok(), Execution::Replayed));
        }
        may(tx).map(|()| (None, Execution::Fresh))
    });
    let stored = write.await?;
    subagent_failpoint::hit("options.after_commit");
    let (response, once) = stored;
    if once == Execution::Fresh {
        actor.spec = next;
    }
    if let Some(response) = response {
        return Ok(Begun::Done(response));
    }
    let name = hex(&entropy::random::<8>()?);
    actor
        .runtime
        .command(RuntimeCommand::SetOptions { request: name.clone(), options: request.options.clone() });
    Ok(Begun::Sent(name))
}

/// Returns whether a running agent gets the options. If not, its next start uses them.
///
/// # Errors
/// If neither is certain at the moment.
fn reaches_agent(actor: &Actor, request: &SetOptions) -> Result<bool> {
    if actor.stops() {
        return Err(stopped_for_good(actor.worker.public_state()));
    }
    if request.options.is_empty() {
        // Such settings concern only the daemon.
        return Ok(false);
    }
    match actor.worker.link {
        RuntimeStatus::None | RuntimeStatus::Ending => Ok(false),
        RuntimeStatus::Starting => {
            let message = "the worker's agent is being started; try again when it is ready";
            Err(Error::new(Code::WorkerBusy, message)
                .retryable()
                .with("state", actor.worker.public_state().as_str())
                .recommend(WHEN_READY))
        }
        RuntimeStatus::Ready | RuntimeStatus::Adopted => match &actor.runtime.live {
            Some(runtime) if !runtime.listens() => {
                let message = "the worker's runtime is alive but cannot be reached now; try again";
                Err(Error::new(Code::BackendSocketUnreachable, message).retryable())
            }
            Some(runtime) if !runtime.can(CAPABILITY) => {
                let message = "the worker's runtime is too old to set options while it runs";
                let advice = format!("run `subagent worker restart {}` first", actor.identity.worker_id);
                Err(Error::new(Code::InvalidWorkerState, message).recommend(advice))
            }
            Some(_) => Ok(true),
            None => Ok(false),
        },
    }
}

fn response(actor: &Actor, spec: &Spec, current: Option<Current>) -> Result<Value> {
    let set = WorkerSet {
        worker_id: actor.identity.worker_id.clone(),
        applied: current.is_some(),
        chosen: spec.options.clone(),
        idle_timeout_ms: spec.idle_timeout_ms,
        on_rate_limit: spec.on_rate_limit,
        current,
    };
    serde_json::to_value(set).map_err(|error| Error::new(Code::Internal, error.to_string()))
}

/// Queues an order until the agent is awake, and wakes it.
pub(crate) async fn wake_for(actor: &mut Actor, order: SetOrder) {
    let (owner, controller, key) =
        (order.owner.clone(), actor.identity.controller.clone(), order.key.clone());
    let allowed = actor.shared.store.write(Durability::Full, 1, move |tx: &mut Tx<'_>| {
        controllers::check_owner(tx.connection(), &owner, &controller)?;
        match &key {
            Some((key, fingerprint)) => requests::recall(tx.connection(), key, fingerprint),
            None => Ok(None),
        }
    });
    match allowed.await {
        Ok(None) => actor.settings.asleep.push(order),
        // A repetition gets its stored result, and a refused order its error.
        Ok(Some(_)) | Err(_) => set_awake(actor, order).await,
    }
}

/// Wakes the agent for queued orders. Executes them when it is awake or cannot be woken.
pub(crate) async fn look_after_sleepers(actor: &mut Actor) {
    actor.settings.asleep.retain(|order| !order.reply.is_closed());
    if actor.settings.asleep.is_empty() {
        return;
    }
    let stopping = actor.stops();
    match actor.worker.link {
        RuntimeStatus::None
            if actor.worker.sleeps() && environment::read(&actor.identity.environment).is_ok() =>
        {
            // This changes only the link, which is not stored.
            if let Ok(step) = actor.worker.step(WorkerInput::Wake) {
                actor.worker = step.worker;
                actor.todo.extend(step.actions);
            }
        }
        RuntimeStatus::Starting | RuntimeStatus::Adopted | RuntimeStatus::Ending if !stopping => {}
        RuntimeStatus::Ready if actor.runtime.live.as_ref().is_some_and(|runtime| !runtime.greeted) => {}
        _ => {
            for order in std::mem::take(&mut actor.settings.asleep) {
                set_awake(actor, order).await;
            }
        }
    }
}

/// Answers waiting requests. The outcomes are stored already.
pub(crate) async fn answer(actor: &mut Actor, outcomes: Vec<OptionSet>) {
    for outcome in outcomes.into_iter().filter(|outcome| outcome.last) {
        let request = outcome.request.as_deref();
        let Some(setting) = request.and_then(|request| actor.settings.take(request)) else { continue };
        let response = match outcome.error {
            None => response(actor, &actor.spec, Some(outcome.current)),
            Some(error) => Err(error.with("current", json!(outcome.current))),
        };
        if let (Ok(response), Some((key, fingerprint))) = (&response, setting.key.clone()) {
            let (text, now) = (response.to_string(), entropy::now());
            let kept = actor
                .shared
                .store
                .write(Durability::Full, 1, move |tx| requests::remember(tx, &key, &fingerprint, &text, now));
            if let Err(error) = kept.await {
                // A repetition sets the same options again.
                tracing::warn!(worker = %actor.identity.worker_id, %error, "a result is not kept for repetitions");
            }
        }
        for reply in setting.replies {
            let _ = reply.send(response.clone());
        }
    }
}
