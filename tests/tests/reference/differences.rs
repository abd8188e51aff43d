//! Where an answer differs from the reference's on purpose. `docs/migrating.md` tells users.

/// One difference.
pub(crate) struct Difference {
    /// The session.
    pub(crate) session: &'static str,
    /// A part of the command's line.
    pub(crate) command: &'static str,
    /// Where in the answer.
    pub(crate) path: &'static str,
    /// Why ours is better.
    #[allow(dead_code, reason = "for whoever reads the list")]
    pub(crate) why: &'static str,
}

/// All of them. One that does not show any more is an error too.
pub(crate) const DIFFERENCES: &[Difference] = &[
    difference(
        "controller",
        "controller status --json",
        ".data.envHandle",
        "the same shape as for a controller, and never the token",
    ),
    difference("registry", "launcher show agent", ".data.env.DEMO", "the value may be a secret"),
    difference("registry", "launcher probe missing", "text", "None is a word of Python; the line is empty"),
    difference("debug", "worker show $W", "text", "None is a word of Python; the line is empty"),
    difference(
        "strict",
        "approve",
        ".data.state",
        "it returns when the agent has the answer, not at the end of the turn",
    ),
    difference(
        "strict",
        "worker list",
        ".data.count",
        "what could not be started does not stay behind as an idle worker",
    ),
    difference("strict", "worker list", ".data.items", "the same"),
    difference(
        "debug",
        "wait --worker-id $W --until nonsense,also",
        ".error.details.knownEventTypes",
        "there are more types",
    ),
    difference("debug", "worker inspect $W", ".data.pendingApprovals", "a canceled request is over"),
    difference("debug", "worker inspect $W", "text", "the same"),
    difference("debug", "worker show $W --json", ".data.recoveryState", "the same rule as in inspect"),
    difference(
        "debug",
        "worker inspect $W --tail 1",
        ".data.events[0].data.reason",
        "the last event of a stopped worker is worker.stopped",
    ),
    difference("debug", "worker inspect $W --tail 1", ".data.events[0].data.turnId", "the same"),
    difference("debug", "worker inspect $W --tail 1", ".data.events[0].turnId", "the same"),
    difference("debug", "worker inspect $W --tail 1", ".data.events[0].type", "the same"),
    difference("debug", "send --worker-id $W --text late", ".error.code", "a stopped worker is not busy"),
    difference(
        "debug",
        "cancel --worker-id $W",
        ".error.details.latestEvent.turnId",
        "the last event is worker.stopped",
    ),
    difference("debug", "cancel --worker-id $W", ".error.details.latestEvent.type", "the same"),
];

const fn difference(
    session: &'static str,
    command: &'static str,
    path: &'static str,
    why: &'static str,
) -> Difference {
    Difference { session, command, path, why }
}
