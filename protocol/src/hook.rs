//! Hooks: commands of the user that run before or after what a worker does. The shape is that of Claude Code.
//!
//! The hooks of a worker are resolved once, at its start, and stored with it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::EventId;
use crate::state::words;

/// How long a hook may take if its configuration does not say, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 60_000;

words! {
    /// When a hook runs.
    HookEvent {
        /// A session of the worker's agent begins or is resumed.
        SessionStart = "SessionStart",
        /// A message is sent to the worker. The hook may refuse it.
        UserPromptSubmit = "UserPromptSubmit",
        /// The agent asks whether it may call a tool. The hook may deny the call, before rules allow it.
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
        /// The owner is notified of something.
        Notification = "Notification",
        /// The worker got a git worktree of its own.
        WorktreeCreate = "WorktreeCreate",
        /// The worker's git worktree was removed.
        WorktreeRemove = "WorktreeRemove",
    }
}

impl HookEvent {
    /// Whether the hook may deny what an agent does.
    #[must_use]
    pub const fn narrows_calls(self) -> bool {
        matches!(self, Self::PreToolUse | Self::ApprovalRequested)
    }

    /// Whether the daemon waits for the hook: its answer may narrow what is allowed.
    #[must_use]
    pub const fn is_before(self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::PreToolUse | Self::ApprovalRequested)
    }
}

words! {
    /// Who wrote a hook.
    HookOrigin {
        /// The user's config file. Only such a hook may allow what would be asked.
        User = "user",
        /// A config file of a project, which an agent can write.
        Project = "project",
        /// The file of an agent's definition.
        Definition = "definition",
        /// A definition in `--agents` of the command that started the worker. It needs no trust: only the owner starts
        /// workers.
        Command = "command",
    }
}

impl HookOrigin {
    /// Whether its hooks run only while the owner trusts the content of their file: agents can write it.
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
    /// When it runs.
    pub event: HookEvent,
    /// Which tools, sources or kinds it is for; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// A line for `sh -c`.
    pub command: String,
    /// The deadline in milliseconds.
    pub timeout_ms: u64,
    /// Who wrote it.
    pub origin: HookOrigin,
    /// The file that it stands in.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of that file's content when the worker was started, in lowercase hexadecimal.
    pub sha256: String,
}

/// Data of `hook.failed`: a hook that failed, said what counts for nothing, or does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HookFailed {
    /// For what it was to run.
    pub event: HookEvent,
    /// Its command.
    pub command: String,
    /// The file that it stands in.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// Who wrote it.
    pub origin: HookOrigin,
    /// What went wrong, and what to do about it.
    pub reason: String,
    /// The event that it ran for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_event_id: Option<EventId>,
}

impl HookFailed {
    /// The failure of this hook.
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
