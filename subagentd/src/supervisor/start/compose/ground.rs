//! Config, definitions and environment in which the worker of a task is composed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use subagent_config::agents::{AgentMode, Catalog, Definition};
use subagent_config::environment::account_home;
use subagent_config::start::agent::{given, usable};
use subagent_config::{Environment, LoadedConfig, discovery};
use subagent_protocol::api::TaskPlace;
use subagent_protocol::delegation::DelegationSpec;
use subagent_protocol::{Code, Error, Result};

use crate::supervisor::start::environment::Variables;

/// Files and environment, read again for each task.
pub(crate) struct TaskConfig {
    pub(crate) loaded: LoadedConfig,
    pub(crate) env: Environment,
    pub(crate) workspace: PathBuf,
    catalog: Catalog,
}

/// Converts variables to an environment.
pub(crate) fn environment(variables: &Variables, cwd: &Path) -> Environment {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Environment::new(variables.iter().map(|(name, value)| (text(&name.0), text(&value.0))), cwd)
}

impl TaskConfig {
    /// Reads the config and definitions for a worker that delegates.
    ///
    /// # Errors
    /// `CONFIG_PARSE_ERROR`, `INVALID_ARGUMENT{flag}`.
    pub(crate) fn of(delegation: &DelegationSpec, variables: &Variables, cwd: &Path) -> Result<Self> {
        let mut env = environment(variables, cwd);
        // A launcher may have set another home for its agent.
        env.home.clone_from(&delegation.home);
        let loaded = match &delegation.config {
            Some(config) => discovery::load_regular(Some(config), delegation.user_config.as_deref(), &env)?,
            // The agent may have created a config there after the worker started.
            None => LoadedConfig::built_in(&env),
        };
        Self::found(env, loaded, delegation.agents.as_deref(), &delegation.workspace)
    }

    /// Reads the config and definitions for a manager that is not an agent of a worker.
    ///
    /// # Errors
    /// As [`Self::of`], and `INVALID_INPUT{field}` for an invalid path.
    pub(crate) fn of_manager(place: &TaskPlace) -> Result<Self> {
        let paths =
            [Some(&place.workspace), Some(&place.cwd), place.config.as_ref(), place.user_config.as_ref()];
        let is_text = |path: &&PathBuf| path.is_absolute() && path.to_str().is_some();
        if !paths.into_iter().flatten().all(|path| is_text(&path)) {
            let message = "workspace, cwd, config and userConfig of a task are absolute paths";
            return Err(Error::new(Code::InvalidInput, message).with("field", "manager"));
        }
        let env = environment(&place.env, &place.cwd).or_home(account_home);
        let loaded = discovery::load_regular(place.config.as_deref(), place.user_config.as_deref(), &env)?;
        Self::found(env, loaded, place.agents.as_deref(), &place.workspace)
    }

    fn found(env: Environment, loaded: LoadedConfig, agents: Option<&str>, workspace: &Path) -> Result<Self> {
        let catalog = Catalog::find(&given(agents)?, workspace, &env);
        Ok(Self { loaded, env, workspace: workspace.to_owned(), catalog })
    }

    /// Returns the definitions that can be called as tasks, by name.
    pub(crate) fn callable(&self) -> Vec<&Definition> {
        self.catalog.callable().collect()
    }

    /// Returns the definition with this name. `callable` has the ones that the caller may see.
    ///
    /// # Errors
    /// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE`, `AGENT_NOT_A_SUBAGENT{agent,mode}`.
    pub(crate) fn definition(&self, name: &str, callable: &[&Definition]) -> Result<&Definition> {
        let definition = usable(&self.catalog, name).map_err(|error| match error.code {
            Code::AgentNotFound => {
                let names: Vec<&str> = callable.iter().map(|definition| definition.name.as_str()).collect();
                let message = match names.is_empty() {
                    true => format!("there is no agent `{name}`, and no other agent that could get tasks"),
                    false => format!("there is no agent `{name}`; there are: {}", names.join(", ")),
                };
                Error::new(Code::AgentNotFound, message).with("agent", name).with("available", names)
            }
            _ => error,
        })?;
        if definition.mode != AgentMode::Primary {
            return Ok(definition);
        }
        let message = format!("the agent `{}` is for people only (`mode: primary`)", definition.name);
        Err(Error::new(Code::AgentNotASubagent, message)
            .with("agent", definition.name.as_str())
            .with("mode", definition.mode.as_str()))
    }
}
