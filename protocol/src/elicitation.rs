//! The lenient view of ACP's `elicitation/create`: what an agent asks, in a form or behind a link.
//!
//! Nothing here fails: what is not understood is left out of the view, and stays in the raw text. Whether an answer fits
//! is [`content`]'s.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::clean::one_line;
use crate::depth;
use crate::surrogates;

pub mod content;
mod field;
mod pattern;

/// A longer link is shown to nobody.
const MOST_LINK_BYTES: usize = 8 * 1024;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Values for the fields of a form: its JSON schema as the agent sent it, `None` if it cannot be read.
    Form(Option<Value>),
    /// That somebody opens this link; `None` if it is none that may be shown.
    Link(Option<String>),
    /// Something else, by the agent's word for it. It can be declined or canceled.
    Other,
}

/// What an agent asks.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationView {
    /// `form`, `url`, or another word of the agent's.
    pub mode: String,
    /// Its words for people.
    pub message: String,
    /// What it asks for.
    pub question: Question,
    /// The agent's id of what is behind a link.
    elicitation_id: Option<String>,
    /// The tool call that it asks for.
    tool_call_id: Option<String>,
}

impl ElicitationView {
    /// Reads the `params` of the request.
    #[must_use]
    pub fn of(params: &str) -> Self {
        // One by one: a schema that is too deep to be read hides nothing else.
        let params = surrogates::replaced(params);
        let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(&params).unwrap_or_default();
        let member = |key: &str| serde_json::from_str::<Value>(members.get(key)?.get()).ok();
        let text = |key: &str| member(key)?.as_str().map(str::to_owned);
        let mode = text("mode").unwrap_or_else(|| "unknown".to_owned());
        let message = text("message").unwrap_or_default();
        let (elicitation_id, tool_call_id) = (text("elicitationId"), text("toolCallId"));
        let question = match mode.as_str() {
            "form" => Question::Form(member("requestedSchema").filter(Value::is_object)),
            "url" => Question::Link(text("url").as_deref().and_then(link)),
            _ => Question::Other,
        };
        Self { mode, message, question, elicitation_id, tool_call_id }
    }

    /// What of it is shown beside its message, in events and lists.
    #[must_use]
    pub fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("mode".to_owned(), self.mode.into());
        match self.question {
            Question::Form(schema) => {
                fields.insert("schema".to_owned(), depth::shown(schema.unwrap_or(Value::Null)));
            }
            Question::Link(url) => {
                fields.insert("url".to_owned(), url.into());
            }
            Question::Other => {}
        }
        for (key, value) in [("elicitationId", self.elicitation_id), ("toolCallId", self.tool_call_id)] {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value.into());
            }
        }
        fields
    }
}

/// The link as it may be shown: to a place on the web, and with nothing in it that a terminal would act on or that looks
/// like something else. Browsers leave control characters out, too.
fn link(url: &str) -> Option<String> {
    let mut shown = String::new();
    for letter in url.trim().chars().filter(|letter| !letter.is_control()) {
        if letter.is_ascii_graphic() {
            shown.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                // Into memory.
                let _ = write!(shown, "%{byte:02X}");
            }
        }
    }
    let (scheme, rest) = shown.split_once("://")?;
    let web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (web && !host.is_empty() && shown.len() <= MOST_LINK_BYTES).then_some(shown)
}

/// The message as one line for a summary.
#[must_use]
pub fn summary(message: &str) -> String {
    let line = one_line(message);
    if line.is_empty() { "The agent asks for an answer".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn forms_and_links_are_told_apart() {
        let form = ElicitationView::of(
            r#"{"sessionId":"s","toolCallId":"t","mode":"form","message":"Which?","requestedSchema":{"type":"object"}}"#,
        );
        assert_eq!(form.question, Question::Form(Some(json!({"type": "object"}))));
        assert_eq!(form.message, "Which?");
        assert_eq!(
            Value::Object(form.fields()),
            json!({"mode": "form", "schema": {"type": "object"}, "toolCallId": "t"})
        );
        let url = ElicitationView::of(
            r#"{"requestId":7,"mode":"url","message":"m","elicitationId":"e","url":"https://a.example/x"}"#,
        );
        assert_eq!(
            Value::Object(url.fields()),
            json!({"mode": "url", "url": "https://a.example/x", "elicitationId": "e"})
        );
        for odd in ["{}", "null", "garbage", r#"{"mode":7}"#] {
            let view = ElicitationView::of(odd);
            assert_eq!((view.mode.as_str(), &view.question), ("unknown", &Question::Other), "{odd}");
        }
        assert_eq!(ElicitationView::of(r#"{"mode":"form"}"#).question, Question::Form(None));
        let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
        let deep = format!(r#"{{"mode":"form","message":"m","requestedSchema":{open}{close}}}"#);
        let deep = ElicitationView::of(&deep);
        assert_eq!((deep.message.as_str(), deep.question), ("m", Question::Form(None)));
    }

    #[test]
    fn only_links_to_the_web_are_shown() {
        for (url, shown) in [
            ("https://a.example/b?c=d#e", Some("https://a.example/b?c=d#e")),
            (" HTTP://a.example ", Some("HTTP://a.example")),
            ("https://a\u{1b}[2J.example/\nb", Some("https://a[2J.example/b")),
            ("https://\u{202e}moc.example", Some("https://%E2%80%AEmoc.example")),
            ("https://a.example/x y", Some("https://a.example/x%20y")),
            ("javascript:alert(1)", None),
            ("java\nscript://x", None),
            ("file:///etc/passwd", None),
            ("https:///x", None),
            ("a.example", None),
            ("", None),
        ] {
            assert_eq!(link(url).as_deref(), shown, "{url:?}");
        }
        assert_eq!(link(&format!("https://a.example/{}", "x".repeat(MOST_LINK_BYTES))), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(params in ".{0,200}", url in ".{0,60}") {
            let _ = ElicitationView::of(&params).fields();
            if let Some(shown) = link(&format!("https://{url}")) {
                prop_assert!(shown.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
