//! Hooks: commands of the user that run before or after a worker's actions, in Claude Code's
//! format. The hooks of a worker are resolved once, at its start, and stored with it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::EventId;
use crate::state::words;

/// Default time limit of a hook, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 60_000;

words! {
    /// The event that runs a hook.
    HookEvent {
        /// A session of the worker's agent begins or is resumed.
        SessionStart = "SessionStart",
        /// A message is sent to the worker. The hook may refuse it.
        UserPromptSubmit = "UserPromptSubmit",
        /// The agent requests permission to call a tool. The hook may deny the call
        /// before rules allow it.
        PreToolUse = "PreToolUse",
        /// A tool call has ended.
        PostToolUse = "PostToolUse",
        /// A permission request is about to be shown to the owner. The hook may answer it.
        ApprovalRequested = "ApprovalRequested",
        /// A task was started.
        SubagentStart = "SubagentStart",
        /// A task has ended.
        SubagentStop = "SubagentStop",
        /// A turn has ended.
        Stop = "Stop",
        /// The owner is being notified.
        Notification = "Notification",
        /// The worker got its own git worktree.
        WorktreeCreate = "WorktreeCreate",
        /// The worker's git worktree was removed.
        WorktreeRemove = "WorktreeRemove",
    }
}

impl HookEvent {
    /// Whether the hook may deny an agent's action.
    #[must_use]
    pub const fn narrows_calls(self) -> bool {
        matches!(self, Self::PreToolUse | Self::ApprovalRequested)
    }

    /// Whether the daemon waits for the hook, because its answer may narrow what is allowed.
    #[must_use]
    pub const fn is_before(self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::PreToolUse | Self::ApprovalRequested)
    }
}

words! {
    /// The origin of a hook.
    HookOrigin {
        /// The user's config file. Only its hooks may allow an action that
        /// would otherwise be asked.
        User = "user",
        /// A config file of a project, which an agent can write.
        Project = "project",
        /// The file of an agent's definition.
        Definition = "definition",
        /// A definition in `--agents` of the command that started the worker. It needs no trust,
        /// because only the owner starts workers.
        Command = "command",
    }
}

impl HookOrigin {
    /// Whether its hooks run only while the owner trusts the file's content, because agents
    /// can write the file.
    #[must_use]
    pub const fn needs_trust(self) -> bool {
        match self {
            Self::User | Self::Command => false,
            Self::Project | Self::Definition => true,
        }
    }
}

/// A hook of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// The event that runs it.
    pub event: HookEvent,
    /// The tools, sources or kinds it applies to; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// The command line for `sh -c`.
    pub command: String,
    /// The time limit in milliseconds.
    pub timeout_ms: u64,
    /// Origin of the hook.
    pub origin: HookOrigin,
    /// The file that contains it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of that file's content at the worker's start, in lowercase hexadecimal.
    pub sha256: String,
}

/// Data of `hook.failed`: a hook that failed, gave an ineffective answer, or does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HookFailed {
    /// The event it was intended for.
    pub event: HookEvent,
    /// Command line of the hook.
    pub command: String,
    /// The file that contains it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// Origin of the hook.
    pub origin: HookOrigin,
    /// What went wrong, and what to do.
    pub reason: String,
    /// Id of the event that it ran for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_event_id: Option<EventId>,
}

impl HookFailed {
    /// Creates the failure of this hook.
    #[must_use]
    pub fn of(hook: &Hook, reason: String, for_event_id: Option<EventId>) -> Self {
        Self {
            event: hook.event,
            command: hook.command.clone(),
            file: hook.file.clone(),
            origin: hook.origin,
            reason,
            for_event_id,
        }
    }
}
