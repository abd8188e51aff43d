//! Delivers one sink's pending deliveries in order, one attempt at a time.

use std::sync::Arc;
use std::time::Duration;

use subagent_config::notify::NotificationSink;
use subagent_core::model::Fact;
use subagent_protocol::Result;
use subagent_protocol::data::EventData;
use subagent_protocol::data::notifications::NotificationFailed;
use subagent_protocol::ids::EventId;
use subagent_protocol::notification::{DeliveryStatus, Occasion};
use subagent_protocol::time::Timestamp;
use tokio::sync::{Notify, watch};

use super::config;
use super::context::DeliveryContext;
use super::facts::{self, ComposedNotification};
use super::send::{self, DeliveryFailure};
use crate::notification::{AfterFailure, after, after_failure};
use crate::or_never::or_never;
use crate::store::deliveries::{self, PendingDelivery};
use crate::store::{Durability, Tx, facts as stored_facts};
use crate::supervisor::entropy;

/// Questions within this time after the first form one notification.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum number of deliveries examined together.
const MAX_BATCH: u32 = 50;
/// Wait after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// The next step of a sink.
#[derive(Debug, PartialEq, Eq)]
enum SinkWakeup {
    Idle,
    /// Deliveries are pending, but none is due before this time.
    At(Timestamp),
    /// The pending deliveries must be examined again at once.
    Look,
}

/// The due part of a sink's pending deliveries, oldest first.
#[derive(Debug)]
enum DueDeliveries<'a> {
    Nothing,
    Later(Timestamp),
    /// Deliver these together: one event, or several questions.
    Now(Vec<&'a PendingDelivery>),
}

/// Computes the due part. Pure.
fn due(pending: &[PendingDelivery], now: Timestamp) -> DueDeliveries<'_> {
    let Some(first) = pending.first() else { return DueDeliveries::Nothing };
    if let Some(message) = first.message {
        if now < first.due_at {
            return DueDeliveries::Later(first.due_at);
        }
        // A repeated attempt has the same deliveries and the same id as the first.
        return DueDeliveries::Now(pending.iter().filter(|other| other.message == Some(message)).collect());
    }
    if first.occasion != Occasion::Question.as_str() {
        return DueDeliveries::Now(vec![first]);
    }
    let until = after(first.created_at, QUIET);
    if now < until {
        return DueDeliveries::Later(until);
    }
    let together = |other: &&PendingDelivery| {
        other.occasion == first.occasion && other.message.is_none() && other.created_at <= until
    };
    DueDeliveries::Now(pending.iter().take_while(together).collect())
}

/// Counts a sink as busy while the value lives.
struct BusySink<'a>(&'a watch::Sender<usize>);

impl<'a> BusySink<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for BusySink<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Delivers until the daemon ends. `wake` is notified of new deliveries.
pub(super) async fn run(context: Arc<DeliveryContext>, sink: NotificationSink, wake: Arc<Notify>) {
    let stream = context.stream.clone();
    let mut busy = None;
    loop {
        let next = tokio::select! {
            // The next daemon repeats a running attempt with the same id.
            () = stream.is_ending() => return,
            next = step(&context, &sink) => next,
        };
        let wait = match next {
            Ok(SinkWakeup::Look) => continue,
            Ok(SinkWakeup::Idle) => None,
            Ok(SinkWakeup::At(time)) => Some(u64::try_from(time.0 - entropy::now().0).unwrap_or(0)),
            Err(error) => {
                tracing::error!(sink = sink.name, %error, "deliveries cannot be read or stored; trying again");
                Some(u64::try_from(STORE_RETRY.as_millis()).unwrap_or(u64::MAX))
            }
        };
        busy = match wait {
            None => None,
            Some(_) => busy.or_else(|| Some(BusySink::new(&context.busy))),
        };
        let timer = or_never(wait.map(|millis| tokio::time::sleep(Duration::from_millis(millis))));
        tokio::select! {
            () = stream.is_ending() => return,
            () = wake.notified(), if wait.is_none() => {}
            () = timer => {}
        }
    }
}

async fn step(context: &DeliveryContext, sink: &NotificationSink) -> Result<SinkWakeup> {
    let name = sink.name.clone();
    let pending = context
        .stream
        .store
        .read(move |connection| deliveries::pending(connection, &name, MAX_BATCH))
        .await?;
    let now = entropy::now();
    let batch: Vec<PendingDelivery> = match due(&pending, now) {
        DueDeliveries::Nothing => return Ok(SinkWakeup::Idle),
        DueDeliveries::Later(time) => return Ok(SinkWakeup::At(time)),
        DueDeliveries::Now(batch) => batch.into_iter().cloned().collect(),
    };
    let (asked, of) = (batch.clone(), sink.clone());
    let ComposedNotification { notification, dropped } =
        context.stream.store.read(move |connection| facts::compose(connection, &of, &asked)).await?;
    let ids: Vec<i64> = batch.iter().map(|pending| pending.id).collect();
    let kept: Vec<i64> =
        ids.iter().copied().filter(|id| !dropped.iter().any(|(dropped, _)| dropped == id)).collect();
    let write = move |tx: &mut Tx<'_>| {
        for (id, reason) in dropped {
            deliveries::settle(tx, &[id], DeliveryStatus::Dropped, Some(reason), now)?;
        }
        Ok(())
    };
    context.stream.store.write(Durability::Full, 1, write).await?;
    let (Some(notification), Some(first)) = (notification, batch.first()) else {
        return Ok(SinkWakeup::Look);
    };
    let message = first.message.unwrap_or(first.event);
    let begun = kept.clone();
    context
        .stream
        .store
        .write(Durability::Full, 1, move |tx| deliveries::begin(tx, &begun, message, now))
        .await?;
    subagent_failpoint::hit("delivery.before_send");
    let sent = match config::resolved(&context.environment, &sink.to) {
        Ok(target) => send::send(context, &target, &context.id_of(EventId(message)), &notification).await,
        Err(error) => Err(DeliveryFailure::new(error)),
    };
    subagent_failpoint::hit("delivery.after_send");
    settle(context, sink, first, kept, sent).await?;
    Ok(SinkWakeup::Look)
}

/// Stores the result of an attempt.
async fn settle(
    context: &DeliveryContext,
    sink: &NotificationSink,
    first: &PendingDelivery,
    ids: Vec<i64>,
    sent: std::result::Result<(), DeliveryFailure>,
) -> Result<()> {
    let now = entropy::now();
    let attempts = first.attempts + 1;
    let failure = match sent {
        Ok(()) => {
            let store =
                move |tx: &mut Tx<'_>| deliveries::settle(tx, &ids, DeliveryStatus::Delivered, None, now);
            return context.stream.store.write(Durability::Full, 1, store).await;
        }
        Err(failure) => failure,
    };
    let DeliveryFailure { error, retry_after, is_final } = failure;
    let next = after_failure(first.created_at, now, attempts, retry_after);
    if let (AfterFailure::PutOff(due_at), false) = (next, is_final) {
        tracing::warn!(sink = sink.name, error, "a notification was not delivered; it is tried again");
        let store = move |tx: &mut Tx<'_>| deliveries::put_off(tx, &ids, &error, now, due_at);
        return context.stream.store.write(Durability::Full, 1, store).await;
    }
    tracing::error!(sink = sink.name, error, "a notification cannot be delivered");
    let failed = NotificationFailed {
        sink: sink.name.clone(),
        occasion: first.occasion.clone(),
        event_id: EventId(first.event),
        attempts,
        reason: error.clone(),
    };
    let fact = Fact::Event { data: EventData::NotificationFailed(failed), turn: None };
    let worker = first.worker;
    let store = move |tx: &mut Tx<'_>| {
        deliveries::settle(tx, &ids, DeliveryStatus::Failed, Some(&error), now)?;
        stored_facts::store(tx, worker, &[fact], None, now)
    };
    for (_, seq) in context.stream.store.write(Durability::Full, 1, store).await? {
        context.stream.noted(worker, seq);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RowId;

    fn pending(id: i64, occasion: Occasion, created_at: i64) -> PendingDelivery {
        PendingDelivery {
            id,
            event: id,
            worker: RowId(1),
            occasion: occasion.as_str().to_owned(),
            message: None,
            attempts: 0,
            created_at: Timestamp(created_at),
            due_at: Timestamp(created_at),
        }
    }

    fn ids(due: &DueDeliveries<'_>) -> Vec<i64> {
        match due {
            DueDeliveries::Now(batch) => batch.iter().map(|pending| pending.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions_of_a_second_go_together_and_nothing_overtakes() {
        assert!(matches!(due(&[], Timestamp(0)), DueDeliveries::Nothing));
        let all = [
            pending(1, Occasion::Question, 0),
            pending(2, Occasion::Question, 900),
            pending(3, Occasion::Failed, 950),
            pending(4, Occasion::Question, 960),
        ];
        assert!(matches!(due(&all, Timestamp(999)), DueDeliveries::Later(Timestamp(1000))));
        assert_eq!(ids(&due(&all, Timestamp(1000))), [1, 2]);
        assert_eq!(ids(&due(&all[2..], Timestamp(960))), [3]);
        let late = [pending(1, Occasion::Question, 0), pending(2, Occasion::Question, 1001)];
        assert_eq!(ids(&due(&late, Timestamp(5000))), [1]);
    }

    #[test]
    fn a_repetition_has_the_same_deliveries_after_its_delay() {
        let tried = |id| PendingDelivery {
            message: Some(1),
            attempts: 3,
            due_at: Timestamp(14_000),
            ..pending(id, Occasion::Question, 0)
        };
        let all = [tried(1), tried(2), pending(3, Occasion::Question, 100)];
        assert!(matches!(due(&all, Timestamp(13_999)), DueDeliveries::Later(Timestamp(14_000))));
        assert_eq!(ids(&due(&all, Timestamp(14_000))), [1, 2]);
    }
}
