//! The one owner of all schedules and triggers: stores what is due, starts what waits, notices
//! ends, and waits for the next time or event.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_config::{Environment, discovery};
use subagent_protocol::api::{Attendant, ScheduledWork};
use subagent_protocol::schedule::{FiringStatus, SchedulePause};
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::{EndStatus, TriggerSource};
use subagent_protocol::{Code, Error, Result};

use super::commands::{self, Runs, WatchedCommand};
use super::context::{STORE_RETRY, ScheduleContext, is_of_the_daemon, pause, times, work};
use super::declared;
use super::folders::is_not_available;
use super::watching::Watchers;
use crate::alarm;
use crate::schedule::{FiringAdmission, ScheduleProgress, admit, look};
use crate::store::schedules::ends::FiringEnd;
use crate::store::schedules::firings::OpenFiring;
use crate::store::schedules::trigger_ends::{self, Ends};
use crate::store::schedules::{self, FiringSource, ScheduleRow, firings};
use crate::store::{Connection, Durability, RowId};
use crate::supervisor;
use crate::supervisor::entropy;

/// The shortest time between two looks because of events.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Milliseconds until an entry of the config file that is not in effect is looked at again.
const LOOK_AGAIN_MS: i64 = 60_000;

/// Events without an end that fires, after which the cursor of a trigger is stored all the same.
const MAX_UNSTORED: i64 = 5000;

/// What the owner does beside its rounds.
#[derive(Default)]
struct FiringsInProgress {
    /// Firings that are being started.
    starting: Mutex<HashSet<RowId>>,
    /// Firings whose cancellation was requested for the next one.
    canceled: Mutex<HashSet<RowId>>,
    /// Commands of triggers that run.
    runs: Arc<Runs>,
}

/// What a round leads to.
#[derive(Debug, Default)]
struct Outlook {
    next: Option<Timestamp>,
    /// Whether ends are awaited: of what was started, or by triggers.
    listens: bool,
    /// Whether something could not be stored.
    again: bool,
}

/// Fires schedules until the daemon ends.
pub(super) async fn run(context: Arc<ScheduleContext>) {
    let stream = context.stream.clone();
    let mut news = stream.news();
    let work = Arc::new(FiringsInProgress::default());
    let mut watchers = Watchers::default();
    loop {
        news.borrow_and_update();
        context.rounds.send_modify(|rounds| rounds.begun += 1);
        let outlook = match Box::pin(round(&context, &work, &mut watchers)).await {
            Ok(outlook) => outlook,
            Err(error) => {
                tracing::error!(%error, "schedules cannot be looked at; trying again");
                Outlook { again: true, ..Outlook::default() }
            }
        };
        context.rounds.send_modify(|rounds| rounds.ended = rounds.begun);
        tokio::select! {
            () = stream.is_ending() => return,
            () = context.changed.notified() => {}
            () = context.folders.returned() => context.declarations.asked.store(true, Ordering::Release),
            woken = alarm::until(outlook.next) => if let Err(error) = woken {
                tracing::error!(%error, "no timer can be had; trying again");
                tokio::time::sleep(STORE_RETRY).await;
            },
            () = tokio::time::sleep(STORE_RETRY), if outlook.again => {}
            changed = news.changed(), if outlook.listens => match changed {
                Ok(()) => tokio::time::sleep(BETWEEN_LOOKS).await,
                Err(_) => return,
            },
        }
        // The workspace of an entry may be another one since the last look.
        if outlook.next.is_some_and(|next| next <= entropy::now()) {
            context.declarations.asked.store(true, Ordering::Release);
        }
    }
}

async fn round(
    context: &Arc<ScheduleContext>,
    work: &Arc<FiringsInProgress>,
    watchers: &mut Watchers,
) -> Result<Outlook> {
    let store = &context.stream.store;
    declared::reconcile(context).await?;
    for end in store.read(schedules::ends::ended).await? {
        finish(context, end).await?;
    }
    let mut outlook = Outlook::default();
    let now = entropy::now();
    let mut stays = false;
    let mut waiting = 0;
    let mut watched = Vec::new();
    for row in store.read(schedules::all).await? {
        if row.paused.is_some() {
            continue;
        }
        let next = match &row.times.starter {
            FiringSource::Times { .. } => look_at(context, &row, now).await?,
            FiringSource::Trigger { source: TriggerSource::After { worker, status } } => {
                outlook.listens = true;
                waiting += 1;
                // One trigger whose events cannot be read holds up no other.
                if let Err(error) = look_at_ends(context, &row, worker, *status).await {
                    tracing::error!(trigger = %row.name, %error, "ends cannot be looked at; trying again");
                    outlook.again = true;
                }
                None
            }
            FiringSource::Trigger {
                source: TriggerSource::Command { command, cwd, every_seconds, timeout_seconds },
            } => {
                let (every_seconds, timeout_seconds) = (*every_seconds, *timeout_seconds);
                let command = WatchedCommand { line: command, cwd, every_seconds, timeout_seconds };
                let next = commands::look_at(context, &work.runs, &row, &command, now);
                // While it runs, the daemon stays.
                Some(next.unwrap_or(now))
            }
            FiringSource::Trigger { source: source @ TriggerSource::Files { .. } } => {
                watched.push((row.id, source.clone()));
                waiting += 1;
                stays = true;
                None
            }
            FiringSource::Trigger { source: TriggerSource::Request {} | TriggerSource::Webhook { .. } } => {
                None
            }
        };
        if let Some(next) = next {
            // What runs now reports its end.
            if next > now {
                outlook.next = Some(outlook.next.map_or(next, |first| first.min(next)));
            }
            waiting += 1;
            stays |= context.stay.attendant(next, now) != Attendant::Unattended;
        }
    }
    watchers.keep(context, watched);
    // Of all rows once more: a look may have paused some.
    let rows = store.read(schedules::all).await?;
    let open = store.read(firings::open).await?;
    let unavailable = context.declarations.unavailable().await;
    for row in &rows {
        if unavailable.contains(&row.name) || folder_of(row).is_some_and(|it| context.folders.is_hanging(it))
        {
            continue;
        }
        let of_it: Vec<&OpenFiring> = open.iter().filter(|firing| firing.schedule == row.id).collect();
        admit_waiting(context, work, row, &of_it).await?;
    }
    if context.declarations.has_problems().await {
        let again = Timestamp(now.0.saturating_add(LOOK_AGAIN_MS));
        outlook.next = Some(outlook.next.map_or(again, |first| first.min(again)));
    }
    outlook.listens |= !open.is_empty();
    waiting += open.len();
    context.waiting.send_if_modified(|before| std::mem::replace(before, waiting) != waiting);
    context.busy.send_replace(usize::from(stays || !open.is_empty()));
    Ok(outlook)
}

/// Stores what is due. Gives the next time.
async fn look_at(context: &ScheduleContext, row: &ScheduleRow, now: Timestamp) -> Result<Option<Timestamp>> {
    let (times, missed) = match times(row) {
        Ok(Some(times)) => times,
        Ok(None) => return Ok(None),
        Err(problem) => {
            let error = Error::new(Code::InvalidArgument, problem);
            pause(context, row.id, SchedulePause::Unusable, error).await?;
            return Ok(None);
        }
    };
    let (id, since) = (row.id, row.cursor.min(now));
    let fired = context.stream.store.read(move |connection| firings::fired(connection, id, since)).await?;
    let found = look(&times, missed, &ScheduleProgress { cursor: row.cursor, fired }, now);
    let next = found.next;
    if !found.fire.is_empty() || found.skip.is_some() {
        subagent_failpoint::hit("schedule.before_store");
        let write = move |tx: &mut crate::store::Tx<'_>| schedules::store_look(tx, id, &found, now);
        context.stream.store.write(Durability::Full, 1, write).await?;
        subagent_failpoint::hit("schedule.after_store");
    }
    Ok(next)
}

/// Stores the ends of a worker's turns, or of a task, that fire a trigger.
async fn look_at_ends(
    context: &ScheduleContext,
    row: &ScheduleRow,
    worker: &str,
    status: Option<EndStatus>,
) -> Result<()> {
    let (trigger, worker) = (row.clone(), worker.to_owned());
    let read = move |connection: &Connection| trigger_ends::ends(connection, &trigger, &worker, status);
    let Ends { firings, seen, more } = context.stream.store.read(read).await?;
    // The cursor alone is worth a commit only from time to time.
    if !firings.is_empty() || more || seen.saturating_sub(row.cursor.0) > MAX_UNSTORED {
        let (id, now) = (row.id, entropy::now());
        subagent_failpoint::hit("schedule.before_store");
        let write = move |tx: &mut crate::store::Tx<'_>| schedules::store_ends(tx, id, &firings, seen, now);
        context.stream.store.write(Durability::Full, 1, write).await?;
        subagent_failpoint::hit("schedule.after_store");
    }
    if more {
        context.changed.notify_one();
    }
    Ok(())
}

/// Starts, or leaves out, what waits for its turn.
async fn admit_waiting(
    context: &Arc<ScheduleContext>,
    work: &Arc<FiringsInProgress>,
    row: &ScheduleRow,
    open: &[&OpenFiring],
) -> Result<()> {
    let starting = work.starting.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let waits =
        |firing: &&&OpenFiring| firing.status == FiringStatus::Waiting && !starting.contains(&firing.id);
    let waiting: Vec<&OpenFiring> = open.iter().filter(waits).copied().collect();
    let mut running = open.len() - waiting.len();
    for (index, firing) in waiting.iter().enumerate() {
        match admit(row.times.overlap, running, waiting.len() - 1 - index) {
            FiringAdmission::Start => {
                running += 1;
                start(context, work, row, firing.id);
            }
            FiringAdmission::Wait => break,
            FiringAdmission::Skip => {
                let message = format!("an earlier firing was running (overlap: {})", row.times.overlap);
                let error = Some(Error::new(Code::WorkerBusy, message));
                let status = FiringStatus::Skipped;
                finish(context, FiringEnd { firing: firing.id, started: false, status, error, pause: None })
                    .await?;
            }
            FiringAdmission::CancelRunning => {
                for other in open.iter().filter(|other| other.status == FiringStatus::Running) {
                    cancel(context, work, other);
                }
                break;
            }
        }
    }
    Ok(())
}

/// Starts a firing. That may take its time: other schedules do not wait for it.
fn start(context: &Arc<ScheduleContext>, work: &Arc<FiringsInProgress>, row: &ScheduleRow, firing: RowId) {
    work.starting.lock().unwrap_or_else(PoisonError::into_inner).insert(firing);
    let (context, work, row) = (Arc::clone(context), Arc::clone(work), row.clone());
    tokio::spawn(async move {
        subagent_failpoint::hit("firing.before_start");
        let started = begin(&context, &row, firing).await;
        subagent_failpoint::hit("firing.after_start");
        let failed = match started {
            // It still waits: a round tries again when the folder has answered.
            Err(error) if is_not_available(&error) => {
                tracing::warn!(schedule = row.name, %error, "a firing is not started yet");
                Ok(())
            }
            // The same with the next round.
            Err(error) if is_of_the_daemon(error.code) => {
                tracing::warn!(schedule = row.name, %error, "a firing is not started yet");
                tokio::time::sleep(STORE_RETRY).await;
                Ok(())
            }
            Err(error) => {
                tracing::warn!(schedule = row.name, %error, "a firing failed");
                let (status, pause) = (FiringStatus::Failed, gone(error.code));
                finish(&context, FiringEnd { firing, started: false, status, error: Some(error), pause })
                    .await
            }
            Ok(()) => Ok(()),
        };
        if let Err(error) = failed {
            tracing::error!(schedule = row.name, %error, "the end of a firing cannot be stored");
            tokio::time::sleep(STORE_RETRY).await;
        }
        work.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(&firing);
        context.changed.notify_one();
    });
}

async fn begin(context: &ScheduleContext, row: &ScheduleRow, firing: RowId) -> Result<()> {
    let payload = context.stream.store.read(move |connection| firings::payload(connection, firing)).await?;
    match work(row, payload.as_deref()) {
        ScheduledWork::Task(task) => {
            if let Some(place) = &task.manager {
                let environment = Environment { cwd: place.cwd.clone(), ..context.environment.clone() };
                let read = move || drop(discovery::load_regular(None, None, &environment));
                context.folders.look(&place.cwd, read).await?;
            }
            supervisor::start::scheduled::fire_task(
                &context.supervisor,
                firing,
                context.with_environment(&task),
            )
            .await
        }
        ScheduledWork::Send(message) => {
            supervisor::start::scheduled::fire_message(
                &context.supervisor,
                firing,
                &message.worker,
                &message.text,
            )
            .await
        }
    }
}

/// The folder of a task.
fn folder_of(row: &ScheduleRow) -> Option<&Path> {
    match &row.work {
        ScheduledWork::Task(task) => task.manager.as_ref().map(|place| place.cwd.as_path()),
        ScheduledWork::Send(_) => None,
    }
}

/// Cancels what runs, once.
fn cancel(context: &Arc<ScheduleContext>, work: &FiringsInProgress, firing: &OpenFiring) {
    let Some(worker) = firing.worker_id.clone() else { return };
    if !work.canceled.lock().unwrap_or_else(PoisonError::into_inner).insert(firing.id) {
        return;
    }
    let (context, id, turn) = (Arc::clone(context), firing.id, firing.turn_id.clone());
    tokio::spawn(async move {
        if let Err(error) =
            supervisor::start::scheduled::cancel_firing(&context.supervisor, id, &worker, turn.as_deref())
                .await
        {
            tracing::warn!(worker, %error, "what an earlier firing has started cannot be canceled");
        }
    });
}

/// Stores the end of a firing, and what follows from it.
async fn finish(context: &ScheduleContext, end: FiringEnd) -> Result<()> {
    let now = entropy::now();
    let write = move |tx: &mut crate::store::Tx<'_>| schedules::ends::end_firing(tx, &end, now);
    if let Some((worker, seq)) = context.stream.store.write(Durability::Full, 1, write).await? {
        context.stream.noted(worker, seq);
    }
    Ok(())
}

/// Whether no later firing can be started either.
const fn gone(code: Code) -> Option<SchedulePause> {
    match code {
        Code::WorkerNotFound | Code::WorkerStopped | Code::WorkerCopied => Some(SchedulePause::WorkerGone),
        Code::AgentNotFound | Code::LauncherNotFound | Code::AgentNotUsable | Code::AgentNotASubagent => {
            Some(SchedulePause::DefinitionGone)
        }
        _ => None,
    }
}
