//! Triggers that watch files: a thread for each, and the firings for what it reports.

mod changes;
mod globs;
mod thread;
mod tree;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error};
use tokio::task::JoinHandle;

use super::context::{STORE_RETRY, ScheduleContext, pause};
use crate::store::schedules::firings::NewFiring;
use crate::store::schedules::trigger_sources;
use crate::store::{Connection, Durability, RowId, Tx};
use crate::supervisor::entropy;
pub(super) use globs::Globs;
use thread::{WatchReport, WatchedFolder, Watcher};

/// The watchers of all triggers. Dropping it ends them.
#[derive(Default)]
pub(super) struct Watchers(HashMap<RowId, SourceWatch>);

struct SourceWatch {
    source: TriggerSource,
    task: JoinHandle<()>,
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watchers {
    /// Watches for these triggers, and for no others.
    pub(super) fn keep(&mut self, context: &Arc<ScheduleContext>, wanted: Vec<(RowId, TriggerSource)>) {
        self.0.retain(|id, running| {
            !running.task.is_finished()
                && wanted.iter().any(|(other, source)| other == id && *source == running.source)
        });
        let running = &self.0;
        context.watched.send_modify(|watched| watched.retain(|id| running.contains_key(id)));
        for (id, source) in wanted {
            self.0.entry(id).or_insert_with(|| {
                let task = tokio::spawn(follow(Arc::clone(context), id, source.clone()));
                SourceWatch { source, task }
            });
        }
    }
}

async fn follow(context: Arc<ScheduleContext>, id: RowId, source: TriggerSource) {
    let TriggerSource::Files { folder, globs, debounce_ms } = source else { return };
    let state_dir = state_dir(&context).await;
    let watched = WatchedFolder { folder, globs, debounce: Duration::from_millis(debounce_ms), state_dir };
    let problem = match Watcher::start(watched) {
        Ok(watcher) => reports(&context, id, watcher).await,
        Err(error) => format!("the folder cannot be watched: {error}"),
    };
    context.watched.send_modify(|watched| {
        watched.remove(&id);
    });
    let error = Error::new(Code::WatchFailed, problem);
    while let Err(cause) = pause(&context, id, SchedulePause::SourceGone, error.clone()).await {
        tracing::error!(%cause, "the pause of a trigger cannot be stored; trying again");
        tokio::time::sleep(STORE_RETRY).await;
    }
    context.changed.notify_one();
}

/// The folder of the database.
async fn state_dir(context: &ScheduleContext) -> Option<PathBuf> {
    let read = |connection: &Connection| Ok(connection.path().map(PathBuf::from));
    let found = context.stream.store.read(read).await.inspect_err(|error| {
        tracing::warn!(%error, "the place of the state dir is not known; changes in it may fire a trigger");
    });
    found.ok().flatten()?.parent().map(Into::into)
}

/// Stores firings until nothing is watched any more. Returns the reason.
async fn reports(context: &ScheduleContext, id: RowId, mut watcher: Watcher) -> String {
    while let Some(report) = watcher.reports.recv().await {
        match report {
            WatchReport::Watching => context.watched.send_modify(|watched| {
                watched.insert(id);
            }),
            WatchReport::Failed(problem) => return problem,
            WatchReport::Changed(payload) => {
                while let Err(error) = fire(context, id, payload.clone()).await {
                    tracing::error!(%error, "a firing for changed files cannot be stored; trying again");
                    tokio::time::sleep(STORE_RETRY).await;
                }
                context.changed.notify_one();
            }
        }
    }
    "the watching thread has ended".to_owned()
}

async fn fire(context: &ScheduleContext, id: RowId, payload: String) -> subagent_protocol::Result<()> {
    let now = entropy::now();
    let firing = NewFiring { payload: Some(payload), ..NewFiring::default() };
    subagent_failpoint::hit("change.before_store");
    let write = move |tx: &mut Tx<'_>| trigger_sources::store_occurrence(tx, id, &firing, now);
    context.stream.store.write(Durability::Full, 1, write).await?;
    subagent_failpoint::hit("change.after_store");
    Ok(())
}
