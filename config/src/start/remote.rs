//! The request of a worker on another machine or in a container: what of this machine does not go
//! there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::api::{CopyMode, NewWorktree, StartWorker};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::placement::{Engine, Placement};
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
    let transport = remote.git.as_ref().filter(|_| request.worktree.is_some());
    // The agent's own folder there.
    let folder = transport.map_or(&remote.cwd, |git| &git.folder);
    let is_relative = !folder.starts_with('/');
    if request.worktree.is_some() && transport.is_none() {
        let message = format!("the placement `{}` has no way to bring a git worktree there", remote.name);
        let advice = match remote.engine {
            Engine::Ssh(_) => {
                format!("add `transport: git` to placements.{}, or leave the worktree out", remote.name)
            }
            _ => "leave it out; only placements of the kind `ssh` can have worktrees".to_owned(),
        };
        return Err(argument(message)
            .with("placement", remote.name)
            .with("field", "worktree")
            .recommend(advice));
    }
    let refusals = [
        (request.worktree_of.is_some(), "worktreeOf", "the worktree of another worker"),
        (!request.additional_directories.is_empty(), "additionalDirectories", "`--add-dir`"),
        (
            request.policy.as_ref().is_some_and(|policy| policy.memory.is_some()),
            "memory",
            "a memory of the agent",
        ),
        (
            request.policy.is_some() && is_relative,
            "permissions",
            "permission rules in a folder that is not absolute (`cwd`, or `worktrees`)",
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
    let worktree = request.worktree.map(|wanted| NewWorktree {
        source: Some(request.cwd.clone()),
        // Only git goes there.
        copy: CopyMode::Never,
        ..wanted
    });
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
        worktree,
        placement: Some(remote),
        ..request
    })
}
