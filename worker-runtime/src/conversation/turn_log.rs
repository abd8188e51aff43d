//! The numbers of the turns that were accepted, refused or canceled. Must not end a turn.

/// What is remembered of turns that are not open.
#[derive(Default)]
pub(super) struct TurnLog {
    /// The last turn that was accepted.
    pub(super) last: u64,
    /// The canceled turn that late updates belong to.
    pub(super) late: Option<u64>,
    /// A connection, and the last turn whose prompt was refused there on a full disk.
    refused: Option<(u64, u64)>,
}

impl TurnLog {
    /// Continues after the last turn that an earlier runtime accepted.
    pub(super) fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    pub(super) const fn accept(&mut self, number: u64) {
        (self.last, self.late) = (number, None);
    }

    pub(super) const fn refuse(&mut self, connection: u64, number: u64) {
        self.refused = Some((connection, number));
    }

    /// Returns whether the prompt of this turn was refused on this connection. A repetition gets the
    /// same answer, because the first one ends the turn.
    pub(super) fn has_refused(&self, connection: u64, number: u64) -> bool {
        self.refused == Some((connection, number))
    }
}
