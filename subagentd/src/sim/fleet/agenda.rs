//! What will happen on a simulated clock: in the order of time, then in the order of planning.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) struct Agenda<T> {
    planned: BinaryHeap<Reverse<(u64, u64, T)>>,
    count: u64,
}

impl<T: Ord> Default for Agenda<T> {
    fn default() -> Self {
        Self { planned: BinaryHeap::new(), count: 0 }
    }
}

impl<T: Ord> Agenda<T> {
    pub(super) fn plan(&mut self, at: u64, what: T) {
        self.count += 1;
        self.planned.push(Reverse((at, self.count, what)));
    }

    pub(super) fn next_time(&self) -> Option<u64> {
        self.planned.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes what happens first.
    pub(super) fn take(&mut self) -> Option<T> {
        self.planned.pop().map(|Reverse((.., what))| what)
    }
}
