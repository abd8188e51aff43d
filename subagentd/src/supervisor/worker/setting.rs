//! Sets options of a session. Without an agent they are stored for its next start. A running agent
//! gets them, and they are stored with the record that it accepted them.

use serde_json::{Value, json};
use subagent_core::model::{LifecycleState, RuntimeStatus};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{SetOptions, WorkerSet};
use subagent_protocol::frame::{Refusal, RuntimeCommand};
use subagent_protocol::ids::hex;
use subagent_protocol::options::Options;
use subagent_protocol::record::OptionSet;
use subagent_protocol::state::OnRateLimit;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use super::actor::Actor;
use crate::store::{Durability, Execution, OwnerCheck, Tx, controllers, requests, workers};
use crate::supervisor::entropy;
use crate::supervisor::start::spec::Spec;

/// Capability of runtimes that can set options.
const CAPABILITY: &str = "options";
/// Advice for an agent that is not ready.
const WHEN_READY: &str = "wait until its agent is ready, then repeat the command";

/// A request to set options.
pub(in crate::supervisor) struct SetOrder {
    /// The owner handle of the request.
    pub(in crate::supervisor) owner: OwnerCheck,
    /// The idempotency key and the fingerprint of the request.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// The options to set.
    pub(in crate::supervisor) request: SetOptions,
    /// Receives the response or error.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// A command that the runtime executes, and the requests that wait for it.
pub(super) struct PendingOptions {
    request: String,
    key: Option<(String, String)>,
    rest: Rest,
    replies: Vec<oneshot::Sender<Result<Value>>>,
}

/// Settings that the agent does not get. They take effect when the agent has accepted the others.
struct Rest {
    /// Options that revert to the agent's choice.
    forget: Vec<String>,
    idle_timeout_ms: Option<u64>,
    on_rate_limit: Option<OnRateLimit>,
}

impl Rest {
    fn of(request: &SetOptions) -> Self {
        let SetOptions { options: _, forget, idle_timeout_ms, on_rate_limit } = request;
        Self { forget: forget.clone(), idle_timeout_ms: *idle_timeout_ms, on_rate_limit: *on_rate_limit }
    }

    fn is_empty(&self) -> bool {
        self.forget.is_empty() && self.idle_timeout_ms.is_none() && self.on_rate_limit.is_none()
    }

    fn apply(&self, spec: &mut Spec) {
        self.forget.iter().for_each(|id| drop(spec.options.config_options.remove(id)));
        if let Some(millis) = self.idle_timeout_ms {
            spec.idle_timeout_ms = Some(millis).filter(|millis| *millis > 0);
        }
        spec.on_rate_limit = self.on_rate_limit.or(spec.on_rate_limit);
    }
}

/// The first outcome of an order.
enum Begun {
    Done(Value),
    Sent(String),
}

impl Actor {
    pub(super) async fn set(&mut self, order: SetOrder) {
        if self.sleeps() && !order.request.options.is_empty() {
            return self.wake_for(order).await;
        }
        self.set_awake(order).await;
    }

    /// Executes an order with the running agent, or without one.
    pub(super) async fn set_awake(&mut self, order: SetOrder) {
        self.is_active();
        self.settings.retain(|setting| {
            !setting.rest.is_empty() || setting.replies.iter().any(|reply| !reply.is_closed())
        });
        let SetOrder { owner, key, request, reply } = order;
        if let Some((key, fingerprint)) = &key
            && let Some((setting, first)) = self.settings.iter_mut().find_map(|setting| {
                let first = setting.key.as_ref().filter(|(first, _)| first == key)?.1 == *fingerprint;
                Some((setting, first))
            })
        {
            if first {
                // A repetition of a request that is being executed.
                setting.replies.push(reply);
            } else {
                let _ = reply.send(Err(requests::used_for_another(key)));
            }
            return;
        }
        let response = match self.begin_set(owner, key.clone(), &request).await {
            Ok(Begun::Sent(sent)) => {
                let rest = Rest::of(&request);
                return self.settings.push(PendingOptions { request: sent, key, rest, replies: vec![reply] });
            }
            Ok(Begun::Done(response)) => Ok(response),
            Err(error) => Err(error),
        };
        // The client may be gone.
        let _ = reply.send(response);
    }

    async fn begin_set(
        &mut self,
        owner: OwnerCheck,
        key: Option<(String, String)>,
        request: &SetOptions,
    ) -> Result<Begun> {
        let reaches_agent = self.reaches_agent(request);
        let stores = matches!(reaches_agent, Ok(false));
        let mut spec = self.spec.clone();
        if stores {
            Rest::of(request).apply(&mut spec);
            request.options.choices().into_iter().for_each(|choice| spec.options.choose(choice));
        }
        let response = self.response(&spec, None)?;
        let (text, next) = (as_text(&spec)?, spec);
        let (id, controller, now) = (self.id, self.controller.clone(), entropy::now());
        subagent_failpoint::hit("options.before_commit");
        let stored = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| {
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
            })
            .await?;
        subagent_failpoint::hit("options.after_commit");
        let (response, once) = stored;
        if once == Execution::Fresh {
            self.spec = next;
        }
        if let Some(response) = response {
            return Ok(Begun::Done(response));
        }
        let name = hex(&entropy::random::<8>()?);
        self.command(RuntimeCommand::SetOptions { request: name.clone(), options: request.options.clone() });
        Ok(Begun::Sent(name))
    }

    /// Returns whether a running agent gets the options. If not, its next start uses them.
    ///
    /// # Errors
    /// If neither is certain at the moment.
    fn reaches_agent(&self, request: &SetOptions) -> Result<bool> {
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            return Err(stopped_for_good(self.worker.public_state()));
        }
        if request.options.is_empty() {
            // Such settings concern only the daemon.
            return Ok(false);
        }
        match self.worker.link {
            RuntimeStatus::None | RuntimeStatus::Ending => Ok(false),
            RuntimeStatus::Starting => {
                let message = "the worker's agent is being started; try again when it is ready";
                Err(Error::new(Code::WorkerBusy, message)
                    .retryable()
                    .with("state", self.worker.public_state().as_str())
                    .recommend(WHEN_READY))
            }
            RuntimeStatus::Ready | RuntimeStatus::Adopted => match &self.runtime {
                Some(runtime) if !runtime.listens() => {
                    let message = "the worker's runtime is alive but cannot be reached now; try again";
                    Err(Error::new(Code::BackendSocketUnreachable, message).retryable())
                }
                Some(runtime) if !runtime.capabilities.iter().any(|known| known == CAPABILITY) => {
                    let message = "the worker's runtime is too old to set options while it runs";
                    let advice = format!("run `subagent worker restart {}` first", self.worker_id);
                    Err(Error::new(Code::InvalidWorkerState, message).recommend(advice))
                }
                Some(_) => Ok(true),
                None => Ok(false),
            },
        }
    }

    fn response(&self, spec: &Spec, current: Option<subagent_protocol::options::Current>) -> Result<Value> {
        let set = WorkerSet {
            worker_id: self.worker_id.clone(),
            applied: current.is_some(),
            chosen: spec.options.clone(),
            idle_timeout_ms: spec.idle_timeout_ms,
            on_rate_limit: spec.on_rate_limit,
            current,
        };
        serde_json::to_value(set).map_err(|error| Error::new(Code::Internal, error.to_string()))
    }

    /// Returns the spec with the options that the agent accepted, and those with which its new
    /// session `began`. `None` if nothing changes.
    pub(super) fn spec_with(
        &self,
        outcomes: &[OptionSet],
        began: Option<Options>,
    ) -> Result<Option<(Spec, String)>> {
        // Cloning the spec is expensive if it contains a long prompt, and this runs for every
        // batch.
        if outcomes.is_empty() && began.as_ref().is_none_or(|began| *began == self.spec.began) {
            return Ok(None);
        }
        let mut spec = self.spec.clone();
        if let Some(began) = began {
            spec.began = began;
        }
        // Options without a request were set from the spec when the session started.
        for outcome in outcomes.iter().filter(|outcome| outcome.request.is_some() && outcome.error.is_none())
        {
            spec.options.choose(outcome.choice.clone());
        }
        for outcome in outcomes.iter().filter(|outcome| outcome.last && outcome.error.is_none()) {
            let sent = self.settings.iter().filter(|sent| outcome.request.as_ref() == Some(&sent.request));
            sent.for_each(|sent| sent.rest.apply(&mut spec));
        }
        if spec == self.spec {
            return Ok(None);
        }
        let text = as_text(&spec)?;
        Ok(Some((spec, text)))
    }

    /// Answers waiting requests. The outcomes are stored already.
    pub(super) async fn answer_settings(&mut self, outcomes: Vec<OptionSet>) {
        for outcome in outcomes.into_iter().filter(|outcome| outcome.last) {
            let Some(place) =
                self.settings.iter().position(|setting| outcome.request.as_ref() == Some(&setting.request))
            else {
                continue;
            };
            let setting = self.settings.swap_remove(place);
            let response = match outcome.error {
                None => self.response(&self.spec, Some(outcome.current)),
                Some(error) => Err(error.with("current", json!(outcome.current))),
            };
            if let (Ok(response), Some((key, fingerprint))) = (&response, setting.key.clone()) {
                let (text, now) = (response.to_string(), entropy::now());
                let kept = self.shared.store.write(Durability::Full, 1, move |tx| {
                    requests::remember(tx, &key, &fingerprint, &text, now)
                });
                if let Err(error) = kept.await {
                    // A repetition sets the same options again.
                    tracing::warn!(worker = %self.worker_id, %error, "a result is not kept for repetitions");
                }
            }
            for reply in setting.replies {
                let _ = reply.send(response.clone());
            }
        }
    }

    /// Fails all waiting requests, because no answer of the runtime will arrive.
    pub(super) fn fail_settings(&mut self, error: &Error) {
        for reply in self.settings.drain(..).flat_map(|setting| setting.replies) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Answers requests whose command the runtime refused.
    pub(super) fn setting_refused(&mut self, request: &str, refusal: &Refusal) {
        let Some(place) = self.settings.iter().position(|setting| setting.request == request) else { return };
        let error = match refusal {
            Refusal::NotReady | Refusal::TooMany => {
                let message = "the worker's agent is being started, or too many options wait for it already";
                Error::new(Code::WorkerBusy, message).retryable().recommend(WHEN_READY)
            }
            Refusal::StorageFull => {
                Error::new(Code::StorageFull, "the worker's journal cannot be written: the disk is full")
                    .retryable()
            }
            Refusal::Ending => {
                Error::new(Code::BackendUnavailable, "the worker's agent is being ended; try again")
                    .retryable()
            }
            other => {
                let message = format!("the worker's runtime did not take the options: {other:?}");
                Error::new(Code::BackendRuntimeError, message)
            }
        };
        for reply in self.settings.swap_remove(place).replies {
            let _ = reply.send(Err(error.clone()));
        }
    }
}

fn as_text(spec: &Spec) -> Result<String> {
    serde_json::to_string(spec).map_err(|error| Error::new(Code::Internal, error.to_string()))
}
