//! `placement prepare`: puts the runtime of this installation and its task server onto another machine
//! or cluster, under a path with its version and hash, or fetches the image of a container. A second
//! time it does nothing.

use std::time::Duration;

use clap::Args;
use nix::sys::utsname::uname;
use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::mcp::TASK_SERVER_PROGRAM;
use subagent_protocol::placement::ssh::{self, RemoteHost};
use subagent_protocol::placement::{Engine, Placement};

use super::remote::{self, LocalProgram, LocalRuntime, SHORT, over_ssh};
use super::{NamedPlacement, cluster, commands, container, pod};
use crate::client::block_on;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Time limit of an upload.
const UPLOAD: Duration = Duration::from_secs(600);

/// Put the programs that run workers onto another machine or cluster, or fetch the image of a container
///
/// The programs are sent through ssh into ~/.local/share/subagent/runtime there, or copied into the
/// shared folder of a cluster, in a folder of their version. Earlier versions stay for the workers that they run.
/// For a pod, it prints the lines that its image needs, and for your own commands what a place needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement prepare gpu1
  subagent placement prepare gpu1 --json")]
pub(crate) struct PlacementPrepareArgs {
    #[command(flatten)]
    pub(crate) named: NamedPlacement,
}

pub(super) fn run(args: &PlacementPrepareArgs, context: &CliContext) -> Result<CliOutcome> {
    let placement = &args.named.of(context)?;
    let host = match &placement.engine {
        Engine::Ssh(host) => host,
        Engine::Podman(engine) => {
            return block_on(container::prepared(placement, engine, &LocalRuntime::read()?));
        }
        Engine::Slurm(cluster) => return cluster::prepared(placement, cluster, &LocalRuntime::read()?),
        Engine::Kubernetes(cluster) => return Ok(pod::prepared(placement, cluster, &LocalRuntime::read()?)),
        Engine::Command(_) => return Ok(commands::prepared(placement, &LocalRuntime::read()?)),
        Engine::Loopback => return Err(Failure::argument("the loopback needs no preparation")),
    };
    has_no_program(placement)?;
    let runtime = LocalRuntime::read()?;
    let program = runtime.program(placement);
    let beside = ssh::program_beside(&program, TASK_SERVER_PROGRAM);
    let uploaded = block_on(async {
        same_system(placement, host).await?;
        // The runtime is last: where it is, the other one is too.
        let other = prepared(placement, host, &runtime.task_server, &beside).await?;
        Ok(prepared(placement, host, &runtime.own, &program).await? || other)
    })?;
    let runtime = runtime.own;
    let data = json!({
        "name": placement.name, "host": host.host, "program": program,
        "version": env!("CARGO_PKG_VERSION"), "sha256": runtime.sha256, "bytes": runtime.bytes,
        "uploaded": uploaded,
    });
    let done = if uploaded { "prepared" } else { "is prepared already" };
    let shown = format!("{} {done}: {}:{program}", placement.name, host.host);
    Ok(CliOutcome::report("placement.prepared", data, shown))
}

/// Refuses a placement whose program the user puts there.
pub(super) fn has_no_program(placement: &Placement) -> Result<()> {
    let Some(program) = &placement.program else { return Ok(()) };
    let message = format!("the placement `{}` has a `program` of its own ({program})", placement.name);
    Err(Failure::argument(message)
        .with("placement", placement.name.as_str())
        .with("program", program.as_str())
        .recommend("put it there yourself, or remove `program` from the placement"))
}

/// Puts a program there, unless it is there. Returns whether it was sent.
async fn prepared(
    placement: &Placement,
    host: &RemoteHost,
    own: &LocalProgram,
    program: &str,
) -> Result<bool> {
    let (file, sha256) = (ssh::path_word(program), &own.sha256);
    let look = format!("test -x {file} && test \"$(sha256sum < {file} | cut -c1-64)\" = {sha256}");
    if remote::run(placement, over_ssh(host, &script(&look)), None, SHORT).await?.code == 0 {
        return Ok(false);
    }
    // The last step makes it visible. The trap removes what a cut connection left.
    let put = format!(
        "set -e; umask 077; f={file}; d=\"${{f%/*}}\"; mkdir -p \"$d\"; t=$(mktemp \"$d/upload.XXXXXX\"); \
         trap 'rm -f \"$t\"' EXIT; cat > \"$t\"; \
         test \"$(sha256sum < \"$t\" | cut -c1-64)\" = {sha256} || {{ echo 'the upload is incomplete' >&2; exit 3; }}; \
         chmod 700 \"$t\"; \"$t\" --version > /dev/null; sync; mv -f \"$t\" \"$f\"",
    );
    let put = remote::run(placement, over_ssh(host, &script(&put)), Some(&own.path), UPLOAD).await?;
    match put.code {
        0 => Ok(true),
        _ => Err(put.failure(placement, program).recommend(format!(
            "free space on {}, or check what its standard error says, and prepare it again",
            host.host
        ))),
    }
}

fn script(text: &str) -> String {
    ssh::line("/bin/sh", &["-c", text], false)
}

/// Refuses a machine on which this program cannot run.
async fn same_system(placement: &Placement, host: &RemoteHost) -> Result<()> {
    let there = remote::run(placement, over_ssh(host, "uname -sm"), None, SHORT).await?.last_line();
    let here = uname().map_err(|error| Failure::new(Code::Internal, format!("uname: {error}")))?;
    let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
    let here = format!("{} {}", text(here.sysname()), text(here.machine()));
    if there == here {
        return Ok(());
    }
    let message = format!(
        "this installation is for {here}, and {} (placement `{}`) is {there}",
        host.host, placement.name
    );
    Err(Failure::new(Code::PlacementNotPrepared, message)
        .with("placement", placement.name.as_str())
        .with("host", host.host.as_str())
        .with("here", here)
        .with("there", there)
        .recommend(format!(
            "install this version for that system there, and set placements.{}.program to its subagent-runtime",
            placement.name
        )))
}
