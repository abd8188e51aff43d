//! Rate limits of a model's provider, as agents report them: in the error of a request, or in an update before it.
//!
//! ACP has no field for them. Only numbers and words of data are read, never the text of a message.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::rate_limit::Reset;
use subagent_protocol::time::Timestamp;

use crate::acp::results;

/// HTTP statuses of a provider that wants fewer requests.
const STATUSES: [i64; 3] = [429, 503, 529];
/// The code of the same in mistral-vibe, which is not one of JSON-RPC's own.
const VIBE_RATE_LIMITED: i64 = -31_001;
/// Words for the same, in `errorKind` and `type`.
const KINDS: [&str; 4] = ["rate_limit", "rate_limit_error", "overloaded", "overloaded_error"];

/// Keys of a time of reset: seconds or milliseconds since 1970, or ISO 8601.
const AT: [&str; 8] = [
    "resetsAt",
    "resets_at",
    "resetAt",
    "reset_at",
    "retryAt",
    "retry_at",
    "anthropic-ratelimit-unified-reset",
    "anthropic-ratelimit-requests-reset",
];
/// Keys of a time to wait in milliseconds.
const AFTER_MS: [&str; 3] = ["retryAfterMs", "retry_after_ms", "retry-after-ms"];
/// Keys of a time to wait in seconds.
const AFTER_SECONDS: [&str; 7] = [
    "retryAfter",
    "retry_after",
    "retry-after",
    "retryAfterSeconds",
    "retry_after_seconds",
    "resetsInSeconds",
    "resets_in_seconds",
];
/// Where such keys are looked for, besides the data of the error itself.
const INSIDE: [&str; 6] = ["rateLimit", "rate_limit", "error", "details", "headers", "responseHeaders"];
/// A greater number of seconds since 1970 is one of milliseconds.
const MAX_EPOCH_SECONDS: f64 = 1e11;

/// Whether the provider wants fewer requests, by the numbers and words of an agent's error.
pub(super) fn is_limit(error: &Value) -> bool {
    let LimitError { code, data: ObjectField(data) } = lenient::read(error);
    let mut statuses = [code, data.status, data.status_code, data.http_status].into_iter();
    code.0 == Some(VIBE_RATE_LIMITED)
        || statuses.any(|status| status.0.is_some_and(|status| STATUSES.contains(&status)))
        || [data.error_kind, data.kind].iter().any(|kind| kind.0.is_some_and(|kind| KINDS.contains(&kind)))
}

/// An agent's error, as far as it may say that the provider wants fewer requests.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LimitError<'a> {
    code: Lenient<i64>,
    #[serde(borrow)]
    data: ObjectField<LimitData<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LimitData<'a> {
    status: Lenient<i64>,
    status_code: Lenient<i64>,
    http_status: Lenient<i64>,
    #[serde(borrow)]
    error_kind: Lenient<&'a str>,
    #[serde(rename = "type")]
    kind: Lenient<&'a str>,
}

/// When the limit ends, if the error says so.
pub(super) fn reset(error: &Value) -> Option<Reset> {
    let data = &error["data"];
    reset_of(data).or_else(|| INSIDE.into_iter().find_map(|key| reset_of(&data[key])))
}

fn reset_of(data: &Value) -> Option<Reset> {
    // Details of Google's APIs: a list in which one has `retryDelay`, as "34s".
    let delay = |value: &Value| value["retryDelay"].as_str()?.strip_suffix('s')?.parse::<f64>().ok();
    if let Some(list) = data.as_array() {
        return list.iter().find_map(delay).and_then(|seconds| wait(seconds * 1000.0));
    }
    let one_of = |keys: &[&str]| keys.iter().find_map(|key| data.get(key).filter(|value| !value.is_null()));
    let at = one_of(&AT).and_then(time).map(Reset::At);
    at.or_else(|| one_of(&AFTER_MS).and_then(number).and_then(wait))
        .or_else(|| one_of(&AFTER_SECONDS).and_then(number).and_then(|seconds| wait(seconds * 1000.0)))
        .or_else(|| delay(data).and_then(|seconds| wait(seconds * 1000.0)))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn time(value: &Value) -> Option<Timestamp> {
    let Some(number) = number(value) else { return Timestamp::parse(value.as_str()?) };
    let millis = if number < MAX_EPOCH_SECONDS { number * 1000.0 } else { number };
    whole(millis).map(Timestamp)
}

fn wait(millis: f64) -> Option<Reset> {
    whole(millis).map(Reset::AfterMs)
}

/// Positive milliseconds, up to a time that a timestamp can hold.
fn whole(millis: f64) -> Option<i64> {
    let sane = millis.is_finite() && millis > 0.0 && millis < 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 1e15")]
    sane.then_some(millis as i64)
}

/// The key of Claude Code's report on the limits of a subscription, in `_meta` of a `usage_update`.
const CLAUDE: &str = "_claude/rateLimit";

/// The reset of a limit that an update reports as reached; `Some(None)`: it reports that there is none.
pub(super) fn reported(params: &RawValue) -> Option<Option<Reset>> {
    if !params.get().contains(CLAUDE) {
        return None;
    }
    let params = results::value(params);
    let limit = &params["update"]["_meta"][CLAUDE];
    let is_reached = limit["status"] == "rejected";
    limit.is_object().then(|| reset_of(limit).filter(|_| is_reached))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_reset_are_read_in_the_shapes_of_agents() {
        let at = |millis| Some(Reset::At(Timestamp(millis)));
        for (data, expected) in [
            (json!({"resetsAt": 1_795_292_982}), at(1_795_292_982_000)),
            (json!({"resets_at": 1_795_292_982_123_i64}), at(1_795_292_982_123)),
            (json!({"retryAt": "2026-11-21T20:29:42Z"}), at(1_795_292_982_000)),
            (json!({"rateLimit": {"resetAt": "1795292982"}}), at(1_795_292_982_000)),
            (json!({"retryAfter": 12}), Some(Reset::AfterMs(12_000))),
            (json!({"retry_after_ms": 250}), Some(Reset::AfterMs(250))),
            (json!({"headers": {"retry-after": "3"}}), Some(Reset::AfterMs(3_000))),
            (json!({"details": [{"reason": "x"}, {"retryDelay": "34.5s"}]}), Some(Reset::AfterMs(34_500))),
            (json!({"error": {"resets_in_seconds": 7}}), Some(Reset::AfterMs(7_000))),
            (json!({"retryAfter": -1}), None),
            (json!({"retryAfter": "soon"}), None),
            (json!({"resetsAt": f64::MAX}), None),
            (json!({"message": "resets at 3pm"}), None),
            (json!("retry after 3"), None),
            (json!(null), None),
        ] {
            assert_eq!(reset(&json!({"code": 429, "message": "m", "data": data})), expected, "{data}");
        }
    }

    #[test]
    fn claude_reports_a_subscription_in_an_update() {
        let reported = |status: &str| {
            let limit = json!({"status": status, "resetsAt": 1_795_292_982, "rateLimitType": "five_hour"});
            let update = json!({"sessionUpdate": "usage_update", "_meta": {CLAUDE: limit}});
            let text = json!({"sessionId": "s", "update": update}).to_string();
            reported(&RawValue::from_string(text).unwrap())
        };
        assert_eq!(reported("rejected"), Some(Some(Reset::At(Timestamp(1_795_292_982_000)))));
        assert_eq!(reported("allowed_warning"), Some(None));
        let other = RawValue::from_string("{\"update\":{}}".to_owned()).unwrap();
        assert_eq!(super::reported(&other), None);
    }
}
