//! How much a suite of faults does: what fits into every run, or many times as much behind one variable.

/// The variable with the factor. The long run has 20.
const FACTOR: &str = "SUBAGENT_FAULTS";

/// So many, times the factor of `SUBAGENT_FAULTS` (1 without it).
///
/// # Panics
/// When the variable holds no number.
#[must_use]
pub fn times(count: usize) -> usize {
    let factor =
        std::env::var(FACTOR).map_or(1, |text| text.parse().expect("SUBAGENT_FAULTS must be a number"));
    count * factor
}
