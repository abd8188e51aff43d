//! Session options of the demo agent: a mode, a model and a switch. It only reports them (`!options`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::wire::RpcError;

const MODES: [&str; 2] = ["careful", "bold"];
const MODELS: [&str; 2] = ["small", "large"];

#[derive(Debug, Clone)]
struct DemoChoices {
    mode: &'static str,
    model: &'static str,
    verbose: bool,
    system_prompt: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct AllChoices(BTreeMap<String, DemoChoices>);

impl AllChoices {
    fn of(&mut self, session: &str) -> &mut DemoChoices {
        let first = DemoChoices { mode: MODES[0], model: MODELS[0], verbose: false, system_prompt: None };
        self.0.entry(session.to_owned()).or_insert(first)
    }

    /// Returns all options with their current values.
    pub(super) fn config_options(&mut self, session: &str) -> Value {
        let chosen = self.of(session);
        let select = |id: &str, name: &str, all: &[&str], current: &str| {
            let options: Vec<Value> =
                all.iter().map(|value| json!({"value": value, "name": value})).collect();
            json!({
                "id": id, "name": name, "category": id, "type": "select", "currentValue": current,
                "options": options,
            })
        };
        json!([
            select("mode", "Mode", &MODES, chosen.mode),
            select("model", "Model", &MODELS, chosen.model),
            {"id": "verbose", "name": "Verbose", "type": "boolean", "currentValue": chosen.verbose},
        ])
    }

    /// Handles the method `session/set_config_option`.
    pub(super) fn set(&mut self, session: &str, id: &str, value: &Value) -> Result<Value, RpcError> {
        let one_of = |all: [&'static str; 2]| all.into_iter().find(|known| value == *known);
        let chosen = self.of(session);
        let set = match id {
            "mode" => one_of(MODES).map(|mode| chosen.mode = mode),
            "model" => one_of(MODELS).map(|model| chosen.model = model),
            "verbose" => value.as_bool().map(|verbose| chosen.verbose = verbose),
            _ => return Err(RpcError::invalid_params(format!("there is no config option {id}"))),
        };
        set.ok_or_else(|| RpcError::invalid_params(format!("config option {id} does not take {value}")))?;
        Ok(json!({"configOptions": self.config_options(session)}))
    }

    /// Stores the client's addition to the system prompt.
    pub(super) fn instruct(&mut self, session: &str, text: &str) {
        self.of(session).system_prompt = Some(text.to_owned());
    }

    /// Returns the client's addition to the system prompt.
    pub(super) fn system_prompt(&mut self, session: &str) -> String {
        self.of(session).system_prompt.clone().unwrap_or_else(|| "none".to_owned())
    }

    pub(super) fn words(&mut self, session: &str) -> String {
        let DemoChoices { mode, model, verbose, .. } = self.of(session);
        format!("mode={mode} model={model} verbose={verbose}")
    }
}
