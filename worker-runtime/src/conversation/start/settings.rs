//! The session options that wait to be set, and the agent's offer.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use subagent_protocol::error::{Code, Error};
use subagent_protocol::options::{Options, SessionOption};
use subagent_protocol::record::{OptionSet, RecordType};

use crate::acp::options::{OfferedOptions, Setter};
use crate::conversation::effects::{Cx, Timer};
use crate::conversation::errors;

/// Maximum number of waiting options.
pub(in crate::conversation) const MAX_WAITING: usize = 256;
/// Maximum length of a response kept, in bytes. The record contains the new value in any case.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// An option waiting to be set.
pub(in crate::conversation) struct PendingOption {
    pub(in crate::conversation) choice: SessionOption,
    /// The command that set it; `None` before the session is ready.
    pub(in crate::conversation) request: Option<String>,
    /// Whether the agent can work without it.
    pub(in crate::conversation) optional: bool,
}

/// The option that the agent is setting now.
pub(in crate::conversation) struct ActiveOption {
    pub(in crate::conversation) rpc: u64,
    pub(in crate::conversation) wish: PendingOption,
    pub(in crate::conversation) setter: Setter,
}

/// The waiting options and the agent's offer.
#[derive(Default)]
pub(in crate::conversation) struct SessionSettings {
    pub(in crate::conversation) offer: OfferedOptions,
    pub(in crate::conversation) waiting: VecDeque<PendingOption>,
    pub(in crate::conversation) asked: Option<ActiveOption>,
    /// The preferred model that could not be set.
    pub(in crate::conversation) no_model: Option<String>,
    /// The mode and model at the start of a new session.
    pub(in crate::conversation) began: Options,
}

impl SessionSettings {
    /// Whether no option is waiting.
    pub(in crate::conversation) fn is_quiet(&self) -> bool {
        self.asked.is_none() && self.waiting.is_empty()
    }

    /// Returns the id of the pending option request.
    pub(in crate::conversation) fn awaits(&self) -> Option<u64> {
        self.asked.as_ref().map(|asked| asked.rpc)
    }

    /// Queues mode and model of another definition, which are set before its prompt. Returns
    /// whether anything must be set.
    pub(in crate::conversation) fn want_changes(&mut self, options: &Options, wished: Option<&str>) -> bool {
        let current = self.offer.current();
        let is_set = |choice: &SessionOption| match choice {
            SessionOption::Mode { value } => current.mode.as_ref() == Some(value),
            SessionOption::Model { value } => current.model.as_ref() == Some(value),
            SessionOption::ConfigOption { .. } => false,
        };
        let optional = wished.filter(|_| options.model.is_none());
        let optional = optional.map(|value| (SessionOption::Model { value: value.to_owned() }, true));
        let chosen = options.choices().into_iter().map(|choice| (choice, false));
        let wishes = optional.into_iter().chain(chosen).filter(|(choice, _)| !is_set(choice));
        let wishes = wishes.map(|(choice, optional)| PendingOption { choice, request: None, optional });
        self.waiting.extend(wishes);
        !self.is_quiet()
    }

    /// Drops the waiting options, because the agent is ending.
    pub(in crate::conversation) fn drop_all(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(Timer::Option);
        let asked = self.asked.take();
        let mut open: Vec<PendingOption> = asked.into_iter().map(|asked| asked.wish).collect();
        open.extend(std::mem::take(&mut self.waiting));
        let mut reported: Vec<String> = Vec::new();
        for wish in open {
            let Some(request) = wish.request.clone().filter(|request| !reported.contains(request)) else {
                continue;
            };
            reported.push(request);
            let error =
                Error::new(Code::BackendUnavailable, "the agent was ended before it had set the option");
            self.record(&wish, None, Err(errors::of_option(error.retryable(), &wish.choice)), cx);
        }
    }

    pub(in crate::conversation) fn record(
        &self,
        wish: &PendingOption,
        setter: Option<&Setter>,
        outcome: Result<&RawValue, Error>,
        cx: &mut Cx<'_>,
    ) {
        let more = self.waiting.iter().any(|other| other.request == wish.request);
        let (result, error) = match outcome {
            Ok(raw) => (Some(raw).filter(|raw| raw.get().len() <= MAX_RESULT_BYTES), None),
            Err(error) => (None, Some(error)),
        };
        let body = OptionSet {
            choice: wish.choice.clone(),
            method: setter.map(|setter| setter.method().to_owned()),
            request: wish.request.clone(),
            last: error.is_some() || !more,
            result: result.map(ToOwned::to_owned),
            error,
            current: self.offer.current(),
        };
        cx.record(RecordType::OptionSet, None, &body);
    }
}
