//! A table from arguments of commands to the kind of their values.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Permission,
    Form,
    Anything,
}

/// The kind of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Files,
    Folders,
    Words(&'static [&'static str]),
    Launcher,
    Agent,
    LauncherOrAgent,
    Role,
    /// A worker; `all` includes stopped ones.
    Worker {
        all: bool,
    },
    Session,
    Task,
    TaskState,
    Request(Asked),
    WorkerOrRequest(Asked),
    Turn(Turns),
    /// A worker, or a turn once the prefix of its id is typed.
    WorkerOrTurn,
    Tag,
    /// Tags, separated by commas.
    Tags,
    HookEvent,
    /// The name of a notification target.
    Sink,
    /// A rule that the owner added with a decision.
    OwnerRule,
    Schedule,
    Trigger,
}

/// The turns that a command accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    All,
    /// Turns whose message is queued.
    Queued,
    /// Turns that failed or were canceled.
    Ended,
}

const ALIVE: Kind = Kind::Worker { all: false };
const EVERY: Kind = Kind::Worker { all: true };
const DECISIONS: Kind = Kind::Words(&["allow", "reject"]);
const EVENTS: Kind = Kind::Words(&[
    "turn_end",
    "waiting_approval",
    "any",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "turn.canceled",
    "message.sent",
    "progress.message",
    "progress.update",
    "approval.requested",
    "approval.decided",
    "elicitation.requested",
    "elicitation.answered",
]);

/// Scopes of agent memory.
const MEMORIES: Kind = Kind::Words(&["user", "project", "local"]);

/// Kinds by argument id. The command precedes an id that has several meanings.
const KINDS: &[(&str, Kind)] = &[
    ("approve target", Kind::WorkerOrRequest(Asked::Permission)),
    ("answer target", Kind::WorkerOrRequest(Asked::Form)),
    ("approve request_id", Kind::Request(Asked::Permission)),
    ("answer request_id", Kind::Request(Asked::Form)),
    ("approval show request_id", Kind::Request(Asked::Anything)),
    ("result address", Kind::WorkerOrTurn),
    ("turn show turn_id", Kind::Turn(Turns::All)),
    ("worker inspect turn_id", Kind::Turn(Turns::All)),
    ("turn drop turn_id", Kind::Turn(Turns::Queued)),
    ("turn move turn_id", Kind::Turn(Turns::Queued)),
    ("turn retry turn_id", Kind::Turn(Turns::Ended)),
    ("tag", Kind::Tag),
    ("selector", Kind::Tags),
    ("hook test event", Kind::HookEvent),
    ("notify test name", Kind::Sink),
    ("policy rules remove rule_id", Kind::OwnerRule),
    ("decision", DECISIONS),
    ("run first", Kind::LauncherOrAgent),
    ("launcher_or_agent", Kind::LauncherOrAgent),
    ("launcher", Kind::Launcher),
    ("launcher show name", Kind::Launcher),
    ("launcher probe name", Kind::Launcher),
    ("launcher login name", Kind::Launcher),
    ("launcher logout name", Kind::Launcher),
    ("agent", Kind::Agent),
    ("agent show name", Kind::Agent),
    ("memory show agent", Kind::Agent),
    ("memory edit agent", Kind::Agent),
    ("memory clear agent", Kind::Agent),
    ("memory show scope", MEMORIES),
    ("memory edit scope", MEMORIES),
    ("memory clear scope", MEMORIES),
    ("role", Kind::Role),
    ("role show name", Kind::Role),
    ("send worker", ALIVE),
    ("cancel workers", ALIVE),
    ("stop workers", ALIVE),
    ("worker stop workers", ALIVE),
    ("wait workers", ALIVE),
    ("worker set workers", ALIVE),
    ("send worker_id", ALIVE),
    ("wait worker_id", ALIVE),
    ("approve worker_id", ALIVE),
    ("answer worker_id", ALIVE),
    ("worktree", EVERY),
    ("worktrees", EVERY),
    ("worker", EVERY),
    ("workers", EVERY),
    ("others", EVERY),
    ("worker_id", EVERY),
    ("address", EVERY),
    ("from_worker", EVERY),
    ("parent", EVERY),
    ("root", EVERY),
    ("resume", Kind::Session),
    ("session", Kind::Session),
    ("task", Kind::Task),
    ("task list status", Kind::TaskState),
    ("schedule show name", Kind::Schedule),
    ("schedule log name", Kind::Schedule),
    ("schedule pause name", Kind::Schedule),
    ("schedule resume name", Kind::Schedule),
    ("schedule run name", Kind::Schedule),
    ("schedule rm name", Kind::Schedule),
    ("trigger show name", Kind::Trigger),
    ("trigger log name", Kind::Trigger),
    ("trigger pause name", Kind::Trigger),
    ("trigger resume name", Kind::Trigger),
    ("trigger run name", Kind::Trigger),
    ("trigger fire name", Kind::Trigger),
    ("trigger rm name", Kind::Trigger),
    ("schedule add agent", Kind::LauncherOrAgent),
    ("schedule add task", Kind::Agent),
    ("schedule add send", ALIVE),
    ("trigger add agent", Kind::LauncherOrAgent),
    ("trigger add task", Kind::Agent),
    ("trigger add send", ALIVE),
    ("trigger add after", ALIVE),
    ("until", EVENTS),
    ("wait_until", EVENTS),
    ("event_type", EVENTS),
    ("if_busy", Kind::Words(&["reject", "queue", "steer"])),
    ("sandbox", Kind::Words(&["shared_ro", "isolated", "shared_rw", "none"])),
    ("scope", Kind::Words(&["user", "project"])),
    ("always", Kind::Words(&["worker", "controller"])),
    ("on_approval_timeout", Kind::Words(&["deny", "cancel"])),
    ("cwd", Kind::Folders),
    ("add_dir", Kind::Folders),
    ("handoffs_dir", Kind::Folders),
    ("config", Kind::Files),
    ("text_file", Kind::Files),
    ("attach", Kind::Files),
    ("input", Kind::Files),
    ("mcp_config", Kind::Files),
    ("result_schema", Kind::Files),
    ("summary", Kind::Files),
    ("junit", Kind::Files),
    ("file", Kind::Files),
    ("patch", Kind::Files),
    ("path", Kind::Files),
    ("paths", Kind::Files),
    ("from_handoff", Kind::Files),
];

/// Returns the kind of a command's argument; `None` without candidates.
pub(super) fn kind(command: &str, id: &str) -> Option<Kind> {
    let of = |wanted: &str| KINDS.iter().find(|(known, _)| *known == wanted).map(|(_, kind)| *kind);
    of(&format!("{command} {id}")).or_else(|| of(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::documented;

    #[test]
    fn every_argument_of_the_table_exists() {
        fn all(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            for arg in command.get_arguments() {
                found.push(format!("{path} {}", arg.get_id()).trim_start().to_owned());
            }
            for below in command.get_subcommands() {
                all(below, format!("{path} {}", below.get_name()).trim_start(), found);
            }
        }
        let mut found = Vec::new();
        all(&documented(), "", &mut found);
        for (known, _) in KINDS {
            let fits = |arg: &String| arg == known || arg.ends_with(&format!(" {known}"));
            assert!(found.iter().any(fits), "{known}");
        }
    }
}
