//! Compares a peer's ancestors with the guards. Pure.

use subagent_config::proc::ProcessEntry;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;

/// Process name of a guard.
const GUARD_NAME: &str = "subagent-guard";

/// The principal of a request, derived from the process tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// The user, or a process of the user that is not below a guard.
    Owner,
    /// The agent of this worker, or a process that it started.
    BelowWorker(WorkerId),
}

/// Classifies a peer from itself and its ancestors, nearest first; `above` are the daemon and its
/// ancestors. `None` means below an unknown guard: a runtime starts its agent before it reports the
/// guard.
pub(super) fn origin(
    chain: &[ProcessEntry],
    guards: &[(WorkerId, ProcessId)],
    above: &[ProcessEntry],
) -> Option<RequestOrigin> {
    let is =
        |process: &ProcessEntry, id: ProcessId| (process.pid, process.start_time) == (id.pid, id.start_time);
    // The nearest guard counts, since an agent may itself have started workers.
    let known = chain.iter().find_map(|process| guards.iter().find(|(_, guard)| is(process, *guard)));
    if let Some((worker, _)) = known {
        return Some(RequestOrigin::BelowWorker(worker.clone()));
    }
    let same =
        |one: &ProcessEntry, other: &ProcessEntry| (one.pid, one.start_time) == (other.pid, other.start_time);
    let unknown = chain
        .iter()
        .any(|process| process.name == GUARD_NAME && !above.iter().any(|above| same(above, process)));
    (!unknown).then_some(RequestOrigin::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(pid: i32, start_time: u64) -> ProcessId {
        ProcessId { pid, start_time }
    }

    fn named(name: &str, pid: i32, start_time: u64) -> ProcessEntry {
        ProcessEntry {
            pid,
            parent: 1,
            session: 1,
            start_time,
            name: name.to_owned(),
            ended: false,
            stopped: false,
        }
    }

    fn process(pid: i32, start_time: u64) -> ProcessEntry {
        named("sh", pid, start_time)
    }

    #[test]
    fn the_nearest_guard_counts_and_only_with_its_start_time() {
        let (outer, inner) = (WorkerId::from_random([1; 5]), WorkerId::from_random([2; 5]));
        let guards = [(outer.clone(), id(10, 100)), (inner.clone(), id(20, 200))];
        let below = RequestOrigin::BelowWorker;
        for (chain, expected) in [
            (vec![], RequestOrigin::Owner),
            (vec![process(30, 300), process(1, 1)], RequestOrigin::Owner),
            (vec![process(30, 300), process(10, 100), process(1, 1)], below(outer.clone())),
            (vec![process(30, 300), process(20, 200), process(10, 100)], below(inner.clone())),
            (vec![process(20, 200)], below(inner)),
            // Another process reused the pid.
            (vec![process(30, 300), process(10, 101)], RequestOrigin::Owner),
        ] {
            assert_eq!(origin(&chain, &guards, &[]), Some(expected), "{chain:?}");
        }
    }

    #[test]
    fn a_peer_below_an_unknown_guard_is_no_owner_unless_the_daemon_is_below_it_too() {
        let guard = |pid| named(GUARD_NAME, pid, 100);
        let (worker, known) = (WorkerId::from_random([1; 5]), id(10, 100));
        let guards = [(worker.clone(), known)];
        let chain = [process(30, 300), guard(20), process(1, 1)];
        assert_eq!(origin(&chain, &guards, &[process(5, 5), process(1, 1)]), None);
        assert_eq!(origin(&chain, &[], &[]), None);
        assert_eq!(origin(&chain[1..], &guards, &[]), None, "the guard itself");
        // The daemon itself was started below this guard, so all its peers may be below it too.
        assert_eq!(origin(&chain, &guards, &[process(5, 5), guard(20)]), Some(RequestOrigin::Owner));
        // The pid of the guard above the daemon now belongs to another process.
        assert_eq!(origin(&chain, &guards, &[named(GUARD_NAME, 20, 99)]), None);
        // A known guard further up identifies the worker.
        let nested = [process(30, 300), guard(20), guard(10)];
        assert_eq!(origin(&nested, &guards, &[]), Some(RequestOrigin::BelowWorker(worker)));
    }
}
