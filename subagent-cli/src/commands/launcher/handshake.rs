//! What the commands that ask an agent without a worker have in common: whom they ask, and what its answer means.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};
use subagent_config::start::launcher::runnable;
use subagent_config::{Config, ResolvedLauncher, Workspace, handshakes, launcher, model, workspace};
use subagent_protocol::Code;
use subagent_protocol::ask::{AgentQueryResult, AgentQuestion, PhaseTime};
use subagent_protocol::details::AuthStatus;
use subagent_protocol::handshake::Handshake;
use subagent_protocol::time::Timestamp;

use crate::ask::{AgentFolder, Patience, ask};
use crate::context::{CliContext, present_path};
use crate::failure::{Failure, Result};

/// The agent of a launcher, ready to be asked.
pub(crate) struct LauncherAgent<'a> {
    pub(crate) name: &'a str,
    pub(crate) launcher: &'a model::Launcher,
    pub(crate) resolved: ResolvedLauncher,
    context: &'a CliContext,
    /// Where it is started when nothing else is said.
    cwd: PathBuf,
}

impl<'a> LauncherAgent<'a> {
    /// The launcher of this name, if it can be started here.
    ///
    /// # Errors
    /// `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`, `INVALID_ARGUMENT`.
    pub(crate) fn of(
        config: &'a Config,
        name: &'a str,
        cwd: Option<&Path>,
        context: &'a CliContext,
    ) -> Result<Self> {
        let found = config.launcher(name)?;
        let cwd = workspace::resolve_cwd(present_path(cwd.map(Path::to_owned)).as_deref(), &context.env)?;
        let (launcher, resolved) = runnable((found, launcher::resolve(name, found, &cwd, &context.env)))?;
        Ok(Self { name, launcher, resolved, context, cwd })
    }

    /// Asks it; what the agent refused is an error.
    ///
    /// # Errors
    /// Those of the agent, and those of asking.
    pub(crate) fn ask(&self, question: AgentQuestion, patience: Patience) -> Result<AgentQueryResult> {
        let answer = self.ask_in(AgentFolder::Folder(self.cwd.clone()), question, patience)?;
        match answer.error {
            Some(_) => Err(self.failure(answer)),
            None => Ok(answer),
        }
    }

    /// Asks it in a place; its refusal is part of the answer.
    ///
    /// # Errors
    /// Those of asking.
    pub(crate) fn ask_in(
        &self,
        place: AgentFolder,
        question: AgentQuestion,
        patience: Patience,
    ) -> Result<AgentQueryResult> {
        ask(self.context, (self.launcher, &self.resolved), place, question, patience)
    }

    /// The folder that was named.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// What the agent refused, with what to do about it.
    pub(crate) fn failure(&self, answer: AgentQueryResult) -> Failure {
        let phases = json!(answer.phases);
        let failure = match answer.error {
            Some(error) => Failure::from(error),
            None => Failure::internal("the agent has refused nothing"),
        };
        self.advised(failure.with("launcher", self.name).with("phases", phases))
    }

    fn advised(&self, failure: Failure) -> Failure {
        let login = format!("subagent launcher login {}", shell_words::quote(self.name));
        match failure.is(Code::AuthRequired) {
            true => failure
                .with("recommendedCommand", login)
                .recommend("Log in first, or put the agent's API key into the launcher's env."),
            false => failure,
        }
    }

    /// What the agent said of itself, for people and programs, without the raw answers.
    pub(crate) fn report(&self, answer: &AgentQueryResult) -> AgentReport {
        let initialize = answer.initialize.as_ref().unwrap_or(&Value::Null);
        let logged_out = answer.auth_status.as_ref().is_some_and(AuthStatus::is_logged_out);
        AgentReport {
            handshake: Handshake::of(initialize, answer.session.as_ref()),
            at: now(),
            phases: answer.phases.clone(),
            // Some agents open a session without a login, and report the missing login beside it.
            login_wanted: answer.error.is_none() && logged_out,
            error: answer.error.clone().map(|error| {
                let Failure { code, message, details, .. } = self.advised(Failure::from(error));
                AgentRefusal { code, message, details }
            }),
        }
    }

    /// Forgets what it said of itself.
    pub(crate) fn forget(&self) {
        if let Some(workspace) = workspace_of(self.context) {
            handshakes::forget(&workspace.state_dir, self.name);
        }
    }
}

/// What an agent said of itself, and how it was asked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentReport {
    #[serde(flatten)]
    pub(crate) handshake: Handshake,
    pub(crate) at: Timestamp,
    pub(crate) phases: Vec<PhaseTime>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) login_wanted: bool,
    /// What it refused, with what to do about it.
    pub(crate) error: Option<AgentRefusal>,
}

#[derive(Debug, Serialize)]
pub(crate) struct AgentRefusal {
    pub(crate) code: Box<str>,
    pub(crate) message: String,
    pub(crate) details: Map<String, Value>,
}

impl AgentReport {
    /// Whether the agent opened a session and does not ask for a login.
    pub(crate) fn is_ready(&self) -> bool {
        self.error.is_none() && !self.login_wanted
    }
}

/// The workspace in which notes are kept; none where there is no workspace.
pub(crate) fn workspace_of(context: &CliContext) -> Option<Workspace> {
    context.workspace(None).ok()
}

/// What is noted about a launcher, or null.
pub(crate) fn noted(workspace: Option<&Workspace>, name: &str, launcher: &model::Launcher) -> Value {
    let note = workspace.and_then(|workspace| handshakes::read(&workspace.state_dir, name, launcher));
    note.unwrap_or(Value::Null)
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
