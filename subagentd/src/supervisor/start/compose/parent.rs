//! The worker that creates a task, and what a task inherits from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use subagent_config::agents::{Definition, McpServerRef};
use subagent_config::mcp::McpServer;
use subagent_config::model::{Config, Launcher};
use subagent_config::policy::Policy;
use subagent_config::start::options;
use subagent_protocol::api::SetOptions;
use subagent_protocol::definition::AgentSpec;
use subagent_protocol::delegation::DelegationSpec;
use subagent_protocol::options::Options;
use subagent_protocol::sandbox::SandboxSpec;
use subagent_protocol::{Code, Error, Result};

use super::ground::TaskConfig;
use super::launched::TaskLauncher;
use super::permitted;
use crate::store::{WorkerRow, tasks};
use crate::supervisor::start::environment::{self, AgentEnvironment};
use crate::supervisor::start::spec::{self, Spec};
use crate::supervisor::{Supervisor, policy};

/// Ids of config options that stand for the mode and the model of a session.
const MODE: &str = "mode";
const MODEL: &str = "model";

/// Why a worker creates a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskPurpose {
    /// Its agent requests the task.
    Tasks,
    /// The task labels the worker itself.
    Title,
}

/// A worker that may create tasks, with its stored data.
pub(crate) struct Parent {
    pub(crate) row: WorkerRow,
    /// Its name in the paths of its tasks.
    pub(crate) name: String,
    pub(crate) spec: Spec,
    pub(crate) kept: AgentEnvironment,
    pub(crate) delegation: DelegationSpec,
    pub(crate) gives: TaskPurpose,
    /// The folder on this machine in which its tasks work.
    pub(crate) cwd: PathBuf,
    /// The policy of the whole chain, including owner rules.
    pub(crate) policy: Policy,
}

/// Reads a worker as the parent of a new task.
///
/// # Errors
/// `FORBIDDEN_FROM_WORKER` if it was started without delegation. `ENV_REQUIRED`,
/// `STORAGE_ERROR`.
pub(crate) async fn parent(supervisor: &Supervisor, row: WorkerRow, gives: TaskPurpose) -> Result<Parent> {
    let stored = spec::stored(&row);
    let stored =
        stored.ok_or_else(|| Error::new(Code::Internal, "the start options of the worker cannot be read"))?;
    let delegation = match gives {
        TaskPurpose::Tasks => stored.delegation.clone(),
        TaskPurpose::Title => stored.titles.clone(),
    };
    let Some(delegation) = delegation else {
        let message = "the worker was started without permission to give tasks to other agents";
        return Err(Error::new(Code::ForbiddenFromWorker, message)
            .with("workerId", row.worker_id.as_str())
            .recommend("start it with `subagent worker start --delegate`"));
    };
    let file = supervisor.shared.setup.runtime_dir.worker_environment(row.worker_id.as_str());
    let mut kept = environment::read(&file)?;
    let (id, at, rules) = (row.id, PathBuf::from(&row.cwd), stored.policy.clone());
    let cwd = match is_remote(&row) {
        // Its folder and its environment are of the other machine.
        true => {
            kept.variables = kept.task_variables.take().unwrap_or_default();
            delegation.workspace.clone()
        }
        false => at.clone(),
    };
    let asked = row.clone();
    let read = supervisor.shared.store.read(move |connection| {
        let policy = policy::read(connection, id, rules.as_ref(), &at)?;
        Ok((policy, tasks::name_in_a_path(connection, &asked)?))
    });
    let (policy, name) = read.await?;
    Ok(Parent { policy, name, row, spec: stored, kept, delegation, gives, cwd })
}

/// Whether the worker is on another machine.
fn is_remote(row: &WorkerRow) -> bool {
    row.placement.as_ref().is_some_and(|placement| placement.elsewhere().is_some())
}

impl Parent {
    /// Reads the current config and definitions.
    ///
    /// # Errors
    /// Those of a config that cannot be read.
    pub(crate) fn ground(&self) -> Result<TaskConfig> {
        TaskConfig::of(&self.delegation, &self.kept.variables, &self.cwd)
    }

    /// Returns the base of relative patterns in rules: the workspace, or its counterpart in the
    /// parent's worktree.
    pub(crate) fn policy_workspace(&self) -> PathBuf {
        let own = self.spec.policy.as_ref().filter(|_| self.spec.has_worktree);
        own.map_or_else(|| self.delegation.workspace.clone(), |policy| policy.workspace.clone())
    }

    /// Returns its sandbox without the folder of its own notes.
    pub(crate) fn sandbox(&self) -> Option<SandboxSpec> {
        let mut sandbox = self.spec.sandbox.as_ref()?.spec.clone();
        let memory = self.spec.policy.as_ref().and_then(|policy| policy.memory.as_ref());
        sandbox.write.retain(|path| Some(path) != memory);
        Some(sandbox)
    }

    /// Returns the definitions that its policy lets it call.
    pub(crate) fn callable<'a>(&self, ground: &'a TaskConfig) -> Vec<&'a Definition> {
        let may =
            |definition: &&Definition| permitted(&self.policy, Some(&definition.name), self.gives).is_ok();
        ground.callable().into_iter().filter(may).collect()
    }

    /// Returns the launcher and environment for a task, which runs on another machine if `is_there`.
    ///
    /// # Errors
    /// `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`.
    pub(crate) fn launched(
        &self,
        definition: Option<&Definition>,
        ground: &TaskConfig,
        is_there: bool,
    ) -> Result<TaskLauncher> {
        let config = &ground.loaded.config;
        let own = (&self.spec.launcher, &self.kept.variables);
        // The program of another machine is not that of this one.
        let again = (is_there || is_remote(&self.row)).then_some(self.spec.launcher.name.as_str());
        match definition.and_then(|definition| definition.launcher.as_deref()).or(again) {
            Some(name) => TaskLauncher::named(name, own, config, &ground.env, is_there),
            None => Ok(TaskLauncher::of_parent(own, config, &ground.env)),
        }
    }

    /// Returns the servers that a definition adds to the parent's: its own, and those of the config
    /// that it names.
    pub(crate) fn own_servers(
        &self,
        definition: Option<&Definition>,
        launcher: &Launcher,
        config: &Config,
        inline: BTreeMap<String, McpServer>,
    ) -> BTreeMap<String, McpServer> {
        let has = self.kept.mcp_servers.names();
        let mut own = inline;
        for wish in definition.map(|definition| &definition.mcp_servers[..]).unwrap_or_default() {
            if let McpServerRef::Named(name) = wish
                && !has.contains(name)
                && let Some(server) = launcher.mcp_servers.get(name).or_else(|| config.mcp_servers.get(name))
            {
                own.insert(name.clone(), server.clone());
            }
        }
        own
    }

    /// Returns the session options: those of the definition, else the parent's for the same agent,
    /// else those of the launcher's config. A preferred model of the parent is also preferred for
    /// the task.
    pub(crate) fn options(&self, agent: &mut AgentSpec, launched: &TaskLauncher) -> Options {
        let mut options = match launched.is_parents {
            true => self.spec.options.clone(),
            false => options::of_start(SetOptions::default(), &launched.launcher.options),
        };
        if let Some(mode) = &agent.mode {
            options.mode = Some(mode.clone());
            options.config_options.remove(MODE);
        }
        if agent.model.is_some() {
            options.model = None;
            options.config_options.remove(MODEL);
        } else if launched.is_parents && options.model.is_none() {
            agent.model = self.spec.agent.as_ref().and_then(|agent| agent.model.clone());
        }
        options
    }
}

/// Returns the chosen mode of a session with these options.
pub(crate) fn mode_of(options: &Options) -> Option<String> {
    let chosen = options.config_options.get(MODE).map(ToString::to_string);
    // The config option is set after the mode, so it wins.
    chosen.or_else(|| options.mode.clone())
}
