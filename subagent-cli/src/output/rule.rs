//! How a policy rule and the task that it belongs to are written, on a terminal and elsewhere.

use std::borrow::Borrow;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient;

/// Returns the names from the root task to the one that asks, or to the one that has the rule.
pub(crate) fn task_path(data: &Value) -> Option<String> {
    /// The part of an event, a question or a rule that says of which task it is.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OfTask<'a> {
        #[serde(borrow, deserialize_with = "lenient::or_default")]
        path: Vec<&'a str>,
    }
    path_of(&lenient::read::<OfTask<'_>>(data).path)
}

/// The same of the names.
pub(crate) fn path_of<T: Borrow<str>>(names: &[T]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(" › "))
}

/// Returns the policy rule that led to a question, in a few words.
pub(crate) fn describe_rule(rule: &Value) -> String {
    /// The fields of a rule that are described; all are null if no rule fits.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct FittingRule<'a> {
        rule: Option<&'a str>,
        layer: Option<&'a str>,
        source: Option<&'a str>,
        line: Option<u64>,
    }
    let found: FittingRule<'_> = lenient::read(rule);
    match (found.rule, found.layer) {
        (Some(text), Some(layer)) => {
            let place = match (found.source, found.line) {
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
