//! Whether workers get titles from their first message: the key `titles`. Pure.

use serde_json::{Map, Value};

use crate::check::{CheckResult, mismatch, refuse};
use crate::error::FieldPath;

const KEY: &str = "titles";

/// Returns whether the definition `title` names workers without a label.
pub(crate) fn titles(root: &Map<String, Value>) -> CheckResult<bool> {
    let place = || FieldPath::Field(KEY.to_owned());
    match root.get(KEY) {
        None | Some(Value::Null | Value::Bool(false)) => Ok(false),
        Some(Value::String(word)) if word == "auto" => Ok(true),
        Some(Value::String(word)) if word == "off" => Ok(false),
        Some(Value::String(word)) => refuse(place(), format!("is `{word}`; write `auto` or `off`")),
        Some(other) => mismatch(place(), "`auto` or `off`", other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> CheckResult<bool> {
        titles(json!({"titles": value}).as_object().unwrap())
    }

    #[test]
    fn workers_are_named_only_where_the_file_says_auto() {
        assert!(!titles(&Map::new()).unwrap());
        assert!(read(&json!("auto")).unwrap());
        for off in [json!(null), json!(false), json!("off")] {
            assert!(!read(&off).unwrap(), "{off}");
        }
        for wrong in [json!(true), json!("on"), json!(["auto"])] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
