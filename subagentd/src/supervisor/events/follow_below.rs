//! Tracks for a follower whether a worker has tasks, and whether they have new events.

use tokio::sync::watch;

/// Which events of tasks a worker's stream contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventScope {
    /// No events of tasks.
    Alone,
    /// Only task events (milestones).
    TaskMilestones,
    /// All events of tasks; those that are not task events are wrapped.
    Tree,
}

/// State of the tasks below a followed worker.
pub(crate) struct TasksBelow {
    sight: EventScope,
    /// Whether tasks may exist.
    may_be: bool,
    /// Turns true before the first task is stored. `None` if the worker cannot get tasks any more.
    gives: Option<watch::Receiver<bool>>,
    /// Sequence number of the newest task event of the daemon.
    newest_task_event: watch::Receiver<i64>,
    /// Sequence number of the newest event of all workers.
    news: watch::Receiver<i64>,
    /// Task events up to this number were read. `None` before the first read.
    seen: Option<i64>,
}

impl TasksBelow {
    pub(crate) fn new(
        sight: EventScope,
        may_be: bool,
        gives: Option<watch::Receiver<bool>>,
        newest_task_event: watch::Receiver<i64>,
        news: watch::Receiver<i64>,
    ) -> Self {
        Self { sight, may_be, gives, newest_task_event, news, seen: None }
    }

    /// Returns whether the follower must read task events. Call it after reading the worker's
    /// newest sequence number: the flag is set before the first task is stored.
    pub(crate) fn may_be(&mut self) -> bool {
        if self.sight == EventScope::Alone {
            return false;
        }
        if !self.may_be && self.gives.as_mut().is_some_and(|gives| *gives.borrow_and_update()) {
            self.may_be = true;
        }
        self.may_be
    }

    /// Returns whether the stream contains all events of tasks.
    pub(crate) fn all(&self) -> bool {
        self.sight == EventScope::Tree
    }

    /// Returns the newest task event, and whether a joined read is necessary. If not, only the
    /// worker's own events are new. A joined read is always necessary once the worker is `over`.
    pub(crate) fn look(&mut self, over: bool) -> (i64, bool) {
        self.news.mark_unchanged();
        let newest_task_event = *self.newest_task_event.borrow_and_update();
        (newest_task_event, over || self.all() || self.seen.is_none_or(|seen| newest_task_event > seen))
    }

    /// Records that task events up to this number were read.
    pub(crate) fn looked(&mut self, mark: i64) {
        self.seen = Some(mark);
    }

    /// Waits for a change that requires a read.
    pub(crate) async fn changed(&mut self) {
        match (self.sight, self.may_be, &mut self.gives) {
            (EventScope::TaskMilestones | EventScope::Tree, false, Some(gives)) => heard(gives).await,
            (EventScope::Alone, ..) | (_, false, None) => std::future::pending().await,
            (EventScope::TaskMilestones, true, _) => heard(&mut self.newest_task_event).await,
            (EventScope::Tree, true, _) => {
                tokio::select! {
                    () = heard(&mut self.newest_task_event) => {}
                    () = heard(&mut self.news) => {}
                }
            }
        }
    }
}

/// Waits for a change. Never returns if the sender is gone.
async fn heard<T>(news: &mut watch::Receiver<T>) {
    if news.changed().await.is_err() {
        std::future::pending().await
    }
}
