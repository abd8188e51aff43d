//! How long the questions of a worker wait: what flags, `--input` and the config say. Pure.

use subagent_config::approvals::{Approvals, Unanswered};
use subagent_protocol::api::{AnswerTime, OnTimeout};

use crate::args::numbers::idle_timeout;
use crate::failure::{Failure, Result};
use crate::input::Input;

/// What flags and `--input` say: a time in milliseconds, 0 for ever, and what happens then.
///
/// # Errors
/// `INVALID_ARGUMENT` for a word that says neither.
pub(super) fn typed(
    time: Option<u64>,
    outcome: Option<String>,
    input: &Input,
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
            let message =
                format!("when nobody answers in time, {word:?} cannot happen; write deny or cancel");
            Failure::argument(message).with("onApprovalTimeout", word)
        })?),
    };
    Ok((time, outcome))
}

/// What counts for a worker that is started now; what was typed goes before the config.
///
/// # Errors
/// `INVALID_ARGUMENT` for an outcome of a time that never is over.
pub(super) fn of(
    config: &Approvals,
    time: Option<u64>,
    outcome: Option<OnTimeout>,
) -> Result<Option<AnswerTime>> {
    let of_config = config.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    match time.or(of_config).filter(|time| *time > 0) {
        None if outcome.is_some() => Err(Failure::argument(
            "--on-approval-timeout says what happens after --approval-timeout, and questions wait for ever",
        )),
        None => Ok(None),
        Some(timeout_ms) => {
            let of_config = match config.on_timeout {
                Some(Unanswered::Cancel) => OnTimeout::Cancel,
                Some(Unanswered::Deny) | None => OnTimeout::Deny,
            };
            let on_timeout = outcome.unwrap_or(of_config);
            Ok(Some(AnswerTime { timeout_ms, on_timeout }))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_typed_goes_before_the_config() {
        let config =
            Approvals { timeout: Some(Duration::from_secs(60)), on_timeout: Some(Unanswered::Cancel) };
        let time = |timeout_ms, on_timeout| Some(AnswerTime { timeout_ms, on_timeout });
        assert_eq!(of(&config, None, None).unwrap(), time(60_000, OnTimeout::Cancel));
        assert_eq!(of(&config, Some(5), Some(OnTimeout::Deny)).unwrap(), time(5, OnTimeout::Deny));
        assert_eq!(of(&config, Some(0), None).unwrap(), None);
        let none = Approvals::default();
        assert_eq!(of(&none, Some(5), None).unwrap(), time(5, OnTimeout::Deny));
        assert_eq!(of(&none, None, None).unwrap(), None);
        assert!(of(&none, None, Some(OnTimeout::Deny)).is_err());
    }
}
