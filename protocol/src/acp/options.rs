//! The user's options of an agent's session: its mode, its model, values of its config options.
//! They are applied to every session that the worker's agent opens. Other options are left to the
//! agent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time limit for an agent to set one option.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The value of a config option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum OptionValue {
    /// The option is on or off.
    Flag(bool),
    /// The id of one of the offered values.
    Text(String),
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The options that were set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// The id of a session mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The id of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Values of config options, by the options' ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_options: BTreeMap<String, OptionValue>,
}

impl Options {
    /// Whether no option is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Returns the options in the order in which they are applied: others may depend on the model.
    #[must_use]
    pub fn choices(&self) -> Vec<SessionOption> {
        let model = self.model.iter().map(|value| SessionOption::Model { value: value.clone() });
        let mode = self.mode.iter().map(|value| SessionOption::Mode { value: value.clone() });
        let config = self
            .config_options
            .iter()
            .map(|(id, value)| SessionOption::ConfigOption { config_id: id.clone(), value: value.clone() });
        model.chain(mode).chain(config).collect()
    }

    /// Returns the time limit for an agent to set all of them.
    #[must_use]
    pub fn patience(&self) -> Duration {
        PATIENCE.saturating_mul(u32::try_from(self.choices().len()).unwrap_or(u32::MAX))
    }

    /// Adds an option, or replaces an earlier value.
    pub fn choose(&mut self, choice: SessionOption) {
        match choice {
            SessionOption::Mode { value } => self.mode = Some(value),
            SessionOption::Model { value } => self.model = Some(value),
            SessionOption::ConfigOption { config_id, value } => {
                self.config_options.insert(config_id, value);
            }
        }
    }
}

/// One option with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "option", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SessionOption {
    /// The mode of the session.
    Mode {
        /// Id of the mode.
        value: String,
    },
    /// The model of the session.
    Model {
        /// Id of the model.
        value: String,
    },
    /// A config option of the session.
    ConfigOption {
        /// Id of the option.
        config_id: String,
        /// The value to set.
        value: OptionValue,
    },
}

impl SessionOption {
    /// Returns the name of the option: `mode`, `model`, or the id of the config option.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Mode { .. } => "mode",
            Self::Model { .. } => "model",
            Self::ConfigOption { config_id, .. } => config_id,
        }
    }

    /// Returns the value to set.
    #[must_use]
    pub fn value(&self) -> OptionValue {
        match self {
            Self::Mode { value } | Self::Model { value } => OptionValue::Text(value.clone()),
            Self::ConfigOption { value, .. } => value.clone(),
        }
    }
}

/// The values that the agent reports now; unreported ones are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Current {
    /// Id of the mode.
    #[serde(default)]
    pub mode: Option<String>,
    /// Id of the model.
    #[serde(default)]
    pub model: Option<String>,
    /// Config options by their ids.
    #[serde(default)]
    pub config_options: BTreeMap<String, OptionValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_spelled_as_in_a_journal_and_the_model_comes_first() {
        let text = r#"{"mode":"plan","model":"opus","configOptions":{"effort":"high","fast":true}}"#;
        let options: Options = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&options).unwrap(), text);
        assert_eq!(
            serde_json::to_string(&options.choices()).unwrap(),
            r#"[{"option":"model","value":"opus"},{"option":"mode","value":"plan"},{"option":"configOption","configId":"effort","value":"high"},{"option":"configOption","configId":"fast","value":true}]"#
        );
        let mut again = Options::default();
        options.choices().into_iter().for_each(|choice| again.choose(choice));
        assert_eq!(again, options);
        again.choose(SessionOption::Model { value: "haiku".to_owned() });
        assert_eq!(again.model.as_deref(), Some("haiku"));
        assert_eq!(serde_json::to_string(&Options::default()).unwrap(), "{}");
    }
}
