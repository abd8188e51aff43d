//! The lenient view of ACP's `elicitation/create`: an agent's question, as a form or a link.
//! Nothing here fails: unknown data is omitted from the view and stays in the raw text. [`content`]
//! checks whether an answer fits.

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

/// Maximum length of a link in bytes; longer ones are not shown.
const MAX_LINK_BYTES: usize = 8 * 1024;

/// The subject of an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationSubject {
    /// A form, with the agent's JSON schema; `None` if it is unreadable.
    Form(Option<Value>),
    /// A link to open; `None` if it must not be shown.
    Link(Option<String>),
    /// Another mode of the agent. It can be declined or canceled.
    Other,
}

/// An agent's question to its user.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationView {
    /// `form`, `url`, or another name of the agent's.
    pub mode: String,
    /// The agent's text for people.
    pub message: String,
    /// A form or a link.
    pub question: ElicitationSubject,
    /// The agent's id of what the link leads to.
    elicitation_id: Option<String>,
    /// The tool call that it belongs to.
    tool_call_id: Option<String>,
}

impl ElicitationView {
    /// Parses the `params` of the request.
    #[must_use]
    pub fn of(params: &str) -> Self {
        // Separately, so that a schema that is too deep does not hide other fields.
        let params = surrogates::replaced(params);
        let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(&params).unwrap_or_default();
        let member = |key: &str| serde_json::from_str::<Value>(members.get(key)?.get()).ok();
        let text = |key: &str| member(key)?.as_str().map(str::to_owned);
        let mode = text("mode").unwrap_or_else(|| "unknown".to_owned());
        let message = text("message").unwrap_or_default();
        let (elicitation_id, tool_call_id) = (text("elicitationId"), text("toolCallId"));
        let question = match mode.as_str() {
            "form" => ElicitationSubject::Form(member("requestedSchema").filter(Value::is_object)),
            "url" => ElicitationSubject::Link(text("url").as_deref().and_then(link)),
            _ => ElicitationSubject::Other,
        };
        Self { mode, message, question, elicitation_id, tool_call_id }
    }

    /// Returns the fields shown beside its message, in events and lists.
    #[must_use]
    pub fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("mode".to_owned(), self.mode.into());
        match self.question {
            ElicitationSubject::Form(schema) => {
                fields.insert("schema".to_owned(), depth::shown(schema.unwrap_or(Value::Null)));
            }
            ElicitationSubject::Link(url) => {
                fields.insert("url".to_owned(), url.into());
            }
            ElicitationSubject::Other => {}
        }
        for (key, value) in [("elicitationId", self.elicitation_id), ("toolCallId", self.tool_call_id)] {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value.into());
            }
        }
        fields
    }
}

/// Returns the link if it may be shown: a web address without parts that a terminal would interpret
/// or that imitate other text. Browsers remove control characters too.
fn link(url: &str) -> Option<String> {
    let mut shown = String::new();
    for letter in url.trim().chars().filter(|letter| !letter.is_control()) {
        if letter.is_ascii_graphic() {
            shown.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                // Writing to memory cannot fail.
                let _ = write!(shown, "%{byte:02X}");
            }
        }
    }
    let (scheme, rest) = shown.split_once("://")?;
    let web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (web && !host.is_empty() && shown.len() <= MAX_LINK_BYTES).then_some(shown)
}

/// Returns the message as one line.
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
    fn forms_and_links_are_distinguished() {
        let form = ElicitationView::of(
            r#"{"sessionId":"s","toolCallId":"t","mode":"form","message":"Which?","requestedSchema":{"type":"object"}}"#,
        );
        assert_eq!(form.question, ElicitationSubject::Form(Some(json!({"type": "object"}))));
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
            assert_eq!(
                (view.mode.as_str(), &view.question),
                ("unknown", &ElicitationSubject::Other),
                "{odd}"
            );
        }
        assert_eq!(ElicitationView::of(r#"{"mode":"form"}"#).question, ElicitationSubject::Form(None));
        let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
        let deep = format!(r#"{{"mode":"form","message":"m","requestedSchema":{open}{close}}}"#);
        let deep = ElicitationView::of(&deep);
        assert_eq!((deep.message.as_str(), deep.question), ("m", ElicitationSubject::Form(None)));
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
        assert_eq!(link(&format!("https://a.example/{}", "x".repeat(MAX_LINK_BYTES))), None);
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
