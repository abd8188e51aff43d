//! Locks of operations that must not run twice at once: a repeated request waits for the first one,
//! and then finds its result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, Semaphore};

/// Maximum number of hooks that run at once; others wait. Each costs a process and three
/// descriptors.
const MAX_HOOKS: usize = 16;

/// The locks of a daemon.
#[derive(Debug)]
pub(crate) struct OperationLocks {
    /// Held while the database is copied.
    pub(super) backing_up: tokio::sync::Mutex<()>,
    /// Held by `prune`. A second request with the same key then finds the result of the first.
    pub(super) pruning: tokio::sync::Mutex<()>,
    /// Held while definition files are read for a task, one at a time.
    pub(super) composing: Arc<tokio::sync::Mutex<()>>,
    /// Held by a request that changes a worktree; keyed by the address in the request.
    pub(super) worktrees: KeyedLocks,
    /// Held while the after hooks of a worker run; keyed by its id.
    pub(super) after_hooks: KeyedLocks,
    /// Limits the number of hooks that run at once.
    pub(super) hooks: Semaphore,
}

impl Default for OperationLocks {
    fn default() -> Self {
        Self {
            backing_up: tokio::sync::Mutex::default(),
            pruning: tokio::sync::Mutex::default(),
            composing: Arc::default(),
            worktrees: KeyedLocks::default(),
            after_hooks: KeyedLocks::default(),
            hooks: Semaphore::new(MAX_HOOKS),
        }
    }
}

/// A lock for each name in use.
#[derive(Debug, Default)]
pub(super) struct KeyedLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl KeyedLocks {
    /// Waits for the lock of this name.
    pub(super) async fn lock(&self, name: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Drops locks that only this map refers to.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(name.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_name_is_held_once_and_forgotten_when_it_is_free() {
        let locks = KeyedLocks::default();
        let held = locks.lock("a").await;
        assert!(timeout(Duration::from_millis(1), locks.lock("a")).await.is_err());
        drop(locks.lock("b").await);
        drop(held);
        drop(timeout(Duration::from_secs(5), locks.lock("a")).await.unwrap());
        drop(locks.lock("c").await);
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }
}
