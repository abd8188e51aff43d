//! How long a command waits.

use std::time::Duration;

use crate::output::terminal::OutputTerminal;

/// The time limit of a wait without a terminal, as in the contract.
const USUAL_LIMIT: f64 = 60.0;

/// Returns the time limit of a wait in the positional form. `seconds` is the older flag, if it was typed. At a terminal
/// there is no limit by default.
pub(crate) fn wait_limit(time: Option<f64>, seconds: Option<f64>) -> Option<Duration> {
    limit_of(time.or(seconds), || OutputTerminal::of_stdout().is_some())
}

fn limit_of(typed: Option<f64>, at_terminal: impl FnOnce() -> bool) -> Option<Duration> {
    let limit = typed.unwrap_or_else(|| if at_terminal() { 0.0 } else { USUAL_LIMIT });
    // A limit that is too long for a clock is none.
    Duration::try_from_secs_f64(limit).ok().filter(|limit| !limit.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_limited_by_what_was_typed_and_else_without_a_terminal() {
        let table = [
            (None, false, Some(60)),
            (None, true, None),
            (Some(5.0), true, Some(5)),
            (Some(0.0), false, None),
            (Some(1e300), false, None),
        ];
        for (typed, at_terminal, expected) in table {
            let limit = limit_of(typed, || at_terminal);
            assert_eq!(limit.map(|limit| limit.as_secs()), expected, "{typed:?} {at_terminal}");
        }
    }
}
