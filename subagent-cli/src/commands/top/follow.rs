//! All workers for a board: a snapshot, and the events that follow it, over any number of lost connections.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::OverviewShown;
use subagent_protocol::event::{Event, NoData, SeenEvent};
use subagent_protocol::ids::EventId;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use super::effect::BoardEvent;
use crate::client::{ApiRequest, DaemonClient, EventBatch, SubscriptionStep, announced};
use crate::context::CliContext;
use crate::failure::{Failure, Result};

/// At least as long between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);
/// How soon a daemon that cannot be asked is asked again, the first time and at last.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
const LAST_PATIENCE: Duration = Duration::from_secs(30);

/// What a board follows.
#[derive(Debug)]
pub(super) struct BoardFollower {
    pub(super) context: CliContext,
    pub(super) workspace: Workspace,
    /// Rung for another snapshot.
    pub(super) refresh: Arc<Notify>,
    pub(super) inputs: Sender<BoardEvent>,
}

/// Why a stream is left.
enum Left {
    /// The board needs a new snapshot.
    Refresh,
    /// The board is gone.
    Gone,
    Failed(Failure),
}

impl BoardFollower {
    /// Follows until the board is gone.
    pub(super) async fn follow(self) {
        let mut asking = DaemonClient::new(&self.context, &self.workspace);
        let mut patience = FIRST_PATIENCE;
        // A snapshot may be newer than the last event: an open story needs those in between as well.
        let mut last: Option<EventId> = None;
        loop {
            let taken = Instant::now();
            let left = match self.snapshot(&mut asking).await {
                Ok(Some(cursor)) => {
                    patience = FIRST_PATIENCE;
                    let from = last.map_or(cursor, |last| last.min(cursor));
                    self.stream(from, last.insert(from), taken).await
                }
                Ok(None) => Left::Gone,
                Err(failure) => Left::Failed(failure),
            };
            match left {
                Left::Refresh => {}
                Left::Gone => return,
                Left::Failed(failure) if failure.is(Code::CursorExpired) => {
                    last = None;
                    if self.inputs.send(BoardEvent::Expired).await.is_err() {
                        return;
                    }
                }
                Left::Failed(failure) => {
                    if self.inputs.send(BoardEvent::Unreachable(failure)).await.is_err() {
                        return;
                    }
                    // A person who asks for a snapshot does not wait, and another shell may start the daemon.
                    tokio::select! {
                        () = self.refresh.notified() => {}
                        () = announced(&self.workspace.state_dir, Instant::now() + patience) => {}
                    }
                    patience = (patience * 2).min(LAST_PATIENCE);
                }
            }
        }
    }

    /// Hands over a snapshot and returns its cursor; `None` if the board is gone.
    async fn snapshot(&self, client: &mut DaemonClient) -> Result<Option<EventId>> {
        let shown: OverviewShown = client.ask_for(&ApiRequest::get("/v1/overview")).await?;
        let cursor = shown.cursor;
        let sent = self.inputs.send(BoardEvent::Snapshot(Box::new(shown))).await;
        Ok(sent.is_ok().then_some(cursor))
    }

    /// Hands over the events behind one, and stores the last of them. `taken` is when the snapshot was.
    async fn stream(&self, from: EventId, last: &mut EventId, taken: Instant) -> Left {
        // A connection of its own: the one before may be in the middle of an answer.
        let mut client = DaemonClient::new(&self.context, &self.workspace);
        let mut events = client.all_events(None, None, Some(from.to_string()), true, false);
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
            let mut newest: Option<EventId> = None;
            let input = match step {
                Ok(SubscriptionStep::Opened) => BoardEvent::Opened,
                Ok(SubscriptionStep::Lost) => BoardEvent::Lost,
                Ok(SubscriptionStep::Batch(EventBatch::Events(found))) => {
                    let ids = found.iter().rev().map(|event| SeenEvent::<NoData>::of(event).event_id);
                    newest = ids.filter_map(|id| id.parse().ok()).next();
                    BoardEvent::Events(parsed(found))
                }
                // This stream has no end.
                Ok(SubscriptionStep::Batch(EventBatch::End)) => return Left::Refresh,
                Err(failure) => return Left::Failed(failure),
            };
            if self.inputs.send(input).await.is_err() {
                return Left::Gone;
            }
            *last = newest.unwrap_or(*last);
        }
    }
}

/// The events. One of a type that only a newer daemon knows is left out.
fn parsed(found: Vec<Value>) -> Vec<Event> {
    found.into_iter().filter_map(|event| serde_json::from_value(event).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_config::Environment;
    use tokio::sync::mpsc::{Receiver, channel};
    use tokio::time::timeout;

    use super::super::fixture::{event, snapshot, worker};
    use super::*;
    use crate::client::fake::{Act, Fake};
    use crate::command_line::TypedFlags;
    use crate::output::OutputFormat;

    fn overview() -> Act {
        overview_at(EventId(16))
    }

    fn overview_at(cursor: EventId) -> Act {
        let mut data = snapshot(vec![worker(1, "one", json!({}))]);
        data.cursor = cursor;
        Act::Answer(200, json!({"ok": true, "data": data}))
    }

    fn stream(line: &Value) -> Vec<&'static str> {
        vec![Box::leak(format!("{line}\n").into_boxed_str())]
    }

    /// What a board hears of a daemon that does this, by the names of its inputs.
    async fn heard(acts: Vec<Act>, count: usize) -> (Vec<String>, Vec<String>) {
        let fake = Fake::new(acts);
        let (follower, mut news) = follower(&fake);
        let following = tokio::spawn(follower.follow());
        let mut heard = Vec::new();
        while heard.len() < count {
            heard.push(next(&mut news).await);
        }
        following.abort();
        (heard, lines(&fake))
    }

    fn lines(fake: &Fake) -> Vec<String> {
        fake.seen().into_iter().map(|seen| seen.line).collect()
    }

    /// The name of the next input.
    async fn next(news: &mut Receiver<BoardEvent>) -> String {
        let input = timeout(Duration::from_secs(60), news.recv()).await.unwrap().unwrap();
        format!("{input:?}").split(['(', ' ']).next().unwrap().to_owned()
    }

    fn follower(fake: &Fake) -> (BoardFollower, Receiver<BoardEvent>) {
        let env = Environment::new([("SUBAGENT_NO_AUTOSTART".into(), "1".into())], "/");
        let root = fake.dir.path().to_owned();
        let workspace = Workspace {
            db_path: root.join("state.db"),
            state_dir: root.clone(),
            root: root.clone(),
            there: None,
        };
        let (inputs, news) = channel(9);
        let follower = BoardFollower {
            context: CliContext { env, format: OutputFormat::Json, typed: TypedFlags::default(), host: None },
            workspace,
            refresh: Arc::new(Notify::new()),
            inputs,
        };
        (follower, news)
    }

    #[tokio::test]
    async fn a_lost_stream_goes_on_behind_its_last_event() {
        let said = serde_json::to_value(event(1, 1, "progress.message", json!({"text": "x"}))).unwrap();
        let acts = vec![overview(), Act::Stream(stream(&said), false), Act::Hang];
        let (heard, seen) = heard(acts, 4).await;
        assert_eq!(heard, ["Snapshot", "Opened", "Events", "Lost"]);
        assert_eq!(seen[0], "GET /v1/overview");
        assert_eq!(seen[1], "GET /v1/events?from=ev_000000000010&follow=true");
    }

    #[tokio::test]
    async fn a_refresh_goes_on_behind_the_last_event() {
        let said = serde_json::to_value(event(1, 1, "progress.message", json!({"text": "x"}))).unwrap();
        let (mut overviews, mut is_begun) = (0, false);
        let fake = Fake::playing(move |seen| {
            if seen.line.ends_with("/v1/overview") {
                overviews += 1;
                return overview_at(EventId(16 * overviews));
            }
            match std::mem::replace(&mut is_begun, true) {
                true => Act::Hang,
                false => Act::Stream(stream(&said), false),
            }
        });
        let (follower, mut news) = follower(&fake);
        let refresh = follower.refresh.clone();
        let following = tokio::spawn(follower.follow());
        while next(&mut news).await != "Events" {}
        refresh.notify_one();
        while next(&mut news).await != "Snapshot" {}
        let asked = async {
            loop {
                let lines = lines(&fake);
                let second = lines.iter().rposition(|line| line.ends_with("/v1/overview")).unwrap();
                if let Some(asked) = lines.get(second + 1) {
                    return asked.clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let asked = timeout(Duration::from_secs(60), asked).await.unwrap();
        following.abort();
        assert_eq!(asked, "GET /v1/events?from=ev_000000000011&follow=true");
    }

    #[tokio::test]
    async fn an_expired_cursor_leads_to_a_new_snapshot() {
        let expired =
            json!({"ok": false, "error": {"code": "CURSOR_EXPIRED", "message": "m", "retryable": false}});
        let acts = vec![overview(), Act::Stream(stream(&expired), true), overview(), Act::Hang];
        let (heard, _) = heard(acts, 4).await;
        assert_eq!(heard, ["Snapshot", "Opened", "Expired", "Snapshot"]);
    }

    #[tokio::test]
    async fn a_daemon_that_cannot_be_asked_is_asked_again() {
        let error =
            json!({"ok": false, "error": {"code": "STORAGE_ERROR", "message": "m", "retryable": true}});
        let (heard, _) = heard(vec![Act::Answer(500, error), overview(), Act::Hang], 2).await;
        assert_eq!(heard, ["Unreachable", "Snapshot"]);
    }
}
