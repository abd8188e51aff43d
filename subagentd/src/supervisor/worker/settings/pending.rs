//! Option changes that are under way: those that the runtime executes, and those that wait until
//! the agent is awake. Must not store anything.

use serde_json::Value;
use subagent_protocol::api::SetOptions;
use subagent_protocol::frame::Refusal;
use subagent_protocol::options::Options;
use subagent_protocol::record::OptionSet;
use subagent_protocol::state::OnRateLimit;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use crate::store::requests;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::worker::message::SetOrder;
use crate::supervisor::worker::runtime::live::refusal_of_full_disk;

/// Advice for an agent that is not ready.
pub(crate) const WHEN_READY: &str = "wait until its agent is ready, then repeat the command";

/// The option changes of a worker that are under way.
#[derive(Default)]
pub(crate) struct Settings {
    /// Orders that wait until the agent is awake.
    pub(crate) asleep: Vec<SetOrder>,
    /// Option changes that the runtime executes.
    sent: Vec<PendingOptions>,
}

/// A command that the runtime executes, and the requests that wait for it.
pub(crate) struct PendingOptions {
    pub(crate) request: String,
    pub(crate) key: Option<(String, String)>,
    pub(crate) rest: Rest,
    pub(crate) replies: Vec<oneshot::Sender<Result<Value>>>,
}

/// Settings that the agent does not get. They take effect when the agent has accepted the others.
pub(crate) struct Rest {
    /// Options that revert to the agent's choice.
    forget: Vec<String>,
    idle_timeout_ms: Option<u64>,
    on_rate_limit: Option<OnRateLimit>,
}

impl Rest {
    pub(crate) fn of(request: &SetOptions) -> Self {
        let SetOptions { options: _, forget, idle_timeout_ms, on_rate_limit } = request;
        Self { forget: forget.clone(), idle_timeout_ms: *idle_timeout_ms, on_rate_limit: *on_rate_limit }
    }

    fn is_empty(&self) -> bool {
        self.forget.is_empty() && self.idle_timeout_ms.is_none() && self.on_rate_limit.is_none()
    }

    pub(crate) fn apply(&self, spec: &mut Spec) {
        self.forget.iter().for_each(|id| drop(spec.options.config_options.remove(id)));
        if let Some(millis) = self.idle_timeout_ms {
            spec.idle_timeout_ms = Some(millis).filter(|millis| *millis > 0);
        }
        spec.on_rate_limit = self.on_rate_limit.or(spec.on_rate_limit);
    }
}

impl Settings {
    /// Returns whether the runtime executes no change.
    pub(crate) const fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// Adds a change that was sent to the runtime.
    pub(crate) fn push(&mut self, setting: PendingOptions) {
        self.sent.push(setting);
    }

    /// Takes the order if it repeats a change that is being executed. Otherwise returns it.
    pub(crate) fn repeated(&mut self, order: SetOrder) -> Option<SetOrder> {
        self.sent.retain(|setting| {
            !setting.rest.is_empty() || setting.replies.iter().any(|reply| !reply.is_closed())
        });
        let Some((key, fingerprint)) = &order.key else { return Some(order) };
        let found = self.sent.iter_mut().find_map(|setting| {
            let first = setting.key.as_ref().filter(|(first, _)| first == key)?.1 == *fingerprint;
            Some((setting, first))
        });
        match found {
            None => return Some(order),
            Some((setting, true)) => setting.replies.push(order.reply),
            // The client may be gone.
            Some((_, false)) => drop(order.reply.send(Err(requests::used_for_another(key)))),
        }
        None
    }

    /// Returns the spec with the options that the agent accepted, and those with which its new
    /// session `began`. `None` if nothing changes.
    pub(crate) fn spec_with(
        &self,
        current: &Spec,
        outcomes: &[OptionSet],
        began: Option<Options>,
    ) -> Result<Option<(Spec, String)>> {
        // Cloning the spec is expensive if it contains a long prompt, and this runs for every
        // batch.
        if outcomes.is_empty() && began.as_ref().is_none_or(|began| *began == current.began) {
            return Ok(None);
        }
        let mut spec = current.clone();
        if let Some(began) = began {
            spec.began = began;
        }
        // Options without a request were set from the spec when the session started.
        for outcome in outcomes.iter().filter(|outcome| outcome.request.is_some() && outcome.error.is_none())
        {
            spec.options.choose(outcome.choice.clone());
        }
        for outcome in outcomes.iter().filter(|outcome| outcome.last && outcome.error.is_none()) {
            let sent = self.sent.iter().filter(|sent| outcome.request.as_ref() == Some(&sent.request));
            sent.for_each(|sent| sent.rest.apply(&mut spec));
        }
        if spec == *current {
            return Ok(None);
        }
        let text = as_text(&spec)?;
        Ok(Some((spec, text)))
    }

    /// Removes the change that this outcome ends.
    pub(crate) fn take(&mut self, request: &str) -> Option<PendingOptions> {
        let place = self.sent.iter().position(|setting| setting.request == request)?;
        Some(self.sent.swap_remove(place))
    }

    /// Fails all waiting requests, because no answer of the runtime will arrive.
    pub(crate) fn fail(&mut self, error: &Error) {
        for reply in self.sent.drain(..).flat_map(|setting| setting.replies) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Answers requests whose command the runtime refused.
    pub(crate) fn refuse(&mut self, request: &str, refusal: &Refusal) {
        let Some(setting) = self.take(request) else { return };
        let error = match refusal {
            Refusal::NotReady | Refusal::TooMany => {
                let message = "the worker's agent is being started, or too many options wait for it already";
                Error::new(Code::WorkerBusy, message).retryable().recommend(WHEN_READY)
            }
            Refusal::StorageFull => refusal_of_full_disk(),
            Refusal::Ending => {
                Error::new(Code::BackendUnavailable, "the worker's agent is being ended; try again")
                    .retryable()
            }
            other => {
                let message = format!("the worker's runtime did not take the options: {other:?}");
                Error::new(Code::BackendRuntimeError, message)
            }
        };
        for reply in setting.replies {
            let _ = reply.send(Err(error.clone()));
        }
    }
}

pub(crate) fn as_text(spec: &Spec) -> Result<String> {
    serde_json::to_string(spec).map_err(|error| Error::new(Code::Internal, error.to_string()))
}
