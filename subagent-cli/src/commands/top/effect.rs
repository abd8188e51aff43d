//! What a board asks of its surroundings, and what it hears from them.

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::api::{OverviewShown, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, RequestId, WorkerId};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendError;

use super::changed::ChangedFiles;
use super::hosts::{BoardWorker, HostIndex};
use crate::dialog::{DialogOutcome, QuestionRef};
use crate::failure::Failure;

/// Something to do for a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BoardEffect {
    Quit,
    /// Stop the process, as Ctrl-Z does.
    Suspend,
    /// Draw all of the screen again.
    Redraw,
    /// Fetch a new snapshot of the workers of this daemon.
    Refresh(HostIndex),
    /// Run a command of the command line.
    Command(HostIndex, BoardCommand),
    /// Fetch a question in full.
    ShowQuestion(HostIndex, RequestId),
    /// Ask the form or link outside of the board.
    FillIn(HostIndex, QuestionRef),
    /// Fetch a page of a worker's story: the newest one, or that before an event.
    ShowStory(BoardWorker, Option<EventId>),
    /// Fetch the diff of a worker.
    ShowDiff(BoardWorker),
    /// Count the changed lines of a worker.
    Count(BoardWorker),
}

/// A command as it is typed behind `subagent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoardCommand {
    pub(super) words: Vec<String>,
    /// What is said while it runs, and what when it has succeeded.
    pub(super) says: (String, String),
}

/// An occurrence outside of the board, at one of its daemons.
#[derive(Debug)]
pub(super) struct BoardNews {
    pub(super) host: HostIndex,
    pub(super) event: BoardEvent,
}

/// The way of news of one daemon to the board.
#[derive(Debug, Clone)]
pub(super) struct BoardInputs {
    pub(super) host: HostIndex,
    pub(super) sender: Sender<BoardNews>,
}

impl BoardInputs {
    /// Waits for room, and hands over an event.
    ///
    /// # Errors
    /// The board is gone.
    pub(super) async fn send(&self, event: BoardEvent) -> Result<(), BoardGone> {
        self.sender.send(BoardNews { host: self.host, event }).await.map_err(|_| BoardGone)
    }

    /// The same on a thread; returns the event if the board is gone.
    ///
    /// # Errors
    /// The board is gone.
    pub(super) fn blocking_send(&self, event: BoardEvent) -> Result<(), Box<BoardEvent>> {
        let news = BoardNews { host: self.host, event };
        self.sender.blocking_send(news).map_err(|SendError(news)| Box::new(news.event))
    }
}

/// Nothing reads the news any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoardGone;

/// What has happened at a daemon.
#[derive(Debug)]
pub(super) enum BoardEvent {
    /// The workspace on another host was found.
    Found(Box<Workspace>),
    /// All workers at one moment.
    Snapshot(Box<OverviewShown>),
    /// Events that follow the snapshot.
    Events(Vec<Event>),
    /// The stream of events is open.
    Opened,
    /// The connection was lost; another one is being made.
    Lost,
    /// Events are missing before the next snapshot.
    Expired,
    /// The daemon cannot be asked; it is tried again.
    Unreachable(Failure),
    /// A command has ended.
    Ended(BoardCommand, Result<Value, Failure>),
    /// A question in full.
    Question(RequestId, Result<Value, Failure>),
    /// The form was answered, left open, or could not be asked.
    Filled(Result<DialogOutcome, Failure>),
    /// A page of a story, as it was asked for.
    Story(WorkerId, Option<EventId>, Result<TranscriptShown, Failure>),
    /// A diff as text with codes for colors.
    Diff(WorkerId, Result<String, Failure>),
    /// What a worker has changed; `None` if that is not known.
    Counted(WorkerId, Option<ChangedFiles>),
}
