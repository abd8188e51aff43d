//! What the product told its users that it did. Pure.

use std::collections::{BTreeMap, BTreeSet};

use subagent_protocol::ids::EventId;

/// An event that was shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The worker.
    pub worker: String,
    /// The event.
    pub event: EventId,
    /// Its type.
    pub event_type: String,
    /// Its turn.
    pub turn: Option<String>,
}

/// A decision that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The worker.
    pub worker: String,
    /// The option.
    pub option: String,
    /// `delivered`, `undelivered` or `pending`.
    pub delivery: String,
    /// The event.
    pub event: EventId,
}

/// An ownership that was granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granted {
    /// The controller.
    pub controller: String,
    /// The number of the ownership.
    pub epoch: i64,
    /// Whose it is.
    pub instance: String,
}

/// What one `watch` printed, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The worker.
    pub worker: String,
    /// Whether it was to see all events of the tasks below the worker, not only what is told of them.
    pub tree: bool,
    /// The cursor that it began behind.
    pub from: Option<EventId>,
    /// The events.
    pub events: Vec<EventId>,
}

/// Everything that was acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    /// Events that were shown.
    pub events: BTreeSet<Seen>,
    /// Turns that were accepted: worker and `message.sent` event of each.
    pub turns: BTreeMap<String, (String, EventId)>,
    /// Turns that were accepted while their worker was busy, with the worker.
    pub queued: BTreeMap<String, String>,
    /// Decisions by request.
    pub decisions: BTreeMap<String, Decision>,
    /// Turns whose cancel was confirmed.
    pub canceled: BTreeSet<String>,
    /// Requests that some command was to decide, whether or not it could say what came of it.
    pub attempted: BTreeSet<String>,
    /// Whether those are all: then nothing else may have been decided.
    pub all_attempted: bool,
    /// Ownerships that were granted.
    pub granted: BTreeSet<Granted>,
    /// Workers that were started.
    pub started: BTreeSet<String>,
    /// Workers that were stopped.
    pub stopped: BTreeSet<String>,
    /// Workers by the names that they were given.
    pub names: BTreeMap<String, String>,
    /// Workers that were removed, by themselves or with others.
    pub removed: BTreeSet<String>,
    /// Workers that somebody wanted to be removed.
    pub asked_removals: BTreeSet<String>,
    /// Whether somebody wanted all those to be removed that had been stopped for some time.
    pub pruned: bool,
    /// What watchers saw.
    pub watched: Vec<Watched>,
    /// Texts that must not be in any log or file.
    pub secrets: BTreeSet<String>,
}

impl Acknowledged {
    /// Whether nothing was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.turns.is_empty()
            && self.decisions.is_empty()
            && self.started.is_empty()
    }
}
