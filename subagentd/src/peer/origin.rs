//! The comparison of a peer's ancestors with the guards. Pure.

use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;

/// On whose behalf a request comes, as far as processes tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody below one of our guards: the user, or what the user runs.
    Owner,
    /// The agent of this worker, or something that it started.
    BelowWorker(WorkerId),
}

/// Places a peer, given itself and its ancestors, nearest first.
pub(super) fn origin(chain: &[ProcessId], guards: &[(WorkerId, ProcessId)]) -> Origin {
    // The nearest guard counts: an agent may itself have started workers.
    chain
        .iter()
        .find_map(|process| guards.iter().find(|(_, guard)| guard == process))
        .map_or(Origin::Owner, |(worker, _)| Origin::BelowWorker(worker.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, start_time: u64) -> ProcessId {
        ProcessId { pid, start_time }
    }

    #[test]
    fn the_nearest_guard_counts_and_only_with_its_start_time() {
        let (outer, inner) = (WorkerId::from_random([1; 5]), WorkerId::from_random([2; 5]));
        let guards = [(outer.clone(), process(10, 100)), (inner.clone(), process(20, 200))];
        let below = Origin::BelowWorker;
        for (chain, expected) in [
            (vec![], Origin::Owner),
            (vec![process(30, 300), process(1, 1)], Origin::Owner),
            (vec![process(30, 300), process(10, 100), process(1, 1)], below(outer.clone())),
            (vec![process(30, 300), process(20, 200), process(10, 100)], below(inner.clone())),
            (vec![process(20, 200)], below(inner)),
            // The number was given to somebody else.
            (vec![process(30, 300), process(10, 101)], Origin::Owner),
        ] {
            assert_eq!(origin(&chain, &guards), expected, "{chain:?}");
        }
    }
}
