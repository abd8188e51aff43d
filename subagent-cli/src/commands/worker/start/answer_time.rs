//! How long the questions of a worker wait: what flags and `--input` say. Pure.

use subagent_protocol::api::OnTimeout;

use crate::command_line::numbers::idle_timeout;
use crate::failure::{Failure, Result};
use crate::input::InputObject;

/// What flags and `--input` say: a time in milliseconds, 0 for ever, and what happens then.
///
/// # Errors
/// `INVALID_ARGUMENT` for a word that says neither.
pub(crate) fn typed(
    time: Option<u64>,
    outcome: Option<String>,
    input: &InputObject,
) -> Result<(Option<u64>, Option<OnTimeout>)> {
    let time = match (time, input.text("approvalTimeout")) {
        (Some(time), _) => Some(time),
        (None, Some(text)) => Some(idle_timeout(&text).map_err(|problem| {
            Failure::argument(format!("\"approvalTimeout\" in --input {problem}"))
                .with("approvalTimeout", text)
        })?),
        (None, None) => None,
    };
    let outcome = match outcome.filter(|word| !word.is_empty()).or_else(|| input.text("onApprovalTimeout")) {
        None => None,
        Some(word) => Some(OnTimeout::parse(&word).ok_or_else(|| {
            let message = format!("an approval timeout cannot lead to {word:?}; write deny or cancel");
            Failure::argument(message).with("onApprovalTimeout", word)
        })?),
    };
    Ok((time, outcome))
}
