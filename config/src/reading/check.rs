//! Primitive checks for all sections of a config: types, texts and times. Pure.
//!
//! Null equals absent for optional values. A type error never repeats the value, which may be a secret.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::FieldPath;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) place: FieldPath,
    pub(crate) problem: String,
}

pub(crate) type CheckResult<T> = Result<T, Violation>;

/// Maximum timeout in seconds. Its sum with any clock value must be representable.
pub(crate) const LONGEST_SECONDS: f64 = 366.0 * 86_400.0;

/// Reads a time as a number of seconds: a plain number, or one with the unit `d`, `h`, `m` or `s`.
pub(crate) fn seconds_with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'd')) => (&text[..at], 86_400.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 's')) => (&text[..at], 1.0),
        _ => (text, 1.0),
    };
    let is_plain = number.starts_with(|first: char| first.is_ascii_digit());
    number.parse::<f64>().ok().filter(|_| is_plain).map(|number| number * unit)
}

/// Checks each entry of a mapping with user-defined names as keys.
pub(crate) fn named<T>(
    root: &Map<String, Value>,
    key: &str,
    field: &str,
    check: impl Fn(&str, &Value) -> CheckResult<T>,
) -> CheckResult<BTreeMap<String, T>> {
    let Some(entries) = object(root.get(key), || field.to_owned())? else { return Ok(BTreeMap::new()) };
    let checked = entries.iter().map(|(name, value)| {
        if name.trim().is_empty() {
            return refuse(
                FieldPath::Entry { field: field.to_owned(), key: name.clone() },
                "has a blank name",
            );
        }
        Ok((name.clone(), check(name, value)?))
    });
    checked.collect()
}

pub(crate) fn object(
    value: Option<&Value>,
    field: impl Fn() -> String,
) -> CheckResult<Option<&Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => mapping(value, field).map(Some),
    }
}

pub(crate) fn mapping(value: &Value, field: impl Fn() -> String) -> CheckResult<&Map<String, Value>> {
    match value {
        Value::Object(object) => Ok(object),
        other => mismatch(FieldPath::Field(field()), "a mapping", other),
    }
}

pub(crate) fn list(value: Option<&Value>, place: impl Fn() -> FieldPath) -> CheckResult<Option<&Vec<Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => mismatch(place(), "a list", other),
    }
}

pub(crate) fn string(value: Option<&Value>, place: impl Fn() -> FieldPath) -> CheckResult<Option<&str>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => required_string(value, place).map(Some),
    }
}

pub(crate) fn required_string(value: &Value, place: impl Fn() -> FieldPath) -> CheckResult<&str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => mismatch(place(), "a string (put it in quotes)", value),
        other => mismatch(place(), "a string", other),
    }
}

/// Reads an optional string without the white space around it; a blank one is `None`.
pub(crate) fn trimmed(value: Option<&Value>, place: impl Fn() -> FieldPath) -> CheckResult<Option<String>> {
    Ok(string(value, place)?.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned))
}

/// Reads `args`: the arguments of a program.
pub(crate) fn args(holder: &Map<String, Value>, field: &str) -> CheckResult<Vec<String>> {
    texts(holder.get("args"), field)
}

/// Reads a list of strings without NUL characters; an absent one is empty.
pub(crate) fn texts(value: Option<&Value>, field: &str) -> CheckResult<Vec<String>> {
    let Some(items) = list(value, || FieldPath::Field(field.to_owned()))? else {
        return Ok(Vec::new());
    };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || FieldPath::Element { field: field.to_owned(), index };
        without_nul(required_string(item, place)?, place)
    });
    checked.collect()
}

/// Reads a number of seconds between `least` and a year. Zero is rejected.
pub(crate) fn seconds(value: Option<&Value>, field: &str, least: f64) -> CheckResult<Option<Duration>> {
    let place = || FieldPath::Field(field.to_owned());
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let Value::Number(number) = value else { return mismatch(place(), "a number of seconds", value) };
    let number = number.as_f64().unwrap_or(f64::INFINITY);
    if number < least {
        return refuse(place(), format!("is {number} seconds, and must be at least {least}"));
    }
    if number > LONGEST_SECONDS {
        return refuse(place(), "is longer than a year; leave it out to have the default");
    }
    // Values below half a nanosecond round to zero.
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() => Ok(Some(duration)),
        _ => refuse(place(), "must be more than 0 seconds"),
    }
}

/// Rejects NUL characters: the system terminates arguments and variables with NUL.
pub(crate) fn without_nul(text: &str, place: impl Fn() -> FieldPath) -> CheckResult<String> {
    if text.contains('\0') {
        refuse(place(), "must not contain a NUL character")
    } else {
        Ok(text.to_owned())
    }
}

pub(crate) fn mismatch<T>(place: FieldPath, expected: &str, found: &Value) -> CheckResult<T> {
    // The error contains only the type, because a misplaced value may be a secret.
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    };
    refuse(place, format!("must be {expected}, not {found}"))
}

pub(crate) fn refuse<T>(place: FieldPath, problem: impl Into<String>) -> CheckResult<T> {
    Err(Violation { place, problem: problem.into() })
}
