//! The commands that bring `subagent-runtime` to the place of a worker: on this machine, by ssh, in a
//! container, in a job, in a pod or by commands of the user. Must not put anything of a start on a command line.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::{getegid, geteuid};
use sha2::{Digest as _, Sha256};
use subagent_config::environment::passes_on;
use subagent_protocol::ids::{WorkerId, hex};
use subagent_protocol::placement::client::{ClientFailure, cleaned, is_of_client};
use subagent_protocol::placement::engine::{ClientCommand, NamedPlace, PlaceQueue, place_name, place_prefix};
use subagent_protocol::placement::kubernetes;
use subagent_protocol::placement::podman::{self, ContainerEngine, ContainerRun};
use subagent_protocol::placement::slurm::{self, RELAY};
use subagent_protocol::placement::ssh;
use subagent_protocol::placement::{Engine, PLACED_THERE, Placement};
use subagent_protocol::{Code, Error, Result};
use tokio::process::Command;
use tokio::sync::OwnedSemaphorePermit;

use super::asked;
use super::stray_processes::FormerClients;
use super::stream::turns::DialTurn;
use crate::supervisor::entropy;
use crate::supervisor::shared::DaemonSettings;

/// The variable of the daemon that the command gets, beside those that every process gets.
const PASSED_ON: &str = "SUBAGENT_LOG";
/// Time limit of the removal of a worker's files there.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(super) struct Carrier {
    placement: Placement,
    /// The runtime of this installation.
    runtime: PathBuf,
    /// The folder of the workers that are placed on this machine or share a folder with it. For a pod or
    /// a place behind commands, it has only what this daemon has asked for.
    root: PathBuf,
    /// The part of the names of containers, jobs and pods that no other state dir has.
    state: String,
    /// The file of [`Self::token`].
    token: PathBuf,
    turn: DialTurn,
    former_clients: FormerClients,
}

/// Returns a word that no other state dir has, for names at other places.
pub(crate) fn state_name(setup: &DaemonSettings) -> String {
    hex(&Sha256::digest(setup.state_dir.as_os_str().as_bytes())[..4])
}

impl Carrier {
    pub(super) fn of(placement: &Placement, setup: &DaemonSettings, worker: &WorkerId) -> Self {
        Self {
            placement: placement.clone(),
            runtime: setup.runtime_program.clone(),
            root: match &placement.engine {
                Engine::Kubernetes(_) | Engine::Command(_) => placed_root(&setup.state_dir),
                _ => root_of(placement, setup),
            },
            state: state_name(setup),
            token: setup.runtime_dir.container_token(worker.as_str()),
            turn: setup.dial_turns.at(&placement.name),
            former_clients: setup.former_clients.clone(),
        }
    }

    /// The turn of the connections to the worker's runtime.
    pub(super) fn turn(&self) -> &DialTurn {
        &self.turn
    }

    /// The name of the container, job or pod of a runtime.
    pub(super) fn place_name(&self, worker: &WorkerId, incarnation: u64) -> String {
        match self.queue() {
            Some(queue) => queue.place_name(&self.state, worker.as_str(), incarnation),
            None => place_name(&self.state, worker.as_str(), incarnation),
        }
    }

    /// The folder of a worker there.
    pub(super) fn folder_there(&self, worker: &WorkerId) -> PathBuf {
        self.root().unwrap_or_else(|| self.root.clone()).join(worker.as_str())
    }

    /// The folder of a worker on this machine. A container and a job have it too.
    pub(super) fn folder(&self, worker: &WorkerId) -> PathBuf {
        self.root.join(worker.as_str())
    }

    /// Creates the folder of a worker.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn make_folder(&self, worker: &WorkerId) -> std::io::Result<PathBuf> {
        let folder = self.folder(worker);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        std::fs::File::open(&self.root)?.sync_all()?;
        Ok(folder)
    }

    pub(super) fn kind(&self) -> &'static str {
        self.placement.engine.kind()
    }

    /// The engine that has a queue.
    pub(super) fn queue(&self) -> Option<PlaceQueue> {
        self.placement.engine.queue()
    }

    /// Returns the error for a failure of the engine's client.
    pub(super) fn failure(&self, failure: ClientFailure<'_>) -> Error {
        failure.error(&self.placement, &self.program())
    }

    /// Returns the line with which a connection to the worker's runtime in a container begins; `None`
    /// without a container. It is neither in the state dir, which a container may see, nor in the
    /// database. Removed with the worker's environment.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`.
    pub(super) fn token(&self) -> Result<Option<String>> {
        if !self.is_container() {
            return Ok(None);
        }
        let failed = |error: std::io::Error| {
            let message = format!("{}: {error}", self.token.display());
            Error::new(Code::StorageError, message).or_storage_full(&error)
        };
        match std::fs::read_to_string(&self.token) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let token = hex(&entropy::random::<32>()?);
                let mut options = std::fs::OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&self.token);
                file.and_then(|mut file| file.write_all(token.as_bytes())).map_err(failed)?;
                Ok(Some(token))
            }
            read => read.map(Some).map_err(failed),
        }
    }

    pub(super) fn elsewhere(&self) -> Option<&Placement> {
        self.placement.elsewhere()
    }

    /// The program as the place knows it.
    pub(super) fn program(&self) -> String {
        let own = self.placement.program.clone();
        own.unwrap_or_else(|| match self.placement.engine {
            Engine::Loopback => self.runtime.display().to_string(),
            // The daemon stores none without a program: see `with_program`.
            Engine::Ssh(_) | Engine::Slurm(_) => "subagent-runtime".to_owned(),
            Engine::Podman(_) => podman::PROGRAM.to_owned(),
            Engine::Kubernetes(_) | Engine::Command(_) => kubernetes::PROGRAM.to_owned(),
        })
    }

    /// The folder of the placed workers there; `None` where the place itself chooses it.
    pub(super) fn root(&self) -> Option<PathBuf> {
        match &self.placement.engine {
            Engine::Loopback | Engine::Podman(_) | Engine::Slurm(_) => Some(self.root.clone()),
            Engine::Kubernetes(cluster) => Some(PathBuf::from(&cluster.folder)),
            Engine::Ssh(_) | Engine::Command(_) => None,
        }
    }

    pub(super) fn has_own_pids(&self) -> bool {
        self.placement.engine.has_own_pids()
    }

    pub(super) fn is_container(&self) -> bool {
        self.container().is_some()
    }

    /// Whether the files of the place are not those of this machine, and no file system is shared.
    pub(super) fn has_own_files(&self) -> bool {
        matches!(&self.placement.engine, Engine::Ssh(_) | Engine::Kubernetes(_) | Engine::Command(_))
    }

    fn container(&self) -> Option<&ContainerEngine> {
        match &self.placement.engine {
            Engine::Podman(podman) => Some(podman),
            Engine::Loopback
            | Engine::Ssh(_)
            | Engine::Slurm(_)
            | Engine::Kubernetes(_)
            | Engine::Command(_) => None,
        }
    }

    /// Returns the command that starts the container of a runtime, and creates the worker's folder,
    /// which is in it; `None` if the place needs none.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn begin(&self, worker: &WorkerId, incarnation: u64) -> std::io::Result<Option<Command>> {
        let Some(container) = self.container() else { return Ok(None) };
        let folder = self.make_folder(worker)?;
        // An agent must not read or change what the daemon stores about it and others.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let hidden = self.root.parent().map(|state| container.shown(&real(state), real)).unwrap_or_default();
        let run = ContainerRun {
            name: &self.place_name(worker, incarnation),
            folder: &folder,
            hidden: &hidden,
            runtime: self.placement.program.is_none().then_some(self.runtime.as_path()),
            program: &self.program(),
            user: (geteuid().as_raw(), getegid().as_raw()),
        };
        Ok(Some(clean(Command::new(container.client()), container.start(&run))))
    }

    /// With what the names of all containers of a worker begin.
    pub(super) fn place_prefix(&self, worker: &WorkerId) -> String {
        place_prefix(&self.state, worker.as_str())
    }

    /// Returns the command that lists the containers with this in their name.
    pub(super) fn list(&self, part: &str) -> Option<Command> {
        let container = self.container()?;
        Some(clean(Command::new(container.client()), container.list(part)))
    }

    /// Returns the command that ends a container.
    pub(super) fn end(&self, name: &str) -> Option<Command> {
        let container = self.container()?;
        Some(clean(Command::new(container.client()), container.remove(name)))
    }

    /// Returns the command that runs `subagent-runtime submit` there. `handle` is that of a place in a
    /// queue. If a process of ours holds the place, that one starts it: a job ends what its commands leave.
    pub(super) async fn submit(&self, worker: &WorkerId, incarnation: u64, handle: Option<&str>) -> Command {
        if let (Some(queue), Some(handle)) = (self.queue(), handle) {
            let asked = asked::name(self, worker, incarnation).await;
            let name = asked.unwrap_or_else(|_| self.place_name(worker, incarnation));
            let place = NamedPlace { name: &name, handle };
            let folder = self.folder_there(worker).display().to_string();
            let relay = [RELAY, &folder, &incarnation.to_string()];
            let words = if queue.is_held() { relay.as_slice() } else { &["submit", worker.as_str()] };
            return self.client_in_place(queue.exec(place, &self.program(), words)).await;
        }
        match self.container() {
            Some(container) => {
                let name = self.place_name(worker, incarnation);
                let words = container.exec(&name, &self.program(), &["submit", worker.as_str()]);
                clean(Command::new(container.client()), words)
            }
            None => self.command("submit", worker),
        }
    }

    /// Returns the same for a start beside which `dial` runs or not. If there is no connection that both
    /// can share, `dial` opens it: that of a start would end with it.
    pub(super) fn beside(&self, dials: bool) -> Self {
        let mut carrier = self.clone();
        if let (Engine::Ssh(host), true) = (&mut carrier.placement.engine, dials) {
            host.args.splice(0..0, ["-o", "ControlMaster=no"].map(str::to_owned));
        }
        carrier
    }

    /// Returns the turn of a `dial` that is started beside the runtime there. Not as the first connection:
    /// one that others can share must be there before. `own`: how many the worker itself has.
    pub(super) fn turn_beside_start(&self, own: usize) -> Option<OwnedSemaphorePermit> {
        match self.placement.engine {
            Engine::Ssh(_) => self.turn.early(own),
            _ => None,
        }
    }

    /// Returns the command that runs `subagent-runtime dial` there. The folder, the socket and the
    /// locks of a container are those of this machine.
    pub(super) fn dial(&self, worker: &WorkerId) -> Command {
        self.command("dial", worker)
    }

    /// Returns a command of the engine's client, without variables that change what its options mean.
    pub(super) fn client(&self, command: ClientCommand) -> Command {
        let mut client = clean(Command::new(command.program), command.arguments);
        for name in self.placement.hidden_variables() {
            client.env_remove(name);
        }
        client.envs(command.variables);
        client
    }

    /// Returns a command that runs in a place for longer. A client of Slurm may outlive this daemon.
    pub(super) async fn client_in_place(&self, command: ClientCommand) -> Command {
        let mut client = self.client(command);
        if matches!(self.placement.engine, Engine::Slurm(_)) {
            self.former_clients.succeed(&mut client, &self.state).await;
        }
        client
    }

    /// Returns the command that dials here, through the folder that a place shares with this machine.
    pub(super) fn dial_here(&self, worker: &WorkerId) -> Command {
        clean(Command::new(&self.runtime), ["dial", worker.as_str()].map(str::to_owned).into())
    }

    /// Returns the command that runs `subagent-runtime` with these words on another machine; `None` without
    /// a host.
    pub(super) fn on_host(&self, words: &[&str]) -> Option<ClientCommand> {
        let Engine::Ssh(host) = &self.placement.engine else { return None };
        Some(host.exec(&self.program(), words))
    }

    fn command(&self, verb: &str, worker: &WorkerId) -> Command {
        match &self.placement.engine {
            Engine::Loopback
            | Engine::Podman(_)
            | Engine::Slurm(_)
            | Engine::Kubernetes(_)
            | Engine::Command(_) => {
                clean(Command::new(&self.runtime), [verb, worker.as_str()].map(str::to_owned).into())
            }
            Engine::Ssh(host) => {
                // Only agents need what a login shell sets.
                let line = ssh::line(&self.program(), &[verb, worker.as_str()], verb == "submit");
                clean(Command::new(ssh::CLIENT), host.arguments(&line))
            }
        }
    }
}

/// Completes a command: the environment of the user, and nothing of the daemon.
pub(super) fn clean(mut command: Command, arguments: Vec<String>) -> Command {
    command
        .args(arguments)
        .current_dir("/")
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| passes_on(name) || name == PASSED_ON))
        .envs(subagent_failpoint::armed_with());
    command
}

/// Returns the placement with the path of the runtime there. A worker keeps it, so that its runtime
/// and `dial` are of one version. That of a container is mounted from here.
///
/// # Errors
/// `BACKEND_RUNTIME_ERROR` if the runtime of this installation cannot be read.
pub(crate) async fn with_program(
    placement: Option<Placement>,
    setup: &DaemonSettings,
) -> Result<Option<Placement>> {
    match placement {
        Some(placement)
            if matches!(placement.engine, Engine::Ssh(_) | Engine::Slurm(_))
                && placement.program.is_none() =>
        {
            let program = setup.runtime_program.clone();
            let hashed = tokio::task::spawn_blocking(move || sha256(&program)).await;
            let hashed = hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let hashed = hashed.map_err(|error| {
                let message = format!("{} cannot be read: {error}", setup.runtime_program.display());
                Error::new(Code::BackendRuntimeError, message)
            })?;
            let version = env!("CARGO_PKG_VERSION");
            let program = match &placement.engine {
                Engine::Slurm(slurm) => slurm::prepared_program(&slurm.folder, version, &hashed),
                _ => ssh::prepared_program(version, &hashed),
            };
            Ok(Some(Placement { program: Some(program), ..placement }))
        }
        other => Ok(other),
    }
}

/// Removes the files of a removed worker on another machine. One that cannot be reached keeps them;
/// the log says where. It is tried once, and then is one of `silent_hosts`.
pub(crate) async fn discard(
    placement: &Placement,
    setup: &DaemonSettings,
    worker: &WorkerId,
    silent_hosts: &mut HashSet<String>,
) {
    let carrier = Carrier::of(placement, setup, worker);
    if placement.engine.queue().is_some() {
        let mut command = carrier.command("discard", worker);
        command.arg(&carrier.root).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let removed = tokio::time::timeout(DISCARD_TIMEOUT, command.status()).await;
        if !matches!(removed, Ok(Ok(status)) if status.success()) {
            tracing::warn!(%worker, "the files of a removed worker are left in {}", carrier.root.display());
        }
        return;
    }
    let Engine::Ssh(ssh::RemoteHost { host, .. }) = &placement.engine else { return };
    if silent_hosts.contains(host) {
        tracing::warn!(%worker, %host, "the files of a removed worker are left in {PLACED_THERE}");
        return;
    }
    let mut command = carrier.command("discard", worker);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let why = match tokio::time::timeout(DISCARD_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => return,
        // The client has reached the host.
        Ok(Ok(output)) if !is_of_client(&placement.engine, output.status.code(), &output.stderr) => {
            cleaned(&output.stderr)
        }
        outcome => {
            silent_hosts.insert(host.clone());
            match outcome {
                Ok(Ok(output)) => cleaned(&output.stderr),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it did not end in time".to_owned(),
            }
        }
    };
    tracing::warn!(%worker, %host, why, "the files of a removed worker are left in {PLACED_THERE}");
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Returns the folder of the workers that are placed on this machine.
pub(crate) fn placed_root(state_dir: &Path) -> PathBuf {
    state_dir.join("placed")
}

/// Returns the folder of the placed workers. On another machine it is only for display.
pub(super) fn root_of(placement: &Placement, setup: &DaemonSettings) -> PathBuf {
    match &placement.engine {
        Engine::Loopback | Engine::Podman(_) => placed_root(&setup.state_dir),
        Engine::Slurm(slurm) => PathBuf::from(&slurm.folder),
        Engine::Kubernetes(cluster) => PathBuf::from(&cluster.folder),
        Engine::Command(_) => PathBuf::from(PLACED_THERE),
        Engine::Ssh(ssh) => PathBuf::from(format!("{}:{PLACED_THERE}", ssh.host)),
    }
}
