//! The approval timeout of a new worker, from flags and config. Pure.

use subagent_protocol::Result;
use subagent_protocol::api::{AnswerTime, OnTimeout};

use super::wire::{argument, millis};
use crate::approvals::{Approvals, TimeoutAction};

/// Returns the timeout and its action. Flags override the config.
///
/// # Errors
/// `INVALID_ARGUMENT` for an action without a timeout.
pub fn of(config: &Approvals, time: Option<u64>, outcome: Option<OnTimeout>) -> Result<Option<AnswerTime>> {
    let of_config = config.timeout.map(millis);
    match time.or(of_config).filter(|time| *time > 0) {
        None if outcome.is_some() => Err(argument(
            "--on-approval-timeout says what happens after --approval-timeout, and questions have no time limit",
        )),
        None => Ok(None),
        Some(timeout_ms) => {
            let of_config = match config.on_timeout {
                Some(TimeoutAction::Cancel) => OnTimeout::Cancel,
                Some(TimeoutAction::Deny) | None => OnTimeout::Deny,
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
            Approvals { timeout: Some(Duration::from_secs(60)), on_timeout: Some(TimeoutAction::Cancel) };
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
