//! Reads the content of notifications from the store.

use serde_json::Value;
use subagent_config::notify::NotificationSink;
use subagent_core::rules::permissions::policy::violation_text;
use subagent_core::rules::turns::cancel::own_cause;
use subagent_protocol::api::{SchedulePaused, TriggerPaused};
use subagent_protocol::data::EventData;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::notification::{Detail, Occasion};
use subagent_protocol::{Code, Error, Result};

use crate::notification::{Happened, NotifiedQuestion, SinkNotification, Who};
use crate::store::deliveries::{DeliveryCandidate, PendingDelivery};
use crate::store::questions::inbox;
use crate::store::{Connection, events, workers};
use crate::supervisor::{listed, pending_approval};

/// The events that may be worth a notification.
pub(super) const TYPES: [EventType; 12] = [
    EventType::ApprovalRequested,
    EventType::ElicitationRequested,
    EventType::TurnCompleted,
    EventType::TurnFailed,
    EventType::TurnCanceled,
    EventType::PolicyViolated,
    EventType::WorkerLost,
    EventType::BudgetExceeded,
    EventType::QueuePaused,
    EventType::WorkerParked,
    EventType::SchedulePaused,
    EventType::TriggerPaused,
];

/// Classifies an event for people. The end of a task is reported to its caller, so only its
/// questions notify people.
pub(super) fn occasion(event: &DeliveryCandidate) -> Option<Occasion> {
    match event.event_type {
        EventType::ApprovalRequested | EventType::ElicitationRequested => Some(Occasion::Question),
        EventType::SchedulePaused => Some(Occasion::SchedulePaused),
        EventType::TriggerPaused => Some(Occasion::TriggerPaused),
        _ if event.is_task => None,
        EventType::TurnCompleted => Some(Occasion::Done),
        EventType::TurnFailed | EventType::PolicyViolated => Some(Occasion::Failed),
        // A cancel that the owner requested needs no notification.
        EventType::TurnCanceled => {
            event.cancel_reason.as_deref().and_then(own_cause).map(|_| Occasion::Failed)
        }
        EventType::WorkerLost => Some(Occasion::Lost),
        EventType::BudgetExceeded => Some(Occasion::Budget),
        EventType::QueuePaused => Some(Occasion::QueuePaused),
        EventType::WorkerParked => Some(Occasion::Parked),
        _ => None,
    }
}

/// The notification for a batch of deliveries (questions only, or one other event), and deliveries
/// to drop with the reason.
pub(super) struct ComposedNotification {
    pub(super) notification: Option<SinkNotification>,
    pub(super) dropped: Vec<(i64, &'static str)>,
}

pub(super) fn compose(
    connection: &Connection,
    sink: &NotificationSink,
    batch: &[PendingDelivery],
) -> Result<ComposedNotification> {
    let mut composed = ComposedNotification { notification: None, dropped: Vec::new() };
    let mut questions = Vec::new();
    for pending in batch {
        if pending.occasion == Occasion::Question.as_str() {
            match question(connection, sink, pending)? {
                Some(question) => questions.push(question),
                None => composed.dropped.push((pending.id, "it was answered, or is not open any more")),
            }
        } else {
            match happened(connection, sink, pending)? {
                Some(happened) => composed.notification = Some(SinkNotification::Happened(happened)),
                None => composed.dropped.push((pending.id, "its event or its worker was removed")),
            }
        }
    }
    if !questions.is_empty() {
        composed.notification = Some(SinkNotification::Questions(questions));
    }
    Ok(composed)
}

fn question(
    connection: &Connection,
    sink: &NotificationSink,
    pending: &PendingDelivery,
) -> Result<Option<NotifiedQuestion>> {
    let Some(row) = inbox::open_of_event(connection, pending.worker, pending.event)? else { return Ok(None) };
    let item = listed(&row);
    let detail = (sink.detail == Detail::Full).then(|| {
        let shown = pending_approval(row.asked.clone());
        match shown.tool_call.is_empty() {
            true => shown.message,
            false => Value::Object(shown.tool_call).to_string(),
        }
    });
    Ok(Some(NotifiedQuestion {
        event_id: EventId(pending.event),
        request_id: item.request_id,
        kind: item.kind,
        since: item.created_at,
        subject: item.subject,
        detail,
        worker: Who { worker_id: item.worker_id, label: item.label, path: item.path, cwd: row.cwd },
    }))
}

fn happened(
    connection: &Connection,
    sink: &NotificationSink,
    pending: &PendingDelivery,
) -> Result<Option<Happened>> {
    let Some(occasion) = Occasion::parse(&pending.occasion) else { return Ok(None) };
    let Some(worker) = workers::by_id(connection, pending.worker)? else { return Ok(None) };
    let Some(event) = events::get(connection, pending.worker, pending.event)? else {
        return Ok(None);
    };
    let shown = event.view(&worker.worker_id, false);
    let (reason, message) = EventData::read(shown.event_type, &shown.data).map(explained).unwrap_or_default();
    Ok(Some(Happened {
        event_id: shown.event_id,
        occasion,
        turn_id: shown.turn_id,
        since: shown.ts,
        reason,
        detail: message.filter(|_| sink.detail == Detail::Full),
        worker: Who {
            worker_id: worker.worker_id,
            label: worker.agent.label,
            path: Vec::new(),
            cwd: worker.cwd,
        },
    }))
}

/// Returns why something happened, in a word or two, and what its event says in full.
fn explained(data: EventData) -> (Option<String>, Option<String>) {
    let of_error = |error: Error| (Some(error.code.as_str().to_owned()), Some(error.message));
    match data {
        EventData::PolicyViolated(call) => {
            (Some(Code::PolicyViolation.as_str().to_owned()), Some(violation_text(&call)))
        }
        EventData::TurnCanceled(turn) => {
            let cause = own_cause(&turn.reason).map(|code| code.as_str().to_owned());
            (cause.or_else(|| Some(turn.reason.clone())), Some(turn.reason))
        }
        EventData::TurnFailed(turn) => of_error(turn.error),
        EventData::WorkerParked(parked) => (Some(format!("rate limit, until {}", parked.until)), None),
        EventData::WorkerLost(lost) => (Some(lost.reason), None),
        EventData::QueuePaused(queue) => (Some(queue.reason.as_str().to_owned()), None),
        EventData::SchedulePaused(SchedulePaused { reason, error, .. })
        | EventData::TriggerPaused(TriggerPaused { reason, error, .. }) => {
            error.map_or_else(|| (Some(reason.as_str().to_owned()), None), of_error)
        }
        _ => (None, None),
    }
}
