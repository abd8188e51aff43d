//! Errors of other hosts. A host must not speak with the panel's own voice: the page acts on some codes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use subagent_protocol::clean::clean;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::{Code, Error};

use crate::daemons::bridge::PanelWorkspace;

/// Codes that mean the panel itself, its session or its limits.
const OWN_CODES: &[&str] = &[
    "FORBIDDEN_FROM_WORKER",
    "FORBIDDEN_ORIGIN",
    "PAYLOAD_TOO_LARGE",
    "READ_ONLY",
    "TOO_MANY_REQUESTS",
    "UNAUTHORIZED",
];
/// Maximum length of a text of a host in an error, in characters.
const MAX_TEXT: usize = 2000;
/// Maximum length of a code.
const MAX_CODE: usize = 64;

/// An error as a host sent it, as far as the page needs it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FarRefusal {
    code: Lenient<String>,
    message: Lenient<String>,
    retryable: Lenient<bool>,
    details: Lenient<FarDetails>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FarDetails {
    recommended_action: Lenient<String>,
}

/// An error of a host as the page gets it.
#[derive(Serialize)]
struct ShownRefusal {
    code: String,
    message: String,
    retryable: bool,
    details: Map<String, Value>,
}

/// Returns the error of a place for the page. That of a host names the host, has clean and short
/// texts, and no code of the panel itself.
pub(crate) fn of_place(place: &PanelWorkspace, error: Value) -> Value {
    place.host.as_deref().map_or_else(|| error.clone(), |host| of_host(host, &error))
}

/// Returns the error of a host for the page.
pub(crate) fn of_host(host: &str, error: &Value) -> Value {
    let said: FarRefusal = lenient::read(error);
    let code = said.code.0.filter(|code| {
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        !code.is_empty() && code.len() <= MAX_CODE && code.chars().all(is_word)
    });
    let message = short(&said.message.0.unwrap_or_default());
    let Some(code) = code.filter(|code| !OWN_CODES.contains(&code.as_str())) else {
        let message = format!("the host `{host}` refused this: {message}");
        let refused = Error::new(Code::HostUnsupported, message).with("host", host);
        return json!(refused.recommend(format!("use `subagent --host {host}`, or the panel of that host")));
    };
    let mut details = Map::new();
    details.insert("host".to_owned(), host.into());
    if let Some(advice) = said.details.0.unwrap_or_default().recommended_action.0 {
        details.insert("recommendedAction".to_owned(), short(&advice).into());
    }
    json!(ShownRefusal { code, message, retryable: said.retryable.0.unwrap_or_default(), details })
}

fn short(text: &str) -> String {
    let text: String = text.chars().take(MAX_TEXT).collect();
    clean(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemons::errors::code_of;

    #[test]
    fn a_host_cannot_sign_the_page_out() {
        for code in OWN_CODES.iter().chain(&["", "no code"]) {
            let shown = of_host("lap", &json!({"code": code, "message": "go\u{1b}[2J away"}));
            assert_eq!(code_of(&shown), "HOST_UNSUPPORTED", "{shown}");
            assert_eq!(shown["details"]["host"], "lap");
            assert!(!shown.to_string().contains("\\u001b"), "{shown}");
        }
        assert_eq!(code_of(&of_host("lap", &json!(7))), "HOST_UNSUPPORTED");
    }

    #[test]
    fn other_errors_of_a_host_keep_code_and_advice() {
        let said = json!({
            "code": "WORKER_NOT_FOUND", "message": "none\u{202e}", "retryable": true,
            "details": {"recommendedAction": "look", "more": "x"},
        });
        let shown = of_host("lap", &said);
        assert_eq!(code_of(&shown), "WORKER_NOT_FOUND");
        assert_eq!(shown["retryable"], true);
        assert_eq!(shown["details"], json!({"host": "lap", "recommendedAction": "look"}));
        assert!(!shown["message"].as_str().unwrap().contains('\u{202e}'), "{shown}");
    }
}
