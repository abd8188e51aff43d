//! Sends orders to actors. Checks the owner, returns stored results of repeated requests, and adds
//! the details of errors.

use subagent_core::model::{LifecycleState, WorkerInput};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::event::StoredEvent;
use subagent_protocol::ids::EventId;
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error, Result};

use super::shared::ending_error;
use super::start::environment::AgentEnvironment;
use super::worker::{ActorHandle, ActorMessage, ChangeRequest};
use super::{ApiCaller, Supervisor, worker};
use crate::store::{OwnerCheck, WorkerRow, controllers, requests};

/// The target of a request to a worker.
pub(super) enum RequestTarget {
    /// The actor of the worker.
    Live(ActorHandle),
    /// The stored result of a repeated request to a stopped worker.
    Replayed(serde_json::Value),
}

impl Supervisor {
    /// Returns the actor of a worker that is to be changed.
    ///
    /// # Errors
    /// `WORKER_STOPPED`, reported only to the owner: others get `INVALID_CONTROLLER_HANDLE`.
    /// `IDEMPOTENCY_CONFLICT`. `STORAGE_ERROR` for a worker that is set aside.
    pub(super) async fn reach(
        &self,
        row: &WorkerRow,
        owner: &OwnerCheck,
        key: &Option<(String, String)>,
    ) -> Result<RequestTarget> {
        match self.roster.live(row.worker_id.as_str()) {
            Ok(handle) => Ok(RequestTarget::Live(handle)),
            Err(_) if row.state == "stopped" => match self.recall(key).await? {
                Some(response) => Ok(RequestTarget::Replayed(response)),
                None => {
                    self.check_owner_of(owner, row).await?;
                    let error = stopped_for_good(WorkerState::Stopped);
                    Err(error.with("workerId", row.worker_id.as_str()))
                }
            },
            Err(_) => Ok(RequestTarget::Live(self.roster.adopted(&self.shared, row).await?)),
        }
    }

    /// Returns the error for a worker that has no actor although it is not stopped.
    pub(super) fn abandoned(&self) -> Error {
        if *self.shared.ending.borrow() {
            return ending_error();
        }
        Error::new(Code::Internal, "the daemon has lost control of this worker; see its log, and restart it")
            .recommend("run `subagentd stop`: the workers go on, and the next command starts a new daemon")
    }

    /// Executes an order in the worker's actor. The owner is checked in the transaction of the
    /// change. `None` stands for the daemon itself, which stops all workers when it ends, and for
    /// an agent that reports about its own tasks.
    ///
    /// # Errors
    /// Those of the rules and the store. `DAEMON_NOT_RUNNING` if the daemon is ending.
    pub(super) async fn order(
        &self,
        handle: &ActorHandle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: WorkerInput,
        respond: worker::Respond,
    ) -> Result<serde_json::Value> {
        self.order_with(handle, owner, key, input, respond, None).await
    }

    /// Like [`Self::order`], with an environment for an agent that the order may start.
    ///
    /// # Errors
    /// Also `ENV_REQUIRED` if an agent must be started, the stored environment is gone and none was
    /// sent.
    pub(super) async fn order_with(
        &self,
        handle: &ActorHandle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: WorkerInput,
        respond: worker::Respond,
        environment: Option<AgentEnvironment>,
    ) -> Result<serde_json::Value> {
        self.order_also(handle, owner, key, input, respond, environment, None).await
    }

    /// Like [`Self::order_with`], with another change in the same transaction.
    ///
    /// # Errors
    /// As [`Self::order_with`], and those of the other change.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that an order has")]
    pub(super) async fn order_also(
        &self,
        handle: &ActorHandle,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: WorkerInput,
        respond: worker::Respond,
        environment: Option<AgentEnvironment>,
        also: Option<worker::Also>,
    ) -> Result<serde_json::Value> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let order = ChangeRequest {
            owner: owner.clone(),
            key: key.clone(),
            input: input.clone(),
            respond,
            also,
            environment,
            reply,
        };
        let sent = handle.send(ActorMessage::Order(Box::new(order)));
        if let (Ok(()), Ok(answer)) = (&sent, answer.await) {
            return answer;
        }
        let last = handle.snapshot.borrow().worker.clone();
        if last.state != LifecycleState::Stopped {
            return Err(match sent {
                Err(error) if error.code != Code::DaemonNotRunning => error,
                _ => self.abandoned(),
            });
        }
        // The actor has ended, so nothing can change any more. Only a repetition has a result.
        match self.recall(&key).await? {
            Some(response) => Ok(response),
            None => {
                if let Some(owner) = owner {
                    self.check_owner_of(&owner, &self.row(handle.worker_id.as_str()).await?).await?;
                }
                let stops = matches!(input, WorkerInput::Stop | WorkerInput::GiveUp);
                match last.step(input) {
                    Ok(_) if stops => Ok(serde_json::Value::Null),
                    // The rules refuse nothing here, but the worker is stopped.
                    Ok(_) => {
                        let error = stopped_for_good(WorkerState::Stopped);
                        Err(error.with("workerId", handle.worker_id.as_str()))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Checks the owner for requests that change nothing, so that others still get the error.
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

    /// Checks that the caller may stop all workers, which means those of every controller that has
    /// any.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn may_stop_all(&self, caller: ApiCaller) -> Result<()> {
        let owner = OwnerCheck(caller.handle);
        self.shared
            .store
            .read(move |connection| {
                let concerned = controllers::with_workers(connection)?;
                concerned.iter().try_for_each(|row| controllers::check_owner(connection, &owner, row))
            })
            .await
    }

    /// Returns the result of a request, or the stored result if a repetition was executed
    /// meanwhile.
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

    /// Returns the stored result of an earlier request with the same key.
    ///
    /// # Errors
    /// `IDEMPOTENCY_CONFLICT`.
    pub(super) async fn recall(&self, key: &Option<(String, String)>) -> Result<Option<serde_json::Value>> {
        let Some((key, fingerprint)) = key.clone() else { return Ok(None) };
        let found = self
            .shared
            .store
            .read(move |connection| requests::recall(connection, &key, &fingerprint))
            .await?;
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns the newest event of a worker in short form, for an error's details.
    pub(super) async fn latest(&self, row: &crate::store::WorkerRow) -> Result<serde_json::Value> {
        let id = row.id;
        let event =
            self.shared.store.read(move |connection| crate::store::events::latest(connection, id)).await?;
        Ok(event.as_ref().map_or(serde_json::Value::Null, brief))
    }
}

/// Returns the short form of an event.
pub(super) fn brief(event: &StoredEvent) -> serde_json::Value {
    serde_json::json!({
        "eventId": EventId(event.seq), "type": event.event_type, "turnId": event.turn_id, "ts": event.at,
    })
}

/// Decodes a response that was stored for repetitions.
///
/// # Errors
/// `INTERNAL_ERROR` if the stored response has another type.
pub(super) fn read_response<T: serde::de::DeserializeOwned>(response: serde_json::Value) -> Result<T> {
    serde_json::from_value(response)
        .map_err(|error| Error::new(Code::Internal, format!("a stored result cannot be read: {error}")))
}
