//! The options that the SDK agent offers. `--offer config`: a mode, a model and a thought level as
//! config options, the last one only with the large model. `--offer modes`: the older list of
//! modes. Without the flag: none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue, SessionConfigSelectOption,
    SessionId, SessionMode, SessionModeState, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{Error, Result};

/// The form in which options are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OptionForm {
    #[default]
    Nothing,
    Config,
    Modes,
}

#[derive(Debug, Clone)]
struct SessionChoices {
    mode: String,
    model: String,
    effort: String,
    fast: bool,
}

/// The values chosen for all sessions.
#[derive(Debug, Default)]
pub(crate) struct SdkAgentOptions {
    offer: OptionForm,
    chosen: Mutex<HashMap<SessionId, SessionChoices>>,
}

const MODES: [&str; 2] = ["ask", "plan"];
const MODELS: [&str; 2] = ["small", "large"];
const EFFORTS: [&str; 2] = ["low", "high"];

impl SdkAgentOptions {
    pub(crate) fn new(offer: OptionForm) -> Self {
        Self { offer, chosen: Mutex::default() }
    }

    fn with<T>(&self, session: &SessionId, change: impl FnOnce(&mut SessionChoices) -> T) -> T {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ["ask", "small", "low"].map(str::to_owned);
        let [mode, model, effort] = first;
        change(chosen.entry(session.clone()).or_insert(SessionChoices { mode, model, effort, fast: false }))
    }

    pub(crate) fn modes(&self, session: &SessionId) -> Option<SessionModeState> {
        let current = self.with(session, |chosen| chosen.mode.clone());
        let modes = MODES.map(|id| SessionMode::new(id, id.to_uppercase())).to_vec();
        (self.offer == OptionForm::Modes).then(|| SessionModeState::new(current, modes))
    }

    pub(crate) fn config(&self, session: &SessionId) -> Option<Vec<SessionConfigOption>> {
        let select = |id: &'static str, current: String, all: &[&'static str], category| {
            let all: Vec<_> =
                all.iter().map(|id| SessionConfigSelectOption::new(*id, id.to_uppercase())).collect();
            SessionConfigOption::select(id, id, current, all).category(category)
        };
        let chosen = self.with(session, |chosen| chosen.clone());
        let mut options = vec![
            select("access", chosen.mode, &MODES, SessionConfigOptionCategory::Mode),
            select("llm", chosen.model.clone(), &MODELS, SessionConfigOptionCategory::Model),
            SessionConfigOption::boolean("fast", "Fast", chosen.fast),
        ];
        if chosen.model == "large" {
            options.push(select(
                "effort",
                chosen.effort,
                &EFFORTS,
                SessionConfigOptionCategory::ThoughtLevel,
            ));
        }
        (self.offer == OptionForm::Config).then_some(options)
    }

    pub(crate) fn set_mode(&self, request: &SetSessionModeRequest) -> Result<()> {
        let mode = request.mode_id.to_string();
        if self.offer != OptionForm::Modes || !MODES.contains(&mode.as_str()) {
            return Err(Error::invalid_params().data("no such mode"));
        }
        self.with(&request.session_id, |chosen| chosen.mode = mode);
        Ok(())
    }

    pub(crate) fn set(&self, request: &SetSessionConfigOptionRequest) -> Result<Vec<SessionConfigOption>> {
        let refused = || Error::invalid_params().data("no such value");
        let id = request.config_id.to_string();
        self.with(&request.session_id, |chosen| match (&*id, &request.value) {
            ("fast", SessionConfigOptionValue::Boolean { value }) => {
                chosen.fast = *value;
                Ok(())
            }
            (id, SessionConfigOptionValue::ValueId { value }) => {
                let value = value.to_string();
                let (place, all) = match id {
                    "access" => (&mut chosen.mode, MODES),
                    "llm" => (&mut chosen.model, MODELS),
                    "effort" if chosen.model == "large" => (&mut chosen.effort, EFFORTS),
                    _ => return Err(refused()),
                };
                if !all.contains(&&*value) {
                    return Err(refused());
                }
                *place = value;
                Ok(())
            }
            _ => Err(refused()),
        })?;
        self.config(&request.session_id).ok_or_else(refused)
    }

    pub(crate) fn words(&self, session: &SessionId) -> String {
        self.with(session, |SessionChoices { mode, model, effort, fast }| {
            format!("{mode}/{model}/{effort}/{fast}")
        })
    }
}
