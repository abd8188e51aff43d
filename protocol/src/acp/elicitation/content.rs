//! Checks whether filled-in values fit the form. No error repeats a value, which may be secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field::FormField;
use super::{ElicitationSubject, ElicitationView};
use crate::clean::one_line;
use crate::{Code, Error, Result};

/// Maximum number of names in an error.
const MAX_NAMED: usize = 100;
/// Maximum number of characters per name.
const MAX_CHARS: usize = 200;

/// Returns the content of an accepting answer. The values are given as JSON, or as text (a field
/// and its value each; a list repeats its field). A missing required field gets its default. `None`
/// if there is nothing to fill in.
///
/// # Errors
///
/// `INVALID_ELICITATION_CONTENT{field,allowed}` (`field` is null if it concerns no single field),
/// `INVALID_INPUT` if both kinds of values are given.
pub fn fill(
    asked: &ElicitationView,
    content: Option<Map<String, Value>>,
    words: &[(String, String)],
) -> Result<Option<Map<String, Value>>> {
    if content.is_some() && !words.is_empty() {
        let message = "the values are given twice, as JSON and one by one; give them in one way";
        return Err(Error::new(Code::InvalidInput, message));
    }
    let empty = content.as_ref().is_none_or(Map::is_empty) && words.is_empty();
    match &asked.question {
        ElicitationSubject::Form(schema) => {
            form(schema.as_ref(), content.unwrap_or_default(), words).map(Some)
        }
        ElicitationSubject::Link(Some(_)) if empty => Ok(None),
        ElicitationSubject::Link(Some(_)) => {
            Err(refused("the question is behind its link; nothing is filled in here"))
        }
        ElicitationSubject::Link(None) => {
            Err(refused("the agent gave no link to a web page; decline or cancel it"))
        }
        ElicitationSubject::Other => Err(refused("the agent asks in an unknown way; decline or cancel it")),
    }
}

fn form(
    schema: Option<&Value>,
    mut content: Map<String, Value>,
    words: &[(String, String)],
) -> Result<Map<String, Value>> {
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    // Only the form's author can check an unreadable form.
    let readable = schema.is_some_and(|schema| properties.is_some() || schema.get("properties").is_none());
    let field = |name: &str| match properties.and_then(|properties| properties.get(name)) {
        Some(property) => Ok(FormField::of(property)),
        None if !readable => Ok(FormField::Unknown),
        None => Err(unknown(name, properties)),
    };
    let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, word) in words {
        lists.entry(name).or_default().push(word.clone());
    }
    for (name, words) in lists {
        let of = field(name)?;
        let value = of.read(&words).map_err(|what| wrong(name, what, &of))?;
        content.insert(name.to_owned(), value);
    }
    for name in schema.and_then(|schema| schema["required"].as_array()).into_iter().flatten() {
        let Some(name) = name.as_str().filter(|name| !content.contains_key(*name)) else { continue };
        let property = properties.and_then(|properties| properties.get(name));
        let of = property.map_or(FormField::Unknown, FormField::of);
        match property.and_then(|property| property.get("default")) {
            Some(default) if of.check(default).is_ok() => {
                content.insert(name.to_owned(), default.clone());
            }
            _ => return Err(wrong(name, "has to be filled in", &of)),
        }
    }
    for (name, value) in &content {
        let of = field(name)?;
        of.check(value).map_err(|what| wrong(name, what, &of))?;
    }
    Ok(content)
}

fn short(name: &str) -> String {
    one_line(name).chars().take(MAX_CHARS).collect()
}

fn wrong(name: &str, what: &str, field: &FormField) -> Error {
    let (name, allowed) = (short(name), field.allowed());
    let message = format!("the field \"{name}\" {what}; allowed is {allowed}");
    Error::new(Code::InvalidElicitationContent, message).with("field", name).with("allowed", allowed)
}

fn unknown(name: &str, properties: Option<&Map<String, Value>>) -> Error {
    let fields: Vec<String> =
        properties.into_iter().flat_map(Map::keys).take(MAX_NAMED).map(|name| short(name)).collect();
    let message = format!("the form has no field \"{}\"; it has: {}", short(name), fields.join(", "));
    Error::new(Code::InvalidElicitationContent, message).with("field", short(name)).with("allowed", fields)
}

fn refused(message: &str) -> Error {
    Error::new(Code::InvalidElicitationContent, message).with("field", Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(schema: &Value) -> ElicitationView {
        ElicitationView::of(&json!({"mode": "form", "requestedSchema": schema}).to_string())
    }

    fn schema() -> Value {
        json!({"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string", "minLength": 1},
            "size": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        }})
    }

    fn object(value: Value) -> Option<Map<String, Value>> {
        value.as_object().cloned()
    }

    fn words(words: &[(&str, &str)]) -> Vec<(String, String)> {
        words.iter().map(|(field, word)| ((*field).to_owned(), (*word).to_owned())).collect()
    }

    #[test]
    fn values_are_json_or_words_and_defaults_fill_required_fields() {
        let asked = asked(&schema());
        let given = fill(&asked, object(json!({"name": "x", "tags": ["b"]})), &[]).unwrap();
        assert_eq!(given, object(json!({"name": "x", "tags": ["b"], "size": 3})));
        let given = fill(&asked, None, &words(&[("tags", "a"), ("name", "7"), ("size", "5"), ("tags", "b")]));
        assert_eq!(given.unwrap(), object(json!({"name": "7", "size": 5, "tags": ["a", "b"]})));
        let twice = fill(&asked, object(json!({})), &words(&[("name", "x")])).unwrap_err();
        assert_eq!(twice.code, Code::InvalidInput);
    }

    #[test]
    fn an_error_names_the_field_and_allowed_values_and_never_the_value() {
        let asked = asked(&schema());
        let error = |content: Value| fill(&asked, object(content), &[]).unwrap_err();
        for (content, field) in [
            (json!({}), "name"),
            (json!({"name": ""}), "name"),
            (json!({"name": "hunter2", "size": 6}), "size"),
            (json!({"name": "hunter2", "size": "hunter2"}), "size"),
            (json!({"name": "hunter2", "tags": ["hunter2"]}), "tags"),
            (json!({"name": "hunter2", "other": "hunter2"}), "other"),
        ] {
            let error = error(content);
            assert_eq!(
                (error.code, &error.details["field"]),
                (Code::InvalidElicitationContent, &json!(field))
            );
            assert!(error.details.contains_key("allowed"));
            assert!(error.message.contains(field));
            assert!(!serde_json::to_string(&error).unwrap().contains("hunter2"), "{error}");
        }
        let of_words = fill(&asked, None, &words(&[("name", "x"), ("size", "hunter2")])).unwrap_err();
        assert_eq!(of_words.details["field"], "size");
        assert!(!of_words.message.contains("hunter2"));
    }

    #[test]
    fn unknown_fields_are_not_checked_but_must_be_flat() {
        let odd = ElicitationView::of(r#"{"mode":"form","requestedSchema":"?"}"#);
        let given = object(json!({"a": 1, "b": ["x"], "c": true}));
        assert_eq!(fill(&odd, given.clone(), &[]).unwrap(), given);
        assert_eq!(fill(&odd, object(json!({"a": {"b": 1}})), &[]).unwrap_err().details["field"], "a");
        let newer = asked(&json!({"properties": {"c": {"type": "colour"}}}));
        assert_eq!(fill(&newer, None, &words(&[("c", "red")])).unwrap(), object(json!({"c": "red"})));
        let empty = asked(&json!({"type": "object"}));
        assert_eq!(fill(&empty, None, &[]).unwrap(), Some(Map::new()));
        fill(&empty, object(json!({"a": 1})), &[]).unwrap_err();
    }

    #[test]
    fn a_link_takes_no_values_and_only_one_that_may_be_shown_is_accepted() {
        let link = |url: &str| ElicitationView::of(&json!({"mode": "url", "url": url}).to_string());
        assert_eq!(fill(&link("https://a.example"), None, &[]).unwrap(), None);
        fill(&link("https://a.example"), None, &words(&[("a", "b")])).unwrap_err();
        fill(&link("javascript:alert(1)"), None, &[]).unwrap_err();
        fill(&ElicitationView::of(r#"{"mode":"voice"}"#), None, &[]).unwrap_err();
    }
}
