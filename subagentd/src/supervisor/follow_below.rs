//! What a follower of a worker knows of the tasks below it: whether there are any, and whether something new was told of them.

use tokio::sync::watch;

/// What of the tasks below a worker is in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Nothing.
    Alone,
    /// What is told of them.
    Told,
    /// All their events, wrapped but for what is told of them.
    Tree,
}

/// The tasks below a worker that is followed.
pub(super) struct TasksBelow {
    sight: Sight,
    /// Whether there may be any.
    may_be: bool,
    /// Turns true before the first one is stored; `None` of a worker that can be given none any more.
    gives: Option<watch::Receiver<bool>>,
    /// The newest event that was told of any task.
    told: watch::Receiver<i64>,
    /// The newest event of all workers.
    news: watch::Receiver<i64>,
    /// Up to here everything that was told was looked at; `None`: not yet.
    seen: Option<i64>,
}

impl TasksBelow {
    pub(super) fn new(
        sight: Sight,
        may_be: bool,
        gives: Option<watch::Receiver<bool>>,
        told: watch::Receiver<i64>,
        news: watch::Receiver<i64>,
    ) -> Self {
        Self { sight, may_be, gives, told, news, seen: None }
    }

    /// Whether they are to be looked at, if there may be any. To be asked after it was looked how far the worker's own events
    /// go: what is stored of a first task is stored later than this says so.
    pub(super) fn may_be(&mut self) -> bool {
        if self.sight == Sight::Alone {
            return false;
        }
        if !self.may_be && self.gives.as_mut().is_some_and(|gives| *gives.borrow_and_update()) {
            self.may_be = true;
        }
        self.may_be
    }

    /// Whether all their events are in the stream.
    pub(super) fn all(&self) -> bool {
        self.sight == Sight::Tree
    }

    /// How much was told by now, and whether that is to be looked at: else the worker's own events are all that is new. Of
    /// one that is `over` it always is.
    pub(super) fn look(&mut self, over: bool) -> (i64, bool) {
        self.news.mark_unchanged();
        let told = *self.told.borrow_and_update();
        (told, over || self.all() || self.seen.is_none_or(|seen| told > seen))
    }

    /// Everything up to this mark was looked at.
    pub(super) fn looked(&mut self, mark: i64) {
        self.seen = Some(mark);
    }

    /// Waits for something to look at.
    pub(super) async fn changed(&mut self) {
        match (self.sight, self.may_be, &mut self.gives) {
            (Sight::Told | Sight::Tree, false, Some(gives)) => heard(gives).await,
            (Sight::Alone, ..) | (_, false, None) => std::future::pending().await,
            (Sight::Told, true, _) => heard(&mut self.told).await,
            (Sight::Tree, true, _) => {
                tokio::select! {
                    () = heard(&mut self.told) => {}
                    () = heard(&mut self.news) => {}
                }
            }
        }
    }
}

/// Never, if there will be nothing.
async fn heard<T>(news: &mut watch::Receiver<T>) {
    if news.changed().await.is_err() {
        std::future::pending().await
    }
}
