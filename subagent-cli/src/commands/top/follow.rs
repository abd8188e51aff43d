//! All workers for a board: a snapshot, and the events that follow it, over any number of lost connections.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::OverviewShown;
use subagent_protocol::event::Event;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until, timeout};

use super::effect::Input;
use crate::client::{Ask, Batch, Client, Step, read};
use crate::context::Context;
use crate::failure::{Failure, Result};

/// At least as long between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);
/// How soon a daemon that cannot be asked is asked again, the first time and at last.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
const LAST_PATIENCE: Duration = Duration::from_secs(30);

/// What a board follows.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) context: Context,
    pub(super) workspace: Workspace,
    /// Rung for another snapshot.
    pub(super) refresh: Arc<Notify>,
    pub(super) inputs: Sender<Input>,
}

/// Why a stream is left.
enum Left {
    /// For another snapshot.
    Refresh,
    /// The board is gone.
    Gone,
    Failed(Failure),
}

impl Follower {
    /// Follows until the board is gone.
    pub(super) async fn follow(self) {
        let mut asking = Client::new(&self.context, &self.workspace);
        let mut patience = FIRST_PATIENCE;
        loop {
            let taken = Instant::now();
            let left = match self.snapshot(&mut asking).await {
                Ok(Some(cursor)) => {
                    patience = FIRST_PATIENCE;
                    self.stream(cursor, taken).await
                }
                Ok(None) => Left::Gone,
                Err(failure) => Left::Failed(failure),
            };
            match left {
                Left::Refresh => {}
                Left::Gone => return,
                Left::Failed(failure) if failure.is(Code::CursorExpired) => {
                    if self.inputs.send(Input::Expired).await.is_err() {
                        return;
                    }
                }
                Left::Failed(failure) => {
                    if self.inputs.send(Input::Unreachable(failure)).await.is_err() {
                        return;
                    }
                    // A person who asks for a snapshot does not wait.
                    let _ = timeout(patience, self.refresh.notified()).await;
                    patience = (patience * 2).min(LAST_PATIENCE);
                }
            }
        }
    }

    /// Hands over a snapshot and returns its cursor; `None` if the board is gone.
    async fn snapshot(&self, client: &mut Client) -> Result<Option<String>> {
        let shown: OverviewShown = read(client.ask(&Ask::get("/v1/overview")).await?)?;
        let cursor = shown.cursor.to_string();
        let sent = self.inputs.send(Input::Snapshot(Box::new(shown))).await;
        Ok(sent.is_ok().then_some(cursor))
    }

    /// Hands over the events behind a cursor. `taken` is when the snapshot was.
    async fn stream(&self, cursor: String, taken: Instant) -> Left {
        // A connection of its own: the one before may be in the middle of an answer.
        let mut client = Client::new(&self.context, &self.workspace);
        let mut events = client.all_events(None, None, Some(cursor), true, false);
        let mut is_stale = false;
        loop {
            let step = tokio::select! {
                biased;
                step = events.step() => step,
                () = self.refresh.notified(), if !is_stale => {
                    is_stale = true;
                    continue;
                }
                () = sleep_until(taken + PAUSE), if is_stale => return Left::Refresh,
            };
            let input = match step {
                Ok(Step::Opened) => Input::Opened,
                Ok(Step::Lost) => Input::Lost,
                Ok(Step::Batch(Batch::Events(found))) => Input::Events(parsed(found)),
                // This stream has no end.
                Ok(Step::Batch(Batch::End)) => return Left::Refresh,
                Err(failure) => return Left::Failed(failure),
            };
            if self.inputs.send(input).await.is_err() {
                return Left::Gone;
            }
        }
    }
}

/// The events. One of a type that only a newer daemon knows is left out.
fn parsed(found: Vec<Value>) -> Vec<Event> {
    found.into_iter().filter_map(|event| serde_json::from_value(event).ok()).collect()
}
