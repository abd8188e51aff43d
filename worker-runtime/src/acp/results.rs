//! The lenient view of what an agent answers: only what is essential is looked at, wherever it can be found.
//!
//! Must not fail for anything else: a result that the typed view would refuse is still a result.

use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::ask::LoginKind;
use subagent_protocol::{depth, surrogates};

use crate::shorten;

/// The longest id of a session.
const MAX_SESSION_ID_BYTES: usize = 4096;

/// The longest object that is kept beside the end of a turn, as JSON.
const MAX_ASIDE_BYTES: usize = 16 * 1024;

/// The longest answer to a request for a session that is kept: modes, models and options of a session are some KiB.
const MAX_OPENED_BYTES: usize = 1024 * 1024;

/// What the answer to `initialize` says, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Capabilities {
    /// `loadSession`; `None` when nothing is said.
    pub(crate) load: Option<bool>,
    /// `sessionCapabilities.resume`.
    pub(crate) resume: bool,
    /// `sessionCapabilities.close`.
    pub(crate) close: bool,
    /// `promptCapabilities`.
    pub(crate) prompt: PromptCapabilities,
    /// `mcpCapabilities.http` and `.sse`.
    pub(crate) mcp_http: bool,
    pub(crate) mcp_sse: bool,
    /// `sessionCapabilities.additionalDirectories`.
    pub(crate) directories: bool,
    /// `sessionCapabilities.systemPrompt`.
    pub(crate) system_prompt: bool,
}

/// What a prompt may hold beside text and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PromptCapabilities {
    /// Pictures.
    pub(crate) image: bool,
    /// Sound.
    pub(crate) audio: bool,
    /// Embedded resources.
    pub(crate) embedded: bool,
}

impl Capabilities {
    /// Reads the result of `initialize`.
    pub(crate) fn of(result: &Value) -> Self {
        let capabilities = &result["agentCapabilities"];
        let session = &capabilities["sessionCapabilities"];
        let prompt = &capabilities["promptCapabilities"];
        let offered = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        Self {
            load: capabilities["loadSession"].as_bool(),
            resume: offered(&session["resume"]),
            close: offered(&session["close"]),
            mcp_http: offered(&capabilities["mcpCapabilities"]["http"]),
            mcp_sse: offered(&capabilities["mcpCapabilities"]["sse"]),
            directories: offered(&session["additionalDirectories"]),
            system_prompt: offered(&session["systemPrompt"]),
            prompt: PromptCapabilities {
                image: offered(&prompt["image"]),
                audio: offered(&prompt["audio"]),
                embedded: offered(&prompt["embeddedContext"]),
            },
        }
    }
}

/// The protocol version in the result of `initialize`; an agent that says nothing means the only one there was.
pub(crate) fn speaks_v1(result: &Value) -> bool {
    match &result["protocolVersion"] {
        Value::Null => true,
        version => version.as_f64() == Some(1.0),
    }
}

/// The ways to log in that an agent offers, by their ids; `None` for one of a type that is not known.
pub(crate) fn auth_methods(result: &Value) -> Vec<(String, Option<LoginKind>)> {
    let methods = result["authMethods"].as_array().into_iter().flatten();
    methods.filter_map(|method| Some((method["id"].as_str()?.to_owned(), LoginKind::of(method)))).collect()
}

/// `null` for what is nested too deep to be looked into, or to be read again inside of a record. Half of a surrogate pair
/// costs one character, no more.
pub(crate) fn value(raw: &RawValue) -> Value {
    depth::shown(surrogates::parse(raw.get()).unwrap_or(Value::Null))
}

/// The code of an error that an agent answered.
pub(crate) fn error_code(error: &Value) -> Option<i64> {
    error["code"].as_i64()
}

/// The id of a session in the result of `session/new`; one that is too long is none that a program would choose.
pub(crate) fn session_id(result: &Value) -> Option<&str> {
    result["sessionId"].as_str().filter(|id| id.len() <= MAX_SESSION_ID_BYTES)
}

/// An object that is written down beside the end of a turn, unless it is empty, or too long to be what it should be.
pub(crate) fn aside(value: &Value) -> Option<Value> {
    let object = value.as_object().filter(|object| !object.is_empty())?;
    let short = serde_json::to_string(object).is_ok_and(|text| text.len() <= MAX_ASIDE_BYTES);
    short.then(|| value.clone())
}

/// What is written down of the answer to a request for a session: all of it, unless it is too long to be what it should be.
pub(crate) fn opened(result: &RawValue) -> Option<Box<RawValue>> {
    (result.get().len() <= MAX_OPENED_BYTES).then(|| result.to_owned())
}

/// What is written down of the answer to a prompt: all of it, unless it would not fit where the end of a turn must fit.
pub(crate) fn answer(answer: &RawValue) -> Option<&RawValue> {
    Some(answer).filter(|answer| answer.get().len() <= MAX_ASIDE_BYTES)
}

/// A sentence for an error that an agent answered: its message, with the detail that some put into `data`; at most 4 KiB.
pub(crate) fn error_text(error: &Value) -> String {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("no message");
    let data = &error["data"];
    match data.as_str().or(data["details"].as_str()).or(data["message"].as_str()) {
        Some(more) if !message.contains(more) => {
            format!("{}: {}", shorten::text(message, 2000), shorten::text(more, 2000))
        }
        _ => shorten::text(message, 4000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_protocol::record::TurnEnd;

    use super::*;
    use crate::conversation::errors;

    #[test]
    fn an_agent_that_says_nothing_speaks_v1_and_offers_nothing() {
        let result = json!({"serverInfo": {"name": "x"}});
        assert!(speaks_v1(&result));
        assert_eq!(Capabilities::of(&result), Capabilities::default());
        assert!(speaks_v1(&Value::Null));
        assert!(!speaks_v1(&json!({"protocolVersion": 2})));
        assert!(!speaks_v1(&json!({"protocolVersion": "2024-11-05"})));
    }

    #[test]
    fn capabilities_are_objects() {
        let result = json!({"agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}, "close": null}}});
        let offered = Capabilities { load: Some(true), resume: true, ..Capabilities::default() };
        assert_eq!(Capabilities::of(&result), offered);
    }

    #[test]
    fn half_a_surrogate_pair_does_not_hide_a_result() {
        let raw = RawValue::from_string(r#"{"stopReason":"end_turn","text":"a \ud83d"}"#.to_owned()).unwrap();
        assert_eq!(value(&raw), json!({"stopReason": "end_turn", "text": "a \u{fffd}"}));
    }

    #[test]
    fn what_is_nested_deep_can_be_read_where_it_is_written_down() {
        let deep = format!(r#"{{"message":"m","data":{}{}}}"#, "[".repeat(125), "]".repeat(125));
        let error = value(&RawValue::from_string(deep).unwrap());
        let end = TurnEnd::Failed { error: errors::rpc("session/prompt", &error) };
        let text = serde_json::to_string(&end).unwrap();
        assert_eq!(serde_json::from_str::<TurnEnd>(&text).unwrap(), end);
        assert_eq!(error["message"], "m");
    }

    #[test]
    fn an_endless_session_id_is_none() {
        let id = "s".repeat(MAX_SESSION_ID_BYTES);
        assert_eq!(session_id(&json!({"sessionId": id})), Some(&*id));
        assert_eq!(session_id(&json!({"sessionId": id + "s"})), None);
        assert_eq!(session_id(&json!({"sessionId": 7})), None);
    }

    #[test]
    fn beside_the_end_of_a_turn_stands_what_is_an_object_and_short() {
        let usage = json!({"inputTokens": 100, "outputTokens": 20});
        assert_eq!(aside(&usage), Some(usage));
        for other in [json!(null), json!({}), json!([1]), json!({"x": "y".repeat(MAX_ASIDE_BYTES)})] {
            assert_eq!(aside(&other), None);
        }
    }

    #[test]
    fn errors_are_told_in_one_sentence() {
        assert_eq!(
            error_text(&json!({"code": -32603, "message": "Internal error", "data": {"details": "no key"}})),
            "Internal error: no key"
        );
        assert_eq!(error_text(&json!("plain")), "plain");
        assert_eq!(error_text(&json!({"code": 1})), "no message");
    }
}
