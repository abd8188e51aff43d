//! Waiting with a line on stderr that says what the agent is doing. The wait is the same as without
//! it. The line follows the worker's events on a connection of its own. An error there leaves the
//! line as it is and does not disturb the wait.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::clean::one_line;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::signals::end_by;
use crate::client::{DaemonClient, EventBatch, WaitStart, WorkerWait};
use crate::context::CliContext;
use crate::dialog::{interruption, interruption_after};
use crate::failure::Result;
use crate::output::live::{LiveActivity, StatusLine};
use crate::output::{OutputFormat, write_stderr};

/// The clock in the line.
const TICK: Duration = Duration::from_secs(1);

/// What the line needs; nothing if there is no terminal for it.
pub(crate) struct StatusFollower {
    line: StatusLine,
    follower: DaemonClient,
    starting: Option<String>,
    /// How the workers were named, in a form that has no cursor.
    named: Vec<String>,
}

/// What the line says.
#[derive(Clone, Copy)]
enum LiveStatus<'a> {
    /// What one worker is doing.
    Worker(&'a str),
    /// How many workers are not done yet.
    Left(&'a Cell<usize>),
}

impl StatusFollower {
    /// Returns a line if stderr is a terminal and `--json` is not set.
    pub(crate) fn new(context: &CliContext, workspace: &Workspace) -> Result<Option<Self>> {
        if context.format == OutputFormat::Json {
            return Ok(None);
        }
        let Some(line) = StatusLine::on_stderr() else { return Ok(None) };
        Ok(Some(Self {
            line,
            follower: DaemonClient::new(context, workspace),
            starting: None,
            named: Vec::new(),
        }))
    }

    /// The same for a turn for which the agent is started: what that waits for.
    pub(crate) fn starting(self, what: String) -> Self {
        Self { starting: Some(what), ..self }
    }
}

impl StatusFollower {
    /// The same where the workers were named as arguments.
    pub(crate) fn named(self, addresses: &[String]) -> Self {
        Self { named: addresses.to_vec(), ..self }
    }

    /// Does the work, with the line beside it; of one worker it follows the events after `from`.
    async fn beside<T>(
        self,
        shown: LiveStatus<'_>,
        from: Option<String>,
        sent: bool,
        work: impl Future<Output = T>,
    ) -> T {
        let Self { mut line, mut follower, starting, named } = self;
        let activity = RefCell::new(match starting {
            Some(what) => LiveActivity::of_start(what),
            None if sent => LiveActivity::of_turn(),
            None => LiveActivity::default(),
        });
        let news = Notify::new();
        let following = async {
            match shown {
                LiveStatus::Worker(worker) => {
                    follow(&mut follower, worker, from.clone(), &activity, &news).await
                }
                LiveStatus::Left(_) => std::future::pending().await,
            }
        };
        let (mut following, mut work) = (pin!(following), pin!(work));
        let mut interrupted = pin!(interruption());
        let begun = Instant::now();
        let mut clock = interval(TICK);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = &mut interrupted => {
                    line.erase();
                    let is_of_turn = activity.borrow().is_of_turn();
                    let worker = match shown {
                        LiveStatus::Worker(worker) => Some(worker),
                        LiveStatus::Left(_) => None,
                    };
                    interrupt(&Again::of(&named, worker, from.as_deref()), is_of_turn);
                }
                () = &mut following => {}
                () = news.notified() => {}
                _ = clock.tick() => {}
            }
            match shown {
                LiveStatus::Worker(_) => line.draw(&activity.borrow(), begun.elapsed()),
                LiveStatus::Left(left) => line.show(&waiting(left.get(), named.len()), begun.elapsed()),
            }
        }
    }
}

/// Waits, with the line or without.
pub(crate) async fn wait(
    client: &mut DaemonClient,
    live: Option<StatusFollower>,
    mut waiting: WorkerWait,
) -> Result<Value> {
    let Some(live) = live else { return without_line(client.wait(waiting)).await };
    client.pin(&mut waiting).await?;
    let worker = waiting.worker_id.clone();
    let from = match &waiting.cursor {
        WaitStart::After(event_id) => Some(event_id.clone()),
        WaitStart::Beginning | WaitStart::Latest => None,
    };
    let sent = waiting.collect_turn.is_some();
    live.beside(LiveStatus::Worker(&worker), from, sent, client.wait(waiting)).await
}

fn waiting(left: usize, all: usize) -> String {
    if left == all {
        format!("waiting for {all} workers")
    } else {
        format!("waiting for {left} of {all} workers")
    }
}

/// Waits for workers that were named as arguments, with the line or without. `left` of them are not done yet.
pub(crate) async fn wait_rest<T>(
    live: Option<StatusFollower>,
    addresses: &[String],
    left: &Cell<usize>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(mut live) = live.map(|live| live.named(addresses)) else {
        return without_line(work).await;
    };
    let [worker] = addresses else { return live.beside(LiveStatus::Left(left), None, false, work).await };
    let from = live.follower.newest_event(worker).await?;
    // A worker without an open turn is not waited for.
    live.beside(LiveStatus::Worker(worker), from, true, work).await
}

/// Waits without a line, which Ctrl-C ends after a question in place too.
async fn without_line<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        () = interruption_after() => end_by(Signal::SIGINT),
    }
}

/// Keeps the activity up to date; never ends.
async fn follow(
    client: &mut DaemonClient,
    worker: &str,
    from: Option<String>,
    activity: &RefCell<LiveActivity>,
    news: &Notify,
) {
    let mut events = client.events(worker, from, true, false);
    while let Ok(EventBatch::Events(found)) = events.next().await {
        found.iter().for_each(|event| activity.borrow_mut().see(event));
        news.notify_one();
    }
    std::future::pending().await
}

/// The commands that go on after Ctrl-C.
struct Again {
    wait: String,
    cancel: String,
}

impl Again {
    fn of(named: &[String], worker: Option<&str>, from: Option<&str>) -> Self {
        if !named.is_empty() {
            let named = one_line(&shell_words::join(named));
            return Self { wait: format!("wait {named}"), cancel: format!("cancel {named}") };
        }
        let worker = worker.unwrap_or_default();
        let cursor = from.map(|event| format!(" --from-event-id {event}")).unwrap_or_default();
        Self {
            wait: format!("wait --worker-id {worker}{cursor}"),
            cancel: format!("cancel --worker-id {worker}"),
        }
    }
}

/// Ends this process as Ctrl-C would have: a shell sees that. The turn is not touched.
fn interrupt(again: &Again, turn: bool) -> ! {
    let Again { wait, cancel } = again;
    let ended = if turn {
        format!(
            "The wait has ended, the turn goes on.\nHint: wait on, or end the turn with `subagent {cancel}`"
        )
    } else {
        "The wait has ended; nothing else has changed.".to_owned()
    };
    write_stderr(&format!("\n{ended}\nTry:  subagent {wait}\n"));
    end_by(Signal::SIGINT)
}

/// Ends this process as Ctrl-C would have without a handler.
pub(crate) fn end_watch() -> ! {
    end_by(Signal::SIGINT)
}

/// The same at a question that was asked in place, which stays open. `command` goes on: `wait codex-1`.
pub(crate) fn leave(command: &str) -> ! {
    let command = one_line(command);
    write_stderr(&format!(
        "\nThe wait has ended; the question is open.\nTry:  subagent approval list, then subagent {command}\n"
    ));
    end_by(Signal::SIGINT)
}
