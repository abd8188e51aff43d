//! All workers of a daemon for a board: a snapshot, and the events that follow it, over any number
//! of lost connections. Another host is dialed here too, so that it delays only its own rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::OverviewShown;
use subagent_protocol::event::{Event, NoData, SeenEvent};
use subagent_protocol::ids::EventId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::effect::{BoardEvent, BoardGone, BoardInputs};
use crate::client::{ApiRequest, DaemonClient, EventBatch, SubscriptionStep, announced};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};

/// At least as long between two snapshots.
const PAUSE: Duration = Duration::from_millis(500);
/// How soon a daemon that cannot be asked is asked again, the first time and at last.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
const LAST_PATIENCE: Duration = Duration::from_secs(30);
/// Silence of another host before it is asked for a sign of life.
const BEAT: Duration = Duration::from_secs(10);
/// Time for an answer of another host.
const ANSWER: Duration = Duration::from_secs(10);

/// The daemon that a board follows.
#[derive(Debug)]
pub(super) struct BoardFollower {
    pub(super) context: CliContext,
    /// Absent until a host was dialed.
    pub(super) workspace: Option<Workspace>,
    /// The folder on a host that was typed.
    pub(super) cwd: Option<PathBuf>,
    /// Rung for another snapshot.
    pub(super) refresh: Arc<Notify>,
    pub(super) inputs: BoardInputs,
}

/// Why a stream is left.
enum Left {
    /// The board needs a new snapshot.
    Refresh,
    /// The board is gone.
    Gone,
    /// Nothing was started in the workspace there.
    Unused,
    /// The connection with another host is lost.
    Lost,
    Failed(Failure),
}

impl From<BoardGone> for Left {
    fn from(_: BoardGone) -> Self {
        Self::Gone
    }
}

impl BoardFollower {
    /// Follows until the board is gone.
    pub(super) async fn follow(mut self) {
        let mut asking = None;
        let mut patience = FIRST_PATIENCE;
        // A snapshot may be newer than the last event: an open story needs those in between as well.
        let mut last: Option<EventId> = None;
        loop {
            let taken = Instant::now();
            let left = match self.used().await {
                Ok(workspace) => {
                    let client = asking.get_or_insert_with(|| DaemonClient::new(&self.context, &workspace));
                    match self.snapshot(client).await {
                        Ok(Some(cursor)) => {
                            let from = last.map_or(cursor, |last| last.min(cursor));
                            let left = self.stream(&workspace, client, from, last.insert(from), taken).await;
                            // A host whose streams end at once is asked less and less often.
                            if self.context.host.is_none() || taken.elapsed() > LAST_PATIENCE {
                                patience = FIRST_PATIENCE;
                            }
                            left
                        }
                        Ok(None) => Left::Gone,
                        Err(failure) => Left::Failed(failure),
                    }
                }
                Err(left) => left,
            };
            let is_far = self.context.host.is_some();
            // Otherwise its connection may be a dead one.
            if !matches!(left, Left::Refresh) && is_far {
                asking = None;
            }
            match left {
                Left::Refresh if !is_far => continue,
                // Another stream is another login there.
                Left::Refresh | Left::Unused => {}
                Left::Gone => return,
                Left::Lost => {
                    if self.inputs.send(BoardEvent::Lost).await.is_err() {
                        return;
                    }
                }
                Left::Failed(failure) if failure.is(Code::CursorExpired) => {
                    last = None;
                    if self.inputs.send(BoardEvent::Expired).await.is_err() {
                        return;
                    }
                    if !is_far {
                        continue;
                    }
                }
                Left::Failed(failure) => {
                    if self.inputs.send(BoardEvent::Unreachable(failure)).await.is_err() {
                        return;
                    }
                }
            }
            // A person who asks for a snapshot does not wait.
            tokio::select! {
                () = self.refresh.notified() => {}
                () = self.pause(taken + patience) => {}
            }
            patience = (patience * 2).min(LAST_PATIENCE);
        }
    }

    /// Waits before the next attempt, at most until then. Another shell may start the daemon here.
    async fn pause(&self, until: Instant) {
        match self.workspace.as_ref().filter(|_| self.context.host.is_none()) {
            Some(workspace) => announced(&workspace.state_dir, until).await,
            None => sleep_until(until).await,
        }
    }

    /// Returns the workspace once it is in use. That of another host is looked up there, on a thread.
    async fn used(&mut self) -> Result<Workspace, Left> {
        let is_far = self.context.host.is_some();
        if let Some(known) = self.workspace.as_ref().filter(|known| !is_far || has_state(known)) {
            return Ok(known.clone());
        }
        let (context, cwd) = (self.context.clone(), self.cwd.clone());
        let dialing = tokio::task::spawn_blocking(move || context.workspace(cwd.as_deref()));
        let dialed = dialing.await.unwrap_or_else(|error| Err(Failure::internal(error.to_string())));
        let found = dialed.map_err(Left::Failed)?;
        let is_used = has_state(&found);
        self.inputs.send(BoardEvent::Found(Box::new(found.clone()))).await?;
        self.workspace = Some(found.clone());
        if is_used { Ok(found) } else { Err(Left::Unused) }
    }

    /// Hands over a snapshot and returns its cursor; `None` if the board is gone.
    async fn snapshot(&self, client: &mut DaemonClient) -> Result<Option<EventId>> {
        let request = ApiRequest::get("/v1/overview");
        let shown: OverviewShown = match self.context.host {
            None => client.ask_for(&request).await?,
            Some(_) => client.ask_for(&request.within(Some(ANSWER))).await?,
        };
        let cursor = shown.cursor;
        let sent = self.inputs.send(BoardEvent::Snapshot(Box::new(shown))).await;
        Ok(sent.is_ok().then_some(cursor))
    }

    /// Asks a daemon on another host for a sign of life.
    async fn is_alive(&self, client: &mut DaemonClient) -> bool {
        let request = ApiRequest::get("/v1/daemon");
        timeout(ANSWER, client.ask(&request)).await.is_ok_and(|answer| answer.is_ok())
    }

    /// Hands over the events behind one, and stores the last of them. `taken` is when the snapshot was.
    async fn stream(
        &self,
        workspace: &Workspace,
        asking: &mut DaemonClient,
        from: EventId,
        last: &mut EventId,
        mut taken: Instant,
    ) -> Left {
        // A connection of its own: the one before may be in the middle of an answer.
        let mut client = DaemonClient::new(&self.context, workspace);
        let mut events = client.all_events(None, None, Some(from.to_string()), true, false);
        let mut is_stale = false;
        let mut beat = Instant::now() + BEAT;
        loop {
            let step = tokio::select! {
                biased;
                step = events.step() => step,
                () = self.refresh.notified(), if !is_stale => {
                    is_stale = true;
                    continue;
                }
                () = sleep_until(taken + PAUSE), if is_stale => {
                    if self.context.host.is_none() {
                        return Left::Refresh;
                    }
                    // Another stream would be another login there.
                    (taken, is_stale) = (Instant::now(), false);
                    match self.snapshot(asking).await {
                        Ok(Some(_)) => continue,
                        Ok(None) => return Left::Gone,
                        Err(failure) => return Left::Failed(failure),
                    }
                }
                // A host that hangs closes nothing, and a stream without events has no sign of life.
                () = sleep_until(beat), if self.context.host.is_some() => {
                    if !self.is_alive(asking).await {
                        return Left::Lost;
                    }
                    beat = Instant::now() + BEAT;
                    continue;
                }
            };
            beat = Instant::now() + BEAT;
            let mut newest: Option<EventId> = None;
            let input = match step {
                Ok(SubscriptionStep::Opened) => BoardEvent::Opened,
                Ok(SubscriptionStep::Lost) if self.context.host.is_some() => return Left::Lost,
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

    use super::super::effect::BoardNews;
    use super::super::fixture::{HERE, event, snapshot, worker};
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
    async fn next(news: &mut Receiver<BoardNews>) -> String {
        let input = timeout(Duration::from_secs(60), news.recv()).await.unwrap().unwrap().event;
        format!("{input:?}").split(['(', ' ']).next().unwrap().to_owned()
    }

    fn follower(fake: &Fake) -> (BoardFollower, Receiver<BoardNews>) {
        let env = Environment::new([("SUBAGENT_NO_AUTOSTART".into(), "1".into())], "/");
        let root = fake.dir.path().to_owned();
        let workspace = Workspace {
            db_path: root.join("state.db"),
            state_dir: root.clone(),
            root: root.clone(),
            there: None,
        };
        let (sender, news) = channel(9);
        let follower = BoardFollower {
            context: CliContext { env, format: OutputFormat::Json, typed: TypedFlags::default(), host: None },
            workspace: Some(workspace),
            cwd: None,
            refresh: Arc::new(Notify::new()),
            inputs: BoardInputs { host: HERE, sender },
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
