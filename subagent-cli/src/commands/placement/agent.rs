//! The last steps of `placement check`: a daemon of its own starts a worker with the scripted agent as any
//! other worker, gives it a turn, reads its log and ends it. Must leave nothing, here and there.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_config::model::Launcher;
use subagent_config::start::StartChoices;
use subagent_config::{Environment, LoadedConfig, Workspace};
use subagent_protocol::api::{SendTurn, TurnAccepted, WorkerList, WorkerLogs};
use subagent_protocol::budget::Limits;
use subagent_protocol::event::EventType;
use subagent_protocol::mcp::{McpServers, TASK_SERVER_PROGRAM};
use subagent_protocol::placement::ssh::{self, program_beside};
use subagent_protocol::placement::{Engine, Placement};
use subagent_protocol::{Code, lenient};

use super::remote::{self, LocalRuntime, SHORT, command, over_ssh};
use super::steps::PassedStep;
use crate::client::{ApiRequest, DaemonClient, WaitStart, WorkerWait, block_on, segment};
use crate::commands::targets::selected::WorkerHead;
use crate::commands::waiting::end::FoundWorker;
use crate::commands::waiting::signals::{Interruptions, end_by};
use crate::commands::worker::{self, start::WorkerStartRequest};
use crate::context::CliContext;
use crate::controller;
use crate::daemon;
use crate::failure::{Failure, Result};

/// The launcher and the label of the worker.
const NAME: &str = "check";
/// What the agent says, and what it writes to its standard error.
const ANSWER: &str = "the agent answers";
const LOGGED: &str = "the agent logs";
/// Time limit of the turn.
const TURN: Duration = Duration::from_secs(60);

/// How the worker of a check has ended.
enum CheckEnd {
    Worked(Result<()>),
    Interrupted(Signal),
}

/// A daemon for one worker.
struct CheckDaemon<'a> {
    placement: &'a Placement,
    context: CliContext,
    workspace: Workspace,
}

/// Runs the worker of a check. `program` is the runtime there.
///
/// # Errors
/// Those of a start, a turn and a stop.
pub(super) fn checked(
    placement: &Placement,
    (runtime, program): (&LocalRuntime, &str),
    context: &CliContext,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("subagent-check-")
        .tempdir()
        .map_err(|error| Failure::new(Code::StorageError, format!("a folder for the check: {error}")))?;
    let own = CheckDaemon::new(placement, context, folder.path());
    let worked = block_on(async {
        let mut signals = Interruptions::new()?;
        let end = tokio::select! {
            worked = own.work(program, steps) => CheckEnd::Worked(worked),
            signal = signals.next() => CheckEnd::Interrupted(signal),
        };
        Ok((end, own.workers().await))
    });
    let stopped = daemon::stop(true, None, own.workspace.state_dir.clone());
    if let Err(failure) = stopped {
        // The daemon goes on with what it could not end.
        let state_dir = folder.keep().join("state").display().to_string();
        let action =
            format!("run `SUBAGENT_STATE_DIR={state_dir} subagentd stop --workers` until it succeeds");
        return Err(failure.with("stateDir", state_dir).recommend(action));
    }
    let (end, workers) = worked?;
    for worker in workers {
        discard(placement, (runtime, program), &worker)?;
    }
    match end {
        CheckEnd::Worked(worked) => worked?,
        CheckEnd::Interrupted(signal) => {
            drop(folder);
            end_by(signal)
        }
    }
    steps.push(PassedStep { step: "stop", found: "nothing is left".to_owned() });
    Ok(())
}

impl<'a> CheckDaemon<'a> {
    fn new(placement: &'a Placement, context: &CliContext, folder: &Path) -> Self {
        // It has no part of the caller's workspace, such as the handle of its owner.
        let own = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b"SUBAGENT_");
        let variables = std::env::vars_os().filter(|(name, _)| !own(name));
        let env = Environment::new(variables, context.env.cwd.clone()).or_home(|| context.env.home.clone());
        let state_dir = folder.join("state");
        let db_path = state_dir.join("state.db");
        let workspace = Workspace { root: env.cwd.clone(), state_dir, db_path, there: None };
        Self { placement, context: CliContext { env, host: None, ..context.clone() }, workspace }
    }

    /// Returns the ids of the workers that were begun.
    async fn workers(&self) -> Vec<String> {
        // An interrupted start may leave a daemon that cannot be stopped before it answers.
        let mut client = DaemonClient::starting(&self.context, &self.workspace);
        let list: Result<WorkerList> = client.ask_for(&ApiRequest::get("/v1/workers")).await;
        let items = list.map(|list| list.items).unwrap_or_default();
        items.into_iter().map(|worker| worker.worker_id.to_string()).collect()
    }

    /// Starts the worker, gives it a turn, and reads its log.
    async fn work(&self, program: &str, steps: &mut Vec<PassedStep>) -> Result<()> {
        let client = &mut DaemonClient::starting(&self.context, &self.workspace);
        let config = self.config(program);
        controller::ensure(client, &self.workspace.state_dir, None, &self.workspace, Limits::default())
            .await?;
        let prepared =
            worker::start::prepare(client, self.request(), &config, &self.workspace, &self.context).await?;
        let started = prepared.start(client).await?;
        let worker = WorkerHead::of(&started).worker_id.unwrap_or_default().to_owned();
        let path = format!("/v1/workers/{}", segment(&worker));
        turn(client, &worker, &path).await?;
        steps.push(PassedStep { step: "agent", found: ANSWER.to_owned() });
        let log: WorkerLogs = client.ask_for(&ApiRequest::get(format!("{path}/logs"))).await?;
        if !log.text.contains(LOGGED) {
            return Err(Failure::internal(format!("the log of the agent is `{}`", log.text)));
        }
        steps.push(PassedStep { step: "log", found: format!("{} bytes", log.text.len()) });
        // The stop of the daemon tries it again.
        worker::stop::stop(client, &worker).await.map(drop)
    }

    fn config(&self, program: &str) -> LoadedConfig {
        let mut loaded = LoadedConfig::built_in(&self.context.env);
        let agent = program_beside(program, TASK_SERVER_PROGRAM);
        let launcher = Launcher {
            args: vec!["demo-agent".to_owned()],
            ..Launcher::new(shell_words::quote(&agent).into_owned())
        };
        loaded.config.launchers.insert(NAME.to_owned(), launcher);
        loaded.config.placements.insert(self.placement.name.clone(), self.placement.clone());
        loaded
    }

    fn request(&self) -> WorkerStartRequest {
        let start = StartChoices {
            launcher: Some(NAME.to_owned()),
            label: NAME.to_owned(),
            placement: Some(self.placement.name.clone()),
            ..StartChoices::default()
        };
        WorkerStartRequest { cwd: None, controller_id: None, start }
    }
}

/// Gives the worker a turn, and waits for its end.
async fn turn(client: &mut DaemonClient, worker: &str, path: &str) -> Result<()> {
    let turn = SendTurn {
        text: format!("!stderr {LOGGED}\n!say {ANSWER}"),
        blocks: Vec::new(),
        attachments: Vec::new(),
        simulate: None,
        if_busy: None,
        agent: None,
        env: None,
        mcp_servers: McpServers::default(),
    };
    let accepted: TurnAccepted = client.ask_for(&ApiRequest::change(format!("{path}/turns"), &turn)?).await?;
    let waited = client
        .wait(WorkerWait {
            worker_id: worker.to_owned(),
            until: None,
            cursor: WaitStart::After(accepted.accepted_event_id.to_string()),
            timeout: TURN.as_secs_f64(),
            no_progress: 0.0,
            collect_turn: Some(accepted.turn_id),
            only_turn: None,
        })
        .await?;
    let event = FoundWorker::of(&waited).event();
    let text = lenient::read::<CollectedText<'_>>(&waited).assistant_text.unwrap_or_default();
    match event.event_type() == Some(EventType::TurnCompleted) && text == ANSWER {
        true => Ok(()),
        false => Err(Failure::internal(format!("the scripted agent has not answered: {waited}"))),
    }
}

/// The text of the turn of a wait.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CollectedText<'a> {
    assistant_text: Option<&'a str>,
}

/// Removes what the worker has left on a file system that outlives its place.
fn discard(placement: &Placement, (runtime, program): (&LocalRuntime, &str), worker: &str) -> Result<()> {
    let command = match &placement.engine {
        Engine::Ssh(host) => over_ssh(host, &ssh::line(program, &["discard", worker], false)),
        Engine::Slurm(cluster) => {
            let words = ["discard", worker, &cluster.folder].map(str::to_owned);
            command(&runtime.own.path.display().to_string(), words.into())
        }
        Engine::Podman(_) | Engine::Kubernetes(_) | Engine::Command(_) | Engine::Loopback => return Ok(()),
    };
    let printed = block_on(remote::run(placement, command, None, SHORT))?;
    if printed.code == 0 { Ok(()) } else { Err(printed.failure(placement, program)) }
}
