//! The amount of work of a randomized suite, in an ordinary and in a long run.

/// The variable with the factor of a long run, usually 20.
const FACTOR: &str = "SUBAGENT_FAULTS";

/// Returns `count` times the factor in `SUBAGENT_FAULTS`, or `count` without that variable.
///
/// # Panics
/// If the variable is not a number.
#[must_use]
#[allow(clippy::expect_used, reason = "a wrong variable must not pass for a short run")]
pub fn times(count: usize) -> usize {
    let factor =
        std::env::var(FACTOR).map_or(1, |text| text.parse().expect("SUBAGENT_FAULTS must be a number"));
    count * factor
}
