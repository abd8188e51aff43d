//! `!elicit`: a question to the user, in a form or behind a link. `!raw`: a message as it is.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::turn::{Stop, Turn, Woken};

/// The longest single wait; an answer may take as long as the user likes.
const LONG: Duration = Duration::from_secs(3600);

impl Turn<'_> {
    /// Asks with these parameters, in the session's name if they name nobody, and says what was answered: all of it, or,
    /// with a file for the rest, only how.
    pub(super) fn elicit(&mut self, params: &str, file: Option<&Path>) -> Result<Option<String>, Stop> {
        let mut params: Value = match serde_json::from_str(params) {
            Ok(params @ Value::Object(_)) => params,
            _ => return Ok(Some("!elicit takes a JSON object".to_owned())),
        };
        if params.get("sessionId").is_none() && params.get("requestId").is_none() {
            params["sessionId"] = json!(self.session);
        }
        let id = self.agent.request_id();
        self.agent.out.request(id, "elicitation/create", &params)?;
        loop {
            let Woken::Answer { id: answered, result } = self.wait(LONG)? else { continue };
            if answered != id {
                continue;
            }
            let said = match (result, file) {
                (Err(error), _) => format!("error {}", error.code),
                (Ok(result), None) => result.to_string(),
                (Ok(result), Some(path)) => {
                    if let Err(error) = std::fs::write(path, result.to_string()) {
                        return Ok(Some(format!("!elicit-to: {error}")));
                    }
                    result["action"].as_str().unwrap_or("no action").to_owned()
                }
            };
            return self.say(&format!("elicitation: {said}")).map(|()| None);
        }
    }

    /// Writes a line, with the session's id for `SESSION` in it.
    pub(super) fn raw(&mut self, line: &str) -> Result<(), Stop> {
        let line = line.replace("SESSION", &self.session) + "\n";
        Ok(self.agent.out.raw(line.as_bytes())?)
    }
}
