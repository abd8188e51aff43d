//! The results of a run: rows with figures, and targets with their outcomes.

use super::statistics::Summary;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time in milliseconds, `ms`.
    Millis,
    /// Time in seconds, `s`.
    Seconds,
    /// Units of 1024 bytes, which `/proc` calls kB.
    Kilobytes,
    /// Units of 1024 such kilobytes.
    Megabytes,
    /// Number of events per second.
    PerSecond,
    /// A number without a unit.
    Count,
    /// A factor between two values.
    Times,
    /// One value as percentage of another.
    Percent,
}

impl Unit {
    /// Formats a value in this unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Millis => format!("{value:.2} ms"),
            Self::Seconds => format!("{value:.2} s"),
            Self::Kilobytes => format!("{value:.0} kB"),
            Self::Megabytes => format!("{value:.1} MiB"),
            Self::PerSecond => format!("{}/s", thousands(value)),
            Self::Count => thousands(value),
            Self::Times => format!("{value:.2} times"),
            Self::Percent => format!("{value:.0} %"),
        }
    }
}

/// Formats a whole number with a comma after each three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One measured value with statistics.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name of the measured value.
    pub what: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// Statistics of the measurements.
    pub summary: Summary,
}

/// The outcome of a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Met, with this value.
    Met(String),
    /// Missed, with this value.
    Missed(String),
    /// Not measured, for this reason.
    Unmeasured(String),
}

/// A target and its outcome.
#[derive(Debug, Clone)]
pub struct Target {
    /// The wanted value, as text.
    pub wanted: String,
    /// Whether the target was met.
    pub outcome: Outcome,
}

/// The results of one row of the table of targets.
#[derive(Debug, Clone)]
pub struct Row {
    /// The name that selects this row.
    pub name: &'static str,
    /// Description of the measurement.
    pub what: &'static str,
    /// The measured figures, in order.
    pub figures: Vec<Figure>,
    /// The targets of this row.
    pub targets: Vec<Target>,
    /// Remarks that a reader needs.
    pub notes: Vec<String>,
}

impl Row {
    /// Creates a row without results.
    #[must_use]
    pub const fn new(name: &'static str, what: &'static str) -> Self {
        Self { name, what, figures: Vec::new(), targets: Vec::new(), notes: Vec::new() }
    }

    /// Adds a figure and returns its statistics.
    ///
    /// # Panics
    ///
    /// If there are no values: a row measures something or fails.
    #[track_caller]
    pub fn figure(&mut self, what: impl Into<String>, unit: Unit, values: &[f64]) -> Summary {
        let what = what.into();
        let summary =
            Summary::of(values).unwrap_or_else(|| panic!("{}: nothing measured: {what}", self.name));
        self.figures.push(Figure { what, unit, summary });
        summary
    }

    /// Adds a target with a maximum.
    pub fn at_most(&mut self, wanted: impl Into<String>, unit: Unit, limit: f64, found: f64) {
        self.judge(wanted, unit, found, found <= limit);
    }

    /// Adds a target with a minimum.
    pub fn at_least(&mut self, wanted: impl Into<String>, unit: Unit, limit: f64, found: f64) {
        self.judge(wanted, unit, found, found >= limit);
    }

    fn judge(&mut self, wanted: impl Into<String>, unit: Unit, found: f64, met: bool) {
        let found = unit.show(found);
        let outcome = if met { Outcome::Met(found) } else { Outcome::Missed(found) };
        self.targets.push(Target { wanted: wanted.into(), outcome });
    }

    /// Adds a target that could not be measured.
    pub fn unmeasured(&mut self, wanted: impl Into<String>, why: impl Into<String>) {
        self.targets.push(Target { wanted: wanted.into(), outcome: Outcome::Unmeasured(why.into()) });
    }

    /// Adds a remark for the reader.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// The results of a whole run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Place, time and conditions, one line each.
    pub about: Vec<(String, String)>,
    /// The results by row.
    pub rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        assert_eq!(Unit::Millis.show(1.234), "1.23 ms");
        assert_eq!(Unit::PerSecond.show(163_480.4), "163,480/s");
        assert_eq!(Unit::Count.show(0.0), "0");
        assert_eq!(Unit::Count.show(-1234.0), "-1,234");
        assert_eq!(Unit::Count.show(999.0), "999");
        assert_eq!(Unit::Percent.show(95.4), "95 %");
    }

    #[test]
    fn a_limit_itself_meets_the_target() {
        let mut row = Row::new("row", "what");
        row.at_most("at most 3", Unit::Count, 3.0, 3.0);
        row.at_most("at most 3", Unit::Count, 3.0, 3.1);
        row.at_least("at least 3", Unit::Count, 3.0, 3.0);
        row.at_least("at least 3", Unit::Count, 3.0, 2.9);
        let met: Vec<bool> =
            row.targets.iter().map(|target| matches!(target.outcome, Outcome::Met(_))).collect();
        assert_eq!(met, [true, false, true, false]);
    }

    #[test]
    fn what_is_no_number_meets_nothing() {
        let mut row = Row::new("row", "what");
        row.at_most("at most 3", Unit::Count, 3.0, f64::NAN);
        row.at_least("at least 3", Unit::Count, 3.0, f64::NAN);
        assert!(row.targets.iter().all(|target| matches!(target.outcome, Outcome::Missed(_))));
    }
}
