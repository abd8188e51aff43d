//! Reads the events of all workers after a stored cursor, and stores which sinks get each event.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use subagent_config::notify::NotificationSink;
use subagent_protocol::Result;
use subagent_protocol::tags::{Selector, Tags};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::context::DeliveryContext;
use super::{facts, sink};
use crate::store::deliveries::{self, DeliveryCandidate, NewDelivery};
use crate::store::{Durability, events};
use crate::supervisor::entropy;

/// Minimum time between two reads of events.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Minimum time between reads without sinks, or after a store failure.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// Number of unwanted events after which the cursor is stored too.
const MAX_UNSTORED: i64 = 5000;

/// A sink with its delivery task.
struct ActiveSink {
    sink: NotificationSink,
    selector: Option<Selector>,
    /// The sink receives events after this sequence number.
    since: i64,
    wake: Arc<Notify>,
    task: AbortHandle,
}

impl ActiveSink {
    fn wants(&self, event: &DeliveryCandidate) -> Option<&'static str> {
        let occasion = facts::occasion(event)?;
        let addressed = LazyCell::new(|| SinkSelectors::of(event));
        let fits = |selector: &Selector| addressed.iter().any(|one| selector.matches(&one.tags));
        let wanted = event.seq > self.since
            && self.sink.on.includes(occasion, || addressed.first().is_some_and(|own| own.detached))
            && self.selector.as_ref().is_none_or(fits);
        wanted.then(|| occasion.as_str())
    }
}

impl Drop for ActiveSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fields in the spec of an event's worker (or of a worker above it) that select sinks.
#[derive(Default, serde::Deserialize)]
struct SinkSelectors {
    #[serde(default)]
    tags: Tags,
    #[serde(default)]
    detached: bool,
}

impl SinkSelectors {
    /// Reads the specs of the event's workers; its own worker comes first.
    fn of(event: &DeliveryCandidate) -> Vec<Self> {
        event.specs.iter().map(|spec| serde_json::from_str(spec).unwrap_or_default()).collect()
    }
}

#[derive(Default)]
struct Dispatcher {
    sinks: BTreeMap<String, ActiveSink>,
    /// Newest event of the last read. A sink added later receives the events after it. `None`
    /// before the first read, so that new sinks receive no earlier events.
    newest: Option<i64>,
    /// Events up to this sequence number were examined.
    seen: i64,
    /// Value of the cursor that is stored.
    stored: i64,
}

/// Dispatches events until the daemon ends.
pub(super) async fn run(context: Arc<DeliveryContext>) {
    let mut news = context.stream.news();
    let stream = context.stream.clone();
    let mut dispatcher = Dispatcher::default();
    loop {
        news.borrow_and_update();
        let failed = dispatcher.look(&context).await;
        if let Err(error) = &failed {
            tracing::error!(%error, "events cannot be dispatched; trying again");
        }
        let pause = match dispatcher.sinks.is_empty() || failed.is_err() {
            true => LONG_PAUSE,
            false => BETWEEN_LOOKS,
        };
        tokio::select! {
            () = stream.is_ending() => return,
            () = context.changed.notified() => continue,
            changed = news.changed(), if failed.is_ok() => if changed.is_err() { return },
            () = std::future::ready(()), if failed.is_err() => {}
        }
        // The pause collects a burst of events into one read.
        tokio::select! {
            () = stream.is_ending() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Dispatcher {
    async fn look(&mut self, context: &Arc<DeliveryContext>) -> Result<()> {
        let newest = context.stream.store.read(events::all::last_seq).await?;
        let (version, sinks) = {
            let mut config = context.config.lock().await;
            config.refresh();
            (config.version(), config.sinks().to_vec())
        };
        if version != *context.in_use.borrow() {
            self.replace(context, sinks, self.newest.unwrap_or(newest)).await?;
            context.sinks.send_replace(self.sinks.len());
            context.in_use.send_replace(version);
        }
        self.newest = Some(newest);
        while !self.sinks.is_empty() && !self.look_at_page(context).await? {}
        Ok(())
    }

    /// Replaces the sinks. Unchanged ones continue; new ones receive events after `since`.
    async fn replace(
        &mut self,
        context: &Arc<DeliveryContext>,
        sinks: Vec<NotificationSink>,
        since: i64,
    ) -> Result<()> {
        let names: Vec<String> = sinks.iter().map(|sink| sink.name.clone()).collect();
        let known = context.stream.store.read(deliveries::has_sinks).await?;
        self.sinks.retain(|_, running| sinks.contains(&running.sink));
        if names.is_empty() && !known {
            return Ok(());
        }
        let now = entropy::now();
        let write = move |tx: &mut crate::store::Tx<'_>| {
            deliveries::drop_of_others(tx, &names, now)?;
            deliveries::set_sinks(tx, &names, since)
        };
        let since = context.stream.store.write(Durability::Full, 1, write).await?;
        self.seen = context.stream.store.read(deliveries::cursor).await?.unwrap_or(0);
        self.stored = self.seen;
        for sink in sinks {
            if self.sinks.contains_key(&sink.name) {
                continue;
            }
            let wake = Arc::new(Notify::new());
            let task = tokio::spawn(sink::run(Arc::clone(context), sink.clone(), Arc::clone(&wake)));
            let running = ActiveSink {
                // Loading the config has validated the selector.
                selector: sink.selector.as_deref().and_then(|selector| Selector::parse(selector).ok()),
                since: since.get(&sink.name).copied().unwrap_or(0),
                wake,
                task: task.abort_handle(),
                sink,
            };
            self.sinks.insert(running.sink.name.clone(), running);
        }
        Ok(())
    }

    /// Examines the next page of events. Returns whether it was the last one.
    async fn look_at_page(&mut self, context: &DeliveryContext) -> Result<bool> {
        let after = self.seen;
        let page = context
            .stream
            .store
            .read(move |connection| deliveries::candidates(connection, after, &facts::TYPES))
            .await?;
        let mut wanted = Vec::new();
        for event in &page.events {
            for running in self.sinks.values() {
                if let Some(occasion) = running.wants(event) {
                    let (sink, worker) = (running.sink.name.clone(), event.worker);
                    wanted.push(NewDelivery { sink, event: event.seq, worker, occasion });
                }
            }
        }
        let seen = page.seen;
        if !wanted.is_empty() {
            let woken: Vec<String> = wanted.iter().map(|delivery| delivery.sink.clone()).collect();
            let now = entropy::now();
            subagent_failpoint::hit("delivery.before_store");
            let write = move |tx: &mut crate::store::Tx<'_>| {
                deliveries::insert(tx, &wanted, now)?;
                deliveries::move_cursor(tx, seen)
            };
            context.stream.store.write(Durability::Full, 1, write).await?;
            subagent_failpoint::hit("delivery.after_store");
            self.stored = seen;
            for name in woken {
                if let Some(running) = self.sinks.get(&name) {
                    running.wake.notify_one();
                }
            }
        } else if seen - self.stored > MAX_UNSTORED {
            context
                .stream
                .store
                .write(Durability::Progress, 1, move |tx| deliveries::move_cursor(tx, seen))
                .await?;
            self.stored = seen;
        }
        self.seen = seen;
        Ok(page.end)
    }
}
