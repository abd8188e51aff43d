//! Tells one fast worker from many workers, by the records that were stored lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::rows::RowId;

/// Number of stored batches of records that are remembered.
const REMEMBERED: usize = 16;
/// Age after which they are ignored. Longer than the time between two commits.
const PERIOD: Duration = Duration::from_millis(32);
/// Minimum number of workers that count as many.
const MANY: usize = 4;

/// The workers whose records were stored last.
#[derive(Debug, Default)]
pub(crate) struct RecentWorkers(VecDeque<(RowId, Instant)>);

impl RecentWorkers {
    pub(crate) fn add(&mut self, worker: RowId, now: Instant) {
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front((worker, now));
    }

    pub(crate) fn are_many(&self, now: Instant) -> bool {
        let is_recent = |(_, at): &&(RowId, Instant)| now.saturating_duration_since(*at) < PERIOD;
        let mut workers: Vec<i64> = self.0.iter().take_while(is_recent).map(|(worker, _)| worker.0).collect();
        workers.sort_unstable();
        workers.dedup();
        workers.len() >= MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_workers_within_the_period_are_many() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut recent = RecentWorkers::default();
        for millis in 0..20 {
            recent.add(RowId(1), at(millis));
            assert!(!recent.are_many(at(millis)), "one worker");
        }
        for worker in 2..=4 {
            assert!(!recent.are_many(at(20)), "fewer than four");
            recent.add(RowId(worker), at(20));
        }
        assert!(recent.are_many(at(21)));
        assert!(!recent.are_many(at(52)), "too long ago");
    }
}
