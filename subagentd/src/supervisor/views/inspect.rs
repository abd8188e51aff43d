//! A summary of a worker: its view, open questions, latest snapshot and last events.

use subagent_protocol::api::{Inspected, InspectedEvent, LatestHandoff, WorkerView};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::store::events::history;
use crate::store::questions::{self, owner_rules};
use crate::store::{handoffs, workers};
use crate::supervisor::start::spec;
use crate::supervisor::{Supervisor, views};

/// Maximum number of events in a summary.
const MAX_EVENTS: u32 = 1000;
/// Maximum number of event types in a filter.
const MAX_TYPES: usize = 64;

/// Selects the events of a summary.
#[derive(Debug, Clone)]
pub(crate) struct InspectQuery {
    /// Number of the newest events, 1 to 1000.
    pub limit: u32,
    /// Only events at or after this time (ISO 8601).
    pub since: Option<String>,
    /// Only events of this turn.
    pub turn_id: Option<String>,
    /// Only events of these types, which may be written `progress.update:KIND`. Unknown types match
    /// nothing.
    pub event_types: Option<Vec<String>>,
}

/// Returns the summary of a worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`. `INVALID_ARGUMENT` for a limit out of range, an invalid `since`, or more
/// than 64 event types. `STORAGE_ERROR`.
pub(crate) async fn inspect(supervisor: &Supervisor, worker: &str, query: InspectQuery) -> Result<Inspected> {
    let filter = filter(query)?;
    if let Ok(handle) = supervisor.roster.live(worker) {
        // Includes what happened while no daemon ran.
        handle.settle().await;
    }
    let asked = worker.to_owned();
    let found = supervisor.shared.store.read(move |connection| {
        let _moment = history::one_moment(connection)?;
        let Some(mut row) = workers::get(connection, &asked)? else { return Ok(None) };
        let (pending, latest) =
            (questions::list(connection, row.id, None)?, handoffs::latest(connection, row.id)?);
        let events = history::last(connection, row.id, &filter)?;
        let rules = owner_rules::of_worker(connection, row.id)?;
        row.history.has_handoff = latest.is_some();
        Ok(Some((row, pending, latest, events, rules)))
    });
    let Some((row, pending, latest, events, rules)) = found.await? else {
        return Err(supervisor.roster.not_found(worker));
    };
    let (policy, agent, hooks) =
        spec::stored(&row).map_or_else(Default::default, |spec| (spec.policy, spec.agent, spec.hooks));
    let questions_below =
        crate::supervisor::events::questions_below::questions_below(supervisor, &row).await?;
    Ok(Inspected {
        worker: WorkerView { questions_below, ..supervisor.view(&row).await },
        policy,
        owner_rules: rules,
        agent,
        hooks,
        pending_approvals: pending.into_iter().map(views::question::pending_approval).collect(),
        latest_handoff: latest.map(|row| LatestHandoff {
            snapshot_id: row.snapshot_id,
            handoff_path: row.handoff_path,
            checkpoint_path: row.checkpoint_path,
            up_to_event_id: EventId(row.up_to),
            created_at: row.created_at,
        }),
        events: events
            .into_iter()
            .map(|event| InspectedEvent {
                event_id: EventId(event.seq),
                ts: event.at,
                event_type: event.event_type,
                data: event.data(),
                turn_id: event.turn_id,
            })
            .collect(),
    })
}

/// Parses the `since` of a filter.
pub(crate) fn time(text: &str) -> Result<Timestamp> {
    Timestamp::parse(text).ok_or_else(|| {
        let message = format!("{text:?} is not an ISO 8601 time; write it like 2026-11-21T20:29:42+00:00");
        Error::new(Code::InvalidArgument, message).with("since", text)
    })
}

fn filter(query: InspectQuery) -> Result<history::HistoryFilter> {
    if !(1..=MAX_EVENTS).contains(&query.limit) {
        let message = format!("an inspection shows 1 to {MAX_EVENTS} events, not {}", query.limit);
        return Err(Error::new(Code::InvalidArgument, message).with("eventsLimit", query.limit));
    }
    let since = query.since.as_deref().map(time);
    let mut words = query.event_types;
    if let Some(words) = &mut words {
        words.sort_unstable();
        words.dedup();
        if words.len() > MAX_TYPES {
            let message =
                format!("{} event types are too many; give {MAX_TYPES} or fewer, or none", words.len());
            return Err(Error::new(Code::InvalidArgument, message).with("eventTypes", words.len()));
        }
    }
    Ok(history::HistoryFilter {
        limit: query.limit,
        before: None,
        since: since.transpose()?,
        turn_id: query.turn_id,
        types: words.map(|words| words.iter().filter_map(|word| wanted(word)).collect()),
    })
}

/// Parses an element of `eventTypes`. `None` if no event has this type.
fn wanted(word: &str) -> Option<(EventType, Option<String>)> {
    let (name, kind) = word.split_once(':').map_or((word, None), |(name, kind)| (name, Some(kind)));
    let event_type = EventType::parse(name).filter(|event_type| event_type.is_of_workers())?;
    match kind {
        Some(_) if event_type != EventType::ProgressUpdate => None,
        kind => Some((event_type, kind.map(str::to_owned))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(limit: u32, since: Option<&str>) -> InspectQuery {
        InspectQuery { limit, since: since.map(str::to_owned), turn_id: None, event_types: None }
    }

    #[test]
    fn limits_and_times_are_checked() {
        for wrong in [query(0, None), query(1001, None), query(1, Some("yesterday")), query(1, Some(""))] {
            assert_eq!(filter(wrong).unwrap_err().code, Code::InvalidArgument);
        }
        let since = filter(query(1000, Some("1970-01-01T01:00:00.5+01:00"))).unwrap().since;
        assert_eq!(since, Some(Timestamp(500)));
    }

    #[test]
    fn there_are_not_too_many_types() {
        let many = |distinct: u32| {
            let words = (0..1100).map(|word| format!("progress.update:{}", word % distinct)).collect();
            filter(InspectQuery { event_types: Some(words), ..query(1, None) })
        };
        assert_eq!(many(64).unwrap().types.unwrap().len(), 64);
        assert_eq!(many(65).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn what_is_no_event_type_matches_nothing() {
        assert_eq!(wanted("turn.completed"), Some((EventType::TurnCompleted, None)));
        let plan = Some((EventType::ProgressUpdate, Some("plan".to_owned())));
        assert_eq!(wanted("progress.update:plan"), plan);
        for none in ["", "turn.over", "turn.completed:x", "runtime.turn_end", "progress.message:message"] {
            assert_eq!(wanted(none), None, "{none}");
        }
    }
}
