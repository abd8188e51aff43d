//! A table from arguments of commands to the kind of their values.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InboxRequestKind {
    Permission,
    Form,
    Anything,
}

/// The kind of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionKind {
    Files,
    Folders,
    Words(&'static [&'static str]),
    Launcher,
    Agent,
    LauncherOrAgent,
    Role,
    /// A machine or container of the config file.
    Placement,
    /// A host of the config file.
    Host,
    /// A worker; `all` includes stopped ones.
    Worker {
        all: bool,
    },
    Session,
    Task,
    TaskState,
    Request(InboxRequestKind),
    WorkerOrRequest(InboxRequestKind),
    Turn(TurnChoice),
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
pub(super) enum TurnChoice {
    All,
    /// Turns whose message is queued.
    Queued,
    /// Turns that failed or were canceled.
    Ended,
}

const ALIVE: CompletionKind = CompletionKind::Worker { all: false };
const EVERY: CompletionKind = CompletionKind::Worker { all: true };
const DECISIONS: CompletionKind = CompletionKind::Words(&["allow", "reject"]);
const EVENTS: CompletionKind = CompletionKind::Words(&[
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
const MEMORIES: CompletionKind = CompletionKind::Words(&["user", "project", "local"]);

/// Kinds by argument id. The command precedes an id that has several meanings.
const KINDS: &[(&str, CompletionKind)] = &[
    ("approve target", CompletionKind::WorkerOrRequest(InboxRequestKind::Permission)),
    ("answer target", CompletionKind::WorkerOrRequest(InboxRequestKind::Form)),
    ("approve request_id", CompletionKind::Request(InboxRequestKind::Permission)),
    ("answer request_id", CompletionKind::Request(InboxRequestKind::Form)),
    ("approval show request_id", CompletionKind::Request(InboxRequestKind::Anything)),
    ("result address", CompletionKind::WorkerOrTurn),
    ("turn show turn_id", CompletionKind::Turn(TurnChoice::All)),
    ("worker inspect turn_id", CompletionKind::Turn(TurnChoice::All)),
    ("turn drop turn_id", CompletionKind::Turn(TurnChoice::Queued)),
    ("turn move turn_id", CompletionKind::Turn(TurnChoice::Queued)),
    ("turn retry turn_id", CompletionKind::Turn(TurnChoice::Ended)),
    ("tag", CompletionKind::Tag),
    ("selector", CompletionKind::Tags),
    ("hook test event", CompletionKind::HookEvent),
    ("notify test name", CompletionKind::Sink),
    ("policy rules remove rule_id", CompletionKind::OwnerRule),
    ("decision", DECISIONS),
    ("run first", CompletionKind::LauncherOrAgent),
    ("launcher_or_agent", CompletionKind::LauncherOrAgent),
    ("launcher", CompletionKind::Launcher),
    ("launcher show name", CompletionKind::Launcher),
    ("launcher probe name", CompletionKind::Launcher),
    ("launcher login name", CompletionKind::Launcher),
    ("launcher logout name", CompletionKind::Launcher),
    ("agent", CompletionKind::Agent),
    ("agent show name", CompletionKind::Agent),
    ("memory show agent", CompletionKind::Agent),
    ("memory edit agent", CompletionKind::Agent),
    ("memory clear agent", CompletionKind::Agent),
    ("memory show scope", MEMORIES),
    ("memory edit scope", MEMORIES),
    ("memory clear scope", MEMORIES),
    ("host", CompletionKind::Host),
    ("on", CompletionKind::Placement),
    ("placement", CompletionKind::Placement),
    ("role", CompletionKind::Role),
    ("role show name", CompletionKind::Role),
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
    ("resume", CompletionKind::Session),
    ("session", CompletionKind::Session),
    ("task", CompletionKind::Task),
    ("task list status", CompletionKind::TaskState),
    ("schedule show name", CompletionKind::Schedule),
    ("schedule log name", CompletionKind::Schedule),
    ("schedule pause name", CompletionKind::Schedule),
    ("schedule resume name", CompletionKind::Schedule),
    ("schedule run name", CompletionKind::Schedule),
    ("schedule rm name", CompletionKind::Schedule),
    ("trigger show name", CompletionKind::Trigger),
    ("trigger log name", CompletionKind::Trigger),
    ("trigger pause name", CompletionKind::Trigger),
    ("trigger resume name", CompletionKind::Trigger),
    ("trigger run name", CompletionKind::Trigger),
    ("trigger fire name", CompletionKind::Trigger),
    ("trigger rm name", CompletionKind::Trigger),
    ("schedule add agent", CompletionKind::LauncherOrAgent),
    ("schedule add task", CompletionKind::Agent),
    ("schedule add send", ALIVE),
    ("trigger add agent", CompletionKind::LauncherOrAgent),
    ("trigger add task", CompletionKind::Agent),
    ("trigger add send", ALIVE),
    ("trigger add after", ALIVE),
    ("until", EVENTS),
    ("wait_until", EVENTS),
    ("event_type", EVENTS),
    ("if_busy", CompletionKind::Words(&["reject", "queue", "steer"])),
    ("sandbox", CompletionKind::Words(&["shared_ro", "isolated", "shared_rw", "none"])),
    ("scope", CompletionKind::Words(&["user", "project"])),
    ("always", CompletionKind::Words(&["worker", "controller"])),
    ("on_approval_timeout", CompletionKind::Words(&["deny", "cancel"])),
    ("cwd", CompletionKind::Folders),
    ("add_dir", CompletionKind::Folders),
    ("handoffs_dir", CompletionKind::Folders),
    ("config", CompletionKind::Files),
    ("text_file", CompletionKind::Files),
    ("attach", CompletionKind::Files),
    ("input", CompletionKind::Files),
    ("mcp_config", CompletionKind::Files),
    ("result_schema", CompletionKind::Files),
    ("summary", CompletionKind::Files),
    ("junit", CompletionKind::Files),
    ("file", CompletionKind::Files),
    ("patch", CompletionKind::Files),
    ("path", CompletionKind::Files),
    ("paths", CompletionKind::Files),
    ("from_handoff", CompletionKind::Files),
];

/// Returns the kind of a command's argument; `None` without candidates.
pub(super) fn kind(command: &str, id: &str) -> Option<CompletionKind> {
    let of = |wanted: &str| KINDS.iter().find(|(known, _)| *known == wanted).map(|(_, kind)| *kind);
    of(&format!("{command} {id}")).or_else(|| of(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::documented;

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
