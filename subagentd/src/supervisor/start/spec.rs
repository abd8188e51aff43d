//! The stored parameters of a worker. They are resolved once at its start and not looked up again.

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
use crate::store::WorkerRow;
use crate::supervisor::worktrees::operation::COMMANDS_TIMEOUT;

/// Time beyond the launcher's deadline for starting the runtime and storing its records.
pub(in crate::supervisor) const START_MARGIN: Duration = Duration::from_secs(10);
/// Time limit of a stop: the runtime's steps, the guard's proof, and a kill if both hang.
pub(in crate::supervisor) const STOP_TIMEOUT: Duration = Duration::from_secs(25);

/// The stored spec. It has only the names of the environment; the values are in
/// [`crate::supervisor::start::environment`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) launcher: LauncherSpec,
    pub(crate) umask: u32,
    pub(crate) nofile: Option<u64>,
    pub(crate) environment: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mcp_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) additional_directories: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(crate) options: Options,
    /// The session that its first agent resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<String>,
    /// Time without an open turn after which its agent is ended until it is needed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idle_timeout_ms: Option<u64>,
    /// Reaction to a turn that fails for a rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_rate_limit: Option<OnRateLimit>,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub(crate) tags: Tags,
    /// Policy for the agent's permission requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<PolicySpec>,
    /// Maximum number of queued messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue_limit: Option<u32>,
    /// Time limit of its questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer_time: Option<AnswerTime>,
    /// The agent definition, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<AgentSpec>,
    /// Allows the agent to create tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delegation: Option<DelegationSpec>,
    /// Where the definition `title` is found that labels the worker after its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) titles: Option<DelegationSpec>,
    /// Commands that run before and after actions of the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hooks: Vec<Hook>,
    /// Limits of the agent, enforced by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Sandbox>,
    /// Why the sandbox of its built-in definition is not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_sandbox: Option<String>,
    /// Mode and model chosen for the worker itself, while a definition overrides them.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(crate) own: Options,
    /// Mode and model at the start of its newest session.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(crate) began: Options,
    /// Number of the turn that brought its definition. `None`: the worker was started with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_since: Option<u64>,
    /// Whether it works in its own git worktree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_worktree: bool,
    /// Whether no command waits for its turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) detached: bool,
}

/// The part of a spec that views show. The rest, which is much longer, is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpecSummary {
    pub(crate) answer_time: Option<AnswerTime>,
    pub(crate) on_rate_limit: Option<OnRateLimit>,
    pub(crate) policy: Option<IgnoredAny>,
    pub(crate) delegation: Option<IgnoredAny>,
    pub(crate) agent: Option<DefinitionView>,
    pub(crate) tags: Tags,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) no_sandbox: Option<String>,
}

/// The definition in a view.
#[derive(Debug, Deserialize)]
pub(crate) struct DefinitionView {
    pub(crate) name: String,
}

/// Returns the part of a spec that views show. Empty if it cannot be read.
pub(crate) fn shown(row: &WorkerRow) -> SpecSummary {
    serde_json::from_str(&row.spec).unwrap_or_default()
}

/// Returns the spec of a worker. `None` if it cannot be read: such a worker has no actor.
pub(crate) fn stored(row: &WorkerRow) -> Option<Spec> {
    serde_json::from_str(&row.spec).ok()
}

/// Returns the maximum number of queued messages of a worker.
pub(crate) fn queue_limit(row: &WorkerRow) -> usize {
    let limit = stored(row).and_then(|spec| spec.queue_limit);
    usize::try_from(limit.unwrap_or(QUEUE_LIMIT).min(MAX_QUEUE_LIMIT)).unwrap_or(usize::MAX)
}

/// Returns the timeouts of a worker's launcher.
pub(crate) fn timeouts(row: &WorkerRow) -> Timeouts {
    stored(row).map_or_else(Timeouts::default, |spec| spec.launcher.timeouts)
}

/// Returns the tags of a worker.
pub(crate) fn tags(row: &WorkerRow) -> Tags {
    shown(row).tags
}

/// Returns the time limit for setting the chosen options and the model of a definition.
fn patience(options: &Options, agent: Option<&AgentSpec>) -> Duration {
    let wishes = agent.is_some_and(|agent| agent.model.is_some());
    options.patience() + if wishes { PATIENCE } else { Duration::ZERO }
}

/// Returns the time limit for a start of the worker's agent: creating its worktree, starting a
/// session, and setting its options.
pub(crate) fn startup(row: &WorkerRow) -> Duration {
    stored(row).map_or(Duration::ZERO, |spec| {
        let patience = patience(&spec.options, spec.agent.as_ref());
        let making = if spec.has_worktree { COMMANDS_TIMEOUT } else { Duration::ZERO };
        Duration::from_millis(spec.launcher.timeouts.startup_ms) + patience + making
    })
}

impl Spec {
    pub(crate) fn of(request: &StartWorker) -> Self {
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
            no_sandbox: None,
            own: Options::default(),
            began: Options::default(),
            agent_since: None,
            has_worktree: false,
            detached: request.detached,
        }
    }

    /// Whether a rate limit parks the worker.
    pub(crate) fn parks(&self) -> bool {
        self.on_rate_limit != Some(OnRateLimit::Fail)
    }

    /// Returns the same spec with the names of another environment.
    pub(crate) fn with_environment(&self, variables: &Variables) -> Self {
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
