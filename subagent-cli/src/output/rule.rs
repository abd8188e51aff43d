//! How a policy rule and the task that it belongs to are written, on a terminal and elsewhere.

use serde_json::Value;

/// Returns the names from the root task to the one that asks, or to the one that has the rule.
pub(crate) fn task_path(data: &Value) -> Option<String> {
    let names: Vec<String> =
        data["path"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    path_of(&names)
}

/// The same of the names.
pub(crate) fn path_of(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(" › "))
}

/// Returns the policy rule that led to a question, in a few words.
pub(crate) fn describe_rule(rule: &Value) -> String {
    match (rule["rule"].as_str(), rule["layer"].as_str()) {
        (Some(text), Some(layer)) => {
            let place = match (rule["source"].as_str(), rule["line"].as_u64()) {
                (Some(source), Some(line)) => format!(" at {source}:{line}"),
                (Some(source), None) => format!(" ({source})"),
                _ => String::new(),
            };
            let of = task_path(rule).map(|path| format!(" of {path}")).unwrap_or_default();
            format!("{layer} rule {text}{of}{place}")
        }
        _ if rule.is_object() => "no rule fits".to_owned(),
        _ => "no rules".to_owned(),
    }
}
