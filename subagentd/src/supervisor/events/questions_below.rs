//! Questions of tasks below a worker. They count as the worker's own for clients that wait for it
//! or show it.

use std::collections::HashSet;

use serde_json::{Value, json};
use subagent_protocol::Result;
use subagent_protocol::api::InboxItem;
use subagent_protocol::until::Until;
use tokio::sync::watch;

use crate::store::questions::below::QuestionBelow;
use crate::store::questions::{self, inbox};
use crate::store::{RowId, Store, WorkerRow, tasks};
use crate::supervisor::questions::inbox::listed;
use crate::supervisor::worker::ActorHandle;
use crate::supervisor::{Supervisor, policy};

/// Finds the questions below one worker, in order, each once.
pub(crate) struct QuestionsBelow {
    store: Store,
    worker: RowId,
    has_tasks: bool,
    /// Turns true before the first task is stored. `None` for a worker that cannot create tasks.
    gives: Option<watch::Receiver<bool>>,
    /// Sequence number of the newest question of all workers.
    asked: watch::Receiver<i64>,
    /// Questions up to this event were read.
    after: i64,
    /// Whether the store was searched since the newest question.
    searched: bool,
}

impl QuestionsBelow {
    /// Finds questions after this event.
    pub(crate) fn after(store: &Store, row: &WorkerRow, handle: Option<&ActorHandle>, after: i64) -> Self {
        Self {
            store: store.clone(),
            worker: row.id,
            has_tasks: row.agent.has_tasks,
            gives: handle.map(|handle| handle.gives.subscribe()),
            asked: store.asked(),
            after,
            searched: false,
        }
    }

    /// Returns the next question that matches and that no rule decided, or `None` if there is none
    /// yet.
    pub(crate) async fn next(&mut self, until: &Until) -> Result<Option<QuestionBelow>> {
        if !self.is_due() {
            return Ok(None);
        }
        loop {
            let (worker, after) = (self.worker, self.after);
            let read = self.store.read(move |connection| {
                let Some(found) = questions::below::first_after(connection, worker, after)? else {
                    return Ok(None);
                };
                let decided = policy::is_decided_by_rule(connection, found.worker, &found.event)?;
                Ok(Some((found, decided)))
            });
            let Some((found, decided)) = read.await? else {
                self.searched = true;
                return Ok(None);
            };
            self.after = found.event.seq;
            if !decided && until.matches(found.event.event_type, None) {
                return Ok(Some(found));
            }
        }
    }

    /// Returns the oldest open question. Also `None` if no question was asked since the last call.
    pub(crate) async fn oldest_open(&mut self) -> Result<Option<QuestionBelow>> {
        if !self.is_due() {
            return Ok(None);
        }
        let worker = self.worker;
        let found =
            self.store.read(move |connection| questions::below::oldest_open(connection, worker)).await?;
        self.searched = true;
        Ok(found)
    }

    /// Waits for a new question of any worker. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.asked.changed().await.is_err() {
            // The store is closed.
            std::future::pending().await
        }
        self.searched = false;
    }

    fn is_due(&mut self) -> bool {
        if self.asked.has_changed().unwrap_or(false) {
            self.asked.mark_unchanged();
            self.searched = false;
        }
        !self.searched && self.may_be()
    }

    fn may_be(&self) -> bool {
        self.has_tasks || self.gives.as_ref().is_some_and(|gives| *gives.borrow())
    }
}

/// Returns the open questions of tasks below a worker, oldest first.
pub(crate) async fn questions_below(supervisor: &Supervisor, row: &WorkerRow) -> Result<Vec<InboxItem>> {
    let worker = row.id;
    let read = supervisor.shared.store.read(move |connection| {
        let below: HashSet<RowId> = tasks::events::below(connection, worker)?;
        if below.is_empty() {
            return Ok(Vec::new());
        }
        inbox::open(connection, |row| below.contains(&row.worker).then(|| listed(&row)))
    });
    read.await
}

/// Returns the open questions below a worker whose wait timed out: a sentence for people, and
/// JSON.
pub(crate) async fn open_below(supervisor: &Supervisor, row: &WorkerRow) -> Result<Option<(String, Value)>> {
    let open = questions_below(supervisor, row).await?;
    let Some(first) = open.first() else { return Ok(None) };
    let who = first.path.join(" › ");
    let text = match open.len() {
        1 => format!("the task {who} asks: {}", first.subject),
        count => format!("{count} questions of tasks are open; {who} asks: {}", first.subject),
    };
    Ok(Some((text, json!(open))))
}
