//! Selects the layers of this machine that enforce a worker's sandbox. They are selected before the
//! worker is stored, and stay the same for each start of its agent.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use subagent_protocol::api::StartWorker;
use subagent_protocol::sandbox::{FileSystem, Layers, Network, PreferredSandbox, Sandbox, SandboxSpec};
use subagent_protocol::{Code, Error, Result};
use subagent_sandbox::SandboxSupport;

use super::placed;
use super::spec::Spec;
use crate::supervisor::worktrees::Planned;

/// Maximum number of paths of a sandbox. They are arguments of bubblewrap.
const MAX_PATHS: usize = 200;
/// Maximum length of a path in bytes: `PATH_MAX`.
const MAX_PATH_BYTES: usize = 4096;

/// Maximum number of hosts that a sandbox lists.
const MAX_HOSTS: usize = 200;

/// Bubblewrap programs that worked since this daemon started.
static WORK: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns the paths hidden from every sandboxed agent: the state dir and the folder of the
/// sockets.
pub(crate) fn always_hidden(own: [&Path; 2]) -> [PathBuf; 2] {
    own.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
}

/// Returns the sandbox for the start of an agent. `own` has the folders of the daemon.
pub(crate) fn of_agent(sandbox: Option<&Sandbox>, own: [&Path; 2]) -> Option<Sandbox> {
    let mut sandbox = sandbox?.clone();
    sandbox.spec.hide.extend(always_hidden(own));
    Some(sandbox)
}

/// Validates the sandbox of a request.
///
/// # Errors
/// `INVALID_INPUT{field}`. `SANDBOX_UNAVAILABLE` for an agent that delegates, or that has a
/// worktree which it may not write.
pub(crate) fn check(request: &StartWorker) -> Result<()> {
    if let Some(PreferredSandbox::Spec(spec)) = &request.preferred_sandbox {
        bounded(spec)?;
    }
    let Some(spec) = &request.sandbox else { return Ok(()) };
    bounded(spec)?;
    if request.worktree.is_some() && spec.filesystem == FileSystem::SharedRo {
        let message = "an agent that may not write its workspace has no use for a git worktree of its own";
        return Err(Error::new(Code::SandboxUnavailable, message).with("missing", "worktree").recommend(
            "start it with another sandbox, or without a worktree (`--worktree`, `isolation: worktree`)",
        ));
    }
    if request.delegation.is_some() {
        let message =
            "an agent in a sandbox cannot reach the daemon, and so cannot give tasks to other agents";
        return Err(Error::new(Code::SandboxUnavailable, message)
            .with("missing", "delegation")
            .recommend("start it without a sandbox, or without delegation (`delegation`, `--delegate`, `permission: task`)"));
    }
    Ok(())
}

/// Checks the form and the sizes of a sandbox.
fn bounded(spec: &SandboxSpec) -> Result<()> {
    let wrong = |message: &str| Err(Error::new(Code::InvalidInput, message).with("field", "sandbox"));
    let paths = || spec.write.iter().chain(&spec.hide).chain(spec.read.iter().flatten());
    if paths().count() > MAX_PATHS {
        return wrong("a sandbox has at most 200 paths");
    }
    let possible = |path: &PathBuf| {
        let bytes = path.as_os_str().len();
        path.is_absolute() && bytes <= MAX_PATH_BYTES && !path.as_os_str().as_bytes().contains(&0)
    };
    if !paths().all(possible) {
        return wrong("the paths of a sandbox are absolute");
    }
    if (spec.network == Network::Hosts) == spec.hosts.is_empty() {
        return wrong("`hosts` has at least one host and port with the network `hosts`, and none otherwise");
    }
    if spec.hosts.len() > MAX_HOSTS {
        return wrong("a sandbox lists at most 200 hosts");
    }
    Ok(())
}

/// Sets the sandbox of a new worker, before its planned worktree exists, or the reason why a
/// preferred one is not applied. `own` has the folders of the daemon.
///
/// # Errors
/// `SANDBOX_UNAVAILABLE{missing}` if this machine cannot enforce a required one.
pub(in crate::supervisor) async fn set(
    worker: &mut Spec,
    request: &StartWorker,
    planned: Option<&Planned>,
    own: [&Path; 2],
) -> Result<()> {
    if request.preferred_sandbox.is_some() && placed::remote(request).is_some() {
        worker.no_sandbox = Some("it runs on another machine".to_owned());
        return Ok(());
    }
    let (spec, is_required) = match (&request.sandbox, &request.preferred_sandbox) {
        (Some(spec), _) => (spec.clone(), true),
        (None, Some(PreferredSandbox::Spec(spec))) => ((**spec).clone(), false),
        (None, Some(PreferredSandbox::Impossible(why))) => {
            worker.no_sandbox = Some(why.clone());
            return Ok(());
        }
        (None, None) => return Ok(()),
    };
    match enforced(spec, request, planned, own).await {
        Ok(sandbox) => worker.sandbox = Some(sandbox),
        Err(error) if is_required => return Err(error),
        Err(error) => worker.no_sandbox = Some(error.message),
    }
    Ok(())
}

/// Returns the sandbox with the layers of this machine.
async fn enforced(
    spec: SandboxSpec,
    request: &StartWorker,
    planned: Option<&Planned>,
    own: [&Path; 2],
) -> Result<Sandbox> {
    let notes = request.policy.as_ref().and_then(|policy| policy.memory.as_deref());
    let there = planned.map_or_else(|| spec.clone(), |planned| planned.confined(spec.clone(), notes));
    let path = request.env.iter().find(|(name, _)| name.0 == b"PATH").map(|(_, value)| value.0.clone());
    let always = always_hidden(own);
    let chosen = tokio::task::spawn_blocking(move || {
        let layers = layers(&there, &path.unwrap_or_default(), &always)?;
        Ok(Sandbox { spec, layers })
    });
    chosen.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

fn layers(spec: &SandboxSpec, path: &[u8], always: &[PathBuf]) -> Result<Layers> {
    let program = subagent_sandbox::find(OsStr::from_bytes(path), &spec.write);
    machine(program.as_deref()).layers(spec, always)
}

/// Inspects this machine. A program that worked before is not tried again.
fn machine(program: Option<&Path>) -> SandboxSupport {
    let known = |program: &&Path| WORK.lock().unwrap_or_else(PoisonError::into_inner).contains(*program);
    if let Some(program) = program.filter(known) {
        return SandboxSupport { bubblewrap: Ok(program.to_owned()), ..SandboxSupport::look(None) };
    }
    let machine = SandboxSupport::look(program);
    if let Ok(program) = &machine.bubblewrap {
        WORK.lock().unwrap_or_else(PoisonError::into_inner).insert(program.clone());
    }
    machine
}
