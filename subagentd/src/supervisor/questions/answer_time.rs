//! The time limit of questions.

use subagent_protocol::api::{AnswerTime, MAX_WAIT_MS};
use subagent_protocol::{Code, Error, Result};

/// Validates the time limit of questions.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(crate) fn check_answer_time(time: Option<AnswerTime>) -> Result<()> {
    match time {
        Some(time) if !(1..=MAX_WAIT_MS).contains(&time.timeout_ms) => {
            let message =
                format!("questions wait for 1 to {MAX_WAIT_MS} milliseconds, not {}", time.timeout_ms);
            Err(Error::new(Code::InvalidArgument, message).with("field", "answerTime"))
        }
        _ => Ok(()),
    }
}
