//! Reports the start to its starter: a line on the readiness pipe, JSON or text. After readiness a
//! background daemon only writes to the log.

use std::io::{self, Write};

use serde_json::{Value, json};
use subagent_protocol::api::Envelope;
use subagent_protocol::{Error, json as printed};

use super::options::StartMode;
use super::process::ReadinessProxy;

/// The destination of reports about the start.
#[derive(Debug)]
pub(super) struct StartReporter {
    to: To,
    /// The stand-in that the starter of a background daemon waits for; `None` after readiness.
    pub(super) starter: Option<ReadinessProxy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    /// The starter's pipe, for exactly one line of JSON.
    Pipe,
    Json,
    Text,
    Log,
}

impl StartReporter {
    pub(super) fn new(mode: StartMode, json: bool) -> Self {
        let to = match mode {
            StartMode::Background => To::Pipe,
            StartMode::Foreground if json => To::Json,
            StartMode::Foreground => To::Text,
        };
        Self { to, starter: None }
    }

    /// Reports readiness, or the finished health check. `payload` is the status file's content,
    /// `text` the same for people.
    pub(super) fn ready(&mut self, payload: &Value, text: &str) {
        match self.to {
            To::Pipe => line(&json!({ "ready": true }).to_string()),
            To::Json => line(&printed::line(payload.clone())),
            To::Text => line(text),
            To::Log => {}
        }
        if self.to == To::Pipe {
            self.to = To::Log;
        }
        if let Some(starter) = self.starter.take() {
            starter.ready();
        }
    }

    /// Reports a failed start, or the error that ended the daemon.
    pub(super) fn failed(&mut self, error: &Error) {
        tracing::error!(code = %error.code, message = error.message, "the daemon ends with an error");
        match self.to {
            To::Pipe => line(&json!({ "error": error }).to_string()),
            To::Json => {
                let envelope = serde_json::to_value(Envelope::<()>::failure(error.clone()));
                line(&printed::line(envelope.unwrap_or_default()));
            }
            To::Text => lines_to(&mut io::stderr().lock(), &in_words(error)),
            To::Log => {}
        }
    }
}

fn line(line: &str) {
    lines_to(&mut io::stdout().lock(), line);
}

/// Formats an error as the contract requires.
fn in_words(error: &Error) -> String {
    let detail = |key: &str| error.details.get(key).and_then(Value::as_str);
    let mut text = error.to_string();
    if let Some(action) = detail("recommendedAction") {
        text += &format!("\nHint: {action}");
    }
    if let Some(command) = detail("recommendedCommand") {
        text += &format!("\nTry: {command}");
    }
    text
}

/// Writes with one call, so that no reader sees a part. A missing reader is not an error.
fn lines_to(out: &mut impl Write, text: &str) {
    let _ = out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn errors_have_hint_and_command() {
        let error = Error::new(Code::DaemonAlreadyRunning, "taken").recommend("Stop it.");
        assert_eq!(in_words(&error), "DAEMON_ALREADY_RUNNING: taken\nHint: Stop it.");
        let error = error.with("recommendedCommand", "subagentd stop");
        assert_eq!(in_words(&error), "DAEMON_ALREADY_RUNNING: taken\nHint: Stop it.\nTry: subagentd stop");
    }

    #[test]
    fn the_pipe_is_used_once() {
        let mut report = StartReporter::new(StartMode::Background, true);
        assert_eq!(report.to, To::Pipe);
        report.ready(&Value::Null, "");
        assert_eq!(report.to, To::Log);
    }
}
