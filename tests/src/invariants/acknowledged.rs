//! What the product has acknowledged to its users. Pure.

use std::collections::{BTreeMap, BTreeSet};

use subagent_protocol::ids::EventId;

/// An event that was shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The id of the worker.
    pub worker: String,
    /// The id of the event.
    pub event: EventId,
    /// The type of the event.
    pub event_type: String,
    /// The event's turn, if any.
    pub turn: Option<String>,
}

/// A decision that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The id of the worker.
    pub worker: String,
    /// The id of the option.
    pub option: String,
    /// `delivered`, `undelivered` or `pending`, as reported.
    pub delivery: String,
    /// The event of the decision.
    pub event: EventId,
}

/// An ownership that was granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantedHandle {
    /// The id of the controller.
    pub controller: String,
    /// The number of the ownership.
    pub epoch: i64,
    /// The instance that owns it.
    pub instance: String,
}

/// The output of one `watch`, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedEvents {
    /// The id of the worker.
    pub worker: String,
    /// Whether it follows all events of tasks below the worker, not only their milestones.
    pub tree: bool,
    /// The cursor that it started after.
    pub from: Option<EventId>,
    /// The printed events, in order.
    pub events: Vec<EventId>,
}

/// Everything that was acknowledged so far.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    /// Events that were shown.
    pub events: BTreeSet<Seen>,
    /// Accepted turns: worker and `message.sent` event of each.
    pub turns: BTreeMap<String, (String, EventId)>,
    /// Turns accepted while their worker was busy, with the worker.
    pub queued: BTreeMap<String, String>,
    /// Decisions by request id.
    pub decisions: BTreeMap<String, Decision>,
    /// Turns whose cancel was confirmed.
    pub canceled: BTreeSet<String>,
    /// Requests that a command tried to decide, with or without a known outcome.
    pub attempted: BTreeSet<String>,
    /// Whether the attempted ones are all: then no other one may be decided.
    pub all_attempted: bool,
    /// Ownerships that were granted.
    pub granted: BTreeSet<GrantedHandle>,
    /// Workers that were started.
    pub started: BTreeSet<String>,
    /// Workers that were stopped.
    pub stopped: BTreeSet<String>,
    /// Workers by their given names.
    pub names: BTreeMap<String, String>,
    /// Workers that were removed, separately or with others.
    pub removed: BTreeSet<String>,
    /// Workers that a command tried to remove.
    pub asked_removals: BTreeSet<String>,
    /// Whether a command tried to remove all workers that were stopped for some time.
    pub pruned: bool,
    /// The output of watchers.
    pub watched: Vec<WatchedEvents>,
    /// Texts that must not be in any log or file.
    pub secrets: BTreeSet<String>,
}

impl Acknowledged {
    /// Whether nothing was acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.turns.is_empty()
            && self.decisions.is_empty()
            && self.started.is_empty()
    }
}
