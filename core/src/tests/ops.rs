//! Operations of the environment of the rules, in any order.

use proptest::prelude::*;

use crate::model::QueuePosition;

/// One operation on the modeled world.
#[derive(Debug, Clone)]
pub(super) enum ModelOperation {
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

pub(super) fn ops() -> impl Strategy<Value = ModelOperation> {
    prop_oneof![
        8 => Just(ModelOperation::Send),
        2 => any::<bool>().prop_map(|asks| ModelOperation::Simulate { asks }),
        6 => prop::sample::select(vec![QueuePosition::Queued, QueuePosition::Queued, QueuePosition::Retried, QueuePosition::Steered])
            .prop_map(|urgency| ModelOperation::Enqueue { urgency }),
        1 => (0usize..3).prop_map(|which| ModelOperation::DropQueued { which }),
        1 => (0usize..3, 1usize..5).prop_map(|(which, to)| ModelOperation::MoveQueued { which, to }),
        2 => Just(ModelOperation::ResumeQueue),
        2 => Just(ModelOperation::Cancel),
        1 => Just(ModelOperation::EndTask),
        1 => Just(ModelOperation::Stop),
        2 => any::<bool>().prop_map(|force| ModelOperation::Restart { force }),
        4 => Just(ModelOperation::Hibernate),
        1 => Just(ModelOperation::Wake),
        3 => (0usize..3, any::<bool>()).prop_map(|(which, select)| ModelOperation::Decide { which, select }),
        3 => (0usize..3, 0u8..5).prop_map(|(which, how)| ModelOperation::Inbox { which, how }),
        6 => prop::bool::weighted(0.9).prop_map(|works| ModelOperation::Spawn { works }),
        6 => Just(ModelOperation::SessionOpens),
        1 => Just(ModelOperation::StartFails),
        10 => Just(ModelOperation::TakeCommand),
        4 => Just(ModelOperation::Ask),
        1 => (0usize..3).prop_map(|which| ModelOperation::Withdraw { which }),
        3 => any::<bool>().prop_map(|well| ModelOperation::TurnEnds { well }),
        2 => any::<bool>().prop_map(|known| ModelOperation::Limited { known }),
        3 => Just(ModelOperation::ParkingOver),
        1 => Just(ModelOperation::AgentExits),
        1 => Just(ModelOperation::EndsItself),
        2 => Just(ModelOperation::Clean),
        1 => Just(ModelOperation::Kill),
        12 => (1usize..4).prop_map(|records| ModelOperation::Read { records }),
        5 => Just(ModelOperation::ReadReply),
        4 => Just(ModelOperation::SeeDeath),
        2 => Just(ModelOperation::GuardLockIsFree),
        1 => Just(ModelOperation::Reconnect),
        2 => any::<(bool, bool)>().prop_map(|(after_commit, unheard)| ModelOperation::DaemonDies { after_commit, unheard }),
        1 => (0usize..4).prop_map(|lost| ModelOperation::Reboot { lost }),
    ]
}
