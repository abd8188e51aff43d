//! The request of a worker on another machine or in a container: what of this machine does not go
//! there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::api::StartWorker;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::placement::Placement;
use subagent_protocol::{Code, Error, Result};

use super::templates;
use super::wire::argument;
use crate::model;

/// Why no preferred sandbox applies.
pub const NO_SANDBOX: &str = "it runs on a placement, where this version applies no sandbox";

/// Converts the request of a worker on this machine. Only the variables of the launcher go there,
/// and the program is looked up there. Mounts of a container count from the working folder here.
///
/// # Errors
/// `SANDBOX_UNAVAILABLE{missing}`, `INVALID_ARGUMENT{placement,field}`, `CONFIG_PARSE_ERROR{template}`.
pub fn placed(
    request: StartWorker,
    remote: Placement,
    launcher: &model::Launcher,
    program: String,
    home: Option<&Path>,
) -> Result<StartWorker> {
    if request.sandbox.is_some() {
        let message = "the worker needs a sandbox, and this version applies none on a placement";
        return Err(Error::new(Code::SandboxUnavailable, message)
            .with("missing", "placement")
            .with("placement", remote.name)
            .recommend("start it with `--sandbox none`, or with `--on local`"));
    }
    let is_relative = !remote.cwd.starts_with('/');
    let refusals = [
        (request.worktree.is_some() || request.worktree_of.is_some(), "worktree", "a git worktree"),
        (!request.additional_directories.is_empty(), "additionalDirectories", "`--add-dir`"),
        (
            request.policy.as_ref().is_some_and(|policy| policy.memory.is_some()),
            "memory",
            "a memory of the agent",
        ),
        (
            request.policy.is_some() && is_relative,
            "permissions",
            "permission rules together with a `cwd` of the placement that is not absolute",
        ),
    ];
    if let Some((_, field, what)) = refusals.into_iter().find(|(is_wanted, _, _)| *is_wanted) {
        let message = format!("{what} cannot be had on the placement `{}` in this version", remote.name);
        return Err(argument(message)
            .with("placement", remote.name)
            .with("field", field)
            .recommend("leave it out, or start the worker with `--on local`"));
    }
    let env = launcher.env.iter().map(|(name, value)| {
        let bytes = |text: &String| Bytes64(OsStr::new(text).as_bytes().to_vec());
        (bytes(name), bytes(value))
    });
    let cwd = PathBuf::from(&remote.cwd);
    let remote = templates::completed(remote, &request.cwd, home)?;
    Ok(StartWorker {
        // Its tasks run on this machine.
        task_env: if request.delegation.is_some() { request.env } else { Vec::new() },
        env: env.collect(),
        launcher: subagent_protocol::api::LauncherSpec { program, ..request.launcher },
        policy: request.policy.map(|mut policy| {
            policy.workspace.clone_from(&cwd);
            policy
        }),
        // The limit of this shell says nothing about that machine.
        nofile: None,
        // Its task would run in this folder, which is not here.
        titles: None,
        cwd,
        placement: Some(remote),
        ..request
    })
}
