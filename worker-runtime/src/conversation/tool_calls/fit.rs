//! Whether a permission request with an unknown id fits a call: whether the two
//! contradict each other. Pure.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{MEMBERS, Members};

/// Kinds that do not say what a call does.
const VAGUE: [&str; 2] = ["other", "think"];
/// The endings of a text that an agent shortened.
const ELLIPSES: [&str; 2] = ["...", "…"];

/// Whether no member of the request contradicts the call.
pub(super) fn fits(request: &[Option<&RawValue>; MEMBERS.len()], call: &Members) -> bool {
    let pair = |name: &str| {
        let place = MEMBERS.iter().position(|member| *member == name)?;
        parse(request[place]?).zip(parse(call[place].as_ref()?))
    };
    let same_kind =
        pair("kind").is_none_or(|(one, other)| is_vague(&one) || is_vague(&other) || one == other);
    let same_name = pair("name").is_none_or(|(one, other)| one == other);
    same_kind
        && same_name
        && pair("rawInput").is_none_or(same_input)
        && pair("locations").is_none_or(same_places)
}

fn parse(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

fn is_vague(kind: &Value) -> bool {
    kind.as_str().is_none_or(|kind| VAGUE.contains(&kind))
}

/// Whether they share an argument, and all shared arguments are alike.
fn same_input((one, other): (Value, Value)) -> bool {
    let (Value::Object(one), Value::Object(other)) = (&one, &other) else { return one == other };
    let mut common = Map::iter(one).filter_map(|(name, value)| Some((value, other.get(name)?))).peekable();
    common.peek().is_some() && common.all(|(one, other)| alike(one, other))
}

/// Whether two values are equal, or one is the other shortened.
fn alike(one: &Value, other: &Value) -> bool {
    let (Value::String(one), Value::String(other)) = (one, other) else { return one == other };
    one == other || begins(one, other) || begins(other, one)
}

fn begins(short: &str, long: &str) -> bool {
    let stem = ELLIPSES.iter().find_map(|ellipsis| short.strip_suffix(ellipsis));
    stem.is_some_and(|stem| !stem.trim().is_empty() && long.starts_with(stem))
}

/// Whether they share a path.
fn same_places((one, other): (Value, Value)) -> bool {
    let paths = |value: &Value| -> Vec<String> {
        let places = value.as_array().into_iter().flatten();
        places.filter_map(|place| place["path"].as_str().map(str::to_owned)).collect()
    };
    let other = paths(&other);
    paths(&one).iter().any(|path| other.contains(path))
}
