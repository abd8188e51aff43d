//! The last steps of `placement check`: a daemon of its own starts a worker with the scripted agent as any
//! other worker, gives it a turn, reads its log and ends it. Must leave nothing, here and there, or say what.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use subagent_config::model::{Launcher, LauncherTimeouts};
use subagent_config::start::StartChoices;
use subagent_config::{Environment, LoadedConfig, Workspace, proc};
use subagent_protocol::api::{SendTurn, TurnAccepted, WorkerList, WorkerLogs, WorkerView};
use subagent_protocol::budget::Limits;
use subagent_protocol::clean::one_line;
use subagent_protocol::event::EventType;
use subagent_protocol::mcp::{McpServers, TASK_SERVER_PROGRAM};
use subagent_protocol::placement::ssh::{self, program_beside};
use subagent_protocol::placement::{Engine, Placement};
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, lenient};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::remote::{self, LocalRuntime, SHORT, command, over_ssh};
use super::steps::PassedStep;
use crate::client::{ApiRequest, DaemonClient, WaitStart, WorkerWait, block_on, segment};
use crate::commands::targets::selected::WorkerHead;
use crate::commands::waiting::end::FoundWorker;
use crate::commands::waiting::signals::{Interruptions, end_by, not_heard};
use crate::commands::worker::{self, start::WorkerStartRequest};
use crate::context::CliContext;
use crate::controller;
use crate::daemon;
use crate::failure::{Failure, Result};
use crate::output::{explained, write_stderr};

/// The launcher and the label of the worker.
const NAME: &str = "check";
/// What the agent says, and what it writes to its standard error.
const ANSWER: &str = "the agent answers";
const LOGGED: &str = "the agent logs";
/// Time limit of the start, which may wait for a place, and of the turn.
const START: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_secs(60);
/// Time within which the log has what the agent wrote.
const LOGGED_WITHIN: Duration = Duration::from_secs(5);
/// Time for which the end of a worker is asked for again.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// Time within which an interrupted start shows its worker, if there is one.
const BEGUN_WITHIN: Duration = Duration::from_secs(1);
/// The first pause between two looks. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Time after which an agent ends itself if this process was killed.
const IDLE: Duration = Duration::from_secs(60);
/// The longest path of the folder for temporary files. A socket below it is used in containers.
const LONGEST_TEMPORARY: usize = 40;
/// The detail of an error that names what was kept of the check.
const STATE_DIR: &str = "stateDir";

/// A daemon for one worker.
struct CheckDaemon {
    placement: Placement,
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
    if proc::is_below_guard() {
        let found = "not tried: a worker starts no daemon".to_owned();
        steps.push(PassedStep { step: "agent", found });
        return Ok(());
    }
    let folder = temporary_folder()?;
    let own = CheckDaemon::new(placement, context, folder.path());
    let ended = block_on(async {
        let (mut signals, mut came, mut begun) = (Interruptions::new()?, None, false);
        let worked = tokio::select! {
            worked = own.work(program, &mut begun, steps) => worked,
            signal = signals.next() => {
                (came, begun) = (Some(signal), true);
                Ok(())
            }
        };
        // Another signal leaves the rest to the daemon.
        let cleaned = tokio::select! {
            cleaned = own.clean_up(begun) => cleaned,
            signal = signals.next() => {
                came = Some(signal);
                Err(Failure::internal("the end of the check was interrupted"))
            }
        };
        let cleaned = match cleaned {
            Ok(workers) => Ok(own.discard_all((runtime, program), &workers).await),
            Err(failure) => Err(failure),
        };
        Ok((worked, cleaned, came))
    });
    let (worked, cleaned, came) = ended?;
    not_heard();
    let cleaned = match cleaned {
        Ok(discarded) => {
            drop(folder);
            discarded
        }
        Err(failure) => Err(left(failure, folder)),
    };
    if let Some(signal) = came {
        if let Err(failure) = &cleaned {
            write_stderr(&explained(failure));
        }
        end_by(signal);
    }
    match (worked, cleaned) {
        (Err(failure), Err(left)) => Err(both(failure, left)),
        (worked, cleaned) => {
            worked.and(cleaned)?;
            steps.push(PassedStep { step: "stop", found: "nothing is left".to_owned() });
            Ok(())
        }
    }
}

/// The error of a check that has failed and could not be cleaned up.
fn both(failure: Failure, left: Failure) -> Failure {
    let action = |failure: &Failure| failure.facts().recommended_action.0.map(str::to_owned);
    let actions: Vec<String> = [action(&failure), action(&left)].into_iter().flatten().collect();
    let state_dir = left.details.get(STATE_DIR).cloned().unwrap_or_default();
    failure.with("left", left.message).with(STATE_DIR, state_dir).recommend(actions.join("; "))
}

fn temporary_folder() -> Result<TempDir> {
    let usual = std::env::temp_dir();
    let short = usual.as_os_str().len() <= LONGEST_TEMPORARY;
    let parent = if short { usual.as_path() } else { Path::new("/tmp") };
    tempfile::Builder::new()
        .prefix("subagent-check-")
        .tempdir_in(parent)
        .map_err(|error| Failure::new(Code::StorageError, format!("a folder for the check: {error}")))
}

/// The error for a worker that could not be ended. Its daemon goes on.
fn left(failure: Failure, folder: TempDir) -> Failure {
    let state_dir = folder.keep().join("state").display().to_string();
    let own = format!("SUBAGENT_STATE_DIR={}", shell_words::quote(&state_dir));
    let action = format!(
        "the daemon of the check goes on with it: `{own} subagent ls` shows the worker, and `{own} subagentd stop --workers` ends both"
    );
    failure.with(STATE_DIR, state_dir).recommend(action)
}

impl CheckDaemon {
    fn new(placement: &Placement, context: &CliContext, folder: &Path) -> Self {
        // It has no part of the caller's workspace, such as the handle of its owner.
        let is_own = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b"SUBAGENT_");
        let variables = std::env::vars_os().filter(|(name, _)| !is_own(name));
        let env = Environment::new(variables, folder).or_home(|| context.env.home.clone());
        let state_dir = folder.join("state");
        let db_path = state_dir.join("state.db");
        Self {
            placement: placement.clone(),
            workspace: Workspace { root: folder.to_owned(), state_dir, db_path, there: None },
            context: CliContext { env, host: None, ..context.clone() },
        }
    }

    fn client(&self) -> DaemonClient {
        DaemonClient::starting(&self.context, &self.workspace)
    }

    /// Starts the worker, gives it a turn, and reads its log. `begun` says whether there may be a worker.
    async fn work(&self, program: &str, begun: &mut bool, steps: &mut Vec<PassedStep>) -> Result<()> {
        let (client, workspace) = (&mut self.client(), &self.workspace);
        controller::ensure(client, &workspace.state_dir, None, workspace, Limits::default()).await?;
        let config = self.config(program);
        let prepared =
            worker::start::prepare(client, self.request(), &config, workspace, &self.context).await?;
        *begun = true;
        let started = match prepared.start(client).await {
            Err(failure) => return Err(self.waiting(client).await.unwrap_or(failure)),
            started => started?,
        };
        let worker = WorkerHead::of(&started).worker_id.unwrap_or_default().to_owned();
        let path = format!("/v1/workers/{}", segment(&worker));
        self.turn(client, &worker, &path).await?;
        steps.push(PassedStep { step: "agent", found: ANSWER.to_owned() });
        // It is another stream than the messages of the agent.
        let (asked, mut pause) = (Instant::now(), FIRST_PAUSE);
        let log = loop {
            let log: WorkerLogs = client.ask_for(&ApiRequest::get(format!("{path}/logs"))).await?;
            if log.text.contains(LOGGED) {
                break log;
            }
            if asked.elapsed() > LOGGED_WITHIN {
                return Err(Failure::internal(format!("the log of the agent is `{}`", one_line(&log.text))));
            }
            sleep(pause).await;
            pause *= 2;
        };
        steps.push(PassedStep { step: "log", found: format!("{} bytes", log.text.len()) });
        Ok(())
    }

    /// Ends everything, and returns the workers that there were. `begun`: whether there may be one.
    async fn clean_up(&self, begun: bool) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        if begun {
            // An interrupted start may leave a daemon that cannot be stopped before it answers.
            let client = &mut self.client();
            let (asked, mut pause) = (Instant::now(), FIRST_PAUSE);
            loop {
                let list: WorkerList = client.ask_for(&ApiRequest::get("/v1/workers")).await?;
                let is_open = |worker: &&WorkerView| worker.state != WorkerState::Stopped;
                let open = list.items.iter().find(is_open).map(|worker| worker.worker_id.clone());
                ended = list.items.into_iter().map(|worker| worker.worker_id.to_string()).collect();
                match open {
                    Some(worker) => match worker::stop::stop(client, worker.as_str()).await {
                        Err(failure)
                            if failure.is(Code::StopIncomplete) && asked.elapsed() < STOPPED_WITHIN => {}
                        stopped => drop(stopped?),
                    },
                    // What an interrupted command has asked for may come late.
                    None if !ended.is_empty() || asked.elapsed() > BEGUN_WITHIN => break,
                    None => {
                        sleep(pause).await;
                        pause *= 2;
                    }
                }
            }
        }
        let _ = daemon::stopped(false, None, self.workspace.state_dir.clone()).await?;
        Ok(ended)
    }

    /// Removes the files of workers. What fails is named with its worker.
    async fn discard_all(&self, (runtime, program): (&LocalRuntime, &str), workers: &[String]) -> Result<()> {
        for worker in workers {
            self.discard((runtime, program), worker).await.map_err(|mut failure| {
                let what = format!("the files of the worker {worker} of the check were not removed");
                failure.message = format!("{what}: {}", failure.message);
                failure
            })?;
        }
        Ok(())
    }

    /// Removes what a worker has left on a file system that outlives its place.
    async fn discard(&self, (runtime, program): (&LocalRuntime, &str), worker: &str) -> Result<()> {
        let mut command = match &self.placement.engine {
            Engine::Ssh(host) => over_ssh(host, &ssh::line(program, &["discard", worker], false)),
            Engine::Slurm(cluster) => {
                let words = ["discard", worker, &cluster.folder].map(str::to_owned);
                command(&runtime.own.path.display().to_string(), words.into())
            }
            Engine::Podman(_) | Engine::Kubernetes(_) | Engine::Command(_) | Engine::Loopback => {
                return Ok(());
            }
        };
        // Ctrl-C is for this process.
        command.process_group(0);
        let printed = remote::run(&self.placement, command, None, SHORT).await?;
        if printed.code == 0 { Ok(()) } else { Err(printed.failure(&self.placement, program)) }
    }

    /// Gives the worker a turn, and waits for its end.
    async fn turn(&self, client: &mut DaemonClient, worker: &str, path: &str) -> Result<()> {
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
        let accepted: TurnAccepted =
            client.ask_for(&ApiRequest::change(format!("{path}/turns"), &turn)?).await?;
        let waiting = WorkerWait {
            worker_id: worker.to_owned(),
            until: None,
            cursor: WaitStart::After(accepted.accepted_event_id.to_string()),
            timeout: TURN.as_secs_f64(),
            no_progress: 0.0,
            collect_turn: Some(accepted.turn_id),
            only_turn: None,
        };
        let waited = match client.wait(waiting).await {
            Err(failure) if failure.is(Code::WaitTimeout) => return Err(self.late(client, path).await?),
            waited => waited?,
        };
        /// The text of the turn of a wait.
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct CollectedText<'a> {
            assistant_text: Option<&'a str>,
        }
        let is_completed = FoundWorker::of(&waited).event().event_type() == Some(EventType::TurnCompleted);
        let text = lenient::read::<CollectedText<'_>>(&waited).assistant_text;
        match is_completed && text == Some(ANSWER) {
            true => Ok(()),
            false => {
                Err(Failure::new(Code::BackendRuntimeError, "the turn of the scripted agent has failed")
                    .with("waited", waited))
            }
        }
    }

    /// The error for a worker that waits for its place.
    async fn waiting(&self, client: &mut DaemonClient) -> Option<Failure> {
        let list: WorkerList = client.ask_for(&ApiRequest::get("/v1/workers")).await.ok()?;
        let worker = list.items.into_iter().find(|worker| worker.pending.is_some())?;
        Some(self.late_because(worker))
    }

    /// The error for a turn that has not ended in time.
    async fn late(&self, client: &mut DaemonClient, path: &str) -> Result<Failure> {
        let worker: WorkerView = client.ask_for(&ApiRequest::get(path.to_owned())).await?;
        Ok(self.late_because(worker))
    }

    fn late_because(&self, worker: WorkerView) -> Failure {
        let why = match (worker.pending, worker.unreachable) {
            (Some(pending), _) => format!("it waits for its place ({})", one_line(&pending.reason)),
            (None, Some(_)) => "its place does not answer".to_owned(),
            (None, None) => format!("it is {}", worker.state.as_str()),
        };
        let name = &self.placement.name;
        let message = format!("the worker of the check has not answered in time: {why}");
        Failure::new(Code::PlacementUnreachable, message)
            .with("placement", name.as_str())
            .recommend(format!("correct the placement, then run `subagent placement check {name}`"))
    }

    fn config(&self, program: &str) -> LoadedConfig {
        let mut loaded = LoadedConfig::built_in(&self.context.env);
        let agent = program_beside(program, TASK_SERVER_PROGRAM);
        let launcher = Launcher {
            args: vec!["demo-agent".to_owned()],
            idle_timeout: Some(IDLE),
            timeouts: LauncherTimeouts { startup: START, ..LauncherTimeouts::default() },
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
