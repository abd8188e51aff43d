//! Operations of the environment of the rules, in any order.

use proptest::prelude::*;

use crate::core::queue::QueuePosition;

/// One operation on the modeled world.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Send,
    Simulate {
        asks: bool,
    },
    Enqueue {
        urgency: QueuePosition,
    },
    DropQueued {
        which: usize,
    },
    MoveQueued {
        which: usize,
        to: usize,
    },
    ResumeQueue,
    Cancel,
    /// The task of the worker is ended.
    EndTask,
    Stop,
    Restart {
        force: bool,
    },
    /// The idle timeout has passed.
    Hibernate,
    /// The agent of a hibernating worker is needed.
    Wake,
    Decide {
        which: usize,
        select: bool,
    },
    /// Decides all at once, decides the first with a standing rule, or lets it expire.
    Inbox {
        which: usize,
        how: u8,
    },
    /// The wanted runtime is started, or the system refuses.
    Spawn {
        works: bool,
    },
    SessionOpens,
    StartFails,
    /// The runtime takes the next command.
    TakeCommand,
    Ask,
    Withdraw {
        which: usize,
    },
    TurnEnds {
        well: bool,
    },
    /// A turn or a start fails for a rate limit, with or without a time of reset.
    Limited {
        known: bool,
    },
    /// The time of the parking is over.
    ParkingOver,
    AgentExits,
    /// The runtime ends without a command of the daemon.
    EndsItself,
    /// The guard proved that no process is left, and the runtime exits.
    Clean,
    Kill,
    /// The daemon reads this number of records.
    Read {
        records: usize,
    },
    ReadReply,
    /// The daemon sees that the lock of the runtime is free.
    SeeDeath,
    GuardLockIsFree,
    Reconnect,
    /// The daemon dies. With `after_commit`, right after the next commit and before its actions.
    DaemonDies {
        after_commit: bool,
        /// The runtime does not answer the next daemon until it reconnects.
        unheard: bool,
    },
    Reboot {
        lost: usize,
    },
}

pub(super) fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Send),
        2 => any::<bool>().prop_map(|asks| Op::Simulate { asks }),
        6 => prop::sample::select(vec![QueuePosition::Queued, QueuePosition::Queued, QueuePosition::Retried, QueuePosition::Steered])
            .prop_map(|urgency| Op::Enqueue { urgency }),
        1 => (0usize..3).prop_map(|which| Op::DropQueued { which }),
        1 => (0usize..3, 1usize..5).prop_map(|(which, to)| Op::MoveQueued { which, to }),
        2 => Just(Op::ResumeQueue),
        2 => Just(Op::Cancel),
        1 => Just(Op::EndTask),
        1 => Just(Op::Stop),
        2 => any::<bool>().prop_map(|force| Op::Restart { force }),
        4 => Just(Op::Hibernate),
        1 => Just(Op::Wake),
        3 => (0usize..3, any::<bool>()).prop_map(|(which, select)| Op::Decide { which, select }),
        3 => (0usize..3, 0u8..5).prop_map(|(which, how)| Op::Inbox { which, how }),
        6 => prop::bool::weighted(0.9).prop_map(|works| Op::Spawn { works }),
        6 => Just(Op::SessionOpens),
        1 => Just(Op::StartFails),
        10 => Just(Op::TakeCommand),
        4 => Just(Op::Ask),
        1 => (0usize..3).prop_map(|which| Op::Withdraw { which }),
        3 => any::<bool>().prop_map(|well| Op::TurnEnds { well }),
        2 => any::<bool>().prop_map(|known| Op::Limited { known }),
        3 => Just(Op::ParkingOver),
        1 => Just(Op::AgentExits),
        1 => Just(Op::EndsItself),
        2 => Just(Op::Clean),
        1 => Just(Op::Kill),
        12 => (1usize..4).prop_map(|records| Op::Read { records }),
        5 => Just(Op::ReadReply),
        4 => Just(Op::SeeDeath),
        2 => Just(Op::GuardLockIsFree),
        1 => Just(Op::Reconnect),
        2 => any::<(bool, bool)>().prop_map(|(after_commit, unheard)| Op::DaemonDies { after_commit, unheard }),
        1 => (0usize..4).prop_map(|lost| Op::Reboot { lost }),
    ]
}
