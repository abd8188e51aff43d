//! The fields of a form, one line each. Pure: the daemon checks the values.

use serde_json::{Map, Value};
use subagent_protocol::api::ElicitationForm;
use subagent_protocol::clean::one_line;
use subagent_protocol::lenient;

use crate::output::human::{FormFieldView, FormSchema};

/// Maximum number of fields that are asked.
const MAX_FIELDS: usize = 50;

/// The keys that are offered before a form is filled in.
pub(super) const KEYS: &str = "[y] fill in and accept  [n] decline  [s] skip ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DialogField {
    name: String,
    label: String,
    is_list: bool,
    is_required: bool,
}

/// Returns the fields of a form; a link has none.
pub(super) fn fields(request: &Map<String, Value>) -> Vec<DialogField> {
    let schema: FormSchema = lenient::read(&ElicitationForm::of(request).schema);
    let fields = schema.properties.iter().take(MAX_FIELDS);
    fields
        .map(|(name, field)| {
            let field: FormFieldView<'_> = lenient::read(field);
            DialogField {
                name: name.clone(),
                label: one_line(field.title().unwrap_or(name)),
                is_list: field.is_list(),
                is_required: schema.requires(name),
            }
        })
        .collect()
}

impl DialogField {
    /// Returns the text before the cursor.
    pub(super) fn prompt(&self) -> String {
        let list = if self.is_list { ", separated by commas" } else { "" };
        let required = if self.is_required { "" } else { " (may stay empty)" };
        format!("  {}{list}{required}: ", self.label)
    }

    /// Returns names and values for the daemon; empty if the input is blank.
    pub(super) fn values(&self, typed: &str) -> Vec<(String, String)> {
        let typed = typed.trim();
        let parts: Vec<&str> =
            if self.is_list { typed.split(',').map(str::trim).collect() } else { vec![typed] };
        let given = parts.into_iter().filter(|part| !part.is_empty());
        given.map(|part| (self.name.clone(), part.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_is_asked_for_field_by_field() {
        let request = json!({"schema": {
            "properties": {
                "port": {"type": "integer", "title": "Port\u{1b}[2J"},
                "hosts": {"type": "array", "items": {"enum": ["a", "b"]}},
            },
            "required": ["port"],
        }});
        let fields = fields(request.as_object().unwrap());
        let prompts: Vec<String> = fields.iter().map(DialogField::prompt).collect();
        assert_eq!(prompts, ["  Port: ", "  hosts, separated by commas (may stay empty): "]);
        assert_eq!(fields[0].values(" 8080 "), [("port".to_owned(), "8080".to_owned())]);
        assert_eq!(fields[1].values("a, b").len(), 2);
        assert!(fields[1].values("").is_empty());
        assert!(super::fields(json!({"url": "https://x"}).as_object().unwrap()).is_empty());
    }
}
