//! The lenient view of ACP's `session/update`: its kind and its text. Nothing here fails: an
//! unknown update keeps its own name as kind and its raw text in the journal.

// Supported formats: ACP v1 `SessionUpdate`, and the nested format of older agents without
// `sessionUpdate` (`update: {agent_message_chunk: {content: [{type: "text", text}]}}`).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::tool_content::ToolBlock;
use crate::{lenient, surrogates, words};

/// The kind of the agent's own text, which becomes `progress.message`.
pub const MESSAGE: &str = "message";

/// The kind of all history that an agent repeats for a loaded or resumed session: not new.
pub const REPLAYED: &str = "replayed";

/// The kind of a message piece that is not text of the worker's own session.
pub const CHUNK: &str = "agent_message_chunk";

/// Maximum length of the kind of an unknown update; the rest is in the raw text.
const MAX_KIND_CHARS: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    update: &'a RawValue,
}

/// A string of JSON, borrowed where possible.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tagged<'a> {
    #[serde(borrow, default, deserialize_with = "words::borrowed")]
    session_update: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TypedContent<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "words::borrowed")]
    content_type: Option<Cow<'a, str>>,
}

/// The result of a first look at an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifiedUpdate<'a> {
    /// Its kind, as returned by [`classify`].
    pub kind: Cow<'static, str>,
    /// Its session; `None` if it names none.
    pub session: Option<Cow<'a, str>>,
}

/// A piece of the agent's text in the format of ACP v1, the most frequent update: it is
/// parsed in one pass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usual<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: UsualUpdate<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsualUpdate<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow)]
    content: UsualContent<'a>,
}

#[derive(Deserialize)]
struct UsualContent<'a> {
    #[serde(borrow, rename = "type")]
    content_type: Cow<'a, str>,
}

/// Returns the result of [`look`] for a piece of text in the usual format.
fn usual(params: &str) -> Option<ClassifiedUpdate<'_>> {
    // Detecting another format costs allocations.
    if !params.contains("\"agent_message_chunk\"") {
        return None;
    }
    let Usual { session_id, update } = serde_json::from_str(params).ok()?;
    let is_text = update.session_update == "agent_message_chunk" && update.content.content_type == "text";
    is_text.then_some(ClassifiedUpdate { kind: Cow::Borrowed(MESSAGE), session: Some(session_id) })
}

/// Inspects an update, from the `params` of a `session/update` notification.
#[must_use]
pub fn look(params: &str) -> ClassifiedUpdate<'_> {
    usual(params).unwrap_or_else(|| look_closely(params))
}

fn look_closely(params: &str) -> ClassifiedUpdate<'_> {
    let seen = read(params).or_else(|| match surrogates::replaced(params) {
        Cow::Owned(params) => read(&params).map(|ClassifiedUpdate { kind, session }| {
            let session = session.map(|id| Cow::Owned(id.into_owned()));
            ClassifiedUpdate { kind, session }
        }),
        Cow::Borrowed(_) => None,
    });
    seen.unwrap_or(ClassifiedUpdate { kind: Cow::Borrowed("unknown"), session: None })
}

/// Returns the kind of an update, from the `params` of a `session/update` notification.
///
/// [`MESSAGE`] for text of the agent; `thought`, `user_message`, `tool_call`, `tool_call_update`,
/// `plan`, `usage`, `available_commands`, `mode`, `config_option`, `session_info`, `notice`,
/// `compaction`, `compaction_summary` for the rest of ACP v1. An unknown one keeps the agent's
/// name; `unknown` means that there is none.
#[must_use]
pub fn classify(params: &str) -> Cow<'static, str> {
    look(params).kind
}

/// Returns `None` for unreadable parameters.
fn read(params: &str) -> Option<ClassifiedUpdate<'_>> {
    let UpdateParams { session_id, update } = serde_json::from_str(params).ok()?;
    let session =
        session_id.and_then(|id| serde_json::from_str::<BorrowedText<'_>>(id.get()).ok()).map(|word| word.0);
    Some(ClassifiedUpdate { kind: read_kind(update.get())?, session })
}

fn read_kind(update: &str) -> Option<Cow<'static, str>> {
    let tagged = serde_json::from_str::<Tagged<'_>>(update).ok()?;
    let kind = match tagged.session_update.as_deref() {
        Some("agent_message_chunk") => {
            if tagged.content.is_some_and(|content| is_text(content.get())) {
                Cow::Borrowed(MESSAGE)
            } else {
                Cow::Borrowed(CHUNK)
            }
        }
        Some("agent_thought_chunk") => Cow::Borrowed("thought"),
        Some("user_message_chunk") => Cow::Borrowed("user_message"),
        Some("tool_call") => Cow::Borrowed("tool_call"),
        Some("tool_call_update") => Cow::Borrowed("tool_call_update"),
        Some("plan") => Cow::Borrowed("plan"),
        Some("usage_update") => Cow::Borrowed("usage"),
        Some("available_commands_update") => Cow::Borrowed("available_commands"),
        Some("current_mode_update") => Cow::Borrowed("mode"),
        Some("config_option_update") => Cow::Borrowed("config_option"),
        Some("session_info_update") => Cow::Borrowed("session_info"),
        Some("compaction_update") => Cow::Borrowed("compaction"),
        Some("compaction_summary_chunk") => Cow::Borrowed("compaction_summary"),
        Some(other) => word_of_the_agent(other),
        None => classify_nested(update),
    };
    Some(kind)
}

/// Whether this `content` is one block of text.
fn is_text(content: &str) -> bool {
    let read = |content: &str| {
        serde_json::from_str::<TypedContent<'_>>(content)
            .map(|typed| typed.content_type.as_deref() == Some("text"))
    };
    read(content).or_else(|_| read(&surrogates::replaced(content))).unwrap_or(false)
}

fn classify_nested(update: &str) -> Cow<'static, str> {
    let Ok(Value::Object(update)) = surrogates::parse::<Value>(update) else {
        return Cow::Borrowed("unknown");
    };
    match update.keys().next().map(String::as_str) {
        Some("agent_message_chunk") if !nested_text(&update["agent_message_chunk"]).is_empty() => {
            Cow::Borrowed(MESSAGE)
        }
        Some("agent_thought_chunk") => Cow::Borrowed("thought"),
        Some(other) => word_of_the_agent(other),
        None => Cow::Borrowed("unknown"),
    }
}

/// Returns an unknown kind unchanged, except for our own kinds, which an agent must not claim.
fn word_of_the_agent(word: &str) -> Cow<'static, str> {
    match word {
        MESSAGE | REPLAYED | "session" | "notification" | "noise" | "" => Cow::Borrowed("unknown"),
        other => Cow::Owned(other.chars().take(MAX_KIND_CHARS).collect()),
    }
}

/// Returns the text of an update with kind [`MESSAGE`] or `thought`, from the
/// `params` of the notification.
#[must_use]
pub fn text(params: &Value) -> String {
    let update = &params["update"];
    if update.get("sessionUpdate").is_some() {
        return nested_text(update);
    }
    update.as_object().and_then(|update| update.values().next()).map(nested_text).unwrap_or_default()
}

/// The parameters of a piece of text in the format of ACP v1.
#[derive(Deserialize)]
struct TextPieceParams<'a> {
    #[serde(borrow)]
    update: PieceUpdate<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PieceUpdate<'a> {
    #[serde(rename = "sessionUpdate")]
    _kind: IgnoredAny,
    #[serde(borrow)]
    content: Block<'a>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    block_type: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// Returns the result of [`text`] from JSON text, without a copy for the usual format without
/// escapes. `None` for unreadable parameters.
#[must_use]
pub fn text_of(params: &str) -> Option<Cow<'_, str>> {
    match serde_json::from_str::<TextPieceParams<'_>>(params) {
        Ok(TextPieceParams { update: PieceUpdate { content, .. } }) if content.block_type == "text" => {
            Some(content.text)
        }
        _ => surrogates::parse(params).ok().map(|params| Cow::Owned(text(&params))),
    }
}

/// Concatenates the texts in `content`, which is one block or a list of blocks.
fn nested_text(chunk: &Value) -> String {
    let one = |block: &Value| {
        let ToolBlock { kind, text } = lenient::read(block);
        text.0.filter(|_| kind.0 == Some("text")).map(str::to_owned)
    };
    match &chunk["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(one).collect(),
        block => one(block).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn texts_of_the_agent_are_messages() {
        let flat = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#;
        assert_eq!(classify(flat), MESSAGE);
        assert_eq!(text(&serde_json::from_str(flat).unwrap()), "hi");
        let nested = r#"{"sessionId":"s","update":{"agent_message_chunk":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}}"#;
        assert_eq!(classify(nested), MESSAGE);
        assert_eq!(text(&serde_json::from_str(nested).unwrap()), "ab");
    }

    #[test]
    fn thoughts_and_tools_are_not_messages() {
        for (update, kind) in [
            (json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}), "thought"),
            (
                json!({"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":""}}),
                "agent_message_chunk",
            ),
            (json!({"sessionUpdate":"tool_call","toolCallId":"1"}), "tool_call"),
            (json!({"sessionUpdate":"brand_new"}), "brand_new"),
            (json!({"sessionUpdate":"message"}), "unknown"),
            (json!({"sessionUpdate":"replayed"}), "unknown"),
            (json!({"noise":{}}), "unknown"),
            (json!({"sessionUpdate":"notice","title":"x"}), "notice"),
            (json!({"sessionUpdate":"compaction_update"}), "compaction"),
            (json!({"sessionUpdate":7}), "unknown"),
            (json!({}), "unknown"),
            (json!("text"), "unknown"),
        ] {
            assert_eq!(classify(&json!({"sessionId":"s","update":update}).to_string()), kind, "{update}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_hides_nothing() {
        for (update, kind) in [
            (r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#, MESSAGE),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"\ud83d":1,"type":"text","text":"x"}}"#,
                MESSAGE,
            ),
            (r#"{"agent_message_chunk":{"content":[{"type":"text","text":"\ude00"}]}}"#, MESSAGE),
            (r#"{"\ud83d":1,"sessionUpdate":"plan"}"#, "plan"),
            (r#"{"sessionUpdate":"new\ud83d"}"#, "new\u{fffd}"),
        ] {
            assert_eq!(classify(&format!(r#"{{"sessionId":"\ud83d","update":{update}}}"#)), kind, "{update}");
        }
    }

    #[test]
    fn the_session_is_read_where_there_is_one() {
        let update = r#"{"sessionUpdate":"plan"}"#;
        for (id, session) in
            [(r#""s\u0031""#, Some("s1")), (r#""\ud83d""#, Some("\u{fffd}")), ("7", None), ("null", None)]
        {
            let seen = look(&format!(r#"{{"sessionId":{id},"update":{update}}}"#)).kind.into_owned();
            assert_eq!(seen, "plan", "{id}");
            let params = format!(r#"{{"sessionId":{id},"update":{update}}}"#);
            let params = surrogates::replaced(&params);
            assert_eq!(look(&params).session.as_deref(), session, "{id}");
        }
        assert_eq!(look(&format!(r#"{{"update":{update}}}"#)).session, None);
    }

    #[test]
    fn the_fast_and_the_full_parser_agree() {
        let sessions = [r#""s""#, r#""s\u0031""#, r#""\ud83d""#, "7", "null"];
        let types = [r#""text""#, r#""te\u0078t""#, r#""image""#, "7"];
        let mut usually = 0;
        for (session, content_type) in
            sessions.iter().flat_map(|session| types.iter().map(move |kind| (session, kind)))
        {
            let block = format!(r#"{{"type":{content_type},"text":"a\ud83d","more":[1]}}"#);
            let chunk = format!(r#"{{"content":{block},"sessionUpdate":"agent_message_chunk"}}"#);
            for params in [
                format!(r#"{{"sessionId":{session},"update":{chunk},"_meta":{{}}}}"#),
                format!(r#"[{session},["agent_message_chunk",[{content_type}]]]"#),
                format!(r#"{{"sessionId":{session},"sessionId":"s","update":{chunk}}}"#),
                format!(
                    r#"{{"sessionId":{session},"update":{{"sessionUpdate":"agent_message_chunk","content":[{block}]}}}}"#
                ),
                format!(r#"{{"sessionId":{session},"update":{{"sessionUpdate":"plan","content":{block}}}}}"#),
            ] {
                usually += usize::from(usual(&params).is_some());
                assert_eq!(look(&params), look_closely(&params), "{params}");
            }
        }
        assert_eq!(usually, 8, "two sessions, two types, two shapes");
    }

    #[test]
    fn escaped_words_are_read() {
        assert_eq!(classify(r#"{"update":{"sessionUpdate":"pl\u0061n"}}"#), "plan");
    }

    #[test]
    fn a_text_without_escapes_is_not_copied_and_every_other_one_is_the_same() {
        let plain = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#;
        assert!(matches!(text_of(plain), Some(Cow::Borrowed("hi"))));
        for update in [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\n\ud83d\ude00"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#,
            r#"{"sessionUpdate":null,"content":{"type":"text","text":"a","more":[1]},"more":{}}"#,
            r#"{"sessionUpdate":"x","content":{"type":"text","text":"a","text":"b"}}"#,
            r#"{"sessionUpdate":"x","content":{"type":"text"}}"#,
            r#"{"sessionUpdate":"x","content":{"type":"text","text":7}}"#,
            r#"{"sessionUpdate":"x","content":{"type":"image","text":"a"}}"#,
            r#"{"sessionUpdate":"x","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            r#"{"agent_message_chunk":{"content":{"type":"text","text":"a"}}}"#,
            r#"{"content":{"type":"text","text":"a"}}"#,
            r#"{"update":7}"#,
            "[]",
        ] {
            let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
            let slowly = surrogates::parse::<Value>(&params).map(|params| text(&params)).ok();
            assert_eq!(text_of(&params).as_deref(), slowly.as_deref(), "{update}");
        }
        assert_eq!(text_of("{"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(params in ".{0,200}") {
            let _ = text_of(&params);
            let _ = classify(&params);
            if let Ok(value) = serde_json::from_str::<Value>(&params) {
                let _ = text(&value);
            }
        }
    }
}
