//! Summarizes many measurements in a few numbers.

/// Statistics of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The number of all measurements.
    pub count: usize,
    /// The smallest value measured.
    pub min: f64,
    /// The median; for an even number of values, the mean of the middle two.
    pub median: f64,
    /// At least 99 of 100 values are not greater.
    pub p99: f64,
    /// The greatest value measured.
    pub max: f64,
}

impl Summary {
    /// Returns `None` without any value.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { count: sorted.len(), min, median, p99: sorted[rank(sorted.len())], max })
    }

    /// Converts to another unit by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Self { count, min, median, p99, max } = self;
        Self { count, min: min * factor, median: median * factor, p99: p99 * factor, max: max * factor }
    }
}

/// Returns the index of the smallest value that at least 99 of 100 do not exceed (nearest rank).
fn rank(count: usize) -> usize {
    (count * 99).div_ceil(100).max(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { count: 3, min: 1.0, median: 2.0, p99: 3.0, max: 3.0 });
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Summary::of(&[1.0, 2.0, 10.0, 20.0]).unwrap().median, 6.0);
    }

    #[test]
    fn the_99th_of_100_is_not_the_greatest() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let summary = Summary::of(&values).unwrap();
        assert_eq!((summary.p99, summary.max), (99.0, 100.0));
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(Summary::of(&values).unwrap().p99, 990.0);
        assert_eq!(Summary::of(&[7.0]).unwrap().p99, 7.0);
    }

    #[test]
    fn of_nothing_nothing_is_reported() {
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn another_unit_changes_all_but_the_number() {
        let summary = Summary::of(&[0.001, 0.003]).unwrap().times(1000.0);
        assert_eq!((summary.count, summary.min, summary.median), (2, 1.0, 2.0));
    }
}
