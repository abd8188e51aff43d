//! The queue of an engine, where the next runtime waits for its place: what was asked of the engine,
//! and what it answered. Must not decide what follows from it.

use std::time::Duration;

use subagent_protocol::Result;
use subagent_protocol::data::workers::PendingPlace;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::supervisor::runtimes::ended::{PlacesEnd, WorkerPlaces};
use crate::supervisor::runtimes::queued::PlaceTurn;

/// What a worker has in an engine's queue.
#[derive(Default)]
pub(crate) struct EngineQueue {
    /// What the next runtime waits for.
    pub(crate) waits: Option<PlaceWait>,
    /// The question to the engine about it, and its answer.
    pub(crate) asking: JoinSet<Result<PlaceTurn>>,
    pub(crate) answer: Option<Result<PlaceTurn>>,
    /// The ends of places there.
    pub(crate) ends: PlaceEnds,
    /// Whether the owner has given up what is there: a stop waits for no proof.
    pub(crate) is_given_up: bool,
}

impl EngineQueue {
    /// Drops what is asked of the engine, and what is known of its answers.
    pub(crate) fn asks_no_more(&mut self) {
        self.forget_answer();
        self.waits = None;
        self.ends.running = JoinSet::new();
    }

    /// Drops the question about the next runtime, and its answer.
    pub(crate) fn forget_answer(&mut self) {
        (self.asking, self.answer) = (JoinSet::new(), None);
    }

    /// Waits on for the place, for this reason.
    pub(crate) fn wait_on(&mut self, pending: PendingPlace) {
        self.waits = Some(PlaceWait::after(self.waits.as_ref(), pending));
    }

    /// Returns what the next runtime waits for.
    pub(crate) fn pending(&self) -> Option<&PendingPlace> {
        self.waits.as_ref().map(|wait| &wait.pending)
    }
}

/// A wait for the place of the next runtime.
pub(crate) struct PlaceWait {
    pub(crate) pending: PendingPlace,
    /// When the engine is asked again.
    pub(crate) at: Instant,
    pause: Duration,
}

impl PlaceWait {
    const FIRST_PAUSE: Duration = Duration::from_millis(250);
    const LAST_PAUSE: Duration = Duration::from_secs(15);

    /// Returns the next wait: a reason that changed is followed closely.
    pub(crate) fn after(before: Option<&Self>, pending: PendingPlace) -> Self {
        let pause = before.filter(|before| before.pending.reason == pending.reason);
        let pause = pause.map_or(Self::FIRST_PAUSE, |before| (before.pause * 2).min(Self::LAST_PAUSE));
        Self { pending, at: Instant::now() + pause, pause }
    }
}

/// The ends of places that were asked for, and what is proved.
#[derive(Default)]
pub(crate) struct PlaceEnds {
    pub(crate) running: JoinSet<EndedPlaces>,
    /// Which ones were asked for last.
    pub(super) asked: Option<WorkerPlaces>,
    /// Whether no place is left but that of the next runtime.
    earlier: bool,
    /// Whether no place is left but those of the newest runtime and the next one.
    superseded: bool,
    /// Whether the place of the next runtime was given up.
    next: bool,
}

/// What an engine has answered.
pub(crate) struct EndedPlaces {
    pub(super) which: WorkerPlaces,
    /// The newest runtime at the time of the question.
    pub(super) newest: u64,
    pub(super) outcome: Result<PlacesEnd>,
}

impl PlaceEnds {
    pub(super) fn proof(&mut self, which: WorkerPlaces) -> &mut bool {
        match which {
            WorkerPlaces::Earlier => &mut self.earlier,
            WorkerPlaces::Superseded => &mut self.superseded,
            WorkerPlaces::Next => &mut self.next,
        }
    }

    /// A place is asked for, or a runtime begins.
    pub(crate) fn forget(&mut self) {
        (self.earlier, self.superseded, self.next) = (false, false, false);
    }
}
