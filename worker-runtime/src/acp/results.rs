//! A lenient view of the agent's responses. Reads only what is essential, wherever it can be found.
//!
//! Does not fail for anything else: a result that the typed view would reject is still a result.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::ask::{LoginKind, LoginMethod};
use subagent_protocol::lenient::{self, Lenient, Offered};
use subagent_protocol::{depth, surrogates};

use crate::shorten;

/// Maximum length of a session id, in bytes.
const MAX_SESSION_ID_BYTES: usize = 4096;

/// Maximum JSON length of an object kept with the end of a turn, in bytes.
const MAX_ASIDE_BYTES: usize = 16 * 1024;

/// Maximum length of a session response that is kept, in bytes. Modes, models and
/// options take some KiB.
const MAX_OPENED_BYTES: usize = 1024 * 1024;

/// The part of the `initialize` response that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Capabilities {
    /// `loadSession`; `None` if the agent does not mention it.
    pub(crate) load: Option<bool>,
    /// The capability `sessionCapabilities.resume` is present.
    pub(crate) resume: bool,
    /// The capability `sessionCapabilities.close` is present.
    pub(crate) close: bool,
    /// The capabilities `mcpCapabilities.http` and `mcpCapabilities.sse`.
    pub(crate) prompt: PromptCapabilities,
    /// Both `mcpCapabilities.http` and `mcpCapabilities.sse`.
    pub(crate) mcp_http: bool,
    pub(crate) mcp_sse: bool,
    /// The capability `sessionCapabilities.additionalDirectories` is present.
    pub(crate) directories: bool,
    /// The capability `sessionCapabilities.systemPrompt` is present.
    pub(crate) system_prompt: bool,
}

/// The content of a prompt that the agent accepts besides text and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PromptCapabilities {
    pub(crate) image: bool,
    pub(crate) audio: bool,
    pub(crate) embedded: bool,
}

/// The result of `initialize`, as the agent sent it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitializeResult {
    #[serde(deserialize_with = "lenient::object")]
    agent_capabilities: DeclaredCapabilities,
    auth_methods: Value,
    protocol_version: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeclaredCapabilities {
    load_session: Lenient<bool>,
    #[serde(deserialize_with = "lenient::object")]
    session_capabilities: DeclaredSession,
    #[serde(deserialize_with = "lenient::object")]
    prompt_capabilities: DeclaredPrompt,
    #[serde(deserialize_with = "lenient::object")]
    mcp_capabilities: DeclaredMcp,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeclaredSession {
    resume: Offered,
    close: Offered,
    additional_directories: Offered,
    system_prompt: Offered,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeclaredPrompt {
    image: Offered,
    audio: Offered,
    embedded_context: Offered,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeclaredMcp {
    http: Offered,
    sse: Offered,
}

impl Capabilities {
    /// Parses the result of `initialize`.
    pub(crate) fn of(result: &Value) -> Self {
        let declared = lenient::read::<InitializeResult>(result).agent_capabilities;
        let DeclaredCapabilities { load_session, session_capabilities: session, .. } = declared;
        let (prompt, mcp) = (declared.prompt_capabilities, declared.mcp_capabilities);
        Self {
            load: load_session.0,
            resume: session.resume.0,
            close: session.close.0,
            mcp_http: mcp.http.0,
            mcp_sse: mcp.sse.0,
            directories: session.additional_directories.0,
            system_prompt: session.system_prompt.0,
            prompt: PromptCapabilities {
                image: prompt.image.0,
                audio: prompt.audio.0,
                embedded: prompt.embedded_context.0,
            },
        }
    }
}

/// Returns the protocol version in the result of `initialize` unless it is 1, the only one. Agents
/// without a version speak it.
pub(crate) fn foreign_version(result: &Value) -> Option<Value> {
    let InitializeResult { protocol_version: version, .. } = lenient::read(result);
    (!version.is_null() && version.as_f64() != Some(1.0)).then_some(version)
}

/// Returns the login methods that an agent offers, by id; `None` for an unknown type.
pub(crate) fn auth_methods(result: &Value) -> Vec<(String, Option<LoginKind>)> {
    let InitializeResult { auth_methods: methods, .. } = lenient::read(result);
    let with_id = |method: &Value| {
        let LoginMethod { id, .. } = lenient::read(method);
        Some((id.0?.to_owned(), LoginKind::of(method)))
    };
    methods.as_array().into_iter().flatten().filter_map(with_id).collect()
}

/// Returns `null` for values that are nested too deeply to be parsed here, or again within a
/// record. Half of a surrogate pair costs only one character.
pub(crate) fn value(raw: &RawValue) -> Value {
    depth::shown(surrogates::parse(raw.get()).unwrap_or(Value::Null))
}

/// The agent's error, as far as it is shown.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RpcErrorView<'a> {
    code: Lenient<i64>,
    #[serde(borrow)]
    message: Lenient<&'a str>,
    data: Value,
}

/// The same of its data.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RpcErrorData<'a> {
    #[serde(borrow)]
    details: Lenient<&'a str>,
    message: Lenient<&'a str>,
}

/// Returns the code of the agent's error.
pub(crate) fn error_code(error: &Value) -> Option<i64> {
    lenient::read::<RpcErrorView<'_>>(error).code.0
}

/// The response to `session/new`, as far as it must be there.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NewSession<'a> {
    #[serde(borrow)]
    session_id: Lenient<&'a str>,
}

/// Returns the session id in the result of `session/new`. Ids that are too long are ignored.
pub(crate) fn session_id(result: &Value) -> Option<&str> {
    lenient::read::<NewSession<'_>>(result).session_id.0.filter(|id| id.len() <= MAX_SESSION_ID_BYTES)
}

/// Returns an object to record with the end of a turn, unless it is empty or too long.
pub(crate) fn aside(value: &Value) -> Option<Value> {
    let object = value.as_object().filter(|object| !object.is_empty())?;
    let short = serde_json::to_string(object).is_ok_and(|text| text.len() <= MAX_ASIDE_BYTES);
    short.then(|| value.clone())
}

/// Returns the response to a session request, for the record, unless it is too long.
pub(crate) fn opened(result: &RawValue) -> Option<Box<RawValue>> {
    (result.get().len() <= MAX_OPENED_BYTES).then(|| result.to_owned())
}

/// Returns the response to a prompt, for the record, unless it does not fit beside the
/// end of a turn.
pub(crate) fn answer(answer: &RawValue) -> Option<&RawValue> {
    Some(answer).filter(|answer| answer.get().len() <= MAX_ASIDE_BYTES)
}

/// Describes the agent's error: its message and the detail that some agents put into `data`,
/// at most 4 KiB.
pub(crate) fn error_text(error: &Value) -> String {
    let RpcErrorView { message, data, .. } = lenient::read(error);
    let message = message.0.or(error.as_str()).unwrap_or("no message");
    let RpcErrorData { details, message: inner } = lenient::read(&data);
    match data.as_str().or(details.0).or(inner.0) {
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
        assert_eq!(foreign_version(&result), None);
        assert_eq!(Capabilities::of(&result), Capabilities::default());
        assert_eq!(foreign_version(&Value::Null), None);
        assert_eq!(foreign_version(&json!({"protocolVersion": 1.0})), None);
        for foreign in [json!(2), json!("2024-11-05")] {
            assert_eq!(foreign_version(&json!({"protocolVersion": foreign})), Some(foreign));
        }
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
    fn deeply_nested_results_can_be_parsed_again() {
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
    fn only_short_objects_are_kept_beside_the_end_of_a_turn() {
        let usage = json!({"inputTokens": 100, "outputTokens": 20});
        assert_eq!(aside(&usage), Some(usage));
        for other in [json!(null), json!({}), json!([1]), json!({"x": "y".repeat(MAX_ASIDE_BYTES)})] {
            assert_eq!(aside(&other), None);
        }
    }

    #[test]
    fn errors_become_one_sentence() {
        assert_eq!(
            error_text(&json!({"code": -32603, "message": "Internal error", "data": {"details": "no key"}})),
            "Internal error: no key"
        );
        assert_eq!(error_text(&json!("plain")), "plain");
        assert_eq!(error_text(&json!({"code": 1})), "no message");
    }
}
