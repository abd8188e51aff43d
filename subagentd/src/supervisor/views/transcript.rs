//! Pages of a worker's transcript.

use subagent_protocol::api::TranscriptShown;
use subagent_protocol::ids::EventId;
use subagent_protocol::{Code, Error, Result};

use crate::store::events::history::{self, HistoryFilter};
use crate::store::workers;
use crate::supervisor::Supervisor;

/// Maximum number of events of a page.
const MAX_EVENTS: u32 = 2000;

/// Returns the items of the last `limit` events before a cursor, or of the newest events
/// without one.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`. `INVALID_ARGUMENT` for a limit out of range.
/// `EVENT_NOT_FOUND{eventId}` for an invalid cursor.
pub(crate) async fn transcript(
    supervisor: &Supervisor,
    worker: &str,
    before: Option<&str>,
    limit: u32,
) -> Result<TranscriptShown> {
    if !(1..=MAX_EVENTS).contains(&limit) {
        let message = format!("a page has 1 to {MAX_EVENTS} events, not {limit}");
        return Err(Error::new(Code::InvalidArgument, message).with("limit", limit));
    }
    let before = before.map(|cursor| {
        cursor.parse::<EventId>().map_err(|_| {
            Error::new(Code::EventNotFound, "this is not an event id; take `before` from a page")
                .with("eventId", cursor)
        })
    });
    let before = before.transpose()?.map(|EventId(seq)| seq);
    if let Ok(handle) = supervisor.roster.live(worker) {
        // Includes what happened while no daemon ran.
        handle.settle().await;
    }
    let asked = worker.to_owned();
    let read = supervisor.shared.store.read(move |connection| {
        let _moment = history::one_moment(connection)?;
        let Some(row) = workers::get(connection, &asked)? else { return Ok(None) };
        let of = |before, limit| HistoryFilter { limit, before, since: None, turn_id: None, types: None };
        let events = history::last(connection, row.id, &of(before, limit))?;
        let first = events.first().map(|event| event.seq);
        let is_first = match first {
            Some(first) => history::last(connection, row.id, &of(Some(first), 1))?.is_empty(),
            None => true,
        };
        let mut items = Vec::new();
        let shown = events.iter().map(|event| event.view(&row.worker_id, false));
        subagent_model::join(&mut items, shown.filter_map(|event| subagent_model::item_of(&event)));
        Ok(Some(TranscriptShown {
            worker_id: row.worker_id,
            items,
            before: first.filter(|_| !is_first).map(EventId),
            cursor: events.last().map(|event| EventId(event.seq)),
        }))
    });
    read.await?.ok_or_else(|| supervisor.roster.not_found(worker))
}
