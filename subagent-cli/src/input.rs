//! The `--input` contract (section 8): one JSON object instead of flags; a key with its flag is an error.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};
use subagent_protocol::{Code, MAX_LINE_BYTES};

use crate::command_line::TypedFlags;
use crate::failure::{Failure, Result};
use repeated::DuplicateKey;

mod repeated;

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputType {
    /// A string; null and the empty string are absent.
    Text,
    /// A string; null is absent, the empty string is not.
    AnyText,
    /// A boolean; null is an error.
    Bool,
    /// A number from 0; null is absent.
    Seconds,
    /// An integer from 1; null is absent.
    Count,
    Objects,
    /// A list of non-empty strings.
    Texts,
    /// An object with strings, booleans or null as values.
    Options,
    /// An object; null is absent.
    Object,
}

/// A key of the object with its flag. The key's name appears in `details`.
#[derive(Debug)]
pub struct InputField {
    key: &'static str,
    flags: &'static [&'static str],
    shape: InputType,
}

pub(crate) const fn field(key: &'static str, flags: &'static [&'static str], shape: InputType) -> InputField {
    InputField { key, flags, shape }
}

/// A checked object: every value has the type of its key.
#[derive(Debug, Default)]
pub struct InputObject(Map<String, Value>);

impl InputObject {
    /// Reads and checks the file of `--input` (`-` is stdin). Without a file the result is empty.
    ///
    /// # Errors
    /// `INVALID_INPUT`: `{path,error}` if unreadable, `{error}` if not JSON, `{field}` for a duplicate key,
    /// `{unknown,known}` for unknown keys, `{field,flag}` for a key whose flag was typed too, no details
    /// for a wrong type.
    /// shape.
    pub fn load(source: Option<&Path>, fields: &[InputField], typed: &TypedFlags) -> Result<Self> {
        let Some(path) = source.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Self::default());
        };
        Self::parse(&read_text(path)?, fields, typed)
    }

    /// Checks a JSON text. Pure.
    ///
    /// # Errors
    /// Those of [`InputObject::load`].
    pub fn parse(text: &str, fields: &[InputField], typed: &TypedFlags) -> Result<Self> {
        // Some editors write a byte order mark, which has no meaning in UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document: Value = serde_json::from_str(text).map_err(|error| {
            Failure::input(format!("--input is not JSON: {error}")).with("error", error.to_string())
        })?;
        let Value::Object(mut object) = document else {
            return Err(Failure::input("--input must hold a JSON object"));
        };
        if let Ok(DuplicateKey(Some(key))) = serde_json::from_str(text) {
            return Err(Failure::input(format!("--input has the key \"{key}\" twice; give it once"))
                .with("field", key));
        }
        let names_workers = fields.iter().any(|field| field.key == "workerId");
        if names_workers && object.contains_key("worker") {
            return Err(Failure::input("the key \"worker\" of --input is not supported; use \"workerId\""));
        }
        let known: Vec<&str> = fields.iter().map(|field| field.key).collect();
        let unknown: Vec<&str> =
            object.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
        if !unknown.is_empty() {
            let (names, all) = (unknown.join(", "), known.join(", "));
            return Err(Failure::input(format!(
                "--input has keys that mean nothing here: {names} (known: {all})"
            ))
            .with("unknown", unknown)
            .with("known", known));
        }
        for field in fields {
            let Some(flag) = field.flags.first() else { continue };
            if object.contains_key(field.key) && field.flags.iter().any(|name| typed.has(name)) {
                return Err(Failure::input(format!(
                    "\"{}\" is given both in --input and as a flag; give it once",
                    field.key
                ))
                .with("field", field.key)
                .with("flag", *flag));
            }
        }
        let mut checked = Map::new();
        for field in fields {
            if let Some(value) = object.remove(field.key)
                && let Some(value) = check(field, value)?
            {
                checked.insert(field.key.to_owned(), value);
            }
        }
        Ok(Self(checked))
    }

    /// Returns the string under this key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// Returns the boolean under this key.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key).and_then(Value::as_bool)
    }

    /// Returns the number of seconds under this key.
    #[must_use]
    pub fn seconds(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    /// Returns the integer under this key.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// Returns the list of strings under this key; absent is empty.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<String> {
        let items = self.0.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the object under this key.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Map<String, Value>> {
        self.0.get(key).and_then(Value::as_object).cloned()
    }

    /// Returns the list of objects under this key.
    #[must_use]
    pub fn objects(&self, key: &str) -> Option<Vec<Value>> {
        self.0.get(key).and_then(Value::as_array).cloned()
    }
}

/// Returns the value if it counts as present.
fn check(field: &InputField, value: Value) -> Result<Option<Value>> {
    let wrong = |wanted: &str| Err(Failure::input(format!("\"{}\" in --input must be {wanted}", field.key)));
    match (field.shape, &value) {
        (InputType::Text | InputType::AnyText | InputType::Seconds | InputType::Count, Value::Null) => {
            Ok(None)
        }
        (InputType::Text, Value::String(text)) if text.is_empty() => Ok(None),
        (InputType::Text | InputType::AnyText, Value::String(_)) | (InputType::Bool, Value::Bool(_)) => {
            Ok(Some(value))
        }
        (InputType::Seconds, Value::Number(number))
            if number.as_f64().is_some_and(|n| n.is_finite() && n >= 0.0) =>
        {
            Ok(Some(value))
        }
        (InputType::Count, Value::Number(number)) if number.as_u64().is_some_and(|n| n > 0) => {
            Ok(Some(value))
        }
        (InputType::Object, Value::Null) => Ok(None),
        (InputType::Object, Value::Object(_)) => Ok(Some(value)),
        (InputType::Objects, Value::Array(items)) if items.iter().all(Value::is_object) => Ok(Some(value)),
        (InputType::Texts, Value::Array(items))
            if items.iter().all(|item| item.as_str().is_some_and(|text| !text.is_empty())) =>
        {
            Ok(Some(value))
        }
        (InputType::Texts, _) => wrong("a list of texts"),
        (InputType::Options, Value::Null) => Ok(None),
        (InputType::Options, Value::Object(entries))
            if entries.values().all(|value| value.is_null() || value.is_boolean() || value.is_string()) =>
        {
            Ok(Some(value))
        }
        (InputType::Options, _) => wrong("an object whose values are texts, true, false or null"),
        (InputType::Text | InputType::AnyText, _) => wrong("a string"),
        (InputType::Bool, _) => wrong("true or false"),
        (InputType::Seconds, _) => wrong("a number of seconds, 0 or more"),
        (InputType::Count, _) => wrong("a whole number, 1 or more"),
        (InputType::Objects, _) => wrong("a list of objects"),
        (InputType::Object, _) => wrong("an object"),
    }
}

/// Reads the whole text of a file, or of stdin for `-`.
///
/// # Errors
/// `INVALID_INPUT{path,error}` if it is unreadable or not UTF-8; `PAYLOAD_TOO_LARGE{path,limitBytes}` if it
/// exceeds the maximum size of a message.
pub fn read_text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, so that an endless device ends here.
    let limit = MAX_LINE_BYTES as u64 + 1;
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let unreadable = |error: String| {
        Failure::input(format!("cannot read {name}: {error}"))
            .with("path", path.to_string_lossy().into_owned())
            .with("error", error)
    };
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MAX_LINE_BYTES {
        return Err(Failure::new(
            Code::PayloadTooLarge,
            format!("{name} is larger than the {MAX_LINE_BYTES} bytes that a message may have"),
        )
        .with("path", path.to_string_lossy().into_owned())
        .with("limitBytes", MAX_LINE_BYTES)
        .recommend("Send less at once, or name a file instead of its content."));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(format!("not UTF-8: {}", error.utf8_error())))
}

#[cfg(test)]
mod bytes;
#[cfg(test)]
mod tests;
