//! Session options of a new worker, from flags and the launcher's config. Pure.

use serde_json::Value;
use subagent_protocol::api::SetOptions;
use subagent_protocol::options::{OptionValue, Options};

use crate::session::SessionOptions;

/// Converts the value of a config option; `None` for a value that resets the option.
#[must_use]
pub fn value_of(value: Value) -> Option<OptionValue> {
    match value {
        Value::Bool(flag) => Some(OptionValue::Flag(flag)),
        Value::String(text) if !text.is_empty() => Some(OptionValue::Text(text)),
        _ => None,
    }
}

/// Merges the flags with the launcher's config. Flags take precedence.
#[must_use]
pub fn of_start(typed: SetOptions, configured: &SessionOptions) -> Options {
    let SetOptions { mut options, forget, .. } = typed;
    options.mode = options.mode.or_else(|| configured.mode.clone());
    options.model = options.model.or_else(|| configured.model.clone());
    for (id, value) in &configured.config_options {
        if let Some(value) = value_of(value.clone()).filter(|_| !forget.contains(id)) {
            options.config_options.entry(id.clone()).or_insert(value);
        }
    }
    options
}
