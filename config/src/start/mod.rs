//! Composes the request that starts a worker, from config, files and the caller's choices. The
//! command line does so for its user, the daemon for tasks. Pure except for reading files and
//! locating programs. All inputs are passed in.

pub mod agent;
pub mod answers;
pub mod budgets;
pub mod delegation;
pub mod hooks;
pub mod launcher;
pub mod options;
pub mod policy;
pub mod remote;
pub mod sandbox;
pub mod servers;
pub mod templates;
pub(crate) mod wire;
pub mod worktree;

use std::path::{Path, PathBuf};

use subagent_protocol::api::{
    ControllerChoice, OnTimeout, SetOptions, StartWorker, UNLABELED, UNLABELED_RUN, WorktreeChoice,
};
use subagent_protocol::budget::LimitsChange;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::Placement;
use subagent_protocol::policy::PolicyRule;
use subagent_protocol::tags::Tags;
use subagent_protocol::{Code, Error, Result};

use crate::environment::Environment;
use crate::installed::{self, Fetch};
use crate::{LoadedConfig, ResolvedLauncher, model, placements, role, workspace};
use agent::{DefinitionRequest, Resolved, SelectedDefinition};
use wire::{argument, millis, path_value};

/// The caller's choices. For absent fields, config and workspace decide.
#[derive(Debug, Default)]
pub struct StartChoices {
    /// Name of the launcher.
    pub launcher: Option<String>,
    /// Name of a launcher, or of a definition if no launcher has it.
    pub launcher_or_agent: Option<String>,
    /// Role of the worker.
    pub role: Option<String>,
    /// Name of the worker; `None` lets the daemon choose one.
    pub name: Option<String>,
    /// Label of the worker for display.
    pub label: String,
    /// Whether the agent starts only when a message needs it.
    pub debug_mode: bool,
    /// Whether no command waits for its turns.
    pub detached: bool,
    /// The chosen session options.
    pub options: SetOptions,
    /// Path of an MCP config file.
    pub mcp_config: Option<PathBuf>,
    /// Additional working folders of the agent.
    pub add_dirs: Vec<PathBuf>,
    /// Id of the session to resume.
    pub resume: Option<String>,
    /// Tags of the worker.
    pub tags: Tags,
    /// Permission rules in addition to those of the config.
    pub rules: policy::Flags,
    /// Usage limits; absent ones come from the config.
    pub budget: LimitsChange,
    /// The owner's permission rules of the worker that this one continues.
    pub inherited: Vec<PolicyRule>,
    /// Approval timeout in milliseconds; 0 means unlimited.
    pub approval_timeout_ms: Option<u64>,
    /// The action on timeout.
    pub on_approval_timeout: Option<OnTimeout>,
    /// The definition of the agent.
    pub agent: DefinitionRequest,
    /// Inline definitions as JSON text.
    pub agents: Option<String>,
    /// Whether the worker may delegate; `None` leaves it to config and definition.
    pub delegate: Option<bool>,
    /// The git worktree; `None` leaves it to definition and config.
    pub worktree: Option<WorktreeChoice>,
    /// The worker whose git worktree this one takes over.
    pub worktree_of: Option<WorkerId>,
    /// The requested sandbox of the worker.
    pub sandbox: sandbox::SandboxRequest,
    /// Name of the placement; `None` leaves it to launcher and config.
    pub placement: Option<String>,
}

/// The context of a start: folders, config and caller.
#[derive(Debug)]
pub struct StartContext<'a> {
    /// The config of the caller.
    pub loaded: &'a LoadedConfig,
    /// Root of the workspace.
    pub workspace: &'a Path,
    /// Working folder of the agent; see [`cwd`].
    pub cwd: PathBuf,
    /// Environment of the caller.
    pub env: &'a Environment,
    /// The controller that owns the worker.
    pub choice: ControllerChoice,
    /// Umask of the caller.
    pub umask: u32,
    /// Soft limit of open files of the caller.
    pub nofile: Option<u64>,
}

/// Resolves the working folder of an agent.
///
/// # Errors
/// `INVALID_ARGUMENT{cwd}`.
pub fn cwd(typed: Option<&Path>, env: &Environment) -> Result<PathBuf> {
    let cwd = workspace::resolve_cwd(typed, env)?;
    if cwd.to_str().is_none() {
        // JSON and the agent's protocol contain it as text.
        let message = format!("{} is not UTF-8; rename the folder", cwd.display());
        return Err(argument(message).with("cwd", path_value(&cwd)));
    }
    Ok(cwd)
}

/// A worker whose definition and launcher exist and fit together.
#[derive(Debug)]
pub struct Composition<'a> {
    wanted: StartChoices,
    place: StartContext<'a>,
    role: String,
    agent: Option<Resolved>,
    launcher: &'a model::Launcher,
    resolved: ResolvedLauncher,
    /// The other machine or container where the worker runs.
    remote: Option<Placement>,
}

/// Extends the error for a word that is neither a launcher nor a definition by the known launchers.
fn named_nothing(error: Error, word: Option<&str>, config: &model::Config) -> Error {
    let Some(word) = word.filter(|_| error.code == Code::AgentNotFound) else { return error };
    let launchers: Vec<&str> = config.launchers.keys().map(String::as_str).collect();
    let known = launchers.join(", ");
    let message = format!("there is no launcher and no agent definition named {word} (launchers: {known})");
    Error { message, ..error }.with("launchers", launchers)
}

impl<'a> Composition<'a> {
    /// Finds definition and launcher.
    ///
    /// # Errors
    /// Those of [`SelectedDefinition`], `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`.
    pub fn of(mut wanted: StartChoices, place: StartContext<'a>) -> Result<Self> {
        let config = &place.loaded.config;
        let role = role::choose_role(config, wanted.role.as_deref()).to_owned();
        let either = wanted.launcher_or_agent.take();
        match &either {
            Some(word) if config.launcher(word).is_ok() => wanted.launcher = either.clone(),
            Some(word) => wanted.agent = DefinitionRequest::Named(word.clone()),
            None => {}
        }
        let wish = std::mem::take(&mut wanted.agent);
        let agent = SelectedDefinition::find(wish, wanted.agents.as_deref(), place.workspace, place.env)
            .map_err(|error| named_nothing(error, either.as_deref(), config))?;
        let named = wanted.launcher.as_deref().or(agent.launcher());
        let found = launcher::choose(config, named, &role, &place.cwd, place.env)?;
        let placement = wanted.placement.as_deref().or(agent.placement());
        let remote = placements::choose(config, placement, found.0)?;
        let (launcher, resolved) = match remote {
            _ if wanted.debug_mode => found,
            Some(_) => launcher::runnable_there(found)?,
            None => launcher::runnable(found)?,
        };
        let has_model = wanted.options.options.model.is_some();
        let at = (resolved.name.as_str(), launcher);
        let agent = agent.resolve(at, config, place.workspace, place.env, has_model)?;
        Ok(Self { wanted, place, role, agent, launcher, resolved, remote })
    }

    /// Name of the selected launcher.
    #[must_use]
    pub fn launcher(&self) -> &str {
        &self.resolved.name
    }

    /// Returns the package that must be fetched before the agent can start.
    #[must_use]
    pub fn fetch(&self) -> Option<Fetch> {
        if self.remote.is_some() {
            return None;
        }
        installed::fetch(self.launcher, &self.resolved, &self.place.cwd, self.place.env)
    }

    /// Returns the request that starts the worker.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid folder, rule, time, variable or sandbox; `CONFIG_PARSE_ERROR` for
    /// an invalid file of MCP servers; `BACKEND_LAUNCHER`; `SANDBOX_UNAVAILABLE`. On another machine
    /// also `INVALID_ARGUMENT{placement}` for what works only on this one.
    pub fn request(self) -> Result<StartWorker> {
        let Self { wanted, place, role, agent, launcher, resolved, remote } = self;
        let config = &place.loaded.config;
        let program = resolved.effective_command.clone();
        let own = agent.as_ref().map(|agent| agent.servers.clone()).unwrap_or_default();
        let mcp_config = wanted.mcp_config.as_deref();
        let mcp_servers = servers::of(config, launcher, own, mcp_config, &place.cwd, place.env)?;
        let isolation = agent.as_ref().and_then(|agent| agent.isolation);
        let worktree = worktree::of(wanted.worktree, isolation, launcher, config, place.env)?;
        let mut wish = wanted.sandbox;
        let (agent, layer, own_hooks, memory) = match agent {
            Some(agent) => {
                wish.narrower.push(agent.sandbox);
                wish.preferred = agent.preferred;
                (Some(agent.spec), agent.layer, agent.hooks, agent.memory)
            }
            None => (None, None, Vec::new(), None),
        };
        let mut configured = launcher.options.clone();
        if let Some(agent) = &agent {
            configured.mode = agent.mode.clone().or(configured.mode);
            configured.model = configured.model.filter(|_| agent.model.is_none());
        }
        let additional_directories = additional_directories(&wanted.add_dirs, place.env)?;
        let mut writable = vec![place.workspace, &place.cwd];
        writable.extend(additional_directories.iter().map(PathBuf::as_path));
        let delegation = delegation::spec(wanted.delegate, wanted.agents, layer.as_ref(), &place);
        let has_worktree = worktree.is_some() || wanted.worktree_of.is_some();
        let ground = sandbox::Ground { cwd: &place.cwd, roots: &writable, env: place.env };
        let obstacle = match remote {
            Some(_) => Some(remote::NO_SANDBOX),
            None => sandbox::obstacle(has_worktree, delegation.is_some()),
        };
        let plan = sandbox::plan(wish, launcher, config, ground, obstacle)?;
        let sandbox = plan.required.map(|spec| sandbox::with_memory(spec, memory.as_deref()));
        let worktree = match wanted.worktree_of {
            None => worktree::isolated(worktree, sandbox.as_ref(), config, place.env)?,
            Some(_) => worktree,
        };
        let hooks = hooks::of_worker(place.loaded, &writable, place.env, own_hooks)?;
        let has_label = match wanted.label.as_str() {
            UNLABELED => false,
            UNLABELED_RUN => !wanted.detached,
            _ => true,
        };
        let titles = (config.titles && !has_label).then(|| delegation::of_place(None, &place));
        let rules = policy::RuleSources {
            flags: &wanted.rules,
            inherited: wanted.inherited,
            delegates: match (&delegation, wanted.delegate) {
                (None, _) => policy::DelegationSource::No,
                (Some(_), Some(true)) => policy::DelegationSource::Asked,
                (Some(_), _) => policy::DelegationSource::Configured,
            },
            definition: layer,
            memory,
        };
        let request = StartWorker {
            mcp_servers,
            additional_directories,
            env: environment(place.env, launcher, &place.cwd),
            task_env: Vec::new(),
            launcher: launcher::spec(launcher, resolved)?,
            role,
            name: wanted.name,
            label: wanted.label,
            umask: place.umask,
            nofile: place.nofile,
            debug_mode: wanted.debug_mode,
            detached: wanted.detached,
            idle_timeout_ms: wanted.options.idle_timeout_ms.or(launcher.idle_timeout.map(millis)),
            on_rate_limit: wanted.options.on_rate_limit.or(launcher.on_rate_limit),
            queue_limit: launcher.queue_limit,
            options: options::of_start(wanted.options, &configured),
            resume: wanted.resume,
            tags: wanted.tags,
            budget: wanted.budget.over(&budgets::of_config(&config.budgets.worker)),
            policy: policy::spec(place.loaded, rules, place.workspace, place.env)?,
            answer_time: answers::of(
                &config.approvals,
                wanted.approval_timeout_ms,
                wanted.on_approval_timeout,
            )?,
            agent,
            delegation,
            titles,
            hooks,
            worktree,
            worktree_of: wanted.worktree_of,
            sandbox,
            preferred_sandbox: plan.preferred,
            placement: None,
            choice: place.choice,
            cwd: place.cwd,
        };
        match remote {
            Some(remote) => remote::placed(request, remote, launcher, program, place.env.home.as_deref()),
            None => Ok(request),
        }
    }
}

fn additional_directories(wanted: &[PathBuf], env: &Environment) -> Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        let problem = match env.cwd.join(path).canonicalize() {
            Ok(path) if path.is_dir() && path.to_str().is_some() => return Ok(path),
            Ok(_) => "it is not a folder, or its path is not UTF-8".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("--add-dir {} cannot be used: {problem}", path.display());
        Err(argument(message).with("additionalDirectory", path_value(path)))
    };
    wanted.iter().map(absolute).collect()
}

pub use launcher::environment;
