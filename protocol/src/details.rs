//! The facts that an agent reported about itself and its session, merged record by record: the
//! agent of `worker show`. Pure. Must not guess: unreported values stay unknown. Every text and
//! list has a limit.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fields;
use crate::lenient::{self, Lenient, Offered};
use crate::options::OptionValue;
use crate::record::{JournalRecord, Notification, OptionSet, RecordType, SessionRecord, TurnEnd};
use crate::surrogates;

/// Maximum number of session options kept; `MAX_CHARS` limits each text.
const MAX_OPTIONS: usize = 64;
const MAX_CHARS: usize = 256;

/// An option of the session with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigOption {
    /// The agent's id of it.
    pub id: String,
    /// The option's title for display.
    pub name: Option<String>,
    /// ACP's `mode`, `model`, `thought_level`, ..., or another name of the agent's.
    pub category: Option<String>,
    /// Present value: a text or a boolean; null for other types.
    pub current_value: Value,
}

/// The cost of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cost {
    /// The amount in this currency.
    pub amount: f64,
    /// The currency as ISO 4217 code.
    pub currency: String,
}

/// The notification by which an agent reports its login (a common extension of ACP).
pub const AUTH_STATUS_UPDATE: &str = "_auth/status_update";

/// How an agent is logged in, as reported by [`AUTH_STATUS_UPDATE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuthStatus {
    /// `none`, `account`, `api_key`, `gateway`, or another name of the agent's.
    pub kind: String,
    /// The same for display, in the agent's words.
    pub label: Option<String>,
}

impl AuthStatus {
    /// Parses the params of [`AUTH_STATUS_UPDATE`]; `None` if they have no status.
    #[must_use]
    pub fn of(params: &Value) -> Option<Self> {
        let AuthParams { auth_status: status } = lenient::read(params);
        Some(Self { kind: status.kind.0.map(short)?, label: status.label.0.map(short) })
    }

    /// Whether the agent reports that it is not logged in.
    #[must_use]
    pub fn is_logged_out(&self) -> bool {
        self.kind == "none"
    }
}

/// Facts about a session, independent of the process that has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OfSession {
    /// The agent's title of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Number of tokens in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// Size of the context in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
    /// Cost of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Tokens by name, from the response to the last prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Value>,
}

impl OfSession {
    /// Returns these facts, completed with earlier ones.
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

/// The facts that an agent reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Name in `agentInfo` of `initialize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version in `agentInfo` of `initialize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Id of the present mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Id of the present model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The options of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_options: Option<Vec<ConfigOption>>,
    /// How the agent is logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_status: Option<AuthStatus>,
    /// Facts about the session.
    #[serde(flatten)]
    pub session: OfSession,
    /// Whether the agent declared that it can load or resume sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restores: Option<bool>,
    /// Id of the session, once it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Facts about an earlier process's session, until it is clear whether it is the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<(String, OfSession)>,
}

/// The information in a record.
#[derive(Debug)]
pub enum RecordDetail {
    /// Another process started; nothing is known of it yet.
    AgentStarted,
    /// The process has a session.
    Session(Box<SessionRecord>),
    /// An update of this kind, as it is shown.
    Update(&'static str, Map<String, Value>),
    /// An option was set, or could not be.
    Set(Box<OptionSet>),
    /// Tokens of a turn.
    Tokens(Value),
    /// The login of the agent.
    Auth(AuthStatus),
}

impl RecordDetail {
    /// Parses a record; `None` for an irrelevant one, at almost no cost.
    #[must_use]
    pub fn of(record: &JournalRecord<'_>) -> Option<Self> {
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
                let notification: Notification = surrogates::parse(text()).ok()?;
                let params = notification.params.filter(|_| notification.method == AUTH_STATUS_UPDATE)?;
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

    /// Whether the session's agent declared that it can restore the session.
    #[must_use]
    pub fn restores(&self) -> Option<bool> {
        match self {
            Self::Session(session) => Some(restores(session)),
            _ => None,
        }
    }
}

/// Unknown counts as no: features that are not offered are not used.
fn restores(session: &SessionRecord) -> bool {
    let capabilities = lenient::read::<AgentReported<'_>>(&value(&session.agent)).agent_capabilities;
    capabilities.load_session.0 == Some(true) || capabilities.session_capabilities.resume.0
}

impl Details {
    /// Applies this report to the details.
    pub fn take(&mut self, report: RecordDetail) {
        match report {
            RecordDetail::AgentStarted => {
                let last = std::mem::take(self);
                self.earlier = last.session_id.map(|id| (id, last.session)).or(last.earlier);
            }
            RecordDetail::Session(session) => self.opened(&session),
            RecordDetail::Update(kind, fields) => self.updated(kind, &fields),
            RecordDetail::Set(set) => self.set(&set),
            RecordDetail::Tokens(tokens) => self.session.tokens = Some(tokens),
            RecordDetail::Auth(status) => self.auth_status = Some(status),
        }
    }

    fn opened(&mut self, session: &SessionRecord) {
        let agent = value(&session.agent);
        let AgentReported { agent_info: info, .. } = lenient::read(&agent);
        self.name = info.name.0.map(short);
        self.version = info.version.0.map(short);
        self.restores = Some(restores(session));
        match self.earlier.take() {
            Some((id, earlier)) if id == session.session_id => {
                self.session = std::mem::take(&mut self.session).over(earlier);
            }
            _ => {}
        }
        self.session_id = Some(session.session_id.clone());
        let Some(opened) = session.opened.as_deref().map(value) else { return };
        // An earlier update, or an option set before its record, is at least as
        // new as the response.
        let (mode, model) = (self.mode.take(), self.model.take());
        let OpenedReport { modes, models, config_options } = lenient::read(&opened);
        self.mode = modes.current_mode_id.0.map(short);
        self.model = models.current_model_id.0.map(short);
        if self.config_options.is_none() {
            self.options(&config_options);
        }
        (self.mode, self.model) = (mode.or(self.mode.take()), model.or(self.model.take()));
    }

    /// Applies an option that was set: not every agent sends an update.
    fn set(&mut self, set: &OptionSet) {
        if let Some(result) = set.result.as_deref() {
            self.options(&lenient::read::<OpenedReport<'_>>(&value(result)).config_options);
        }
        let now = |text: &Option<String>| text.as_ref().map(|text| text.chars().take(MAX_CHARS).collect());
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
        let text = |name: &str| field(name).as_str().map(short);
        match kind {
            "usage" => {
                self.session.context_used = field("used").as_u64().or(self.session.context_used);
                self.session.context_size = field("size").as_u64().or(self.session.context_size);
                let CostAmount { amount, currency } = lenient::read(field("cost"));
                if let (Some(amount), Some(currency)) = (amount.0, currency.0.map(short)) {
                    self.session.cost = Some(Cost { amount, currency });
                }
            }
            "mode" => self.mode = text("currentModeId").or(self.mode.take()),
            "config_option" => self.options(field("configOptions")),
            "session_info" => self.session.title = text("title").or(self.session.title.take()),
            _ => {}
        }
    }

    /// Applies a list of options, which is always complete.
    fn options(&mut self, options: &Value) {
        let Some(options) = options.as_array() else { return };
        let known: Vec<ConfigOption> = options.iter().take(MAX_OPTIONS).filter_map(config_option).collect();
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
    let OptionReport { id, name, category, current_value } = lenient::read(option);
    Some(ConfigOption {
        id: id.0.map(short)?,
        name: name.0.map(short),
        category: category.0.map(short),
        current_value: match current_value {
            Value::Bool(flag) => flag.into(),
            other => other.as_str().map(short).into(),
        },
    })
}

fn value(raw: &RawValue) -> Value {
    surrogates::parse(raw.get()).unwrap_or(Value::Null)
}

fn short(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

/// The params of [`AUTH_STATUS_UPDATE`].
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthParams<'a> {
    #[serde(borrow, deserialize_with = "lenient::object")]
    auth_status: AuthReport<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthReport<'a> {
    #[serde(borrow)]
    kind: Lenient<&'a str>,
    label: Lenient<&'a str>,
}

/// The response to `initialize`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AgentReported<'a> {
    #[serde(borrow, deserialize_with = "lenient::object")]
    agent_info: NameReport<'a>,
    #[serde(deserialize_with = "lenient::object")]
    agent_capabilities: RestoreReport,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NameReport<'a> {
    #[serde(borrow)]
    name: Lenient<&'a str>,
    version: Lenient<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestoreReport {
    load_session: Lenient<bool>,
    #[serde(deserialize_with = "lenient::object")]
    session_capabilities: ResumeReport,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResumeReport {
    resume: Offered,
}

/// The response to a request that opened a session, or set one of its options.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OpenedReport<'a> {
    #[serde(borrow, deserialize_with = "lenient::object")]
    modes: CurrentReport<'a>,
    #[serde(deserialize_with = "lenient::object")]
    models: CurrentReport<'a>,
    config_options: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CurrentReport<'a> {
    #[serde(borrow)]
    current_mode_id: Lenient<&'a str>,
    current_model_id: Lenient<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OptionReport<'a> {
    #[serde(borrow)]
    id: Lenient<&'a str>,
    name: Lenient<&'a str>,
    category: Lenient<&'a str>,
    current_value: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CostAmount<'a> {
    amount: Lenient<f64>,
    #[serde(borrow)]
    currency: Lenient<&'a str>,
}

#[cfg(test)]
mod tests;
