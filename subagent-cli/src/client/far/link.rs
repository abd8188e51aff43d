//! The host of a command: its workspace there, and connections with its daemon.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_config::Workspace;
use subagent_config::workspace::StateThere;
use subagent_protocol::Code;
use subagent_protocol::api::{DaemonInfo, StateFolder};
use subagent_protocol::hosts::{DaemonHost, DialFailure, DialPolicy, DialRequest};
use subagent_protocol::time::Timestamp;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::answered;
use super::dial::{DialedHost, dial};
use super::process::SshProcess;
use crate::client::StartPolicy;
use crate::client::connect::{DaemonConnection, over, understood};
use crate::client::losses::RetryBudget;
use crate::client::starting::lock::on_thread;
use crate::failure::{Failure, Result};

/// Time for a connection, the start of a daemon there included.
const DIAL_LIMIT: Duration = Duration::from_secs(40);
/// Time for a connection of a board.
const BOARD_LIMIT: Duration = Duration::from_secs(10);
/// Pause before the second attempt; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// What a host says while a daemon is moved to it: its folders or programs are not there yet, or it
/// does not run.
const AWAY: [Code; 5] = [
    Code::HostNotPrepared,
    Code::InvalidArgument,
    Code::DaemonNotRunning,
    Code::DaemonStartFailed,
    Code::DaemonUnresponsive,
];
/// Time of the thread of an attempt after the deadline of the attempt.
const SLACK: Duration = Duration::from_secs(2);

/// The host that a command uses.
#[derive(Debug)]
pub(crate) struct HostLink {
    host: DaemonHost,
    limit: Duration,
    /// Whether a lost connection is dialed again.
    redials: bool,
    /// Whether the search for the workspace starts its daemon.
    policy: DialPolicy,
    /// The file with the time of its last answer.
    answered: Option<PathBuf>,
    /// The conversation that found the workspace. The first client takes it.
    found: Mutex<Option<FoundWorkspace>>,
}

/// A conversation that found a workspace.
#[derive(Debug)]
struct FoundWorkspace {
    /// The folder there for which it was asked; `None` is the one of the config file, or the home.
    cwd: Option<String>,
    dialed: DialedHost,
}

impl FoundWorkspace {
    /// Whether it has the answer to this request. A workspace that is not in use may be by now.
    fn serves(&self, request: &DialRequest) -> bool {
        self.cwd == request.cwd && self.dialed.reply.daemon.is_some()
    }
}

impl HostLink {
    /// Creates a link that is not connected.
    #[must_use]
    pub(crate) fn new(host: DaemonHost, home: Option<&Path>) -> Self {
        let answered = answered::path(home, &host.name);
        Self {
            host,
            limit: DIAL_LIMIT,
            redials: true,
            policy: DialPolicy::IfUsed,
            answered,
            found: Mutex::new(None),
        }
    }

    /// Sets the maximum time for a connection.
    #[must_use]
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Starts no daemon for the search of the workspace.
    #[must_use]
    pub(crate) fn only_running(self) -> Self {
        Self { policy: DialPolicy::Running, ..self }
    }

    /// Returns another link with the host for a board, which shows at once that it does not answer
    /// and dials again itself.
    #[must_use]
    pub(crate) fn for_board(&self) -> Self {
        Self {
            host: self.host.clone(),
            limit: BOARD_LIMIT,
            redials: false,
            policy: self.policy,
            answered: self.answered.clone(),
            found: Mutex::new(None),
        }
    }

    /// What the config file has of it.
    #[must_use]
    pub(crate) fn host(&self) -> &DaemonHost {
        &self.host
    }

    /// Returns the command of a shell here that runs this command of a shell there.
    #[must_use]
    pub(crate) fn command_there(&self, command: &str) -> String {
        let args = self.host.remote.args.iter().map(String::as_str);
        let words = ["ssh"].into_iter().chain(args).chain(["-t", "--", &self.host.remote.host, command]);
        shell_words::join(words)
    }

    /// The name in the config file.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.host.name
    }

    /// Returns when the host last answered; `None` if that is not known.
    #[must_use]
    pub(crate) fn last_answered(&self) -> Option<Timestamp> {
        answered::read(self.answered.as_deref()?, &self.host.remote.host)
    }

    /// Returns the workspace of a command with this `--cwd`, a path there. If the workspace is in use, its daemon
    /// is started, unless this link is for running ones only.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`, and those of the workspace and the daemon there.
    pub(crate) fn workspace(&self, typed_cwd: Option<&Path>) -> Result<Workspace> {
        let typed = typed_cwd.filter(|path| !path.as_os_str().is_empty());
        let cwd = typed.map(|path| path.to_string_lossy().into_owned()).or_else(|| self.host.cwd.clone());
        // A command may ask more than once before its first client.
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let request = DialRequest { cwd, policy: self.policy, after: None };
        let FoundWorkspace { cwd, mut dialed } = match found.filter(|found| found.serves(&request)) {
            Some(found) => found,
            None => {
                let dialed = dial(&self.host, &request, self.limit)?;
                self.note();
                FoundWorkspace { cwd: request.cwd, dialed }
            }
        };
        let Some(there) = dialed.reply.workspace.clone() else {
            let error = dialed.reply.error.take();
            return Err(self.of_there(error.unwrap_or_else(|| self.foreign())));
        };
        let workspace = Workspace {
            db_path: there.state_dir.join("state.db"),
            state_dir: there.state_dir,
            root: there.root,
            there: Some(StateThere { is_used: there.has_state, controller_id: there.controller_id }),
        };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(FoundWorkspace { cwd, dialed });
        Ok(workspace)
    }

    /// Connects with the daemon of the workspace there, for another client that speaks HTTP. The last
    /// value carries the bytes, and ends the connection when it is dropped.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`, and those of the daemon there.
    pub(crate) async fn bytes_of(
        self: &Arc<Self>,
        root: &Path,
    ) -> Result<(UnixStream, Option<StateFolder>, impl Send + use<>)> {
        let cwd = Some(root.to_string_lossy().into_owned());
        let FarBytes { stream, folder, ssh, .. } =
            self.bytes(DialRequest { cwd, policy: self.policy, after: None }).await?;
        Ok((stream, folder, ssh))
    }

    /// Connects with the daemon of this workspace there.
    async fn connect(self: &Arc<Self>, request: DialRequest) -> Result<DaemonConnection> {
        let FarBytes { stream, info, folder, ssh } = self.bytes(request).await?;
        Ok(DaemonConnection { folder, ssh: Some(ssh), ..over(stream, info).await? })
    }

    async fn bytes(self: &Arc<Self>, request: DialRequest) -> Result<FarBytes> {
        let link = Arc::clone(self);
        let limit = self.limit;
        let dialing = on_thread(Instant::now() + limit + SLACK, move || Ok(link.dialed(&request, limit)));
        let failed = |error: std::io::Error| {
            Failure::from(DialFailure::NoClient(&error.to_string()).error(&self.host))
        };
        let silent = || Err(DialFailure::TimedOut(b"").error(&self.host).into());
        let dialed = dialing.await.map_err(failed)?.unwrap_or_else(silent)?;
        self.note();
        let (stream, ssh, reply) = dialed.into_stream().map_err(failed)?;
        let Some(info) = reply.daemon else {
            let is_unused = reply.workspace.is_some_and(|there| !there.has_state);
            let none = || if is_unused { self.without_state() } else { self.foreign() };
            return Err(self.of_there(reply.error.unwrap_or_else(none)));
        };
        understood(&info).map_err(|failure| {
            let advice = "install the same version on both machines, and restart the daemon there";
            self.of_there(failure).recommend(advice)
        })?;
        let stream = UnixStream::from_std(stream).map_err(failed)?;
        Ok(FarBytes { stream, info, folder: reply.state_folder, ssh })
    }

    /// Uses the conversation that found the workspace, or another one.
    fn dialed(&self, request: &DialRequest, limit: Duration) -> Result<DialedHost> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = found.map(|found| found.dialed);
        let root = |found: &DialedHost| {
            found.reply.workspace.as_ref().map(|there| there.root.to_string_lossy().into_owned())
        };
        if let Some(found) = found.filter(|found| root(found) == request.cwd) {
            if found.reply.daemon.is_some() && request.after.is_none() {
                return Ok(found);
            }
            if found.reply.daemon.is_none()
                && let Ok(dialed) = found.ask(request, limit)
            {
                return Ok(dialed);
            }
        }
        dial(&self.host, request, limit)
    }

    /// Says in an error of the daemon there where it is.
    fn of_there(&self, failure: Failure) -> Failure {
        failure.with("host", self.name())
    }

    /// Returns the error for a daemon there that does not answer.
    pub(in crate::client) fn unresponsive(&self, what: &str) -> Failure {
        let message = format!("the daemon on the host `{}` does not answer: {what}", self.name());
        self.of_there(Failure::new(Code::DaemonUnresponsive, message)).retryable().recommend(format!(
            "see with `ssh {}` whether `subagent daemon status` answers there",
            self.host.remote.host
        ))
    }

    /// Returns the error for a workspace there that was in use, and has no state now.
    fn without_state(&self) -> Failure {
        let message = format!("the workspace on the host `{}` has no state any more", self.name());
        Failure::new(Code::DaemonNotRunning, message)
            .retryable()
            .recommend("see there whether the folder of the workspace is mounted")
    }

    fn foreign(&self) -> Failure {
        DialFailure::Foreign(b"").error(&self.host).into()
    }

    fn note(&self) {
        if let Some(path) = &self.answered {
            answered::note(path, &self.host.remote.host);
        }
    }
}

/// A connection with a daemon there, before the first request.
struct FarBytes {
    stream: UnixStream,
    info: DaemonInfo,
    folder: Option<StateFolder>,
    ssh: SshProcess,
}

/// How to find a daemon on another host.
#[derive(Debug, Clone)]
pub(in crate::client) struct FarLocator {
    pub(in crate::client) link: Arc<HostLink>,
    /// The folder of the workspace there.
    pub(in crate::client) root: PathBuf,
    /// Generation of a daemon that said that it is ending.
    pub(in crate::client) after: Option<u64>,
}

impl FarLocator {
    /// Connects with the daemon. A lost connection is dialed again for a while. That of a wait also while
    /// the daemon is moved: the host may answer before its folders are there and the daemon runs.
    ///
    /// # Errors
    /// `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`, and those of the daemon there.
    pub(in crate::client) async fn connect(
        &self,
        start: StartPolicy,
        losses: &RetryBudget,
    ) -> Result<DaemonConnection> {
        let policy = match start {
            StartPolicy::Start if losses.none() => DialPolicy::Start,
            // Where the state is not mounted, another daemon would begin a new one.
            StartPolicy::Start => DialPolicy::IfUsed,
            StartPolicy::Refuse | StartPolicy::OnlyRunning => DialPolicy::Running,
        };
        let cwd = Some(self.root.to_string_lossy().into_owned());
        let request = DialRequest { cwd, policy, after: self.after };
        let begun = Instant::now();
        let is_away = |failure: &Failure| {
            failure.is(Code::HostUnreachable)
                || (losses.is_wait_cut() && AWAY.into_iter().any(|code| failure.is(code)))
        };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.link.connect(request.clone()).await {
                Err(failure) if is_away(&failure) => {
                    let reason = failure.details.get("reason").and_then(serde_json::Value::as_str);
                    let refuses = matches!(reason, Some("login" | "hostKey"));
                    if !self.link.redials || begun.elapsed() + pause >= losses.redial_limit(refuses) {
                        return Err(failure);
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                connected => return connected,
            }
        }
    }
}
