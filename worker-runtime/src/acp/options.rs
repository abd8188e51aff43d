//! The modes, models and config options of an agent, and the requests that set them. Pure and
//! lenient: entries that cannot be parsed count as unknown, and the agent judges unknown values.
//! Keeps no more entries than a person can choose from.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient;
use subagent_protocol::options::{Current, OptionValue, SessionOption};

/// Maximum length of an id or name in bytes. Longer ones are ignored.
const MAX_TEXT_BYTES: usize = 1024;
/// Maximum number of options, and of values per option. With more, the agent judges the choice.
const MAX_OPTIONS: usize = 256;
const MAX_VALUES: usize = 4096;

/// A list entry with an id and a display name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedEntry {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

/// An option with several values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Select {
    current: Option<String>,
    /// `None` if the list of values is unknown.
    values: Option<Vec<NamedEntry>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ConfigOptionKind {
    Select(Select),
    Boolean(Option<bool>),
    /// An option of an unknown type.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OfferedConfigOption {
    id: String,
    category: Option<String>,
    kind: ConfigOptionKind,
}

/// What the agent has offered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OfferedOptions {
    modes: Option<Select>,
    models: Option<Select>,
    config: Option<Vec<OfferedConfigOption>>,
    /// Whether an option that was not listed does not exist. A restored session need not list any.
    complete: bool,
}

/// The request that sets an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setter {
    /// The ACP method `session/set_mode`.
    Mode(String),
    /// `session/set_model`, for agents older than config options.
    Model(String),
    /// The ACP method `session/set_config_option`.
    Config(String, OptionValue),
}

impl Setter {
    pub(crate) const fn method(&self) -> &'static str {
        match self {
            Self::Mode(_) => "session/set_mode",
            Self::Model(_) => "session/set_model",
            Self::Config(..) => "session/set_config_option",
        }
    }
}

/// Why an option cannot be set, with the alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The option does not exist; these config options do.
    Option(Vec<String>),
    /// The option does not accept this value; it accepts these.
    Value(Vec<NamedEntry>),
}

impl OfferedOptions {
    /// Takes the result of `session/new` (`complete`), or of `session/load` or `session/resume`.
    /// Earlier offers stay known.
    pub(crate) fn opened(&mut self, result: &Value, complete: bool) {
        self.complete |= complete;
        let OfferedSelects { modes, models, .. } = lenient::read(result);
        let (mode, model) = (text(&modes.current_mode_id), text(&models.current_model_id));
        if let Some(modes) = select(&modes.available_modes, mode, |mode| &mode.id) {
            self.modes = Some(modes);
        }
        if let Some(models) = select(&models.available_models, model, |model| &model.model_id) {
            self.models = Some(models);
        }
        self.config_options(result);
    }

    /// Takes an update of kind `mode` or `config_option`.
    pub(crate) fn updated(&mut self, update: &Value) {
        if let Some(id) = text(&lenient::read::<OfferedModes>(update).current_mode_id) {
            self.modes.get_or_insert(Select { current: None, values: None }).current = Some(id);
        }
        self.config_options(update);
    }

    /// Takes the agent's successful response to `setter`.
    pub(crate) fn set(&mut self, setter: &Setter, result: &Value) {
        match setter {
            Setter::Mode(id) => {
                self.modes.get_or_insert(Select { current: None, values: None }).current = Some(id.clone());
            }
            Setter::Model(id) => {
                self.models.get_or_insert(Select { current: None, values: None }).current = Some(id.clone());
            }
            Setter::Config(id, value) => {
                if self.config_options(result) {
                    return;
                }
                let option = self.config.iter_mut().flatten().find(|option| option.id == *id);
                match (option.map(|option| &mut option.kind), value) {
                    (Some(ConfigOptionKind::Select(select)), OptionValue::Text(text)) => {
                        select.current = Some(text.clone())
                    }
                    (Some(ConfigOptionKind::Boolean(current)), OptionValue::Flag(flag)) => {
                        *current = Some(*flag)
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the request that sets a choice.
    ///
    /// # Errors
    ///
    /// The agent is known not to offer the choice.
    pub(crate) fn setter(&self, choice: &SessionOption) -> Result<Setter, Unavailable> {
        match choice {
            SessionOption::Mode { value } => match (self.of_category("mode"), &self.modes) {
                (Some(option), _) => self.config_setter(&option.id, &OptionValue::Text(value.clone())),
                (None, Some(modes)) => of(modes, value).map(Setter::Mode),
                (None, None) if self.complete => Err(self.no_option()),
                (None, None) => Ok(Setter::Mode(value.clone())),
            },
            SessionOption::Model { value } => match (self.of_category("model"), &self.models) {
                (Some(option), _) => self.config_setter(&option.id, &OptionValue::Text(value.clone())),
                (None, Some(models)) => of(models, value).map(Setter::Model),
                (None, None) if self.complete => Err(self.no_option()),
                (None, None) => Ok(Setter::Model(value.clone())),
            },
            SessionOption::ConfigOption { config_id, value } => self.config_setter(config_id, value),
        }
    }

    /// Returns the id of the model that a user means: by id, by name, or by a word that only one
    /// model contains. `None` if the models are unknown: then the agent judges.
    pub(crate) fn model(&self, wish: &str) -> Option<String> {
        let values = match (self.of_category("model").map(|option| &option.kind), &self.models) {
            (Some(ConfigOptionKind::Select(select)), _) | (None, Some(select)) => &select.values,
            (Some(_), _) => return None,
            (None, None) if self.complete => return None,
            (None, None) => &None,
        };
        let Some(values) = values else { return Some(wish.to_owned()) };
        let wish_folded = wish.to_lowercase();
        let folded = |value: &NamedEntry| {
            (value.id.to_lowercase(), value.name.as_deref().unwrap_or_default().to_lowercase())
        };
        let is_named = |value: &&NamedEntry| folded(value).0 == wish_folded || folded(value).1 == wish_folded;
        let holds = |value: &&NamedEntry| {
            folded(value).0.contains(&wish_folded) || folded(value).1.contains(&wish_folded)
        };
        let found = values.iter().find(|value| value.id == wish).or_else(|| values.iter().find(is_named));
        let mut holding = values.iter().filter(holds);
        let only = holding.next().filter(|_| holding.next().is_none());
        found.or(only).map(|value| value.id.clone())
    }

    fn config_setter(&self, id: &str, value: &OptionValue) -> Result<Setter, Unavailable> {
        let found = self.config.iter().flatten().find(|option| option.id == id);
        let value = match (found.map(|option| &option.kind), value) {
            (None, _) if self.config.is_some() || self.complete => return Err(self.no_option()),
            (Some(ConfigOptionKind::Select(select)), value) => {
                OptionValue::Text(of(select, &value.to_string())?)
            }
            (Some(ConfigOptionKind::Boolean(_)), OptionValue::Text(text)) => match text.as_str() {
                "true" => OptionValue::Flag(true),
                "false" => OptionValue::Flag(false),
                _ => {
                    let both = ["true", "false"].map(|id| NamedEntry { id: id.to_owned(), name: None });
                    return Err(Unavailable::Value(both.to_vec()));
                }
            },
            (None | Some(ConfigOptionKind::Boolean(_) | ConfigOptionKind::Other), value) => value.clone(),
        };
        Ok(Setter::Config(id.to_owned(), value))
    }

    fn no_option(&self) -> Unavailable {
        Unavailable::Option(self.config.iter().flatten().map(|option| option.id.clone()).collect())
    }

    /// Returns the values that are set now.
    pub(crate) fn current(&self) -> Current {
        let selected = |category: &str, list: &Option<Select>| {
            let option = self.of_category(category).and_then(|option| match &option.kind {
                ConfigOptionKind::Select(select) => select.current.clone(),
                _ => None,
            });
            option.or_else(|| list.as_ref().and_then(|list| list.current.clone()))
        };
        let config = self.config.iter().flatten().filter_map(|option| {
            let value = match &option.kind {
                ConfigOptionKind::Select(select) => OptionValue::Text(select.current.clone()?),
                ConfigOptionKind::Boolean(current) => OptionValue::Flag((*current)?),
                ConfigOptionKind::Other => return None,
            };
            Some((option.id.clone(), value))
        });
        Current {
            mode: selected("mode", &self.modes),
            model: selected("model", &self.models),
            config_options: config.collect(),
        }
    }

    /// Returns the first option of a category. If no option names a category, the category's name
    /// serves as the id.
    fn of_category(&self, category: &str) -> Option<&OfferedConfigOption> {
        let all = || self.config.iter().flatten();
        let named = || all().find(|option| option.category.is_none() && option.id == category);
        all().find(|option| option.category.as_deref() == Some(category)).or_else(named)
    }

    /// Takes a list of options, which is always complete. Returns whether there was one.
    fn config_options(&mut self, holder: &Value) -> bool {
        let Value::Array(options) = lenient::read::<OfferedSelects>(holder).config_options else {
            return false;
        };
        if options.len() > MAX_OPTIONS {
            // The part that was cut off may contain any option.
            (self.config, self.complete) = (None, false);
            return false;
        }
        self.config = Some(options.iter().filter_map(config_option).collect());
        true
    }
}

fn config_option(option: &Value) -> Option<OfferedConfigOption> {
    let OfferedEntry { id, category, kind, current_value: current, options, .. } = lenient::read(option);
    let kind = match kind.as_str() {
        Some("select") => {
            ConfigOptionKind::Select(Select { current: text(&current), values: values(&options) })
        }
        Some("boolean") => ConfigOptionKind::Boolean(current.as_bool()),
        _ => ConfigOptionKind::Other,
    };
    Some(OfferedConfigOption { id: text(&id)?, category: text(&category), kind })
}

/// Returns the values of a select, which may be grouped.
fn values(options: &Value) -> Option<Vec<NamedEntry>> {
    let mut found = Vec::new();
    for entry in options.as_array()? {
        let OfferedEntry { options, .. } = lenient::read(entry);
        let group = options.as_array();
        for value in group.into_iter().flatten().chain(group.is_none().then_some(entry)) {
            found.extend(named(value, |entry| &entry.value));
            if found.len() > MAX_VALUES {
                return None;
            }
        }
    }
    Some(found)
}

/// Where an entry has its id.
type IdOf = fn(&OfferedEntry) -> &Value;

fn select(list: &Value, current: Option<String>, id: IdOf) -> Option<Select> {
    let list = list.as_array()?;
    let values =
        (list.len() <= MAX_VALUES).then(|| list.iter().filter_map(|value| named(value, id)).collect());
    Some(Select { current, values })
}

fn named(value: &Value, id: IdOf) -> Option<NamedEntry> {
    let entry: OfferedEntry = lenient::read(value);
    Some(NamedEntry { id: text(id(&entry))?, name: text(&entry.name) })
}

/// What an agent offers, in a response or an update.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfferedSelects {
    #[serde(deserialize_with = "lenient::object")]
    modes: OfferedModes,
    #[serde(deserialize_with = "lenient::object")]
    models: OfferedModels,
    config_options: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfferedModes {
    current_mode_id: Value,
    available_modes: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfferedModels {
    current_model_id: Value,
    available_models: Value,
}

/// A mode, a model, an option, a value of it, or a group of values.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfferedEntry {
    id: Value,
    model_id: Value,
    value: Value,
    name: Value,
    category: Value,
    #[serde(rename = "type")]
    kind: Value,
    current_value: Value,
    options: Value,
}

fn of(select: &Select, value: &str) -> Result<String, Unavailable> {
    match &select.values {
        Some(values) if !values.iter().any(|known| known.id == value) => {
            Err(Unavailable::Value(values.clone()))
        }
        _ => Ok(value.to_owned()),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| text.len() <= MAX_TEXT_BYTES).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mode(value: &str) -> SessionOption {
        SessionOption::Mode { value: value.to_owned() }
    }

    fn model(value: &str) -> SessionOption {
        SessionOption::Model { value: value.to_owned() }
    }

    fn config(id: &str, value: OptionValue) -> SessionOption {
        SessionOption::ConfigOption { config_id: id.to_owned(), value }
    }

    fn words(text: &str) -> OptionValue {
        OptionValue::Text(text.to_owned())
    }

    fn opened(result: &Value) -> OfferedOptions {
        let mut offer = OfferedOptions::default();
        offer.opened(result, true);
        offer
    }

    /// Lists everything in both forms at once, as some agents do.
    fn everything() -> Value {
        json!({
            "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "legacy"}]},
            "models": {"currentModelId": "old", "availableModels": [{"modelId": "old"}]},
            "configOptions": [
                {"id": "permissions", "category": "mode", "type": "select", "currentValue": "ask",
                 "options": [{"value": "ask", "name": "Ask"}, {"value": "plan", "name": "Plan"}]},
                {"id": "llm", "category": "model", "type": "select", "currentValue": "a", "options": [
                    {"group": "one", "name": "One", "options": [{"value": "a", "name": "A"}]},
                    {"group": "two", "name": "Two", "options": [{"value": "b", "name": "B"}]}]},
                {"id": "fast", "type": "boolean", "currentValue": false},
                {"id": "depth", "type": "slider", "currentValue": 7},
                {"type": "select"}, 5,
            ],
        })
    }

    #[test]
    fn a_config_option_of_the_category_wins_over_the_older_list() {
        let mut offer = opened(&everything());
        assert_eq!(offer.setter(&mode("plan")), Ok(Setter::Config("permissions".into(), words("plan"))));
        assert_eq!(offer.setter(&model("b")), Ok(Setter::Config("llm".into(), words("b"))));
        let Err(Unavailable::Value(values)) = offer.setter(&mode("legacy")) else { panic!() };
        assert_eq!(values.iter().map(|value| value.id.as_str()).collect::<Vec<_>>(), ["ask", "plan"]);
        let current = offer.current();
        assert_eq!((current.mode.as_deref(), current.model.as_deref()), (Some("ask"), Some("a")));
        assert_eq!(current.config_options["fast"], OptionValue::Flag(false));
        offer.set(&Setter::Config("llm".into(), words("b")), &Value::Null);
        assert_eq!(offer.current().model.as_deref(), Some("b"));
        // The complete list of the response counts.
        offer.set(&Setter::Config("llm".into(), words("b")), &json!({"configOptions": []}));
        assert_eq!(offer.current().model.as_deref(), Some("old"));
    }

    #[test]
    fn older_agents_have_modes_and_models_alone() {
        let all = everything();
        let mut offer = opened(&json!({"modes": all["modes"], "models": all["models"]}));
        assert_eq!(offer.setter(&mode("legacy")), Ok(Setter::Mode("legacy".into())));
        assert_eq!(offer.setter(&model("old")), Ok(Setter::Model("old".into())));
        assert!(matches!(offer.setter(&model("new")), Err(Unavailable::Value(_))));
        assert_eq!(offer.setter(&config("fast", words("true"))), Err(Unavailable::Option(vec![])));
        offer.updated(&json!({"currentModeId": "legacy"}));
        assert_eq!(offer.current().mode.as_deref(), Some("legacy"));
    }

    #[test]
    fn values_take_the_form_that_the_option_has() {
        let offer = opened(&everything());
        let fast = |value| offer.setter(&config("fast", value));
        assert_eq!(fast(words("true")), Ok(Setter::Config("fast".into(), OptionValue::Flag(true))));
        assert_eq!(fast(OptionValue::Flag(true)), Ok(Setter::Config("fast".into(), OptionValue::Flag(true))));
        assert!(matches!(fast(words("yes")), Err(Unavailable::Value(_))));
        assert_eq!(
            offer.setter(&config("depth", words("9"))),
            Ok(Setter::Config("depth".into(), words("9")))
        );
        let Err(Unavailable::Option(known)) = offer.setter(&config("none", words("x"))) else { panic!() };
        assert_eq!(known, ["permissions", "llm", "fast", "depth"]);
    }

    #[test]
    fn unknown_values_are_left_to_the_agent() {
        let mut offer = OfferedOptions::default();
        offer.opened(&Value::Null, false);
        assert_eq!(offer.setter(&mode("x")), Ok(Setter::Mode("x".into())));
        assert_eq!(offer.setter(&model("x")), Ok(Setter::Model("x".into())));
        assert_eq!(offer.setter(&config("a", words("x"))), Ok(Setter::Config("a".into(), words("x"))));
        offer.opened(&json!({}), true);
        assert_eq!(offer.setter(&mode("x")), Err(Unavailable::Option(vec![])));
        let endless: Vec<Value> = (0..=MAX_OPTIONS).map(|n| json!({"id": n.to_string()})).collect();
        let endless = opened(&json!({"configOptions": endless}));
        assert!(endless.setter(&config("256", words("x"))).is_ok());
        assert_eq!(endless.setter(&mode("x")), Ok(Setter::Mode("x".into())));
        let many: Vec<Value> = (0..=MAX_VALUES).map(|n| json!({"value": n.to_string()})).collect();
        offer.updated(&json!({"configOptions": [{"id": "a", "type": "select", "options": many}]}));
        assert!(offer.setter(&config("a", words("anything"))).is_ok());
    }
}
