//! Intended differences from the reference's responses. `docs/migrating.md`
//! describes them for users.

/// The session, part of the command's line, the location in the response, and why ours is better.
/// An entry without a difference is an error too.
pub(crate) const DIFFERENCES: &[[&str; 4]] = &[
    [
        "controller",
        "controller status --json",
        ".data.envHandle",
        "the same shape as for a controller, and never the token",
    ],
    ["registry", "launcher show agent", ".data.env.DEMO", "the value may be a secret"],
    ["registry", "launcher probe missing", "text", "None is a word of Python; the line is empty"],
    [
        "registry",
        "launcher list --config $ROOT/new.yaml",
        ".data.items[5].command",
        "there is no such package any more",
    ],
    ["debug", "worker show $W", "text", "None is a word of Python; the line is empty"],
    [
        "strict",
        "worker list",
        ".data.count",
        "what could not be started does not stay behind as an idle worker",
    ],
    ["strict", "worker list", ".data.items", "the same"],
    [
        "debug",
        "wait --worker-id $W --until nonsense,also",
        ".error.details.knownEventTypes",
        "there are more types",
    ],
    ["debug", "worker inspect $W", ".data.pendingApprovals", "a canceled request is over"],
    ["debug", "worker inspect $W", "text", "the same"],
    ["debug", "worker show $W --json", ".data.recoveryState", "the same rule as in inspect"],
    [
        "debug",
        "worker inspect $W --tail 1",
        ".data.events[0].data.reason",
        "the last event of a stopped worker is worker.stopped",
    ],
    ["debug", "worker inspect $W --tail 1", ".data.events[0].data.turnId", "the same"],
    ["debug", "worker inspect $W --tail 1", ".data.events[0].turnId", "the same"],
    ["debug", "worker inspect $W --tail 1", ".data.events[0].type", "the same"],
    ["debug", "send --worker-id $W --text late", ".error.code", "a stopped worker is not busy"],
    [
        "debug",
        "cancel --worker-id $W",
        ".error.details.latestEvent.turnId",
        "the last event is worker.stopped",
    ],
    ["debug", "cancel --worker-id $W", ".error.details.latestEvent.type", "the same"],
];

/// Possible differences that depend on the order of two events.
pub(crate) const RACES: &[[&str; 4]] = &[
    [
        "strict",
        "approve",
        ".data.state",
        "it returns when the agent has the answer, not at the end of the turn",
    ],
    [
        "strict",
        "cancel --worker-id $W --json",
        ".error.details.latestEvent.type",
        "the agent answers the cancel with a line that is noise, before or after the end of the turn",
    ],
];
