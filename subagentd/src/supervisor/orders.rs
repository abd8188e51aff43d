//! Handing orders to the actors, and what belongs around them: the owner, repetitions, the facts for an error.

use subagent_protocol::event::StoredEvent;
use subagent_protocol::ids::EventId;
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error, Result};

use super::environment::Kept;
use super::worker::{Handle, Message, Order};
use super::{Caller, Supervisor, worker};
use crate::core::Input;
use crate::core::worker::{State, stopped_for_good};
use crate::store::{OwnerCheck, WorkerRow, controllers};

/// What stands at the end of the way to a worker's actor.
pub(super) enum Reached {
    /// The actor.
    Actor(Handle),
    /// None, since the worker is stopped; but the request is a repetition, and this is its result.
    Past(serde_json::Value),
}

impl Supervisor {
    /// The actor of a worker that something is to be done with.
    ///
    /// # Errors
    /// `WORKER_STOPPED`, for the owner alone: a stranger hears only that it is not his; `IDEMPOTENCY_CONFLICT`,
    /// `STORAGE_ERROR` for a worker that is set aside.
    pub(super) async fn reach(
        &self,
        row: &WorkerRow,
        owner: &OwnerCheck,
        key: &Option<(String, String)>,
    ) -> Result<Reached> {
        match self.roster.live(row.worker_id.as_str()) {
            Ok(handle) => Ok(Reached::Actor(handle)),
            Err(_) if row.state == "stopped" => match self.recall(key).await? {
                Some(response) => Ok(Reached::Past(response)),
                None => {
                    self.check_owner_of(owner, row).await?;
                    let error = stopped_for_good(WorkerState::Stopped);
                    Err(error.with("workerId", row.worker_id.as_str()))
                }
            },
            Err(_) => Ok(Reached::Actor(self.roster.adopted(&self.shared, row).await?)),
        }
    }

    /// What a request is told whose worker has no actor any more, though it is not stopped.
    pub(super) fn abandoned(&self) -> Error {
        if *self.shared.ending.borrow() {
            return worker::ending();
        }
        Error::new(Code::Internal, "the daemon has lost its hold on this worker; see its log, and restart it")
            .recommend("run `subagentd stop`: the workers go on, and the next command starts a new daemon")
    }

    /// Has an order carried out by the worker's actor. The owner is checked in the transaction of the change; `None` stands for
    /// the daemon itself, which stops all workers at its end, and for the agent of a worker that says something of its own tasks.
    ///
    /// # Errors
    /// The rules', the store's, `DAEMON_NOT_RUNNING` when the daemon is ending.
    pub(super) async fn order(
        &self,
        handle: &Handle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: Input,
        respond: worker::Respond,
    ) -> Result<serde_json::Value> {
        self.order_with(handle, owner, key, input, respond, None).await
    }

    /// The same for an order that may start an agent, with an environment for it.
    ///
    /// # Errors
    /// Also `ENV_REQUIRED`, if an agent is to be started, the worker's environment is gone and none came along.
    pub(super) async fn order_with(
        &self,
        handle: &Handle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: Input,
        respond: worker::Respond,
        environment: Option<Kept>,
    ) -> Result<serde_json::Value> {
        self.order_also(handle, owner, key, input, respond, environment, None).await
    }

    /// The same, with something else that is stored in its transaction.
    ///
    /// # Errors
    /// As [`Self::order_with`], and those of that.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that an order has")]
    pub(super) async fn order_also(
        &self,
        handle: &Handle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: Input,
        respond: worker::Respond,
        environment: Option<Kept>,
        also: Option<worker::Also>,
    ) -> Result<serde_json::Value> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let order = Order {
            owner: owner.clone(),
            key: key.clone(),
            input: input.clone(),
            respond,
            also,
            environment,
            reply,
        };
        let sent = handle.send(Message::Order(Box::new(order)));
        if let (Ok(()), Ok(answer)) = (&sent, answer.await) {
            return answer;
        }
        let last = handle.snapshot.borrow().worker.clone();
        if last.state != State::Stopped {
            return Err(match sent {
                Err(error) if error.code != Code::DaemonNotRunning => error,
                _ => self.abandoned(),
            });
        }
        // Its actor has returned. Nothing can be done with it any more; only a repetition has a result.
        match self.recall(&key).await? {
            Some(response) => Ok(response),
            None => {
                if let Some(owner) = owner {
                    self.check_owner_of(&owner, &self.row(handle.worker_id.as_str()).await?).await?;
                }
                let stops = matches!(input, Input::Stop);
                match last.step(input) {
                    Ok(_) if stops => Ok(serde_json::Value::Null),
                    // Nothing of it was open: the rules have nothing to refuse.
                    Ok(_) => {
                        let error = stopped_for_good(WorkerState::Stopped);
                        Err(error.with("workerId", handle.worker_id.as_str()))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// For requests that change nothing any more: whoever is not the owner is told so all the same.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE`.
    pub(super) async fn check_owner_of(&self, owner: &OwnerCheck, row: &WorkerRow) -> Result<()> {
        let (owner, controller_id) = (owner.clone(), row.controller_id.clone());
        self.shared
            .store
            .read(move |connection| controllers::check_owner_of(connection, &owner, &controller_id))
            .await
    }

    /// Whether the caller may stop all workers: those of every controller that has any.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE`.
    pub async fn may_stop_all(&self, caller: Caller) -> Result<()> {
        let owner = OwnerCheck(caller.handle);
        self.shared
            .store
            .read(move |connection| {
                let concerned = controllers::with_workers(connection)?;
                concerned.iter().try_for_each(|row| controllers::check_owner(connection, &owner, row))
            })
            .await
    }

    /// The result of a request, or of the same one that was carried out while this one was looking.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) async fn or_earlier<T: serde::de::DeserializeOwned>(
        &self,
        key: &Option<(String, String)>,
        result: Result<T>,
    ) -> Result<T> {
        let Err(error) = result else { return result };
        match self.recall(key).await? {
            Some(earlier) => read_response(earlier),
            None => Err(error),
        }
    }

    /// What an earlier request with the same key had as its result.
    ///
    /// # Errors
    /// `IDEMPOTENCY_CONFLICT`.
    pub(super) async fn recall(&self, key: &Option<(String, String)>) -> Result<Option<serde_json::Value>> {
        let Some((key, fingerprint)) = key.clone() else { return Ok(None) };
        let found = self
            .shared
            .store
            .read(move |connection| crate::store::recall(connection, &key, &fingerprint))
            .await?;
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// The newest event of a worker, in short, for an error's details.
    pub(super) async fn latest(&self, row: &crate::store::WorkerRow) -> Result<serde_json::Value> {
        let id = row.id;
        let event =
            self.shared.store.read(move |connection| crate::store::events::latest(connection, id)).await?;
        Ok(event.as_ref().map_or(serde_json::Value::Null, brief))
    }
}

/// An event in short.
pub(super) fn brief(event: &StoredEvent) -> serde_json::Value {
    serde_json::json!({
        "eventId": EventId(event.seq), "type": event.event_type, "turnId": event.turn_id, "ts": event.at,
    })
}

/// A response as it was kept for repetitions.
///
/// # Errors
/// `INTERNAL_ERROR`: it is another one's.
pub(super) fn read_response<T: serde::de::DeserializeOwned>(response: serde_json::Value) -> Result<T> {
    serde_json::from_value(response)
        .map_err(|error| Error::new(Code::Internal, format!("a stored result cannot be read: {error}")))
}
