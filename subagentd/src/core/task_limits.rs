//! The rules of what ends a prompt of a task by itself: it has made more steps than it may, or has run for longer.
//!
//! A step is a tool call, by the id that its agent gives it, however often it speaks of it. Time is that of the worker's
//! account (`budget`), which counts neither what waits for its place nor what waits for an answer. No clock is looked at,
//! and nothing is kept here that a new daemon could not find in what is stored.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::budget::Account;
use super::task::TaskEnding;

/// So many steps of a prompt are told from each other; one more is beyond every limit.
pub const MOST_STEPS: u64 = 10_000;

/// The steps of one prompt. A clone costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// Of each the beginning of a hash: an agent gives ids as long as it likes.
    seen: Arc<HashSet<[u8; 16]>>,
}

impl Steps {
    /// Takes notice of a call. Says whether it is a new one.
    pub fn see(&mut self, id: &str) -> bool {
        let mut short = [0; 16];
        short.iter_mut().zip(Sha256::digest(id)).for_each(|(byte, of_hash)| *byte = of_hash);
        let is_new = !self.is_full() && !self.seen.contains(&short);
        if is_new {
            Arc::make_mut(&mut self.seen).insert(short);
        }
        is_new
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.seen.len()).unwrap_or(u64::MAX)
    }

    /// Whether no more are counted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count() > MOST_STEPS
    }
}

/// How long a prompt has run, and whether it does now; by itself not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ran {
    ms: u64,
    now: bool,
}

impl Ran {
    /// By the account of its worker, which had run for `before_ms` when the prompt was begun.
    #[must_use]
    pub fn of(account: &Account, before_ms: u64, now: i64) -> Self {
        Self { ms: account.ran_ms(now).saturating_sub(before_ms), now: account.runs() }
    }
}

/// What one prompt of a task may use, and the steps that it has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    most_steps: u64,
    most_ms: Option<u64>,
    /// What it has done.
    pub steps: Steps,
    /// Whether something ends it already: then nothing else does.
    ends: bool,
}

impl Meter {
    /// Of a prompt that may make so many steps and, unless it is 0, run for so many milliseconds. `ends`: something ends it
    /// already.
    #[must_use]
    pub fn new(most_steps: u64, timeout_ms: u64, ends: bool) -> Self {
        let most_ms = (timeout_ms > 0).then_some(timeout_ms);
        Self { most_steps: most_steps.min(MOST_STEPS), most_ms, steps: Steps::default(), ends }
    }

    /// Why the prompt is to be ended now. That is said once.
    pub fn look(&mut self, ran: Ran) -> Option<TaskEnding> {
        if self.ends {
            return None;
        }
        let over = if self.steps.count() > self.most_steps {
            Some(TaskEnding::MaxIterationsReached)
        } else {
            self.most_ms.filter(|most| ran.ms >= *most).map(|_| TaskEnding::TimedOut)
        };
        self.ends = over.is_some();
        over
    }

    /// In how many milliseconds its time is over if it goes on as it does.
    #[must_use]
    pub fn left(&self, ran: Ran) -> Option<u64> {
        let left = self.most_ms?.saturating_sub(ran.ms);
        (!self.ends && ran.now).then_some(left)
    }

    /// What is said of such an end.
    #[must_use]
    pub fn reason(&self, ending: TaskEnding) -> String {
        match ending {
            TaskEnding::MaxIterationsReached => {
                format!("the task made more than the {} tool calls that it may", self.most_steps)
            }
            TaskEnding::TimedOut => {
                let seconds = self.most_ms.unwrap_or_default() as f64 / 1000.0;
                format!("the task ran for the {seconds} s that it may")
            }
            TaskEnding::Cancelled => String::new(),
        }
    }
}
