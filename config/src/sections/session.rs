//! Session options of a launcher: mode, model, config options. Pure.
//!
//! Only the form is checked; only the agent knows which values it supports.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::check::{CheckResult, mismatch, refuse};
use crate::section::Section;

/// The selected session options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionOptions {
    /// Id of the session mode.
    pub mode: Option<String>,
    /// Id of the model.
    pub model: Option<String>,
    /// Config options by id; each value is a text or a boolean.
    pub config_options: BTreeMap<String, Value>,
}

/// Reads `mode`, `model` and `configOptions` of a launcher.
pub(crate) fn options(launcher: &Section<'_>) -> CheckResult<SessionOptions> {
    let mut config_options = BTreeMap::new();
    for (id, value, place) in launcher.entries("configOptions")? {
        match value {
            _ if id.is_empty() => return refuse(place, "has a blank name"),
            Value::Bool(_) => {}
            Value::String(text) if !text.is_empty() => {}
            Value::String(_) => return refuse(place, "must not be empty"),
            Value::Number(_) => return mismatch(place, "a string (put it in quotes), true or false", value),
            _ => return mismatch(place, "a string, true or false", value),
        }
        config_options.insert(id.to_owned(), value.clone());
    }
    Ok(SessionOptions { mode: launcher.text("mode")?, model: launcher.text("model")?, config_options })
}
