//! What a launcher says of the sessions of its agent: mode, model, config options. Pure.
//!
//! Whether an agent has them is known to the agent alone: here only their form is looked at.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::check::{Checked, mismatch, object, refuse, trimmed};
use crate::error::Place;

/// What is chosen of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionOptions {
    /// The id of a session mode.
    pub mode: Option<String>,
    /// The id of a model.
    pub model: Option<String>,
    /// Values of config options by the options' ids; each a text, true or false.
    pub config_options: BTreeMap<String, Value>,
}

/// The keys `mode`, `model` and `configOptions` of a launcher.
pub(crate) fn options(launcher: &Map<String, Value>, field: &str) -> Checked<SessionOptions> {
    let get = |key: &str| trimmed(launcher.get(key), || Place::Field(format!("{field}.{key}")));
    let list = format!("{field}.configOptions");
    let mut config_options = BTreeMap::new();
    for (id, value) in object(launcher.get("configOptions"), || list.clone())?.into_iter().flatten() {
        let place = || Place::Entry { field: list.clone(), key: id.clone() };
        match value {
            _ if id.is_empty() => return refuse(place(), "has a blank name"),
            Value::Bool(_) => {}
            Value::String(text) if !text.is_empty() => {}
            Value::String(_) => return refuse(place(), "must not be empty"),
            Value::Number(_) => {
                return mismatch(place(), "a string (put it in quotes), true or false", value);
            }
            _ => return mismatch(place(), "a string, true or false", value),
        }
        config_options.insert(id.clone(), value.clone());
    }
    Ok(SessionOptions { mode: get("mode")?, model: get("model")?, config_options })
}
