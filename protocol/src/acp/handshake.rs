//! An agent's information about itself in a uniform form, from the raw responses to `initialize`
//! and `session/new`. Lenient: missing data is unknown, data of another shape is omitted, and
//! nothing fails. The raw responses are authoritative.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::LoginKind;
use crate::lenient::{self, Lenient};

/// Maximum number of entries shown per list.
const MAX_ENTRIES: usize = 1000;

/// An agent's information about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handshake {
    /// Identity of the agent.
    pub agent: Option<AgentInfo>,
    /// The version of ACP that it speaks.
    pub protocol_version: Option<u64>,
    /// Its `agentCapabilities`, as it sent them.
    pub capabilities: Value,
    /// The available login methods.
    pub auth_methods: Vec<AuthMethod>,
    /// The modes of a session.
    pub modes: Option<Modes>,
    /// The models of a session.
    pub models: Option<Models>,
    /// Further options of a session, including mode and model if they are offered as options.
    pub config_options: Vec<ListedConfigOption>,
}

/// The identity of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// The agent's name for programs.
    pub name: Option<String>,
    /// The agent's title for display.
    pub title: Option<String>,
    /// Version of the agent.
    pub version: Option<String>,
}

/// A login method of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthMethod {
    /// The id for `authenticate`, verbatim.
    pub id: String,
    /// The method's name for display.
    pub name: Option<String>,
    /// The method's description for display.
    pub description: Option<String>,
    /// `agent`, `terminal`, `env_var`, or another kind.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The modes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modes {
    /// Id of the present mode.
    pub current_mode_id: Option<String>,
    /// All modes of the session.
    pub available_modes: Vec<SelectOption>,
}

/// The models of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Models {
    /// Id of the present model.
    pub current_model_id: Option<String>,
    /// All models of the session.
    pub available_models: Vec<SelectOption>,
}

/// One value of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectOption {
    /// Id of the value.
    pub id: String,
    /// The value's name for display.
    pub name: Option<String>,
    /// The value's description for display.
    pub description: Option<String>,
}

/// An option of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedConfigOption {
    /// Id of the option.
    pub id: String,
    /// The option's name for display.
    pub name: Option<String>,
    /// The option's description for display.
    pub description: Option<String>,
    /// `mode`, `model`, `thought_level`, or another category.
    pub category: Option<String>,
    /// `select`, `boolean`, or another kind.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Present value of the option.
    pub current_value: Value,
    /// The possible values; groups are concatenated.
    pub options: Vec<SelectOption>,
}

impl Handshake {
    /// Parses both responses; `session` is `None` if no session was opened.
    #[must_use]
    pub fn of(initialize: &Value, session: Option<&Value>) -> Self {
        let initialize: InitializePart = lenient::read(initialize);
        let session: SessionPart = session.map(lenient::read).unwrap_or_default();
        let options: Vec<ListedConfigOption> =
            list(&session.config_options).filter_map(config_option).collect();
        let by_category = |category: &str| {
            let mut options = options.iter();
            options.find(|option| option.category.as_deref() == Some(category) && !option.options.is_empty())
        };
        let current = |option: &ListedConfigOption| option.current_value.as_str().map(str::to_owned);
        let modes = object(&session.modes).map(|modes: ModesPart| Modes {
            current_mode_id: modes.current_mode_id.0,
            available_modes: choices(&modes.available_modes, |mode| &mode.id),
        });
        let models = object(&session.models).map(|models: ModelsPart| Models {
            current_model_id: models.current_model_id.0,
            available_models: choices(&models.available_models, |model| &model.model_id),
        });
        Self {
            agent: object(&initialize.agent_info).map(|info: InfoPart| AgentInfo {
                name: info.name.0,
                title: info.title.0,
                version: info.version.0,
            }),
            protocol_version: initialize.protocol_version.0,
            capabilities: initialize.agent_capabilities,
            auth_methods: list(&initialize.auth_methods).filter_map(auth_method).collect(),
            modes: modes.or_else(|| {
                by_category("mode").map(|option| Modes {
                    current_mode_id: current(option),
                    available_modes: option.options.clone(),
                })
            }),
            models: models.or_else(|| {
                by_category("model").map(|option| Models {
                    current_model_id: current(option),
                    available_models: option.options.clone(),
                })
            }),
            config_options: options,
        }
    }
}

/// A session in an agent's own list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSession {
    /// Id of the session.
    pub session_id: String,
    /// Working folder of the session.
    pub cwd: Option<String>,
    /// The session's title for display.
    pub title: Option<String>,
    /// Time of the last activity, as the agent writes it.
    pub updated_at: Option<String>,
}

impl ListedSession {
    /// Parses one entry; `None` without an id.
    #[must_use]
    pub fn of(entry: &Value) -> Option<Self> {
        let ListedPart { session_id, cwd, title, updated_at } = lenient::read(entry);
        Some(Self { session_id: session_id.0?, cwd: cwd.0, title: title.0, updated_at: updated_at.0 })
    }
}

/// The response to `initialize`, as it came.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitializePart {
    agent_info: Value,
    protocol_version: Lenient<u64>,
    agent_capabilities: Value,
    auth_methods: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InfoPart {
    name: Lenient<String>,
    title: Lenient<String>,
    version: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MethodPart {
    id: Lenient<String>,
    name: Lenient<String>,
    description: Lenient<String>,
    #[serde(rename = "type")]
    kind: Value,
}

/// The response to `session/new`, as it came.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SessionPart {
    modes: Value,
    models: Value,
    config_options: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModesPart {
    current_mode_id: Lenient<String>,
    available_modes: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModelsPart {
    current_model_id: Lenient<String>,
    available_models: Value,
}

/// A mode, a model, or a value of an option.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ChoicePart {
    id: Lenient<String>,
    model_id: Lenient<String>,
    value: Lenient<String>,
    name: Lenient<String>,
    description: Lenient<String>,
}

/// An option, or a group of values.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OptionPart {
    id: Lenient<String>,
    name: Lenient<String>,
    description: Lenient<String>,
    category: Lenient<String>,
    #[serde(rename = "type")]
    kind: Lenient<String>,
    current_value: Value,
    options: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedPart {
    session_id: Lenient<String>,
    cwd: Lenient<String>,
    title: Lenient<String>,
    updated_at: Lenient<String>,
}

fn object<T: for<'a> Deserialize<'a> + Default>(value: &Value) -> Option<T> {
    value.is_object().then(|| lenient::read(value))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MAX_ENTRIES)
}

fn auth_method(method: &Value) -> Option<AuthMethod> {
    let MethodPart { id, name, description, kind } = lenient::read(method);
    let kind = match LoginKind::of(method) {
        Some(LoginKind::Terminal) => "terminal",
        _ if kind.is_null() => "agent",
        _ => kind.as_str().unwrap_or("unknown"),
    };
    Some(AuthMethod { id: id.0?, name: name.0, description: description.0, kind: kind.to_owned() })
}

fn choices(values: &Value, id: fn(&ChoicePart) -> &Lenient<String>) -> Vec<SelectOption> {
    let choice = |value: &Value| {
        let part: ChoicePart = lenient::read(value);
        Some(SelectOption { id: id(&part).0.clone()?, name: part.name.0, description: part.description.0 })
    };
    list(values).filter_map(choice).collect()
}

fn config_option(option: &Value) -> Option<ListedConfigOption> {
    // In a list with groups, an entry contains options instead of a value.
    let option: OptionPart = lenient::read(option);
    let groups: Vec<OptionPart> = list(&option.options).map(lenient::read).collect();
    let options = match groups.iter().any(|entry| entry.options.is_array()) {
        false => choices(&option.options, |entry| &entry.value),
        true => groups.iter().flat_map(|group| choices(&group.options, |entry| &entry.value)).collect(),
    };
    Some(ListedConfigOption {
        id: option.id.0?,
        name: option.name.0,
        description: option.description.0,
        category: option.category.0,
        kind: option.kind.0,
        current_value: option.current_value,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn missing_fields_are_unknown() {
        assert_eq!(Handshake::of(&Value::Null, None), Handshake::default());
        let odd = json!({"agentInfo": 7, "authMethods": [7, {"name": "x"}], "protocolVersion": "1"});
        let handshake = Handshake::of(&odd, Some(&json!({"modes": [], "models": null, "configOptions": {}})));
        assert_eq!(handshake, Handshake::default());
    }

    #[test]
    fn modes_and_models_are_found_where_they_are() {
        let options = json!([
            {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
             "options": [{"value": "ask", "name": "Ask"}]},
            {"id": "m", "category": "model", "type": "select", "currentValue": "b", "options": [
                {"group": "g1", "name": "G1", "options": [{"value": "a", "name": "A"}]},
                {"group": "g2", "name": "G2", "options": [{"value": "b", "description": "B"}]}]},
            {"id": "think", "type": "boolean", "currentValue": true},
        ]);
        let handshake = Handshake::of(&json!({}), Some(&json!({"configOptions": options})));
        assert_eq!(handshake.modes.unwrap().current_mode_id.as_deref(), Some("ask"));
        let models = handshake.models.unwrap();
        assert_eq!(models.current_model_id.as_deref(), Some("b"));
        let ids: Vec<_> = models.available_models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(handshake.config_options[2].current_value, true);

        let older = json!({
            "modes": {"currentModeId": "code", "availableModes": [{"id": "code", "name": "Code"}]},
            "models": {"currentModelId": "x", "availableModels": [{"modelId": "x", "name": "X"}]},
            "configOptions": options,
        });
        let handshake = Handshake::of(&json!({}), Some(&older));
        assert_eq!(handshake.modes.unwrap().current_mode_id.as_deref(), Some("code"));
        assert_eq!(handshake.models.unwrap().available_models[0].id, "x");
    }

    #[test]
    fn a_method_without_a_type_is_the_agents() {
        let initialize = json!({"authMethods": [{"id": "a"}, {"id": "b", "type": "terminal", "name": "B"},
            {"id": "c", "_meta": {"terminal-auth": {"command": "c"}}}, {"id": "d", "type": "_d"}]});
        let methods = Handshake::of(&initialize, None).auth_methods;
        let kinds: Vec<_> = methods.iter().map(|method| (method.id.as_str(), method.kind.as_str())).collect();
        assert_eq!(kinds, [("a", "agent"), ("b", "terminal"), ("c", "terminal"), ("d", "_d")]);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(text in r#"(\{"(modes|models|configOptions|agentInfo)":(1|null|\[\]|\{\}|\[\{"id":"x","options":\[1,\{"options":\[\]\}\]\}\])\})"#) {
            let value: Value = serde_json::from_str(&text).unwrap();
            let _ = Handshake::of(&value, Some(&value));
        }
    }
}
