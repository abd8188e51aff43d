//! Where a worker is placed, and what the daemon and `subagent-runtime submit` say to each other:
//! one request on standard input after [`crate::stream::MAGIC`], one answer on standard output.

pub mod client;
pub mod command;
pub mod engine;
pub mod kubernetes;
mod places;
pub mod podman;
pub mod slurm;
pub mod ssh;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::process::ProcessId;
use crate::start::RuntimeStart;
use crate::stream::DaemonEpoch;

/// Folder of the placed workers on another machine, below the home there.
pub const PLACED_THERE: &str = "~/.local/state/subagent/placed";

/// Folder of the git worktrees on another machine, below the home there.
pub const WORKTREES_THERE: &str = "~/.local/share/subagent/worktrees";

/// The file in the folder of a placed worker to which the standard error of its agents is appended.
pub const PLACED_LOG: &str = "agent.log";

/// The begin of what `subagent-runtime` says of a command that its version does not know.
pub const UNKNOWN_COMMAND: &str = "this program is started by subagentd";

/// `mode` of a [`crate::api::DaemonInfo`] that `dial` writes: the daemon is behind its stream.
pub const PLACED_MODE: &str = "placed";

/// Where the runtimes of a worker are started: a place of the config file, or the loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Name of the placement in the config file; empty for the loopback.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The folder there in which agents work: absolute, or `~` or `~/...`, which is expanded there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// Path of `subagent-runtime` there, absolute or `~/...`. Absent: the one that ssh finds where
    /// `placement prepare` of this version puts it, that of this installation in a container, or the one
    /// in the PATH of a pod's image or of a place behind commands. The daemon stores the path on a host or cluster that it chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How long a runtime there works on without its daemon, in milliseconds. Absent: without a limit
    /// while it has work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How git worktrees come there. Absent: no worker there has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Box<GitTransport>>,
    /// What starts and reaches the runtimes.
    #[serde(flatten)]
    pub engine: Engine,
}

/// Worktrees are sent there and fetched back by git, over the engine's client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GitTransport {
    /// The folder of the repositories and worktrees there: absolute, or `~/...`.
    pub folder: String,
}

/// What starts and reaches the runtimes of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Engine {
    /// This machine, reached over a stream like another one. For tests.
    Loopback,
    /// The user's ssh client, for another machine.
    Ssh(ssh::RemoteHost),
    /// podman or docker, for a container on this machine.
    Podman(podman::ContainerEngine),
    /// Slurm's clients, for a job on a node of a cluster.
    Slurm(slurm::SlurmCluster),
    /// `kubectl`, for a pod of a cluster.
    Kubernetes(Box<kubernetes::KubernetesCluster>),
    /// The user's own commands, for a place of an engine that is not known here.
    Command(Box<command::UserCommands>),
}

impl Engine {
    /// Returns the word of the kind in the config file.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Ssh(_) => "ssh",
            Self::Podman(_) => "podman",
            Self::Slurm(_) => "slurm",
            Self::Kubernetes(_) => "kubernetes",
            Self::Command(_) => "command",
        }
    }
}

impl Placement {
    /// Returns the placement behind the loopback stream.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            name: String::new(),
            cwd: String::new(),
            program: None,
            lease_ms: None,
            git: None,
            engine: Engine::Loopback,
        }
    }

    /// Returns the place whose files and programs are not those of this machine; `None` for the
    /// loopback.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&Self> {
        (self.engine != Engine::Loopback).then_some(self)
    }

    /// Returns the same with absolute paths on this machine, and on a file system that the place shares
    /// with it.
    #[must_use]
    pub fn with_home(mut self, home: Option<&Path>) -> Self {
        let Some(home) = home else { return self };
        let paths: Vec<&mut String> = match &mut self.engine {
            Engine::Slurm(slurm) => {
                [Some(&mut slurm.folder), self.program.as_mut()].into_iter().flatten().collect()
            }
            Engine::Command(commands) => {
                commands.programs_mut().filter(|path| path.starts_with("~/")).collect()
            }
            _ => Vec::new(),
        };
        for path in paths {
            if let Some(below) = path.strip_prefix('~') {
                *path = home.join(below.trim_start_matches('/')).display().to_string();
            }
        }
        self
    }

    /// Returns the placement as views show it; `None` for the loopback.
    #[must_use]
    pub fn view(&self) -> Option<PlacementView> {
        let (host, image) = match &self.engine {
            Engine::Loopback => return None,
            Engine::Ssh(ssh) => (Some(ssh.host.clone()), None),
            Engine::Podman(podman) => (None, Some(podman.image.clone())),
            Engine::Slurm(_) | Engine::Command(_) => (None, None),
            Engine::Kubernetes(cluster) => (None, cluster.image.clone()),
        };
        Some(PlacementView { kind: self.engine.kind().to_owned(), name: self.name.clone(), host, image })
    }

    /// Returns the place for a message: the host or the image, with the name of the placement.
    #[must_use]
    pub fn described(&self) -> String {
        let name = &self.name;
        match &self.engine {
            Engine::Loopback => "this machine".to_owned(),
            Engine::Ssh(ssh) => format!("{} (placement `{name}`)", ssh.host),
            Engine::Podman(podman) => format!("a container of {} (placement `{name}`)", podman.image),
            Engine::Slurm(_) => format!("a Slurm job (placement `{name}`)"),
            Engine::Kubernetes(_) => format!("a pod (placement `{name}`)"),
            Engine::Command(_) => format!("a place (placement `{name}`)"),
        }
    }

    /// Returns the same after its preposition: `on` a host, `in` a container or job.
    #[must_use]
    pub fn located(&self) -> String {
        let preposition = if self.engine.starts_places() { "in" } else { "on" };
        format!("{preposition} {}", self.described())
    }

    /// Adds the placement and its host or image to the details of an error.
    #[must_use]
    pub fn named_in(&self, error: Error) -> Error {
        let error = error.with("placement", self.name.as_str());
        match &self.engine {
            Engine::Loopback | Engine::Slurm(_) | Engine::Command(_) => error,
            Engine::Kubernetes(cluster) => match &cluster.image {
                Some(image) => error.with("image", image.as_str()),
                None => error,
            },
            Engine::Ssh(ssh) => error.with("host", ssh.host.as_str()),
            Engine::Podman(podman) => error.with("image", podman.image.as_str()),
        }
    }

    /// Returns the key that is wrong, and why.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let engine = match &self.engine {
            Engine::Loopback => return None,
            Engine::Ssh(ssh) => ssh.problem(),
            Engine::Podman(podman) => podman.problem(),
            Engine::Slurm(slurm) => slurm.problem(),
            Engine::Kubernetes(cluster) => cluster.problem(),
            Engine::Command(commands) => commands.problem(),
        };
        let runtime = self.program.as_deref().filter(|_| matches!(self.engine, Engine::Command(_)));
        let runtime = || runtime.and_then(command::runtime_problem).map(|problem| ("program", problem));
        let path = |field, path: Option<&str>| path.and_then(path_problem).map(|problem| (field, problem));
        let name = self.name.trim().is_empty().then_some(("name", "must not be empty"));
        let worktrees = self.git.as_ref().map(|git| git.folder.as_str());
        name.or(engine)
            .or_else(|| path("cwd", Some(&self.cwd)))
            .or_else(|| path("worktrees", worktrees))
            .or_else(|| path("program", self.program.as_deref()))
            .or_else(runtime)
    }

    /// Checks what a request brings.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}`.
    pub fn check(&self) -> Result<(), Error> {
        match self.problem() {
            None => Ok(()),
            Some((field, problem)) => {
                let message = format!("the placement `{}`: `{field}` {problem}", self.name);
                Err(Error::new(Code::InvalidArgument, message).with("field", format!("placement.{field}")))
            }
        }
    }
}

/// Returns why this is no path at a place.
fn path_problem(path: &str) -> Option<&'static str> {
    if path.chars().any(char::is_control) {
        return Some("must not contain control characters");
    }
    let is_there = path.starts_with('/') || path == "~" || path.starts_with("~/");
    (!is_there).then_some("must be absolute, or begin with `~/`")
}

/// The placement of a worker, as in `worker.listed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacementView {
    /// Kind of the placement: `ssh`, `podman`, `slurm`, `kubernetes` or `command`.
    pub kind: String,
    /// Name of the placement in the config file at the worker's start.
    pub name: String,
    /// The host as ssh takes it; only of the kind `ssh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The image; only of the kinds `podman` and `kubernetes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// The request of a start, as one JSON object. It contains the agent's environment and secrets, and
/// is therefore never put on a command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitRequest {
    /// The daemon's protocol of [`crate::stream`], which covers this request too.
    pub protocol: u32,
    /// The start of the daemon that asks.
    pub epoch: DaemonEpoch,
    /// Absolute folder of the placed workers there. Each worker has a folder of its own below it.
    /// Absent on another machine than the daemon's. Then root, working folder, program and the
    /// environment below that of the request are resolved there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Whether an earlier runtime that still lives there is killed first.
    #[serde(default)]
    pub supersede: bool,
    /// Whether the place is another machine although its root is known: a shared file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The runtime to start. Its folder, socket, log and boot id are replaced there.
    pub start: RuntimeStart,
}

/// The answer, one JSON line after [`crate::stream::MAGIC`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "submit", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SubmitAnswer {
    /// This runtime runs and listens. The same request gives the same answer while it lives.
    Started {
        /// The process of the runtime.
        process: ProcessId,
        /// The boot of that machine.
        boot_id: String,
    },
    /// The place serves another daemon. Nothing was done.
    Fenced {
        /// The generation of that daemon.
        generation: u64,
    },
    /// No process of this request runs.
    Failed {
        /// Why it was not started.
        reason: SubmitFailure,
        /// Description for the user.
        message: String,
    },
}

/// Why a runtime was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubmitFailure {
    /// Another runtime of the worker, or what its agent left, still runs.
    Busy,
    /// A later runtime was there before, or this runtime has ended already.
    Superseded,
    /// The program there speaks another protocol.
    Incompatible,
    /// A disk is full.
    StorageFull,
    /// A signal ended the runtime before it listened.
    Killed,
    /// The working folder does not exist there.
    NoFolder,
    /// The program of the agent cannot be started there.
    NoProgram,
    /// The program of the task server is not beside the runtime there.
    NoTaskServer,
    /// Anything else; the message describes it.
    Other,
}
