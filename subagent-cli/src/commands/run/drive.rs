//! A run from the start of its worker to the proof that nothing of it is left. While the start is
//! pending, the worker's id is unknown. A run that has to end then finds the worker by its tag. The
//! start itself is never given up: its worker may appear at any time.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::{CancelTurn, SendTurn, TurnAccepted, WorkerStopped, WorkerView, WorktreeEnd};
use subagent_protocol::event::{EventType, NoData, SeenEvent};
use subagent_protocol::ids::TurnId;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::questions;
use super::sink::RunPrinter;
use super::transcript::RunTranscript;
use crate::client::{ApiRequest, DaemonClient, EventBatch, EventSubscription, read, segment};
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::waiting::signals::{Interruptions, end_by};
use crate::commands::worker;
use crate::commands::worker::start::{PreparedStart, notes};
use crate::dialog::{Dialog, DialogOutcome, QuestionRef, ends};
use crate::failure::{Failure, Result};
use crate::output::{explain, write_stderr};

/// How often it is looked for a worker whose start is on its way.
const LOOK: Duration = Duration::from_millis(50);
/// The clock in the line that says what the agent is doing.
const TICK: Duration = Duration::from_secs(1);
/// An agent has its own time to end a turn before it is ended itself.
const CANCEL_LIMIT: Duration = Duration::from_secs(120);
/// The limit for the last events of a stopped worker. Also the time that a reader of the output
/// gets after a timeout or a signal.
const LAST_EVENTS: Duration = Duration::from_secs(5);
/// The limit for the order to stop the worker after a second signal.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What ended a run.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// The turn has ended; how is in the transcript.
    Turn,
    /// The time is over.
    Timeout,
    /// A signal interrupted the run.
    Signal(Signal),
    /// The output has no reader any more.
    Unread,
}

/// The clients of a run: events come on a connection of their own.
pub(crate) struct Clients {
    pub(crate) work: DaemonClient,
    pub(crate) follow: DaemonClient,
    pub(crate) control: DaemonClient,
    /// For the order to stop the worker while requests on the others are pending.
    pub(crate) last: DaemonClient,
}

/// What a run is about.
pub(crate) struct RunRequest {
    pub(crate) prepared: PreparedStart,
    pub(crate) turn: SendTurn,
    pub(crate) deadline: Option<Instant>,
    /// By which the worker is found.
    pub(crate) choice: WorkerSelector,
    /// The person who is asked; without one every question is answered with no.
    pub(crate) dialog: Option<Dialog>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) ending: RunEnd,
    /// The worker, and the turn if it was accepted; none if the run ended before.
    pub(crate) worker: Option<Box<WorkerView>>,
    pub(crate) turn_id: Option<TurnId>,
    /// What has become of its git worktree, if it had one.
    pub(crate) worktree: Option<WorktreeEnd>,
    pub(crate) transcript: RunTranscript,
    /// The time limit for printing the output: [`printed_by`].
    pub(crate) printed_by: Option<Instant>,
}

impl Driven {
    /// A run that ended before it had a worker.
    pub(crate) fn unstarted(ending: RunEnd, deadline: Option<Instant>) -> Self {
        let printed_by = printed_by(Some(&ending), deadline);
        Self {
            ending,
            worker: None,
            turn_id: None,
            worktree: None,
            transcript: RunTranscript::default(),
            printed_by,
        }
    }

    /// The worker, unless the run was interrupted or its output is not read any more.
    pub(crate) fn worker_id(&self) -> Option<&str> {
        match self.ending {
            RunEnd::Signal(_) | RunEnd::Unread => None,
            RunEnd::Turn | RunEnd::Timeout => self.worker.as_ref().map(|worker| worker.worker_id.as_str()),
        }
    }
}

/// Does everything. The worker is stopped also if this gives an error.
pub(crate) async fn drive(
    order: RunRequest,
    clients: Clients,
    sink: &mut RunPrinter,
    signals: &mut Interruptions,
) -> Result<Driven> {
    let Clients { mut work, mut follow, mut control, mut last } = clients;
    let RunRequest { prepared, turn, deadline, choice, dialog } = order;
    let (worker, notes) = {
        let mut start = pin!(prepared.start(&mut work));
        let ending = tokio::select! {
            biased;
            started = &mut start => Err(started.and_then(with_notes)),
            signal = signals.next() => Ok(RunEnd::Signal(signal)),
            () = until(deadline) => Ok(RunEnd::Timeout),
        };
        match ending {
            Err(Ok(started)) => started,
            Err(Err(failure)) => {
                // Its worker is there all the same, in state `error`.
                let gone = guarded(signals, &mut last, &choice, stop_all(&mut control, &choice)).await;
                return Err(gone.err().unwrap_or(failure));
            }
            Ok(ending) => {
                guarded(signals, &mut last, &choice, end_start(start.as_mut(), &mut control, &choice))
                    .await?;
                return Ok(Driven::unstarted(ending, deadline));
            }
        }
    };
    explain(&notes);
    let worker_id = worker.worker_id.to_string();
    let mut events = follow.events(&worker_id, None, true, false);
    let (mut transcript, mut turn_id) = (RunTranscript::default(), None);
    let worked = {
        let work_on = WorkOn { client: &mut work, sink, dialog };
        let mut working = pin!(work_on.run(&worker_id, &turn, &mut events, &mut transcript, &mut turn_id));
        tokio::select! {
            biased;
            worked = &mut working => worked,
            signal = signals.next() => Ok(RunEnd::Signal(signal)),
            () = until(deadline) => Ok(RunEnd::Timeout),
        }
    };
    let reason = match &worked {
        Ok(RunEnd::Turn) => None,
        Ok(RunEnd::Timeout) => Some("the run timed out"),
        Ok(RunEnd::Signal(_)) => Some("the run was interrupted"),
        Ok(RunEnd::Unread) => Some("the output of the run was closed"),
        Err(_) => Some("the run has failed"),
    };
    let ended = async {
        if let Some(reason) = reason {
            cancel(&mut control, &worker_id, reason).await;
        }
        worker::stop::stop(&mut control, &worker_id).await
    };
    let stopped = guarded(signals, &mut last, &choice, ended).await;
    // How the turn has ended after all, and that the worker is stopped.
    let printed_by = printed_by(worked.as_ref().ok(), deadline);
    tokio::select! {
        biased;
        () = drain(&mut events, &worker_id, &mut transcript, sink) => {}
        // Nothing is left that would have to be ended.
        signal = signals.next() => end_by(signal),
        () = until(printed_by) => {}
    }
    let (ending, stopped) = match (worked, stopped) {
        (Err(failure), Ok(_)) => return Err(failure.with("workerId", worker_id)),
        (_, Err(failure)) => return Err(failure.with("workerId", worker_id)),
        (Ok(ending), Ok(stopped)) => (ending, stopped),
    };
    let WorkerStopped { worktree, .. } = read(stopped)?;
    Ok(Driven { ending, worker: Some(worker), turn_id, worktree, transcript, printed_by })
}

/// The worker that was started, and what a person should know of it.
fn with_notes(started: Value) -> Result<(Box<WorkerView>, Vec<String>)> {
    let notes = notes::of(&started);
    Ok((read(started)?, notes))
}

/// What the turn of a run needs besides its events.
struct WorkOn<'a> {
    client: &'a mut DaemonClient,
    sink: &'a mut RunPrinter,
    dialog: Option<Dialog>,
}

impl WorkOn<'_> {
    /// Sends and follows the turn to its end.
    async fn run(
        self,
        worker_id: &str,
        turn: &SendTurn,
        events: &mut EventSubscription<'_>,
        transcript: &mut RunTranscript,
        turn_id: &mut Option<TurnId>,
    ) -> Result<RunEnd> {
        let Self { client, sink, mut dialog } = self;
        let ask = ApiRequest::change(format!("/v1/workers/{}/turns", segment(worker_id)), turn)?;
        let accepted: TurnAccepted = client.ask_for(&ask).await?;
        *turn_id = Some(accepted.turn_id);
        // What came while the person was asked.
        let mut waiting: VecDeque<Value> = VecDeque::new();
        loop {
            let found: Vec<Value> = match waiting.is_empty() {
                true => next_seen(events, sink).await?,
                false => waiting.drain(..).collect(),
            };
            let asked: Vec<_> = found.iter().filter_map(|event| transcript.see(event)).collect();
            if !sink.write(found).await? {
                return Ok(RunEnd::Unread);
            }
            if transcript.end().is_some() {
                return Ok(RunEnd::Turn);
            }
            for question in &asked {
                match &mut dialog {
                    None => questions::answer(client, question).await?,
                    Some(dialog) => {
                        let mut lost = Ok(());
                        let over = async { lost = until_over(question, events, &mut waiting).await };
                        let asked = dialog.ask(client, question, over).await?;
                        lost?;
                        if asked == DialogOutcome::Interrupted {
                            // The run listens, and does what it does at any other time.
                            let _ = raise(Signal::SIGINT);
                            std::future::pending::<()>().await;
                        }
                    }
                }
            }
        }
    }
}

/// The next events of the worker.
async fn next(events: &mut EventSubscription<'_>) -> Result<Vec<Value>> {
    match events.next().await? {
        EventBatch::Events(found) => Ok(found),
        _ => Err(Failure::new(Code::WorkerStopped, "the worker of the run was stopped by another command")),
    }
}

/// The same, while a person sees what the agent is doing.
async fn next_seen(events: &mut EventSubscription<'_>, sink: &mut RunPrinter) -> Result<Vec<Value>> {
    let mut found = pin!(next(events));
    loop {
        match timeout(TICK, &mut found).await {
            Ok(found) => return found,
            Err(_) => sink.tick(),
        }
    }
}

/// Keeps the events that come until one of them ends the question.
async fn until_over(
    question: &QuestionRef,
    events: &mut EventSubscription<'_>,
    waiting: &mut VecDeque<Value>,
) -> Result<()> {
    loop {
        let over = waiting.iter().any(|event| ends(event, question));
        if over {
            return Ok(());
        }
        waiting.extend(next(events).await?);
    }
}

/// Reads the events until the worker is stopped. Tasks below it may end later; they are not waited
/// for.
async fn drain(
    events: &mut EventSubscription<'_>,
    worker_id: &str,
    transcript: &mut RunTranscript,
    sink: &mut RunPrinter,
) {
    while let Ok(Ok(EventBatch::Events(found))) = timeout(LAST_EVENTS, events.next()).await {
        found.iter().for_each(|event| drop(transcript.see(event)));
        let is_last = |event: SeenEvent<'_, NoData>| {
            event.event_type() == Some(EventType::WorkerStopped) && event.worker_id == worker_id
        };
        let was_last = found.iter().map(SeenEvent::of).any(is_last);
        if !sink.write(found).await.unwrap_or(false) || was_last {
            return;
        }
    }
}

/// Returns the time limit for printing the output. After a timeout or a signal it is `LAST_EVENTS`
/// from now; otherwise it is the run's deadline, if the run has one, but not earlier than that.
pub(crate) fn printed_by(ending: Option<&RunEnd>, deadline: Option<Instant>) -> Option<Instant> {
    let soon = Instant::now() + LAST_EVENTS;
    match ending {
        Some(RunEnd::Timeout | RunEnd::Signal(_)) => Some(soon),
        Some(RunEnd::Turn | RunEnd::Unread) | None => deadline.map(|deadline| deadline.max(soon)),
    }
}

/// Cancels the turn, if one is open. The stop that follows does it too, but gives no reason.
async fn cancel(client: &mut DaemonClient, worker_id: &str, reason: &str) {
    let path = format!("/v1/workers/{}/cancel", segment(worker_id));
    if let Ok(ask) = ApiRequest::change(path, &CancelTurn { turn_id: None, reason: Some(reason.to_owned()) })
    {
        // There may be none.
        let _ = client.ask(&ask.within(Some(CANCEL_LIMIT))).await;
    }
}

/// Ends a start that is on its way: its worker is stopped as soon as there is one.
async fn end_start(
    mut start: Pin<&mut impl Future<Output = Result<Value>>>,
    client: &mut DaemonClient,
    choice: &WorkerSelector,
) -> Result<()> {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // The start has succeeded or failed, so all its workers can be found now.
            _ = &mut start => return stop_all(client, choice).await,
            _ = looks.tick() => {
                for worker in choice.live(client).await? {
                    worker::stop::stop(client, &worker.worker_id).await?;
                }
            }
        }
    }
}

async fn stop_all(client: &mut DaemonClient, choice: &WorkerSelector) -> Result<()> {
    for worker in choice.live(client).await? {
        worker::stop::stop(client, &worker.worker_id).await?;
    }
    Ok(())
}

/// Cleans up. A signal interrupts the cleanup: then the worker is ordered to stop and not waited
/// for.
async fn guarded<T>(
    signals: &mut Interruptions,
    last: &mut DaemonClient,
    choice: &WorkerSelector,
    cleaning: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut cleaning = pin!(cleaning);
    let signal = tokio::select! {
        biased;
        cleaned = &mut cleaning => return cleaned,
        signal = signals.next() => signal,
    };
    let ordered = timeout(AT_ONCE, async {
        tokio::select! {
            stopped = stop_all(last, choice) => stopped,
            cleaned = &mut cleaning => cleaned.map(drop),
        }
    });
    let selector = choice.selector.as_deref().unwrap_or_default();
    match ordered.await {
        Ok(Ok(())) => {}
        _ => {
            let advice = format!(
                "\nNot waiting for the end of the worker.\nTry:  subagent worker stop -l {selector}\n"
            );
            // Stderr may be a full pipe that is not read.
            let _ = timeout(AT_ONCE, tokio::task::spawn_blocking(move || write_stderr(&advice))).await;
        }
    }
    end_by(signal)
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
