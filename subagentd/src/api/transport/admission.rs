//! Limits open connections: processes below a worker get few, silent ones are limited per process,
//! and the owner always has room. The connection silent for the longest is closed first. It decides
//! nothing about requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::resource::{Resource, getrlimit};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::sync::Notify;

/// Minimum number of descriptors reserved for everything but connections.
const MIN_RESERVE: u64 = 128;
/// Descriptors per connection: its socket and the pidfd of its process.
const DESCRIPTORS: u64 = 2;
/// Maximum number of connections, even with more descriptors.
const MAX_TOTAL: u64 = 4096;
/// Maximum number of connections from below one worker.
const MAX_BELOW_WORKER: usize = 64;
/// Maximum number of silent connections of one process.
const MAX_SILENT: usize = 256;
/// Maximum number of connections with an unread answer. Each holds a page of events and its write
/// buffer.
const MAX_STALLED: usize = 64;

/// The principal that opened a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::api) enum Party {
    /// The owner of the workers.
    Owner,
    /// The agent of this worker, or a process below it.
    Below(WorkerId),
    /// A process whose ancestors are unknown.
    Unplaced,
}

/// Limits on the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) struct ConnectionLimits {
    total: usize,
    /// Limit for all workers together, and for processes with unknown ancestors.
    below: usize,
    below_worker: usize,
    silent: usize,
    stalled: usize,
}

impl ConnectionLimits {
    /// Derives the limits from the descriptor limit of this process.
    pub(in crate::api) fn of_process() -> Self {
        Self::within(getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft))
    }

    fn within(descriptors: u64) -> Self {
        let reserve = MIN_RESERVE.max(descriptors / 4);
        let total = (descriptors.saturating_sub(reserve) / DESCRIPTORS).clamp(16, MAX_TOTAL);
        let total = usize::try_from(total).unwrap_or(16);
        let below = (total / 4).max(8);
        Self {
            total,
            below,
            below_worker: MAX_BELOW_WORKER.min(below / 2),
            silent: MAX_SILENT.min(total / 2),
            stalled: MAX_STALLED.min(total / 2),
        }
    }
}

#[derive(Debug)]
struct AdmittedConnection {
    party: Party,
    process: ProcessId,
    /// Whether a request is being answered.
    serving: bool,
    /// Whether the client does not read its answer.
    stalled: bool,
    /// Whether the connection was ordered to close.
    ending: bool,
    /// Counter value of the last change; it grows with each change of any connection.
    since: u64,
    end: Arc<Notify>,
}

impl AdmittedConnection {
    fn is_silent(&self) -> bool {
        !self.serving && !self.stalled && !self.ending
    }

    fn is_stalled(&self) -> bool {
        self.stalled && !self.ending
    }
}

#[derive(Debug)]
struct ConnectionTable {
    limits: ConnectionLimits,
    clock: u64,
    open: BTreeMap<u64, AdmittedConnection>,
}

/// The table of open connections. A clone is cheap.
#[derive(Debug, Clone)]
pub(in crate::api) struct Admission(Arc<Mutex<ConnectionTable>>);

/// The slot of one connection, freed on drop.
#[derive(Debug)]
pub(in crate::api) struct ConnectionSlot {
    admission: Admission,
    id: u64,
    end: Arc<Notify>,
}

impl Admission {
    pub(in crate::api) fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(ConnectionTable { limits, clock: 0, open: BTreeMap::new() })))
    }

    /// Admits a new connection, if necessary by closing a silent one. `None` means that it must be
    /// closed.
    pub(in crate::api) fn admit(&self, party: Party, process: ProcessId) -> Option<ConnectionSlot> {
        let mut table = self.table();
        if !table.make_room(&party, process) {
            return None;
        }
        let end = Arc::new(Notify::new());
        let (id, since) = (table.tick(), table.clock);
        let (serving, stalled, ending) = (false, false, false);
        let entry =
            AdmittedConnection { party, process, serving, stalled, ending, since, end: Arc::clone(&end) };
        table.open.insert(id, entry);
        drop(table);
        Some(ConnectionSlot { admission: self.clone(), id, end })
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether a slot is free, after closing a silent connection if necessary.
    fn make_room(&mut self, party: &Party, process: ProcessId) -> bool {
        let limits = self.limits;
        let is_owner = *party == Party::Owner;
        let same = |entry: &AdmittedConnection| entry.party == *party;
        let below = |entry: &AdmittedConnection| entry.party != Party::Owner;
        let own = |entry: &AdmittedConnection| entry.party == Party::Owner && entry.process == process;
        if is_owner {
            self.fits(limits.silent, |entry| own(entry) && entry.is_silent(), own);
            // The owner is never refused. Beyond this, only descriptors are the limit.
            let _ = self.fits(limits.total, |_| true, below) || self.fits(limits.total, |_| true, |_| true);
            return true;
        }
        self.fits(limits.below_worker, same, same)
            && self.fits(limits.below, below, below)
            && self.fits(limits.total, |_| true, below)
    }

    /// Whether the limit allows one more counted connection, after closing the oldest silent one
    /// that `may_go` if necessary.
    fn fits(
        &mut self,
        limit: usize,
        counts: impl Fn(&AdmittedConnection) -> bool,
        may_go: impl Fn(&AdmittedConnection) -> bool,
    ) -> bool {
        let lives = |entry: &&AdmittedConnection| !entry.ending;
        if self.open.values().filter(lives).filter(|entry| counts(entry)).count() < limit {
            return true;
        }
        self.end_oldest(|entry| entry.is_silent() && may_go(entry))
    }

    /// Orders the oldest matching connection to close. Returns whether there was one.
    fn end_oldest(&mut self, which: impl Fn(&AdmittedConnection) -> bool) -> bool {
        let oldest = self.open.values_mut().filter(|entry| which(entry)).min_by_key(|entry| entry.since);
        if let Some(entry) = oldest {
            entry.ending = true;
            entry.end.notify_one();
            return true;
        }
        false
    }

    fn change(&mut self, id: u64, change: impl Fn(&mut AdmittedConnection)) {
        let since = self.tick();
        if let Some(entry) = self.open.get_mut(&id) {
            change(entry);
            entry.since = since;
        }
    }

    /// Closes the oldest unread answer if there are too many.
    fn bound_stalled(&mut self) {
        if self.open.values().filter(|entry| entry.is_stalled()).count() > self.limits.stalled {
            let _ = self.end_oldest(|entry| entry.is_stalled() && entry.party != Party::Owner)
                || self.end_oldest(AdmittedConnection::is_stalled);
        }
    }
}

impl ConnectionSlot {
    /// Waits until the connection must close.
    pub(in crate::api) async fn must_end(&self) {
        self.end.notified().await;
    }

    /// Stores whether a request is being answered.
    pub(in crate::api) fn serves(&self, serving: bool) {
        self.admission.table().change(self.id, |entry| entry.serving = serving);
    }

    /// Stores whether the client has stopped reading.
    pub(in crate::api) fn stalls(&self, stalled: bool) {
        let mut table = self.admission.table();
        table.change(self.id, |entry| entry.stalled = stalled);
        if stalled {
            table.bound_stalled();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.admission.table().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { total: 10, below: 5, below_worker: 3, silent: 6, stalled: 2 };

    fn process(pid: i32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    fn below(number: u8) -> Party {
        Party::Below(WorkerId::from_random([number; 5]))
    }

    fn ends(seat: &ConnectionSlot) -> bool {
        seat.must_end().now_or_never().is_some()
    }

    #[test]
    fn below_a_worker_the_oldest_silent_connection_makes_room() {
        let admission = Admission::new(LIMITS);
        let admit = || admission.admit(below(1), process(7)).unwrap();
        let seats = [admit(), admit(), admit()];
        seats[0].serves(true);
        let fourth = admit();
        assert_eq!(seats.each_ref().map(ends), [false, true, false]);
        seats[2].serves(true);
        fourth.serves(true);
        assert!(admission.admit(below(1), process(8)).is_none(), "no connection is silent");
        // Each worker has its own limit.
        let other = admission.admit(below(2), process(9)).unwrap();
        drop(seats);
        assert!(!ends(&other) && admission.admit(below(1), process(8)).is_some());
    }

    #[test]
    fn all_workers_together_leave_room_for_the_owner() {
        let admission = Admission::new(LIMITS);
        let seats: Vec<ConnectionSlot> =
            (0..20).filter_map(|n| admission.admit(below(n), process(7))).collect();
        let live = seats.iter().filter(|seat| !ends(seat)).count();
        assert_eq!((seats.len(), live), (20, 5));
        let owner: Vec<ConnectionSlot> =
            (0..6).filter_map(|n| admission.admit(Party::Owner, process(n))).collect();
        assert!(owner.iter().all(|seat| !ends(seat)));
    }

    #[test]
    fn an_owner_is_never_turned_away() {
        let admission = Admission::new(LIMITS);
        let seats: Vec<ConnectionSlot> = (0..30)
            .filter_map(|_| admission.admit(Party::Owner, process(7)).inspect(|seat| seat.serves(true)))
            .collect();
        assert_eq!(seats.len(), 30);
        assert!(admission.admit(below(1), process(8)).is_none());
        drop(seats);
        let silent: Vec<ConnectionSlot> =
            (0..30).filter_map(|_| admission.admit(Party::Owner, process(7))).collect();
        assert_eq!(silent.iter().filter(|seat| !ends(seat)).count(), 6);
        assert!(!ends(silent.last().unwrap()));
    }

    #[test]
    fn of_answers_that_are_not_read_the_oldest_is_given_up() {
        let admission = Admission::new(LIMITS);
        let seats: Vec<ConnectionSlot> =
            (0..4).filter_map(|n| admission.admit(Party::Owner, process(n))).collect();
        for seat in &seats[..3] {
            seat.serves(true);
            seat.stalls(true);
        }
        assert_eq!(seats.iter().map(ends).collect::<Vec<_>>(), [true, false, false, false]);
        // A connection that is read again counts as any other.
        seats[1].stalls(false);
        seats[3].stalls(true);
        assert!(!ends(&seats[1]) && !ends(&seats[2]));
        let agent = admission.admit(below(1), process(9)).unwrap();
        agent.stalls(true);
        assert!(ends(&agent) && !ends(&seats[2]));
    }

    #[test]
    fn limits_follow_the_descriptors() {
        let few = ConnectionLimits::within(1024);
        assert_eq!((few.total, few.below, few.below_worker), (384, 96, 48));
        let many = ConnectionLimits::within(20_000);
        assert_eq!((many.total, many.below, many.below_worker), (4096, 1024, 64));
        assert_eq!(ConnectionLimits::within(40).total, 16);
    }
}
