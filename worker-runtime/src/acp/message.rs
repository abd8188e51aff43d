//! The JSON-RPC envelope of one line, borrowed from the line. Does not judge methods or results.
//! Serde would accept an array as a struct and treat `"id":null` as an absent id, so this module
//! distinguishes them.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use subagent_protocol::record::NoiseReason;
use subagent_protocol::words;

/// Maximum length of a request id that is echoed, in bytes. Requests with longer ids are invalid.
const MAX_ID_BYTES: usize = 1024;

/// One message from the agent.
#[derive(Debug)]
pub(crate) enum RpcMessage<'a> {
    /// A request. The response quotes `id`, the JSON text of a number or string.
    Request { id: &'a str, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A request whose id is null or invalid. The only possible response is an error
    /// with a null id.
    InvalidRequest,
    /// A notification, without an id.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A response. `id` is what it quotes; `None` if it is null or missing.
    Response { id: Option<&'a str>, outcome: RpcOutcome<'a> },
}

/// The outcome that a response reports.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RpcOutcome<'a> {
    /// Success. `null` is a valid result.
    Result(&'a RawValue),
    /// Failure, with the JSON-RPC error object.
    Error(&'a RawValue),
}

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "words::borrowed")]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Distinguishes `null` from an absent value.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses the message of one line.
///
/// # Errors
///
/// The reason why the line is not a message.
pub(crate) fn parse(line: &str) -> Result<RpcMessage<'_>, NoiseReason> {
    if !line.starts_with('{') {
        return Err(not_a_message(line));
    }
    let Ok(envelope) = serde_json::from_str::<RpcEnvelope<'_>>(line) else { return Err(not_a_message(line)) };
    let id = envelope.id.map(RawValue::get);
    match (envelope.method, id) {
        (Some(method), None) => Ok(RpcMessage::Notification { method, params: envelope.params }),
        (Some(method), Some(id)) if is_id(id) => {
            Ok(RpcMessage::Request { id, method, params: envelope.params })
        }
        (Some(_), Some(_)) => Ok(RpcMessage::InvalidRequest),
        (None, id) => {
            let outcome = match (envelope.error, envelope.result) {
                (Some(error), _) => RpcOutcome::Error(error),
                (None, Some(result)) => RpcOutcome::Result(result),
                (None, None) => return Err(NoiseReason::NotAMessage),
            };
            Ok(RpcMessage::Response { id: id.filter(|id| is_id(id)), outcome })
        }
    }
}

fn not_a_message(line: &str) -> NoiseReason {
    match serde_json::from_str::<&RawValue>(line) {
        Ok(_) => NoiseReason::NotAMessage,
        Err(_) => NoiseReason::NotJson,
    }
}

/// Whether this JSON text is a number or a string, the two kinds of id that can be answered.
fn is_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES
        && id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

/// Whether a response quotes our id `ours`. Some agents turn the number into a string.
pub(crate) fn quotes(id: &str, ours: u64) -> bool {
    id.trim_matches('"').parse() == Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kinds_of_messages() {
        assert!(matches!(parse(r#"{"id":0,"method":"m"}"#), Ok(RpcMessage::Request { id: "0", .. })));
        assert!(matches!(parse(r#"{"id":"a","method":"m"}"#), Ok(RpcMessage::Request { id: "\"a\"", .. })));
        assert!(matches!(parse(r#"{"id":null,"method":"m"}"#), Ok(RpcMessage::InvalidRequest)));
        assert!(matches!(parse(r#"{"id":[1],"method":"m"}"#), Ok(RpcMessage::InvalidRequest)));
        assert!(matches!(parse(r#"{"method":"m"}"#), Ok(RpcMessage::Notification { params: None, .. })));
        assert!(matches!(
            parse(r#"{"id":1,"result":null}"#),
            Ok(RpcMessage::Response { id: Some("1"), outcome: RpcOutcome::Result(_) })
        ));
        assert!(matches!(parse(r#"{"id":null,"result":{}}"#), Ok(RpcMessage::Response { id: None, .. })));
        assert!(matches!(
            parse(r#"{"id":1,"result":null,"error":{}}"#),
            Ok(RpcMessage::Response { outcome: RpcOutcome::Error(_), .. })
        ));
    }

    #[test]
    fn kinds_of_noise_are_distinguished() {
        for (line, reason) in [
            ("hello", NoiseReason::NotJson),
            (r#"{"id":1,"#, NoiseReason::NotJson),
            ("[]", NoiseReason::NotAMessage),
            (r#"["2.0",1,"m"]"#, NoiseReason::NotAMessage),
            ("{}", NoiseReason::NotAMessage),
            (r#"{"id":1}"#, NoiseReason::NotAMessage),
            (r#"{"method":7}"#, NoiseReason::NotAMessage),
            (r#"{"id":1,"id":2,"method":"m"}"#, NoiseReason::NotAMessage),
        ] {
            assert_eq!(parse(line).unwrap_err(), reason, "{line}");
        }
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let line = format!(r#"{{"method":"m","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(parse(&line), Ok(RpcMessage::Notification { .. })));
    }

    #[test]
    fn ids_are_matched() {
        assert!(quotes("7", 7) && quotes("\"7\"", 7));
        assert!(!quotes("7.5", 7) && !quotes("-7", 7) && !quotes("99999999999999999999999", 7));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(line in r#"[{}\[\]":,a-z0-9 .\\]{0,80}"#) {
            let _ = parse(&line);
        }
    }
}
