//! The streams of a page: all workers with their questions, and the transcript of one worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use subagent_model::{Applied, Workers};
use subagent_protocol::api::{OverviewShown, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::json::extend;
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::daemons::bridge::{Bridge, DaemonAddress, PanelWorkspace};
use crate::daemons::daemon::{DaemonRequest, EventLines, LIMIT, broken_off};
use crate::daemons::errors::{self, code_of, is_not_found};
use crate::daemons::far_error;
use crate::daemons::inquiry::Inquiry;
use crate::daemons::pulse::{HostPulse, PATIENCE, within};
use crate::page_story::PageStory;
use crate::rows::SentRows;
use crate::story;

/// How often daemons that were started meanwhile are looked for.
const RESCAN: Duration = Duration::from_secs(5);
/// An empty line after so much silence: a page notices when the panel is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// From an event that changes more than a row to the next snapshot.
const REFRESH: Duration = Duration::from_millis(250);
/// From a lost daemon to the next try.
const RETRY: Duration = Duration::from_secs(1);
/// The same for a host that was tried before.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// Maximum number of workers that are remembered because no snapshot has them.
const MAX_HIDDEN: usize = 10_000;
/// Number of events in the first page of a transcript.
const PAGE_EVENTS: u32 = 500;

/// Minimum time between two lines with changed rows: a page does not draw faster.
const FRAME: Duration = Duration::from_millis(16);
/// The same for lines that say when the last events were: a page shows seconds.
const SEEN: Duration = Duration::from_secs(1);

/// Where lines for a page go.
pub(crate) type PageSender = mpsc::Sender<Bytes>;

/// The page is gone.
struct Gone;

async fn say(out: &PageSender, line: &Value) -> Result<(), Gone> {
    let mut text = line.to_string();
    text.push('\n');
    out.send(text.into()).await.map_err(|_| Gone)
}

/// Why a stream has ended: the page is gone, or the daemon, with its error.
enum StreamEnd {
    Page,
    Daemon(Value),
}

impl From<Gone> for StreamEnd {
    fn from(Gone: Gone) -> Self {
        Self::Page
    }
}

impl From<serde_json::Error> for StreamEnd {
    fn from(error: serde_json::Error) -> Self {
        let message = format!("a line for the page cannot be written: {error}");
        Self::Daemon(json!({"code": "INTERNAL_ERROR", "message": message, "retryable": true}))
    }
}

impl From<Value> for StreamEnd {
    fn from(error: Value) -> Self {
        Self::Daemon(error)
    }
}

/// Tells a page of the workers of all places, until it is gone.
pub(crate) async fn all(bridge: Arc<dyn Bridge>, behalf: Arc<str>, out: PageSender) {
    let mut followed: JoinSet<PanelWorkspace> = JoinSet::new();
    let mut known: Vec<PanelWorkspace> = Vec::new();
    let mut scan = interval(RESCAN);
    scan.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = out.closed() => return,
            Some(ended) = followed.join_next() => known.retain(|place| ended.as_ref().ok() != Some(place)),
            _ = scan.tick() => {
                for place in bridge.places().await {
                    if !known.contains(&place) {
                        known.push(place.clone());
                        followed.spawn(of_place(Arc::clone(&bridge), Arc::clone(&behalf), place, out.clone()));
                    }
                }
                // A page that has no place to show must still know that it knows all.
                if say(&out, &json!({"scanned": known.len()})).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Tells a page of the workers of one place, until the page is gone, or the daemon of a place that is not ours.
async fn of_place(
    bridge: Arc<dyn Bridge>,
    behalf: Arc<str>,
    place: PanelWorkspace,
    out: PageSender,
) -> PanelWorkspace {
    let mut pause = RETRY;
    loop {
        let begun = Instant::now();
        let end = PlaceStream { bridge: &*bridge, behalf: &behalf, place: &place, out: &out }.run().await;
        let Err(StreamEnd::Daemon(error)) = end else { return place };
        let gone = !place.is_own && place.host.is_none() && code_of(&error) == "DAEMON_NOT_RUNNING";
        pause = match place.host {
            // Each attempt is a login there.
            Some(_) if begun.elapsed() < LAST_RETRY => (pause * 2).min(LAST_RETRY),
            _ => RETRY,
        };
        let line = match gone {
            true => json!({"place": place.id, "gone": true}),
            false => json!({"place": place.id, "title": place.title, "own": place.is_own, "down": error}),
        };
        if say(&out, &line).await.is_err() || gone {
            return place;
        }
        tokio::select! {
            () = out.closed() => return place,
            () = sleep(pause) => {}
        }
    }
}

struct PlaceStream<'a> {
    bridge: &'a dyn Bridge,
    behalf: &'a str,
    place: &'a PanelWorkspace,
    out: &'a PageSender,
}

/// Changed rows of a workspace.
#[derive(Serialize)]
struct PlaceRows<'a> {
    place: &'a str,
    #[serde(flatten)]
    head: Option<PlaceHead<'a>>,
    rows: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<WorkerId>,
}

/// The beginning of a workspace's stream.
#[derive(Serialize)]
struct PlaceHead<'a> {
    title: &'a str,
    own: bool,
    at: Timestamp,
    /// The page forgets the rows that it had.
    all: bool,
}

impl PlaceStream<'_> {
    async fn say_rows(&self, changes: PlaceRows<'_>) -> Result<(), StreamEnd> {
        let mut line = serde_json::to_vec(&changes)?;
        line.push(b'\n');
        Ok(self.out.send(line.into()).await.map_err(|_| Gone)?)
    }

    async fn say_seen(
        &self,
        workers: &Workers,
        ids: impl Iterator<Item = WorkerId>,
    ) -> Result<(), StreamEnd> {
        let at = |id: WorkerId| Some((id.clone(), workers.row(&id)?.last_event_at?));
        let seen: HashMap<WorkerId, Timestamp> = ids.filter_map(at).collect();
        Ok(say(self.out, &json!({"place": self.place.id, "seen": seen})).await?)
    }

    async fn run(&self) -> Result<(), StreamEnd> {
        let address = address_of(self.bridge, self.place).await?;
        let get = |path: String| DaemonRequest::get(path, self.behalf);
        let mut sent = SentRows::default();
        let overview = get("/v1/overview".to_owned());
        let snapshot = within(PATIENCE, &address, overview.read(&address)).await;
        let snapshot: OverviewShown = snapshot.map_err(errors::of_age)?;
        let mut workers = Workers::new(&snapshot);
        let (rows, _) = sent.changes(&workers)?;
        let PanelWorkspace { id, title, is_own, .. } = self.place;
        let head = Some(PlaceHead { title, own: *is_own, at: snapshot.at, all: true });
        self.say_rows(PlaceRows { place: id, head, rows, removed: Vec::new() }).await?;
        let mut inquiry = Inquiry::new(address.clone(), self.behalf);
        inquiry.begin(&workers);
        self.say_questions(&mut inquiry).await?;
        let path = format!("/v1/events?follow=1&from={}", workers.cursor());
        let mut events = within(PATIENCE, &address, get(path).lines(&address)).await?;
        let mut pulse = HostPulse::new(&address);
        // Workers that the snapshots leave out: tasks that are not to be looked at.
        let mut hidden: HashSet<WorkerId> = HashSet::new();
        let mut refresh: Option<Instant> = None;
        // Workers whose rows have changed, and when the last changes were sent.
        let (mut dirty, mut sent_at): (HashSet<WorkerId>, Option<Instant>) = (HashSet::new(), None);
        // Workers of which only the last event is newer, and when the page hears of them.
        let (mut seen, mut seen_due): (HashSet<WorkerId>, Instant) = (HashSet::new(), Instant::now());
        loop {
            let due = refresh.unwrap_or_else(|| Instant::now() + HEARTBEAT);
            let frame = sent_at.map_or_else(Instant::now, |last| last + FRAME);
            tokio::select! {
                () = self.out.closed() => return Err(StreamEnd::Page),
                error = pulse.lost() => return Err(error.into()),
                fetched = inquiry.fetched() => {
                    fetched?;
                    inquiry.begin(&workers);
                    self.say_questions(&mut inquiry).await?;
                }
                heard = events.next() => {
                    pulse.heard();
                    for event in heard?.ok_or_else(|| broken_off("the daemon has ended the stream"))? {
                        match workers.apply(&event) {
                            Applied::Seen => _ = seen.insert(event.worker_id.clone()),
                            Applied::Row => _ = dirty.insert(event.worker_id.clone()),
                            Applied::Unknown
                                if hidden.len() < MAX_HIDDEN && hidden.insert(event.worker_id.clone()) =>
                            {
                                refresh.get_or_insert_with(|| Instant::now() + REFRESH);
                            }
                            Applied::Nothing | Applied::Unknown => {}
                        }
                        if changes_more(&event) {
                            refresh.get_or_insert_with(|| Instant::now() + REFRESH);
                        }
                    }
                }
                () = sleep_until(frame), if !dirty.is_empty() => {
                    sent_at = Some(Instant::now());
                    let rows = sent.changes_of(dirty.drain().filter_map(|id| workers.row(&id)))?;
                    if !rows.is_empty() {
                        self.say_rows(PlaceRows { place: id, head: None, rows, removed: Vec::new() }).await?;
                    }
                    inquiry.begin(&workers);
                    self.say_questions(&mut inquiry).await?;
                }
                () = sleep_until(seen_due), if !seen.is_empty() => {
                    seen_due = Instant::now() + SEEN;
                    self.say_seen(&workers, seen.drain()).await?;
                }
                () = sleep_until(due) => match refresh.take() {
                    None => self.out.send(Bytes::from_static(b"\n")).await.map_err(|_| StreamEnd::Page)?,
                    Some(_) => {
                        let snapshot: OverviewShown = within(PATIENCE, &address, overview.read(&address)).await?;
                        pulse.heard();
                        workers = Workers::new(&snapshot);
                        workers.rows().iter().for_each(|row| _ = hidden.remove(row.worker_id()));
                        let (rows, removed) = sent.changes(&workers)?;
                        self.say_rows(PlaceRows { place: id, head: None, rows, removed }).await?;
                        inquiry.begin(&workers);
                        self.say_questions(&mut inquiry).await?;
                    }
                },
            }
        }
    }

    /// Tells the page which questions are open, if it does not know.
    async fn say_questions(&self, inquiry: &mut Inquiry) -> Result<(), StreamEnd> {
        if let Some(items) = inquiry.take_changed() {
            say(self.out, &json!({"place": self.place.id, "questions": items})).await?;
        }
        Ok(())
    }
}

/// The address of the daemon of a place that is only looked at.
async fn address_of(bridge: &dyn Bridge, place: &PanelWorkspace) -> Result<DaemonAddress, Value> {
    bridge.address(place, false).await.map_err(|error| far_error::of_place(place, error))
}

/// Whether an event changes what only a snapshot has: usage, budgets, worktrees, tasks.
fn changes_more(event: &Event) -> bool {
    let name = event.event_type.as_str();
    event.event_type.ends_turn()
        || ["worktree.", "budget.", "subagent.", "worker."].iter().any(|start| name.starts_with(start))
            && name != "subagent.progress"
}

/// What the end of a transcript depends on.
#[derive(Deserialize)]
struct StateOfWorker {
    state: WorkerState,
}

/// Which transcript, on whose behalf, and what the page had last.
pub(crate) struct Following {
    pub(crate) bridge: Arc<dyn Bridge>,
    pub(crate) behalf: Arc<str>,
    pub(crate) place: PanelWorkspace,
    pub(crate) worker: String,
    pub(crate) from: Option<String>,
}

impl Following {
    /// Tells a page the newest part of a transcript and what follows, until the page or the daemon is gone.
    pub(crate) async fn run(self, out: PageSender) {
        let end = tokio::select! {
            () = out.closed() => return,
            end = self.follow(&out) => end,
        };
        if let Err(StreamEnd::Daemon(error)) = end {
            // The page asks again, with its cursor, unless the worker does not exist any more.
            let ended = is_not_found(&error);
            let _ = say(&out, &json!({"down": error, "ended": ended})).await;
        }
    }

    async fn follow(&self, out: &PageSender) -> Result<(), StreamEnd> {
        let address = address_of(&*self.bridge, &self.place).await?;
        let base = format!("/v1/workers/{}", self.worker);
        let get = |path: String| DaemonRequest::get(path, &self.behalf);
        if let Some(from) = &self.from
            && let Err(error) = self.cursor_is_kept(&base, from, &address).await
        {
            // After a restore it may be no event of this worker any more.
            if !["CURSOR_EXPIRED", "EVENT_NOT_FOUND"].contains(&code_of(&error)) {
                return Err(error.into());
            }
            say(out, &json!({"expired": true})).await?;
        }
        let transcript = get(format!("{base}/transcript?limit={PAGE_EVENTS}"));
        let shown: TranscriptShown = within(PATIENCE, &address, transcript.read(&address)).await?;
        let mut page = story::page(&shown);
        extend(&mut page, [("all", true.into())]);
        say(out, &page).await?;
        let from = shown.cursor.map(|cursor| format!("&from={cursor}")).unwrap_or_default();
        let mut story = PageStory::new(shown);
        let follow = get(format!("{base}/events?follow=1{from}"));
        let mut events = within(PATIENCE, &address, follow.lines(&address)).await?;
        let mut cursor = None;
        let end = self.pass_on(&mut story, &mut cursor, (&address, &mut events), out).await;
        // Also what came just before the end.
        if story.has_changed() && !matches!(end, Err(StreamEnd::Page)) {
            say(out, &json!({"items": story.changes(), "cursor": cursor})).await?;
        }
        end?;
        Ok(say(out, &json!({"ended": true})).await?)
    }

    /// Passes on what events change, until the stream of a stopped worker ends.
    async fn pass_on(
        &self,
        story: &mut PageStory,
        cursor: &mut Option<EventId>,
        (address, events): (&DaemonAddress, &mut EventLines),
        out: &PageSender,
    ) -> Result<(), StreamEnd> {
        let mut pulse = HostPulse::new(address);
        let mut heartbeat = interval(HEARTBEAT);
        // The page goes on behind this event.
        let (mut passed, mut sent_at): (Option<EventId>, Option<Instant>) = (None, None);
        loop {
            let frame = sent_at.map_or_else(Instant::now, |last| last + FRAME);
            tokio::select! {
                error = pulse.lost() => return Err(error.into()),
                heard = events.next() => match heard? {
                    Some(events) => {
                        pulse.heard();
                        events.iter().for_each(|event| story.take(event));
                        *cursor = events.last().map(|event| event.event_id).or(*cursor);
                    }
                    // The stream of a stopped worker ends in order, and so does that of a daemon that is replaced.
                    None => {
                        let asked = DaemonRequest::get(format!("/v1/workers/{}", self.worker), &self.behalf);
                        let worker: StateOfWorker = within(PATIENCE, address, asked.read(address)).await?;
                        if worker.state != WorkerState::Stopped {
                            return Err(broken_off("the daemon has ended the stream").into());
                        }
                        return Ok(());
                    }
                },
                () = sleep_until(frame), if story.has_changed() => {
                    (passed, sent_at) = (*cursor, Some(Instant::now()));
                    say(out, &json!({"items": story.changes(), "cursor": cursor})).await?;
                }
                _ = heartbeat.tick() => match passed == *cursor {
                    true => out.send(Bytes::from_static(b"\n")).await.map_err(|_| StreamEnd::Page)?,
                    // Events that are in no item.
                    false => {
                        passed = *cursor;
                        say(out, &json!({"items": [], "cursor": cursor})).await?;
                    }
                },
            }
        }
    }

    /// Whether the events behind a cursor are still there.
    async fn cursor_is_kept(&self, base: &str, from: &str, address: &DaemonAddress) -> Result<(), Value> {
        let mut events =
            DaemonRequest::get(format!("{base}/events?from={from}"), &self.behalf).lines(address).await?;
        let first = timeout(LIMIT, events.next()).await;
        first.unwrap_or_else(|_| Err(broken_off("the daemon's answer takes too long"))).map(drop)
    }
}
