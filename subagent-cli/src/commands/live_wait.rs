//! Waiting with a line on stderr that says what the agent is doing.
//!
//! The wait is the same as without it; the line follows the worker's events on a connection of its own, and whatever
//! goes wrong there only leaves it as it is.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::clean::one_line;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::run::signals::end_by;
use crate::client::{Batch, Client, Cursor, Waiting};
use crate::context::Context;
use crate::failure::Result;
use crate::output::Format;
use crate::output::live::{Activity, Line};
use crate::output::tell;

/// The clock in the line.
const TICK: Duration = Duration::from_secs(1);

/// What the line needs; nothing if there is no terminal for it.
pub(super) struct Live {
    line: Line,
    follower: Client,
    starting: Option<String>,
}

impl Live {
    /// A line, if somebody sees it: not with `--json`, and only on a terminal.
    pub(super) fn new(context: &Context, workspace: &Workspace) -> Result<Option<Self>> {
        if context.format == Format::Json {
            return Ok(None);
        }
        let Some(line) = Line::on_stderr() else { return Ok(None) };
        Ok(Some(Self { line, follower: Client::new(context, workspace), starting: None }))
    }

    /// The same for a turn for which the agent is started: what that waits for.
    pub(super) fn starting(self, what: String) -> Self {
        Self { starting: Some(what), ..self }
    }
}

/// Waits, with the line or without.
pub(super) async fn wait(client: &mut Client, live: Option<Live>, mut waiting: Waiting) -> Result<Value> {
    let Some(Live { mut line, mut follower, starting }) = live else { return client.wait(waiting).await };
    client.pin(&mut waiting).await?;
    let worker = waiting.worker_id.clone();
    let from = match &waiting.cursor {
        Cursor::After(event_id) => Some(event_id.clone()),
        Cursor::Beginning | Cursor::Latest => None,
    };
    let sent = waiting.collect_turn.is_some();
    let activity = RefCell::new(match starting {
        Some(what) => Activity::of_start(what),
        None if sent => Activity::of_turn(),
        None => Activity::default(),
    });
    let news = Notify::new();
    let mut following = pin!(follow(&mut follower, &worker, from.clone(), &activity, &news));
    let mut waited = pin!(client.wait(waiting));
    let mut interrupted = pin!(interruption());
    let begun = Instant::now();
    let mut clock = interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            waited = &mut waited => return waited,
            () = &mut interrupted => {
                line.erase();
                interrupt(&worker, from.as_deref(), activity.borrow().is_of_turn());
            }
            () = &mut following => {}
            () = news.notified() => {}
            _ = clock.tick() => {}
        }
        line.draw(&activity.borrow(), begun.elapsed());
    }
}

/// Ctrl-C. Where it cannot be listened to it ends the process by itself, and this never ends.
async fn interruption() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Keeps the activity up to date; never ends.
async fn follow(
    client: &mut Client,
    worker: &str,
    from: Option<String>,
    activity: &RefCell<Activity>,
    news: &Notify,
) {
    let mut events = client.events(worker, from, true, false);
    while let Ok(Batch::Events(found)) = events.next().await {
        found.iter().for_each(|event| activity.borrow_mut().see(event));
        news.notify_one();
    }
    std::future::pending().await
}

/// Ends this process as Ctrl-C would have: a shell sees that. The turn is not touched.
fn interrupt(worker: &str, from: Option<&str>, turn: bool) -> ! {
    let cursor = from.map(|event| format!(" --from-event-id {event}")).unwrap_or_default();
    let ended = if turn {
        format!(
            "The wait has ended, the turn goes on.\n\
             Hint: wait on, or end the turn with `subagent cancel --worker-id {worker}`"
        )
    } else {
        "The wait has ended; nothing else has changed.".to_owned()
    };
    tell(&format!("\n{ended}\nTry:  subagent wait --worker-id {worker}{cursor}\n"));
    end_by(Signal::SIGINT)
}

/// The same at a question that was asked in place, which stays open. `command` goes on: `wait codex-1`.
pub(super) fn leave(command: &str) -> ! {
    let command = one_line(command);
    tell(&format!(
        "\nThe wait has ended; the question is open.\nTry:  subagent approval list, then subagent {command}\n"
    ));
    end_by(Signal::SIGINT)
}
