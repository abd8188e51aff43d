//! Reads answers of the daemon: as the type that a command needs, or as they came, to be printed.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Deserializes an answer.
///
/// # Errors
/// `INTERNAL_ERROR` if a field is missing.
pub fn read<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(incomplete)
}

/// Deserializes an answer that is also printed as it came.
///
/// # Errors
/// `INTERNAL_ERROR` if a field is missing.
pub fn view<'a, T: Deserialize<'a>>(answer: &'a Value) -> Result<T> {
    T::deserialize(answer).map_err(incomplete)
}

fn incomplete(error: serde_json::Error) -> Failure {
    Failure::internal(format!("the daemon's answer is incomplete: {error}"))
}

/// The items of a list as they came; empty for an answer without a list.
#[must_use]
pub fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The same, to be changed.
pub fn items_mut(list: &mut Value) -> &mut [Value] {
    list.get_mut("items").and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// The same without their list.
#[must_use]
pub fn into_items(list: Value) -> Vec<Value> {
    let Value::Object(mut list) = list else { return Vec::new() };
    match list.remove("items") {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
