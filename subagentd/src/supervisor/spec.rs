//! What is stored of how a worker is run: resolved once, at its start, and never looked up again.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use subagent_protocol::api::{AnswerTime, LauncherSpec, MAX_QUEUE_LIMIT, QUEUE_LIMIT, StartWorker};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::definition::AgentSpec;
use subagent_protocol::delegation::DelegationSpec;
use subagent_protocol::hook::Hook;
use subagent_protocol::options::{Options, PATIENCE};
use subagent_protocol::policy::PolicySpec;
use subagent_protocol::sandbox::Sandbox;
use subagent_protocol::start::Timeouts;
use subagent_protocol::state::OnRateLimit;
use subagent_protocol::tags::Tags;

use super::environment::Variables;
use super::worktrees::operation::COMMANDS_TIMEOUT;
use crate::store::WorkerRow;

/// The stored spec. Of the environment it holds the names only; the values are in [`super::environment`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) launcher: LauncherSpec,
    pub(super) umask: u32,
    pub(super) nofile: Option<u64>,
    pub(super) environment: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) mcp_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) additional_directories: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(super) options: Options,
    /// The session that its first agent takes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<String>,
    /// After so long without an open turn its agent is ended, until it is needed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idle_timeout_ms: Option<u64>,
    /// What happens when a turn fails for a rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) on_rate_limit: Option<OnRateLimit>,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub(super) tags: Tags,
    /// What the agent may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<PolicySpec>,
    /// So many messages may wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue_limit: Option<u32>,
    /// How long its questions wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer_time: Option<AnswerTime>,
    /// The definition of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentSpec>,
    /// That its agent may give tasks to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delegation: Option<DelegationSpec>,
    /// Where the definition is looked for that labels it after its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) titles: Option<DelegationSpec>,
    /// Commands that run before and after what it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hooks: Vec<Hook>,
    /// What its agent may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sandbox: Option<Sandbox>,
    /// Mode and model that were chosen for it, as long as a definition says others.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(super) own: Options,
    /// Mode and model in which its last new session began.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(super) began: Options,
    /// The number of the turn with which its definition came; none if that is the one it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent_since: Option<u64>,
    /// Whether it works in a git worktree of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_worktree: bool,
    /// Whether no command waits for its turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) detached: bool,
}

/// What views show of it. The rest, which is far longer, is only skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Shown {
    pub(super) answer_time: Option<AnswerTime>,
    pub(super) on_rate_limit: Option<OnRateLimit>,
    pub(super) policy: Option<IgnoredAny>,
    pub(super) delegation: Option<IgnoredAny>,
    pub(super) agent: Option<Definition>,
    pub(super) tags: Tags,
    pub(super) sandbox: Option<Sandbox>,
}

/// Which definition an agent has.
#[derive(Debug, Deserialize)]
pub(super) struct Definition {
    pub(super) name: String,
}

/// What views show of a spec; nothing if it cannot be read.
pub(super) fn shown(row: &WorkerRow) -> Shown {
    serde_json::from_str(&row.spec).unwrap_or_default()
}

/// What a worker was started with. None if it cannot be read: then it has no actor, and nothing of it is done.
pub(super) fn stored(row: &WorkerRow) -> Option<Spec> {
    serde_json::from_str(&row.spec).ok()
}

/// How many messages may wait for a worker.
pub(super) fn queue_limit(row: &WorkerRow) -> usize {
    let limit = stored(row).and_then(|spec| spec.queue_limit);
    usize::try_from(limit.unwrap_or(QUEUE_LIMIT).min(MAX_QUEUE_LIMIT)).unwrap_or(usize::MAX)
}

/// The times that the launcher of a worker sets.
pub(super) fn timeouts(row: &WorkerRow) -> Timeouts {
    stored(row).map_or_else(Timeouts::default, |spec| spec.launcher.timeouts)
}

/// The tags of a worker.
pub(super) fn tags(row: &WorkerRow) -> Tags {
    shown(row).tags
}

/// How long it may take until what was chosen of a session is set, and what a definition wishes for.
fn patience(options: &Options, agent: Option<&AgentSpec>) -> Duration {
    let wishes = agent.is_some_and(|agent| agent.model.is_some());
    options.patience() + if wishes { PATIENCE } else { Duration::ZERO }
}

/// How long a start of the worker's agent may take: until its worktree is there, until there is a session, and until what
/// was chosen of the session is set.
pub(super) fn startup(row: &WorkerRow) -> Duration {
    stored(row).map_or(Duration::ZERO, |spec| {
        let patience = patience(&spec.options, spec.agent.as_ref());
        let making = if spec.has_worktree { COMMANDS_TIMEOUT } else { Duration::ZERO };
        Duration::from_millis(spec.launcher.timeouts.startup_ms) + patience + making
    })
}

impl Spec {
    pub(super) fn of(request: &StartWorker) -> Self {
        Self {
            launcher: request.launcher.clone(),
            umask: request.umask,
            nofile: request.nofile,
            environment: names(&request.env),
            mcp_servers: request.mcp_servers.names(),
            additional_directories: request.additional_directories.clone(),
            options: request.options.clone(),
            resume: request.resume.clone(),
            idle_timeout_ms: request.idle_timeout_ms.filter(|millis| *millis > 0),
            on_rate_limit: request.on_rate_limit,
            tags: request.tags.clone(),
            policy: request.policy.clone(),
            queue_limit: request.queue_limit,
            answer_time: request.answer_time,
            agent: request.agent.clone(),
            delegation: request.delegation.clone(),
            titles: request.titles.clone(),
            hooks: request.hooks.clone(),
            sandbox: None,
            own: Options::default(),
            began: Options::default(),
            agent_since: None,
            has_worktree: false,
            detached: request.detached,
        }
    }

    /// Whether a rate limit parks the worker.
    pub(super) fn parks(&self) -> bool {
        self.on_rate_limit != Some(OnRateLimit::Fail)
    }

    /// The same worker with another environment.
    pub(super) fn with_environment(&self, variables: &Variables) -> Self {
        Self { environment: names(variables), ..self.clone() }
    }
}

fn names(variables: &Variables) -> Vec<String> {
    let values = subagent_failpoint::sabotaged("database.values");
    let kept = |(name, value): &(Bytes64, Bytes64)| {
        String::from_utf8_lossy(if values { &value.0 } else { &name.0 }).into_owned()
    };
    variables.iter().map(kept).collect()
}
