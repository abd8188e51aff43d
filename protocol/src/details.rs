//! What an agent has reported of itself and of its session, put together record by record: the agent of `worker show`.
//!
//! Pure. Must not guess: what an agent does not report stays unknown. Every text and list is cut to a bound.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fields;
use crate::options::OptionValue;
use crate::record::{Notification, OptionSet, Record, RecordType, Session, TurnEnd};
use crate::surrogates;

/// So many options of a session are told, and so much of a text.
const MOST_OPTIONS: usize = 64;
const MOST_CHARS: usize = 256;

/// An option of the session with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigOption {
    /// The agent's id of it.
    pub id: String,
    /// What to call it for people.
    pub name: Option<String>,
    /// ACP's `mode`, `model`, `thought_level`, ..., or another word of the agent.
    pub category: Option<String>,
    /// Its value now: a text or a boolean; null if it is anything else.
    pub current_value: Value,
}

/// What the session has cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cost {
    /// How much.
    pub amount: f64,
    /// Of what, as ISO 4217 has it.
    pub currency: String,
}

/// The notification by which an agent reports how it is logged in (an extension of ACP that agents share).
pub const AUTH_STATUS_UPDATE: &str = "_auth/status_update";

/// How an agent is logged in, as it reports by [`AUTH_STATUS_UPDATE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuthStatus {
    /// `none`, `account`, `api_key`, `gateway`, or another word of the agent.
    pub kind: String,
    /// The same for people, in the agent's words.
    pub label: Option<String>,
}

impl AuthStatus {
    fn of(params: &Value) -> Option<Self> {
        let status = &params["authStatus"];
        Some(Self { kind: short(&status["kind"])?, label: short(&status["label"]) })
    }

    /// Whether the agent says that it is not logged in.
    #[must_use]
    pub fn is_logged_out(&self) -> bool {
        self.kind == "none"
    }
}

/// What is true of a session, whichever process has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OfSession {
    /// What the agent calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Tokens in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// Tokens that fit into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
    /// What it has cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Tokens by name, as the answer to the last prompt counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Value>,
}

impl OfSession {
    /// What is known here, and of the rest what was known earlier.
    fn over(self, earlier: Self) -> Self {
        Self {
            title: self.title.or(earlier.title),
            context_used: self.context_used.or(earlier.context_used),
            context_size: self.context_size.or(earlier.context_size),
            cost: self.cost.or(earlier.cost),
            tokens: self.tokens.or(earlier.tokens),
        }
    }
}

/// What an agent has reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// `agentInfo` of `initialize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The mode that is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model that is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The options of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_options: Option<Vec<ConfigOption>>,
    /// How the agent is logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_status: Option<AuthStatus>,
    /// What is true of the session.
    #[serde(flatten)]
    pub session: OfSession,
    /// Whether the agent has said that it can load or resume a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restores: Option<bool>,
    /// Its id, as soon as there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// What was known of the session that an earlier process had, until it is clear whether it is the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<(String, OfSession)>,
}

/// What a record says of it.
#[derive(Debug)]
pub enum Report {
    /// Another process: nothing is known of it yet.
    AgentStarted,
    /// It has a session.
    Session(Box<Session>),
    /// An update of this kind, as it is shown.
    Update(&'static str, Map<String, Value>),
    /// An option was set, or could not be.
    Set(Box<OptionSet>),
    /// Tokens of a turn.
    Tokens(Value),
    /// How it is logged in.
    Auth(AuthStatus),
}

impl Report {
    /// Reads a record; `None` for one that says nothing of it, which costs next to nothing.
    #[must_use]
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let text = || record.b.map_or("null", serde_json::value::RawValue::get);
        match record.t {
            RecordType::AgentStarted => Some(Self::AgentStarted),
            RecordType::Session => Some(Self::Session(Box::new(surrogates::parse(text()).ok()?))),
            RecordType::Update => {
                let kinds = ["usage", "mode", "config_option", "session_info"];
                let kind = kinds.into_iter().find(|kind| record.k.as_deref() == Some(kind))?;
                Some(Self::Update(kind, fields::of(kind, &surrogates::parse(text()).ok()?)))
            }
            RecordType::Notification if text().contains(AUTH_STATUS_UPDATE) => {
                let told: Notification = surrogates::parse(text()).ok()?;
                let params = told.params.filter(|_| told.method == AUTH_STATUS_UPDATE)?;
                AuthStatus::of(&value(&params)).map(Self::Auth)
            }
            RecordType::OptionSet => Some(Self::Set(Box::new(surrogates::parse(text()).ok()?))),
            RecordType::TurnEnd => match surrogates::parse(text()).ok()? {
                TurnEnd::Answered { usage, meta, .. } => {
                    fields::usage_of_turn(usage.as_ref(), meta.as_ref()).map(Self::Tokens)
                }
                TurnEnd::Failed { .. } => None,
            },
            _ => None,
        }
    }

    /// Of a session, whether its agent has said that it can take it up again.
    #[must_use]
    pub fn restores(&self) -> Option<bool> {
        match self {
            Self::Session(session) => Some(restores(session)),
            _ => None,
        }
    }
}

/// Unknown is no: what is not offered is not relied on.
fn restores(session: &Session) -> bool {
    let capabilities = &value(&session.agent)["agentCapabilities"];
    let resume = &capabilities["sessionCapabilities"]["resume"];
    capabilities["loadSession"] == true || !matches!(resume, Value::Null | Value::Bool(false))
}

impl Details {
    /// What is known after this report.
    pub fn take(&mut self, report: Report) {
        match report {
            Report::AgentStarted => {
                let last = std::mem::take(self);
                self.earlier = last.session_id.map(|id| (id, last.session)).or(last.earlier);
            }
            Report::Session(session) => self.opened(&session),
            Report::Update(kind, fields) => self.updated(kind, &fields),
            Report::Set(set) => self.set(&set),
            Report::Tokens(tokens) => self.session.tokens = Some(tokens),
            Report::Auth(status) => self.auth_status = Some(status),
        }
    }

    fn opened(&mut self, session: &Session) {
        let info = &mut value(&session.agent)["agentInfo"];
        self.name = short(&info["name"]);
        self.version = short(&info["version"]);
        self.restores = Some(restores(session));
        match self.earlier.take() {
            Some((id, earlier)) if id == session.session_id => {
                self.session = std::mem::take(&mut self.session).over(earlier);
            }
            _ => {}
        }
        self.session_id = Some(session.session_id.clone());
        let Some(opened) = session.opened.as_deref().map(value) else { return };
        // What came as an update before the answer, or was set before its record, is newer than the answer, or the same.
        let (mode, model) = (self.mode.take(), self.model.take());
        self.mode = short(&opened["modes"]["currentModeId"]);
        self.model = short(&opened["models"]["currentModelId"]);
        if self.config_options.is_none() {
            self.options(&opened["configOptions"]);
        }
        (self.mode, self.model) = (mode.or(self.mode.take()), model.or(self.model.take()));
    }

    /// What is set now, after an option was set: not every agent says so in an update.
    fn set(&mut self, set: &OptionSet) {
        if let Some(result) = set.result.as_deref() {
            self.options(&surrogates::parse::<Value>(result.get()).unwrap_or(Value::Null)["configOptions"]);
        }
        let now = |text: &Option<String>| text.as_ref().map(|text| text.chars().take(MOST_CHARS).collect());
        self.mode = now(&set.current.mode).or(self.mode.take());
        self.model = now(&set.current.model).or(self.model.take());
        for option in self.config_options.iter_mut().flatten() {
            if let Some(value) = set.current.config_options.get(&option.id) {
                option.current_value = match value {
                    OptionValue::Flag(flag) => (*flag).into(),
                    OptionValue::Text(text) => now(&Some(text.clone())).into(),
                };
            }
        }
    }

    fn updated(&mut self, kind: &str, fields: &Map<String, Value>) {
        let field = |name: &str| fields.get(name).unwrap_or(&Value::Null);
        match kind {
            "usage" => {
                self.session.context_used = field("used").as_u64().or(self.session.context_used);
                self.session.context_size = field("size").as_u64().or(self.session.context_size);
                let cost = &field("cost");
                if let (Some(amount), Some(currency)) = (cost["amount"].as_f64(), short(&cost["currency"])) {
                    self.session.cost = Some(Cost { amount, currency });
                }
            }
            "mode" => self.mode = short(field("currentModeId")).or(self.mode.take()),
            "config_option" => self.options(field("configOptions")),
            "session_info" => self.session.title = short(field("title")).or(self.session.title.take()),
            _ => {}
        }
    }

    /// All options: an agent always reports the whole list.
    fn options(&mut self, options: &Value) {
        let Some(options) = options.as_array() else { return };
        let known: Vec<ConfigOption> = options.iter().take(MOST_OPTIONS).filter_map(config_option).collect();
        for (category, own) in [("mode", &mut self.mode), ("model", &mut self.model)] {
            let of_category = known
                .iter()
                .find(|option| option.category.as_deref() == Some(category))
                .map(|option| &option.current_value);
            if let Some(Value::String(value)) = of_category {
                *own = Some(value.clone());
            }
        }
        self.config_options = Some(known);
    }
}

fn config_option(option: &Value) -> Option<ConfigOption> {
    let current = &option["currentValue"];
    Some(ConfigOption {
        id: short(&option["id"])?,
        name: short(&option["name"]),
        category: short(&option["category"]),
        current_value: match current {
            Value::Bool(_) => current.clone(),
            _ => short(current).map_or(Value::Null, Value::String),
        },
    })
}

fn value(raw: &RawValue) -> Value {
    surrogates::parse(raw.get()).unwrap_or(Value::Null)
}

fn short(text: &Value) -> Option<String> {
    text.as_str().map(|text| text.chars().take(MOST_CHARS).collect())
}

#[cfg(test)]
mod tests;
