//! The history that an agent repeats when it opens a stored session.

/// The replay of a session's history.
#[derive(Default)]
pub(in crate::conversation) struct HistoryReplay {
    /// Whether the agent is replaying.
    pub(in crate::conversation) is_running: bool,
    /// Number of updates that belonged to it.
    pub(in crate::conversation) updates: u64,
}

impl HistoryReplay {
    /// Counts an update if it belongs to the history; returns whether it does.
    pub(in crate::conversation) const fn takes(&mut self, is_of_the_present: bool) -> bool {
        let is_history = self.is_running && !is_of_the_present;
        self.updates += is_history as u64;
        is_history
    }
}
