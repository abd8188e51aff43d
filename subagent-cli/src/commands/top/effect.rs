//! What a board asks of its surroundings, and what it hears from them.

use serde_json::Value;
use subagent_protocol::api::{OverviewShown, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, RequestId, WorkerId};

use super::changed::ChangedFiles;
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
    /// Fetch a new snapshot of all workers.
    Refresh,
    /// Run a command of the command line.
    Command(BoardCommand),
    /// Fetch a question in full.
    ShowQuestion(RequestId),
    /// Ask the form or link outside of the board.
    FillIn(QuestionRef),
    /// Fetch a page of a worker's story: the newest one, or that before an event.
    ShowStory(WorkerId, Option<EventId>),
    /// Fetch the diff of a worker.
    ShowDiff(WorkerId),
    /// Count the changed lines of a worker.
    Count(WorkerId),
}

/// A command as it is typed behind `subagent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoardCommand {
    pub(super) words: Vec<String>,
    /// What is said while it runs, and what when it has succeeded.
    pub(super) says: (String, String),
}

/// An occurrence outside of the board.
#[derive(Debug)]
pub(super) enum BoardEvent {
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
