//! Locks by name: a repeated request waits for the first one, and then finds its result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

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
