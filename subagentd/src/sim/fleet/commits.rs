//! The store's writer thread on the simulated clock: which jobs share a commit. Has the loop of
//! `store::writer`, with the limits and the memory of recent workers from there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::micros;
use crate::store::{BATCH_WEIGHT, Durability, PROGRESS_INTERVAL, RecentWorkers, RowId, SYNC_AFTER};

/// A job of the writer, without its statements.
pub(super) struct WaitingJob {
    pub(super) worker: usize,
    pub(super) weight: usize,
    pub(super) durability: Durability,
    /// Whether it stores records of the journal.
    pub(super) has_records: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterStage {
    Idle,
    /// Progress waits for more of it.
    Pausing {
        until: u64,
    },
    Committing {
        until: u64,
    },
}

/// Numbers of commits since the begin.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CommitCounts {
    /// Jobs that need a synced commit.
    pub(super) full_jobs: u64,
    /// All commits, synced or not.
    pub(super) commits: u64,
}

pub(super) struct SimulatedWriter {
    /// Duration of a commit, in microseconds.
    commit: u64,
    stage: WriterStage,
    queue: VecDeque<WaitingJob>,
    queue_weight: usize,
    batch: Vec<WaitingJob>,
    batch_weight: usize,
    recent: RecentWorkers,
    /// The point 0 of the simulated clock, for `recent`. Only differences to it are used.
    zero: Instant,
    /// When the last commit ended.
    committed: Option<u64>,
    /// When the first commit ended that no sync has covered.
    unsynced: Option<u64>,
    counts: CommitCounts,
}

impl SimulatedWriter {
    pub(super) fn new(commit: Duration) -> Self {
        Self {
            commit: micros(commit),
            stage: WriterStage::Idle,
            queue: VecDeque::new(),
            queue_weight: 0,
            batch: Vec::new(),
            batch_weight: 0,
            recent: RecentWorkers::default(),
            zero: Instant::now(),
            committed: None,
            unsynced: None,
            counts: CommitCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> CommitCounts {
        self.counts
    }

    /// Returns when it does something by itself.
    pub(super) fn next_time(&self) -> Option<u64> {
        match self.stage {
            WriterStage::Idle => None,
            WriterStage::Pausing { until } | WriterStage::Committing { until } => Some(until),
        }
    }

    pub(super) fn push(&mut self, job: WaitingJob, now: u64) {
        let is_urgent = job.durability == Durability::Full;
        self.counts.full_jobs += u64::from(is_urgent);
        self.queue_weight += job.weight;
        self.queue.push_back(job);
        let is_enough = is_urgent || self.queue_weight >= BATCH_WEIGHT - self.batch_weight.min(BATCH_WEIGHT);
        match self.stage {
            WriterStage::Idle => self.fill(now),
            WriterStage::Pausing { .. } if is_enough => self.fill(now),
            WriterStage::Pausing { .. } | WriterStage::Committing { .. } => {}
        }
    }

    /// Does what is due at its next time. Returns the jobs of a commit that has ended.
    pub(super) fn advance(&mut self, now: u64) -> Vec<WaitingJob> {
        match self.stage {
            WriterStage::Idle => Vec::new(),
            WriterStage::Pausing { .. } => {
                self.fill(now);
                Vec::new()
            }
            WriterStage::Committing { .. } => self.end_commit(now),
        }
    }

    /// Takes waiting jobs up to the limit. Then pauses, or begins the commit.
    fn fill(&mut self, now: u64) {
        while self.batch_weight < BATCH_WEIGHT {
            let Some(job) = self.queue.pop_front() else { break };
            self.queue_weight -= job.weight;
            self.batch_weight += job.weight;
            self.batch.push(job);
        }
        let pause = if self.batch_weight < BATCH_WEIGHT { self.pause(now) } else { 0 };
        if pause > 0 {
            self.stage = WriterStage::Pausing { until: now + pause };
            return;
        }
        for job in self.batch.iter().filter(|job| job.has_records) {
            let worker = RowId(i64::try_from(job.worker).unwrap());
            self.recent.add(worker, self.zero + Duration::from_micros(now));
        }
        self.stage = WriterStage::Committing { until: now + self.commit };
    }

    fn durability(&self, now: u64) -> Durability {
        let is_overdue = self.unsynced.is_some_and(|since| now - since >= micros(SYNC_AFTER));
        let is_full = is_overdue || self.batch.iter().any(|job| job.durability == Durability::Full);
        if is_full { Durability::Full } else { Durability::Progress }
    }

    /// Same as `pause` of the real writer.
    fn pause(&self, now: u64) -> u64 {
        let is_full = self.batch.iter().any(|job| job.durability == Durability::Full);
        match self.committed {
            Some(last) if !is_full && self.recent.are_many(self.zero + Duration::from_micros(now)) => {
                micros(PROGRESS_INTERVAL).saturating_sub(now - last)
            }
            _ => 0,
        }
    }

    fn end_commit(&mut self, now: u64) -> Vec<WaitingJob> {
        // It was chosen at the begin of the commit.
        match self.durability(now - self.commit) {
            Durability::Full => self.unsynced = None,
            Durability::Progress => {
                self.unsynced.get_or_insert(now);
            }
        }
        self.counts.commits += 1;
        self.committed = Some(now);
        self.stage = WriterStage::Idle;
        self.batch_weight = 0;
        let stored = std::mem::take(&mut self.batch);
        if !self.queue.is_empty() {
            self.fill(now);
        }
        stored
    }
}
