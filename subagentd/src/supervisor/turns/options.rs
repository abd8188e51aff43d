//! Sets options of a worker's session: mode, model and config options.

use std::time::Duration;

use subagent_core::model::{Hibernation, LifecycleState};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{SetOptions, WorkerSet};
use subagent_protocol::options::Options;
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::start::spec::{START_MARGIN, STOP_TIMEOUT, startup};
use crate::supervisor::worker::{ActorMessage, SetOrder};
use crate::supervisor::{ApiCaller, Supervisor};

/// Time added to the agent's own time limit.
const MARGIN: Duration = Duration::from_secs(10);
/// Maximum number of options in a request, and maximum length of an option's text in bytes.
const MAX_OPTIONS: usize = 64;
const MAX_BYTES: usize = 1024;

/// Sets options. A running agent gets them at once and must accept them. Otherwise they are
/// stored for its next start.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_STOPPED`, `INVALID_INPUT`, `INVALID_CONTROLLER_HANDLE`,
/// `IDEMPOTENCY_CONFLICT`. `WORKER_BUSY` while an agent is starting. From the agent:
/// `OPTION_NOT_AVAILABLE{option,value,available}`, `BACKEND_RPC_ERROR`, `BACKEND_TIMEOUT`.
pub(crate) async fn set_options(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: SetOptions,
) -> Result<WorkerSet> {
    let row = supervisor.row(worker).await?;
    let of_daemon = request.idle_timeout_ms.is_some() || request.on_rate_limit.is_some();
    if request.options.is_empty() && request.forget.is_empty() && !of_daemon {
        let message = "nothing to set: give mode, model, configOptions, idleTimeoutMs or onRateLimit";
        return Err(Error::new(Code::InvalidInput, message));
    }
    if let Some(both) = request.forget.iter().find(|id| request.options.config_options.contains_key(*id)) {
        let message = format!("config option {both} cannot be set and forgotten at the same time");
        return Err(Error::new(Code::InvalidInput, message));
    }
    check(&request.options)?;
    check_count(request.forget.len())?;
    let (owner, key) = supervisor.guarded(caller, &format!("options {worker}"), &request)?;
    let handle = match supervisor
        .reach(&row, &owner, &key)
        .await
        .map_err(|error| supervisor.shared.refused(&row, error))?
    {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let mut limit = request.options.patience() + MARGIN;
    if handle.snapshot.borrow().worker.hibernation != Hibernation::None {
        // A hibernating worker may have to end its agent before it starts another one.
        limit += STOP_TIMEOUT + startup(&row) + START_MARGIN;
    }
    let (reply, answer) = oneshot::channel();
    let order = SetOrder { owner: owner.clone(), key: key.clone(), request, reply };
    let sent = handle.send(ActorMessage::Set(Box::new(order)));
    let answer = match tokio::time::timeout(limit, answer).await {
        Ok(Ok(answer)) => answer,
        // The actor has ended.
        Ok(Err(_)) if handle.snapshot.borrow().worker.state == LifecycleState::Stopped => {
            match supervisor.recall(&key).await? {
                Some(response) => Ok(response),
                None => {
                    supervisor.check_owner_of(&owner, &row).await?;
                    Err(stopped_for_good(WorkerState::Stopped))
                }
            }
        }
        Ok(Err(_)) => Err(sent.err().unwrap_or_else(|| supervisor.abandoned())),
        Err(_) => {
            let message = "the agent did not answer about the options in time; it may still take them";
            Err(Error::new(Code::BackendTimeout, message).retryable())
        }
    };
    answer.map_err(|error| error.with("workerId", worker)).and_then(read_response)
}

/// Validates options.
///
/// # Errors
/// `INVALID_INPUT`.
pub(crate) fn check(options: &Options) -> Result<()> {
    let choices = options.choices();
    check_count(choices.len())?;
    for choice in choices {
        for (what, text) in [("id", choice.name()), ("value", &choice.value().to_string())] {
            if text.is_empty() || text.len() > MAX_BYTES {
                let message = format!(
                    "the {what} of an option has 1 to {MAX_BYTES} bytes, not {} (option {:.200})",
                    text.len(),
                    choice.name()
                );
                return Err(Error::new(Code::InvalidInput, message));
            }
        }
    }
    Ok(())
}

fn check_count(count: usize) -> Result<()> {
    if count <= MAX_OPTIONS {
        return Ok(());
    }
    Err(Error::new(Code::InvalidInput, format!("at most {MAX_OPTIONS} options can be set at once")))
}
