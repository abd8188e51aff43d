//! The worker that gives a task, and what a task has of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use subagent_config::agents::{Definition, McpWish};
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

use super::ground::Ground;
use super::launched::Launched;
use super::permitted;
use crate::store::{WorkerRow, tasks};
use crate::supervisor::environment::{self, Kept};
use crate::supervisor::spec::{self, Spec};
use crate::supervisor::{Supervisor, policy};

/// A config option that is the mode, or the model, of a session under another name.
const MODE: &str = "mode";
const MODEL: &str = "model";

/// What a worker gives to another agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum Gives {
    /// What its agent asks for.
    Tasks,
    /// The task that labels the worker itself.
    Title,
}

/// A worker that may give tasks, and all that is stored and kept of it.
pub(in crate::supervisor) struct Parent {
    pub(super) row: WorkerRow,
    /// Its name in the paths of its tasks.
    pub(super) name: String,
    pub(super) spec: Spec,
    pub(super) kept: Kept,
    pub(super) delegation: DelegationSpec,
    pub(super) gives: Gives,
    pub(super) cwd: PathBuf,
    /// The rules of the whole chain, with those that decisions became.
    pub(super) policy: Policy,
}

impl Supervisor {
    /// A worker as the parent of a task that it gives now.
    ///
    /// # Errors
    /// `FORBIDDEN_FROM_WORKER` for one that was not started so that it delegates, `ENV_REQUIRED`, `STORAGE_ERROR`.
    pub(in crate::supervisor) async fn parent(&self, row: WorkerRow, gives: Gives) -> Result<Parent> {
        let stored = spec::stored(&row);
        let stored = stored
            .ok_or_else(|| Error::new(Code::Internal, "what the worker was started with cannot be read"))?;
        let delegation = match gives {
            Gives::Tasks => stored.delegation.clone(),
            Gives::Title => stored.titles.clone(),
        };
        let Some(delegation) = delegation else {
            let message = "the worker was not started so that it may give tasks to other agents";
            return Err(Error::new(Code::ForbiddenFromWorker, message)
                .with("workerId", row.worker_id.as_str())
                .recommend("start it with `subagent worker start --delegate`"));
        };
        let file = self.shared.setup.runtime_dir.worker_environment(row.worker_id.as_str());
        let kept = environment::read(&file)?;
        let (id, cwd, rules) = (row.id, PathBuf::from(&row.cwd), stored.policy.clone());
        let (at, asked) = (cwd.clone(), row.clone());
        let read = self.shared.store.read(move |connection| {
            let policy = policy::read(connection, id, rules.as_ref(), &at)?;
            Ok((policy, tasks::name_in_a_path(connection, &asked)?))
        });
        let (policy, name) = read.await?;
        Ok(Parent { policy, name, row, spec: stored, kept, delegation, gives, cwd })
    }
}

impl Parent {
    /// Where definitions and launchers are looked for, as they are now.
    ///
    /// # Errors
    /// Those of a config that cannot be read.
    pub(super) fn ground(&self) -> Result<Ground> {
        Ground::of(&self.delegation, &self.kept.variables, &self.cwd)
    }

    /// The folder to which relative patterns of rules belong: the workspace, or its place in the parent's worktree.
    pub(super) fn policy_workspace(&self) -> PathBuf {
        let own = self.spec.policy.as_ref().filter(|_| self.spec.has_worktree);
        own.map_or_else(|| self.delegation.workspace.clone(), |policy| policy.workspace.clone())
    }

    /// Its sandbox, but for the folder of its notes: these are its own.
    pub(super) fn sandbox(&self) -> Option<SandboxSpec> {
        let mut sandbox = self.spec.sandbox.as_ref()?.spec.clone();
        let memory = self.spec.policy.as_ref().and_then(|policy| policy.memory.as_ref());
        sandbox.write.retain(|path| Some(path) != memory);
        Some(sandbox)
    }

    /// The agents that its rules let it call.
    pub(super) fn callable<'a>(&self, ground: &'a Ground) -> Vec<&'a Definition> {
        let may =
            |definition: &&Definition| permitted(&self.policy, Some(&definition.name), self.gives).is_ok();
        ground.callable().into_iter().filter(may).collect()
    }

    /// With what agent it is run.
    ///
    /// # Errors
    /// `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`.
    pub(super) fn launched(&self, definition: Option<&Definition>, ground: &Ground) -> Result<Launched> {
        let config = &ground.loaded.config;
        let own = (&self.spec.launcher, &self.kept.variables);
        match definition.and_then(|definition| definition.launcher.as_deref()) {
            Some(name) => Launched::named(name, own, config, &ground.env),
            None => Ok(Launched::of_parent(own, config, &ground.env)),
        }
    }

    /// The servers that a definition has besides those of the parent: its own, and what it names of the config.
    pub(super) fn own_servers(
        &self,
        definition: Option<&Definition>,
        launcher: &Launcher,
        config: &Config,
        inline: BTreeMap<String, McpServer>,
    ) -> BTreeMap<String, McpServer> {
        let has = self.kept.mcp_servers.names();
        let mut own = inline;
        for wish in definition.map(|definition| &definition.mcp_servers[..]).unwrap_or_default() {
            if let McpWish::Named(name) = wish
                && !has.contains(name)
                && let Some(server) = launcher.mcp_servers.get(name).or_else(|| config.mcp_servers.get(name))
            {
                own.insert(name.clone(), server.clone());
            }
        }
        own
    }

    /// What is chosen of its session: by its definition, else as for the parent where it is the same agent, else as the
    /// config has it for the launcher. A model that was wished for the parent is wished for the task, too.
    pub(super) fn options(&self, agent: &mut AgentSpec, launched: &Launched) -> Options {
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

/// The mode of a session with these options, as far as somebody has chosen it.
pub(super) fn mode_of(options: &Options) -> Option<String> {
    let chosen = options.config_options.get(MODE).map(ToString::to_string);
    // It is set after the mode.
    chosen.or_else(|| options.mode.clone())
}
