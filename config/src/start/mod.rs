//! What a worker is made of: a launcher, a definition, rules, servers and limits, out of the config, files and whatever
//! somebody has chosen, as the one request that starts it. The command line does so for its caller, the daemon for tasks.
//!
//! Pure, but for looking at files and programs. What of all that came from where is handed in.

pub mod agent;
pub mod answers;
pub mod budgets;
pub mod delegation;
pub mod hooks;
pub mod launcher;
pub mod options;
pub mod policy;
pub mod sandbox;
pub mod servers;
mod wire;
pub mod worktree;

use std::path::{Path, PathBuf};

use subagent_protocol::api::{
    ControllerChoice, OnTimeout, SetOptions, StartWorker, UNLABELED, UNLABELED_RUN, WorktreeChoice,
};
use subagent_protocol::budget::LimitsChange;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::policy::PolicyRule;
use subagent_protocol::tags::Tags;
use subagent_protocol::{Code, Error, Result};

use crate::environment::Environment;
use crate::installed::{self, Fetch};
use crate::{LoadedConfig, ResolvedLauncher, model, role, workspace};
use agent::{Chosen, Resolved, Wish};
use wire::{argument, millis, path_value};

/// What is to be started; what is absent is chosen by config and workspace.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The launcher.
    pub launcher: Option<String>,
    /// A launcher, or if none is called so a definition.
    pub launcher_or_agent: Option<String>,
    /// The role.
    pub role: Option<String>,
    /// What it is called; without one the daemon names it.
    pub name: Option<String>,
    /// A label for people.
    pub label: String,
    /// Whether no agent is started until a message needs one.
    pub debug_mode: bool,
    /// Whether no command waits for its turns.
    pub detached: bool,
    /// What is chosen of its session.
    pub options: SetOptions,
    /// A file of MCP servers.
    pub mcp_config: Option<PathBuf>,
    /// Folders that it may also work in.
    pub add_dirs: Vec<PathBuf>,
    /// The session to take up.
    pub resume: Option<String>,
    /// Names with values, by which it is found.
    pub tags: Tags,
    /// What the agent may do, besides what the config says.
    pub rules: policy::Flags,
    /// What it may use; what is not named is the config's.
    pub budget: LimitsChange,
    /// What it may do, of the worker that this one goes on from.
    pub inherited: Vec<PolicyRule>,
    /// How long its questions wait; 0 for ever.
    pub approval_timeout_ms: Option<u64>,
    /// What happens then.
    pub on_approval_timeout: Option<OnTimeout>,
    /// Which definition it has.
    pub agent: Wish,
    /// Definitions besides those in files, as JSON text.
    pub agents: Option<String>,
    /// Whether it may give tasks to other agents; without it as config and definition say.
    pub delegate: Option<bool>,
    /// The git worktree that it gets; without one as definition and config say.
    pub worktree: Option<WorktreeChoice>,
    /// The worker whose git worktree it takes over.
    pub worktree_of: Option<WorkerId>,
    /// Its sandbox.
    pub sandbox: sandbox::Wish,
}

/// Where it is started, and by whom.
#[derive(Debug)]
pub struct Place<'a> {
    /// The config that counts.
    pub loaded: &'a LoadedConfig,
    /// The workspace.
    pub workspace: &'a Path,
    /// Where the agent works; see [`cwd`].
    pub cwd: PathBuf,
    /// The caller.
    pub env: &'a Environment,
    /// Whose worker it will be.
    pub choice: ControllerChoice,
    /// The caller's file mode creation mask.
    pub umask: u32,
    /// The caller's soft limit of open files.
    pub nofile: Option<u64>,
}

/// The folder in which an agent works for whom this was typed.
///
/// # Errors
/// `INVALID_ARGUMENT{cwd}`.
pub fn cwd(typed: Option<&Path>, env: &Environment) -> Result<PathBuf> {
    let cwd = workspace::resolve_cwd(typed, env)?;
    if cwd.to_str().is_none() {
        // It is part of JSON documents and of the agent's protocol, which are text.
        let message = format!("{} is not UTF-8; rename the folder", cwd.display());
        return Err(argument(message).with("cwd", path_value(&cwd)));
    }
    Ok(cwd)
}

/// A worker whose definition and launcher are there and fit.
#[derive(Debug)]
pub struct Composition<'a> {
    wanted: Wanted,
    place: Place<'a>,
    role: String,
    agent: Option<Resolved>,
    launcher: &'a model::Launcher,
    resolved: ResolvedLauncher,
}

/// The error for a word that is neither a launcher nor a definition names both.
fn named_nothing(error: Error, word: Option<&str>, config: &model::Config) -> Error {
    let Some(word) = word.filter(|_| error.code == Code::AgentNotFound) else { return error };
    let launchers: Vec<&str> = config.launchers.keys().map(String::as_str).collect();
    let known = launchers.join(", ");
    let message = format!("no launcher and no definition of an agent is called {word} (launchers: {known})");
    Error { message, ..error }.with("launchers", launchers)
}

impl<'a> Composition<'a> {
    /// Finds definition and launcher.
    ///
    /// # Errors
    /// Those of [`Chosen`], `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`.
    pub fn of(mut wanted: Wanted, place: Place<'a>) -> Result<Self> {
        let config = &place.loaded.config;
        let role = role::choose_role(config, wanted.role.as_deref()).to_owned();
        let either = wanted.launcher_or_agent.take();
        match &either {
            Some(word) if config.launcher(word).is_ok() => wanted.launcher = either.clone(),
            Some(word) => wanted.agent = Wish::Named(word.clone()),
            None => {}
        }
        let wish = std::mem::take(&mut wanted.agent);
        let agent = Chosen::find(wish, wanted.agents.as_deref(), place.workspace, place.env)
            .map_err(|error| named_nothing(error, either.as_deref(), config))?;
        let named = wanted.launcher.as_deref().or(agent.launcher());
        let found = launcher::choose(config, named, &role, &place.cwd, place.env)?;
        let (launcher, resolved) = if wanted.debug_mode { found } else { launcher::runnable(found)? };
        let has_model = wanted.options.options.model.is_some();
        let at = (resolved.name.as_str(), launcher);
        let agent = agent.resolve(at, config, place.workspace, place.env, has_model)?;
        Ok(Self { wanted, place, role, agent, launcher, resolved })
    }

    /// The name of its launcher.
    #[must_use]
    pub fn launcher(&self) -> &str {
        &self.resolved.name
    }

    /// What has to be fetched before its agent can start.
    #[must_use]
    pub fn fetch(&self) -> Option<Fetch> {
        installed::fetch(self.launcher, &self.resolved, &self.place.cwd, self.place.env)
    }

    /// The request that starts it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a folder, a rule, a time, a variable or a sandbox that is not there; `CONFIG_PARSE_ERROR` for a
    /// file of servers that is none; `BACKEND_LAUNCHER`; `SANDBOX_UNAVAILABLE`.
    pub fn request(self) -> Result<StartWorker> {
        let Self { wanted, place, role, agent, launcher, resolved } = self;
        let config = &place.loaded.config;
        let own = agent.as_ref().map(|agent| agent.servers.clone()).unwrap_or_default();
        let mcp_config = wanted.mcp_config.as_deref();
        let mcp_servers = servers::of(config, launcher, own, mcp_config, &place.cwd, place.env)?;
        let isolation = agent.as_ref().and_then(|agent| agent.isolation);
        let worktree = worktree::of(wanted.worktree, isolation, launcher, config, place.env)?;
        let (agent, layer, own_hooks, confines, memory) = match agent {
            Some(agent) => (Some(agent.spec), agent.layer, agent.hooks, Some(agent.sandbox), agent.memory),
            None => (None, None, Vec::new(), None, None),
        };
        let mut configured = launcher.options.clone();
        if let Some(agent) = &agent {
            configured.mode = agent.mode.clone().or(configured.mode);
            configured.model = configured.model.filter(|_| agent.model.is_none());
        }
        let additional_directories = additional_directories(&wanted.add_dirs, place.env)?;
        let mut writable = vec![place.workspace, &place.cwd];
        writable.extend(additional_directories.iter().map(PathBuf::as_path));
        let mut wish = wanted.sandbox;
        wish.narrower.extend(confines);
        let ground = sandbox::Ground { cwd: &place.cwd, roots: &writable, env: place.env };
        let sandbox = sandbox::spec(wish, launcher.sandbox.as_ref(), config, ground)?;
        let sandbox = sandbox.map(|spec| sandbox::with_memory(spec, memory.as_deref()));
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
        let delegation = delegation::spec(wanted.delegate, wanted.agents, layer.as_ref(), &place);
        let rules = policy::Said {
            flags: &wanted.rules,
            inherited: wanted.inherited,
            delegates: match (&delegation, wanted.delegate) {
                (None, _) => policy::Delegates::No,
                (Some(_), Some(true)) => policy::Delegates::Asked,
                (Some(_), _) => policy::Delegates::Configured,
            },
            definition: layer,
            memory,
        };
        Ok(StartWorker {
            mcp_servers,
            additional_directories,
            env: environment(place.env, launcher, &place.cwd),
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
            choice: place.choice,
            cwd: place.cwd,
        })
    }
}

/// Folders, by their absolute paths.
fn additional_directories(wanted: &[PathBuf], env: &Environment) -> Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        let problem = match env.cwd.join(path).canonicalize() {
            Ok(path) if path.is_dir() && path.to_str().is_some() => return Ok(path),
            Ok(_) => "it is no folder, or its path is not UTF-8".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("--add-dir {} cannot be used: {problem}", path.display());
        Err(argument(message).with("additionalDirectory", path_value(path)))
    };
    wanted.iter().map(absolute).collect()
}

pub use launcher::environment;
