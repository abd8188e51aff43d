//! Limits of a task's prompt: number of steps and time. A step is a tool call, identified by its
//! id. Time is that of the worker's account, which excludes waiting for a slot or an answer. No
//! clock is read, and all state can be restored from the store.

use std::collections::HashSet;
use std::sync::Arc;

use crate::accounts::Account;
use crate::model::TaskEnding;

use sha2::{Digest as _, Sha256};

/// Maximum number of counted steps. One more exceeds every limit.
pub const MAX_STEPS: u64 = 10_000;

/// The steps of one prompt. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// Truncated hashes of the call ids, because agents choose the length of ids.
    seen: Arc<HashSet<[u8; 16]>>,
}

impl Steps {
    /// Records a call. Returns whether it is a new one.
    pub fn see(&mut self, id: &str) -> bool {
        let mut short = [0; 16];
        short.iter_mut().zip(Sha256::digest(id)).for_each(|(byte, of_hash)| *byte = of_hash);
        let is_new = !self.is_full() && !self.seen.contains(&short);
        if is_new {
            Arc::make_mut(&mut self.seen).insert(short);
        }
        is_new
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.seen.len()).unwrap_or(u64::MAX)
    }

    /// Returns whether no more steps are counted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count() > MAX_STEPS
    }
}

/// Elapsed time of a prompt, and whether it runs now. The default is zero and not running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptTime {
    ms: u64,
    now: bool,
}

impl PromptTime {
    /// Returns the time by the worker's account. `before_ms` is its value at the start of the
    /// prompt.
    #[must_use]
    pub fn of(account: &Account, before_ms: u64, now: i64) -> Self {
        Self { ms: account.ran_ms(now).saturating_sub(before_ms), now: account.runs() }
    }
}

/// Limits of one prompt of a task, and its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptLimits {
    max_steps: u64,
    max_ms: Option<u64>,
    /// The steps of the prompt.
    pub steps: Steps,
    /// Whether the prompt is being ended already. Then the limits do not matter.
    ends: bool,
}

impl PromptLimits {
    /// Creates a meter. A `timeout_ms` of 0 means no limit. `ends`: the prompt is being ended
    /// already.
    #[must_use]
    pub fn new(max_steps: u64, timeout_ms: u64, ends: bool) -> Self {
        let max_ms = (timeout_ms > 0).then_some(timeout_ms);
        Self { max_steps: max_steps.min(MAX_STEPS), max_ms, steps: Steps::default(), ends }
    }

    /// Returns why the prompt must end now. Reports this once.
    pub fn look(&mut self, ran: PromptTime) -> Option<TaskEnding> {
        if self.ends {
            return None;
        }
        let over = if self.steps.count() > self.max_steps {
            Some(TaskEnding::MaxIterationsReached)
        } else {
            self.max_ms.filter(|most| ran.ms >= *most).map(|_| TaskEnding::TimedOut)
        };
        self.ends = over.is_some();
        over
    }

    /// Returns the milliseconds until its time is over, if it keeps running.
    #[must_use]
    pub fn left(&self, ran: PromptTime) -> Option<u64> {
        let left = self.max_ms?.saturating_sub(ran.ms);
        (!self.ends && ran.now).then_some(left)
    }

    /// Returns the reason in words.
    #[must_use]
    pub fn reason(&self, ending: TaskEnding) -> String {
        match ending {
            TaskEnding::MaxIterationsReached => {
                format!("the task exceeded its limit of {} tool calls", self.max_steps)
            }
            TaskEnding::TimedOut => {
                let seconds = self.max_ms.unwrap_or_default() as f64 / 1000.0;
                format!("the task reached its time limit of {seconds} s")
            }
            TaskEnding::Cancelled => String::new(),
        }
    }
}
