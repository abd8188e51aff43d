//! Who gives tasks, and from where: an agent by the token that it was given, or a manager by its workspace.
//!
//! What an agent's tasks are run with is the daemon's to find out; nothing of it is sent from below a worker.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;
use subagent_config::agents::Catalog;
use subagent_config::start::budgets::of_config;
use subagent_config::start::{self, agent::given};
use subagent_config::{Workspace, workspace};
use subagent_protocol::api::{
    CallableAgent, CallableAgents, RunTask, TASK_TOKEN, TaskPlace, TaskStatus, TaskView,
};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::sandbox::FileSystem;

use crate::client::{ApiRequest, DaemonClient, read};
use crate::context::{CliContext, present, present_path};
use crate::controller;
use crate::failure::{Failure, Result};
use crate::starting::StartLine;
use crate::umask::current_umask;

/// How long an agent's task server waits for a daemon that another process has to start. A manager
/// may need that time to notice that the daemon is gone. The tasks go on meanwhile.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where a manager's tasks are run, as far as it is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskPlacement {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) launcher: Option<String>,
    pub(crate) agents: Option<String>,
    pub(crate) controller_id: Option<String>,
    pub(crate) sandbox: Option<String>,
    /// Name of the placement.
    pub(crate) on: Option<String>,
}

/// The submitter of tasks: a manager, or the agent of a worker.
#[derive(Debug)]
pub(crate) struct TaskSubmitter {
    context: CliContext,
    wish: TaskPlacement,
    /// The task token; set only in the environment of an agent.
    token: Option<String>,
}

impl TaskSubmitter {
    /// Returns the caller of this process. A task token in its environment makes it an agent.
    pub(crate) fn new(context: &CliContext, wish: TaskPlacement) -> Self {
        let context = context.clone();
        let token = context.env.var(TASK_TOKEN).map(|token| token.to_string_lossy().into_owned());
        let visible = |token: &String| !token.is_empty() && token.chars().all(|char| char.is_ascii_graphic());
        Self { context, wish, token: token.filter(visible) }
    }

    /// Uses this launcher for agents that name none.
    pub(crate) fn use_launcher(&mut self, launcher: String) {
        self.wish.launcher = Some(launcher);
    }

    /// The token, of an agent.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// How the files are shared of a task that an agent gives: its sandbox is not the agent's to name.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{flag}` for the name of any other sandbox.
    pub(crate) fn filesystem(&self) -> Result<Option<FileSystem>> {
        let Some(name) = self.wish.sandbox.as_deref().filter(|_| self.token.is_some()) else {
            return Ok(None);
        };
        let mode = FileSystem::parse(name).ok_or_else(|| {
            let message = format!(
                "--sandbox {name}: an agent can give tasks only with shared_ro, isolated or shared_rw"
            );
            Failure::argument(message).with("flag", "--sandbox")
        });
        mode.map(Some)
    }

    /// The workspace that it is about.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `WORKSPACE_ROOT_NOT_FOUND`.
    pub(crate) fn workspace(&self) -> Result<Workspace> {
        self.context.workspace(self.wish.cwd.as_deref())
    }

    /// A connection for one conversation.
    ///
    /// # Errors
    /// Those of [`TaskSubmitter::workspace`].
    pub(crate) fn client(&self) -> Result<DaemonClient> {
        let client = DaemonClient::new(&self.context, &self.workspace()?);
        Ok(if self.token.is_some() { client.with_patience(PATIENCE) } else { client })
    }

    /// The same request in its name.
    pub(crate) fn named(&self, ask: ApiRequest) -> ApiRequest {
        ask.with_task_token(self.token())
    }

    /// The agents that it may call.
    ///
    /// # Errors
    /// The daemon's for an agent; those of [`TaskSubmitter::workspace`] and `INVALID_ARGUMENT` for a manager.
    pub(crate) async fn agents(&self) -> Result<Callable> {
        if self.token.is_some() {
            let answer = self.client()?.ask(&self.named(ApiRequest::get("/v1/tasks/agents"))).await?;
            let found: CallableAgents = read(answer)?;
            return Ok(Callable { agents: found.agents, worker: Some(found.worker_id.to_string()) });
        }
        let root = workspace::resolve_cwd(self.wish.cwd.as_deref(), &self.context.env)?;
        let root = self.workspace().map_or(root, |workspace| workspace.root);
        let given = given(self.wish.agents.as_deref())?;
        let catalog = Catalog::find(&given, &root, &self.context.env);
        let agents = catalog.callable().map(|definition| CallableAgent {
            name: definition.name.clone(),
            description: definition.description.clone(),
            background: definition.background,
        });
        Ok(Callable { agents: agents.collect(), worker: None })
    }

    /// Gives a task.
    ///
    /// # Errors
    /// The daemon's, and those of what it is run with.
    pub(crate) async fn run(&self, client: &mut DaemonClient, mut task: RunTask) -> Result<TaskView> {
        if self.token.is_none() {
            task.manager = Some(Box::new(self.place(client).await?));
        }
        client.ask_for(&self.change("/v1/tasks", &task)?).await
    }

    /// What begins a task or has one go on. It has no end of its own: however long the daemon is away until it is asked again,
    /// what it has done is not left unknown.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for what cannot be written.
    pub(crate) fn change(&self, path: impl Into<String>, change: &impl Serialize) -> Result<ApiRequest> {
        Ok(self.named(ApiRequest::change(path, change)?.within(None)))
    }

    /// What a task waits for until its turn begins, for a person; an agent sees nothing of it.
    pub(crate) fn starting(&self, task: &TaskView) -> Option<StartLine> {
        let wish = &self.wish;
        match task.status {
            _ if self.token.is_some() => None,
            TaskStatus::Queued => StartLine::queued(&self.context),
            TaskStatus::Spawning => {
                let (config, cwd) = (wish.config.as_deref(), wish.cwd.as_deref());
                StartLine::configured(&self.context, &task.launcher, config, cwd)
            }
            _ => None,
        }
    }

    /// Where a manager's task is run, as a worker that this process would start.
    ///
    /// # Errors
    /// Those of [`TaskSubmitter::workspace`], `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn place(&self, client: &mut DaemonClient) -> Result<TaskPlace> {
        let workspace = self.workspace()?;
        let cwd = start::cwd(self.wish.cwd.as_deref(), &self.context.env)?;
        let config = present_path(self.wish.config.clone());
        let loaded = self.context.config(config.as_deref(), self.wish.cwd.as_deref())?;
        let named = present(self.wish.controller_id.clone());
        let budget = of_config(&loaded.config.budgets.controller);
        controller::ensure(client, &workspace.state_dir, named.as_deref(), &workspace, budget).await?;
        let bytes = |text: &std::ffi::OsStr| Bytes64(text.as_bytes().to_vec());
        Ok(TaskPlace {
            choice: controller::choice(named.as_deref(), &workspace),
            workspace: workspace.root,
            cwd,
            user_config: loaded.user_file().map(Path::to_owned),
            config: loaded.loaded.then_some(loaded.path),
            sandbox: present(self.wish.sandbox.clone()),
            placement: present(self.wish.on.clone()),
            launcher: present(self.wish.launcher.clone()),
            agents: present(self.wish.agents.clone()),
            env: self.context.env.vars.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            umask: current_umask().bits(),
            nofile: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
        })
    }
}

/// Which agents may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callable {
    /// The agents, sorted by name.
    pub(crate) agents: Vec<CallableAgent>,
    /// The worker of the agent that calls.
    pub(crate) worker: Option<String>,
}
