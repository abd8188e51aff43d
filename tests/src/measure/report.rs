//! What a run has found: rows with figures, and targets with whether they are met.

use super::statistics::Summary;

/// In what a figure is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// A thousand bytes times 1.024, as `/proc` has it.
    Kilobytes,
    /// 1024 of these.
    Megabytes,
    /// Events in a second.
    PerSecond,
    /// How many.
    Count,
    /// One thing as so many times another.
    Times,
    /// One thing in hundredths of another.
    Percent,
}

impl Unit {
    /// A value in this unit, for people.
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

/// A whole number with a comma after each three digits.
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

/// One thing that was measured.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What.
    pub what: String,
    /// In what.
    pub unit: Unit,
    /// The numbers.
    pub summary: Summary,
}

/// What became of a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Met by this.
    Met(String),
    /// Missed by this.
    Missed(String),
    /// Not measured, for this reason.
    Unmeasured(String),
}

/// A target.
#[derive(Debug, Clone)]
pub struct Target {
    /// What is wanted.
    pub wanted: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What was found in one row of the table of targets.
#[derive(Debug, Clone)]
pub struct Row {
    /// The name that runs it alone.
    pub name: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The targets.
    pub targets: Vec<Target>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Row {
    /// One without anything in it.
    #[must_use]
    pub const fn new(name: &'static str, what: &'static str) -> Self {
        Self { name, what, figures: Vec::new(), targets: Vec::new(), notes: Vec::new() }
    }

    /// Adds a figure and gives its numbers.
    ///
    /// # Panics
    /// When there are no values: a row measures something or fails.
    #[track_caller]
    pub fn figure(&mut self, what: impl Into<String>, unit: Unit, values: &[f64]) -> Summary {
        let what = what.into();
        let summary =
            Summary::of(values).unwrap_or_else(|| panic!("{}: nothing measured: {what}", self.name));
        self.figures.push(Figure { what, unit, summary });
        summary
    }

    /// Adds a target of at most so much.
    pub fn at_most(&mut self, wanted: impl Into<String>, unit: Unit, limit: f64, found: f64) {
        self.judge(wanted, unit, found, found <= limit);
    }

    /// Adds a target of at least so much.
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

    /// Adds something that a reader must know.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// A whole run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Where, when and with what: one line each.
    pub about: Vec<(String, String)>,
    /// The rows.
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
