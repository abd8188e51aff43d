//! `tree --follow`: prints the tree again whenever it has changed. The milestones of all workers
//! say when it may have changed. Then it is requested again, at most once every `PAUSE`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{NO_TASKS, data, is_open, nodes, shown};
use crate::client::{DaemonClient, EventBatch, block_on};
use crate::commands::watch::reader_gone;
use crate::failure::{Failure, Result};
use crate::output::human::now;
use crate::output::redrawn::Redrawn;
use crate::output::{CliOutcome, complain, document, success, write};

/// The minimum time between two requests for the tree.
const PAUSE: Duration = Duration::from_millis(200);

/// Shows the tree until everything in it has ended, or stdout has no reader any more.
pub(super) fn run(
    mut asking: DaemonClient,
    mut watching: DaemonClient,
    wanted: Option<&str>,
    all: bool,
    json: bool,
) -> Result<CliOutcome> {
    let mut out = TreeOutput::new(json);
    block_on(async {
        // The cursor is older than the first tree: what changes between them is heard of.
        let from = asking.newest_of_all().await?;
        let mut events = watching.milestones(from);
        let news = Notify::new();
        let watched = async {
            while let EventBatch::Events(_) = events.next().await? {
                news.notify_one();
            }
            Ok(())
        };
        let looked = async {
            let mut was_open = true;
            loop {
                let again = Instant::now() + PAUSE;
                let items = nodes(&mut asking, wanted, all).await?;
                let goes_on = items.iter().any(is_open);
                // A worker goes on a moment after the end of its last task: it is looked once more.
                if !out.show(items)? || !(goes_on || was_open) {
                    return Ok(());
                }
                was_open = goes_on;
                if goes_on {
                    news.notified().await;
                }
                sleep_until(again).await;
            }
        };
        tokio::select! {
            biased;
            looked = looked => looked,
            watched = watched => watched,
            () = reader_gone() => Ok(()),
        }
    })?;
    Ok(CliOutcome::Printed(ExitCode::SUCCESS))
}

enum TreeOutput {
    /// A line of JSON each.
    Documents(Option<Value>),
    /// One below the other, with an empty line between them.
    Texts(Option<String>),
    /// Each in the place of the one before.
    Screen(Redrawn, Option<String>),
}

impl TreeOutput {
    fn new(json: bool) -> Self {
        match Redrawn::on_stdout() {
            _ if json => Self::Documents(None),
            Some(screen) => Self::Screen(screen, None),
            None => Self::Texts(None),
        }
    }

    /// Shows a tree unless it equals the last one; a later time is no change. Returns whether
    /// stdout still has a reader.
    fn show(&mut self, items: Vec<Value>) -> Result<bool> {
        let written = match self {
            Self::Documents(last) => {
                let data = data(items);
                if last.as_ref() == Some(&data) {
                    return Ok(true);
                }
                *last = Some(data.clone());
                write(&(document(success("tree.shown", data)) + "\n"))
            }
            Self::Texts(last) => {
                let is_first = last.is_none();
                if !is_news(last, &items) {
                    return Ok(true);
                }
                if items.is_empty() {
                    complain(NO_TASKS);
                    return Ok(true);
                }
                let gap = if is_first { "" } else { "\n" };
                write(&format!("{gap}{}\n", shown(&items, now())))
            }
            Self::Screen(screen, last) => {
                if !is_news(last, &items) {
                    return Ok(true);
                }
                let text = if items.is_empty() { NO_TASKS.to_owned() } else { shown(&items, now()) };
                write(&screen.draw(&text))
            }
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::internal(format!("cannot write to stdout: {error}"))),
        }
    }
}

/// Whether a tree is another one than the last, which it then is.
fn is_news(last: &mut Option<String>, items: &[Value]) -> bool {
    let text = shown(items, Timestamp(0));
    if last.as_ref() == Some(&text) {
        return false;
    }
    *last = Some(text);
    true
}
