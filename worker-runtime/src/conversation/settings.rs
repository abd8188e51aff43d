//! Sets the chosen session options one after the other: before a new session counts as ready, and
//! later on command. Records each outcome.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use subagent_protocol::error::{Code, Error};
use subagent_protocol::frame::Refusal;
use subagent_protocol::options::{Options, PATIENCE, SessionOption};
use subagent_protocol::record::{OptionSet, RecordType};

use super::handshake::Opened;
use super::{Conversation, ConversationState, Cx, Storage, Timer, errors};
use crate::acp::message::RpcOutcome;
use crate::acp::options::{OfferedOptions, Setter};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::{requests, results};

/// Maximum number of waiting options.
const MAX_WAITING: usize = 256;
/// Maximum length of a response kept, in bytes. The record contains the new value in any case.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// An option waiting to be set.
struct PendingOption {
    choice: SessionOption,
    /// The command that set it; `None` before the session is ready.
    request: Option<String>,
    /// Whether the agent can work without it.
    optional: bool,
}

/// The option that the agent is setting now.
struct ActiveOption {
    rpc: u64,
    wish: PendingOption,
    setter: Setter,
}

/// The waiting options and the agent's offer.
#[derive(Default)]
pub(super) struct SessionSettings {
    pub(super) offer: OfferedOptions,
    waiting: VecDeque<PendingOption>,
    asked: Option<ActiveOption>,
    /// The preferred model that could not be set.
    pub(super) no_model: Option<String>,
    /// The mode and model at the start of a new session.
    pub(super) began: Options,
}

impl SessionSettings {
    /// Whether no option is waiting.
    pub(super) fn is_quiet(&self) -> bool {
        self.asked.is_none() && self.waiting.is_empty()
    }
}

impl Conversation {
    /// A session was opened. Its options are set before it is ready.
    pub(super) fn session_opened(&mut self, opened: Opened, cx: &mut Cx<'_>) {
        cx.clear_timer(Timer::Startup);
        cx.clear_timer(Timer::Phase);
        let optional = self.wished_model().map(|choice| (choice, true));
        let chosen = self.config.options.choices().into_iter().map(|choice| (choice, false));
        let wishes = optional.into_iter().chain(chosen);
        let wishes = wishes.map(|(choice, optional)| PendingOption { choice, request: None, optional });
        self.settings.waiting.extend(wishes);
        self.state = ConversationState::Applying(opened);
        self.next_setting(cx);
    }

    /// Queues mode and model of another definition, which are set before its prompt. Returns
    /// whether anything must be set.
    pub(super) fn want_changes(&mut self, options: &Options, wished: Option<&str>) -> bool {
        let current = self.settings.offer.current();
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
        self.settings.waiting.extend(wishes);
        !self.settings.is_quiet()
    }

    /// The daemon asks to set options.
    pub(super) fn set_options(&mut self, request: &str, options: &Options) -> Result<(), Refusal> {
        let choices = options.choices();
        if !matches!(self.state, ConversationState::Ready { .. }) {
            return Err(Refusal::NotReady);
        }
        if self.storage == Storage::Full {
            return Err(Refusal::StorageFull);
        }
        if self.settings.waiting.len() + choices.len() > MAX_WAITING {
            return Err(Refusal::TooMany);
        }
        let wish = |choice| PendingOption { choice, request: Some(request.to_owned()), optional: false };
        let wishes = choices.into_iter().map(wish);
        self.settings.waiting.extend(wishes);
        Ok(())
    }

    /// Sets the next option, unless one is being set.
    pub(super) fn next_setting(&mut self, cx: &mut Cx<'_>) {
        while self.settings.asked.is_none() {
            let session = match &self.state {
                ConversationState::Ready { session, .. } => session.id.clone(),
                ConversationState::Applying(opened) => opened.id.clone(),
                _ => return,
            };
            let Some(mut wish) = self.settings.waiting.pop_front() else {
                self.release_prompt(cx);
                return self.ready(cx);
            };
            if let SessionOption::Model { value } = &mut wish.choice
                && wish.optional
            {
                let Some(id) = self.settings.offer.model(value) else {
                    self.has_no_model(wish, cx);
                    continue;
                };
                *value = id;
            }
            match self.settings.offer.setter(&wish.choice) {
                Ok(setter) => {
                    let rpc = self.rpc();
                    cx.send(OutgoingKind::Plain, requests::set(rpc, &session, &setter));
                    cx.set_timer_to(Timer::Option, PATIENCE);
                    self.settings.asked = Some(ActiveOption { rpc, wish, setter });
                }
                Err(unavailable) => {
                    let error = errors::option_unavailable(&wish.choice, &unavailable);
                    self.not_set(wish, None, error, cx);
                }
            }
        }
    }

    /// The agent works without the definition's preferred model. In an established session this
    /// is reported at once.
    fn has_no_model(&mut self, wish: PendingOption, cx: &mut Cx<'_>) {
        if matches!(self.state, ConversationState::Applying(_)) {
            self.settings.no_model = Some(wish.choice.value().to_string());
            return;
        }
        let error = match self.settings.offer.setter(&wish.choice) {
            Err(unavailable) => errors::option_unavailable(&wish.choice, &unavailable),
            Ok(_) => {
                Error::new(Code::OptionNotAvailable, "the definition's model name matches several models")
            }
        };
        self.record_option(&wish, None, Err(error), cx);
    }

    /// Returns the id of the pending option request.
    pub(super) fn awaits_option(&self) -> Option<u64> {
        self.settings.asked.as_ref().map(|asked| asked.rpc)
    }

    pub(super) fn option_answered(&mut self, outcome: RpcOutcome<'_>, cx: &mut Cx<'_>) {
        let Some(ActiveOption { wish, setter, .. }) = self.settings.asked.take() else { return };
        cx.clear_timer(Timer::Option);
        match outcome {
            RpcOutcome::Result(raw) => {
                self.settings.offer.set(&setter, &results::value(raw));
                self.record_option(&wish, Some(&setter), Ok(raw), cx);
            }
            RpcOutcome::Error(error) => {
                let error = errors::option_rejected(&wish.choice, setter.method(), &results::value(error));
                self.not_set(wish, Some(&setter), error, cx);
            }
        }
        self.next_setting(cx);
    }

    pub(super) fn option_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(ActiveOption { wish, setter, .. }) = self.settings.asked.take() else { return };
        let error =
            errors::option_timeout(&wish.choice, setter.method(), PATIENCE.as_secs(), &cx.tail.text());
        self.not_set(wish, Some(&setter), error, cx);
        self.next_setting(cx);
    }

    /// The agent reports an option change of its own.
    pub(super) fn option_updated(&mut self, params: &RawValue) {
        self.settings.offer.updated(&results::value(params)["update"]);
    }

    /// Drops the waiting options, because the agent is ending.
    pub(super) fn drop_settings(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(Timer::Option);
        let asked = self.settings.asked.take();
        let mut open: Vec<PendingOption> = asked.into_iter().map(|asked| asked.wish).collect();
        open.extend(std::mem::take(&mut self.settings.waiting));
        let mut reported: Vec<String> = Vec::new();
        for wish in open {
            let Some(request) = wish.request.clone().filter(|request| !reported.contains(request)) else {
                continue;
            };
            reported.push(request);
            let error =
                Error::new(Code::BackendUnavailable, "the agent was ended before it had set the option");
            self.record_option(&wish, None, Err(errors::of_option(error.retryable(), &wish.choice)), cx);
        }
    }

    /// An option was not set. Drops the other options of the same command.
    fn not_set(&mut self, wish: PendingOption, setter: Option<&Setter>, error: Error, cx: &mut Cx<'_>) {
        if wish.optional {
            self.settings.no_model = Some(wish.choice.value().to_string());
            return self.record_option(&wish, setter, Err(error), cx);
        }
        self.settings.waiting.retain(|other| other.request != wish.request);
        self.record_option(&wish, setter, Err(error.clone()), cx);
        match (&self.state, &wish.request) {
            (ConversationState::Ready { .. }, None) => self.give_up_prompt(error, cx),
            (_, None) => self.fail_start(error, cx),
            (_, Some(_)) => {}
        }
    }

    fn record_option(
        &self,
        wish: &PendingOption,
        setter: Option<&Setter>,
        outcome: Result<&RawValue, Error>,
        cx: &mut Cx<'_>,
    ) {
        let more = self.settings.waiting.iter().any(|other| other.request == wish.request);
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
            current: self.settings.offer.current(),
        };
        cx.record(RecordType::OptionSet, None, &body);
    }
}
