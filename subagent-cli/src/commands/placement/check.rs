//! `placement check`: what a worker on another machine, in a container, job or pod needs, step by step.
//! The first step that fails is the error of the command.

use clap::Args;
use serde::Serialize;
use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::placement::client::cleaned;
use subagent_protocol::placement::ssh::{self, RemoteHost};
use subagent_protocol::placement::{Engine, Placement};

use super::remote::{self, LocalRuntime, SHORT, over_ssh};
use super::{NamedPlacement, cluster, container, pod};
use crate::client::block_on;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Check that workers can run on another machine, in a container or on a cluster
///
/// Looks for the host or image, the runtime of this version and the folder there, and opens and ends a
/// stream, a container, a job or a pod. It starts no agent: `subagent worker start --on NAME` does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement check gpu1
  subagent placement check gpu1 --json")]
pub(crate) struct PlacementCheckArgs {
    #[command(flatten)]
    pub(crate) named: NamedPlacement,
}

/// One step that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PassedStep {
    pub(super) step: &'static str,
    pub(super) found: String,
}

pub(super) fn run(args: &PlacementCheckArgs, context: &CliContext) -> Result<CliOutcome> {
    let placement = &args.named.of(context)?;
    let runtime = LocalRuntime::read()?;
    let program = runtime.program(placement);
    let mut steps = Vec::new();
    let checked = block_on(async {
        match &placement.engine {
            Engine::Ssh(host) => checked(placement, host, &program, &mut steps).await,
            Engine::Podman(engine) => container::checked(placement, engine, &runtime, &mut steps).await,
            Engine::Slurm(slurm) => cluster::checked(placement, slurm, &program, &mut steps).await,
            Engine::Kubernetes(cluster) => pod::checked(placement, cluster, &program, &mut steps).await,
            // No config file has one.
            Engine::Loopback => Ok(()),
        }
    });
    if let Err(failure) = checked {
        return Err(failure.with("steps", json!(steps)));
    }
    let lines: Vec<String> = steps.iter().map(|step| format!("{}: {}", step.step, step.found)).collect();
    let mut data = json!({"name": placement.name, "program": program, "items": steps});
    match &placement.engine {
        Engine::Ssh(host) => data["host"] = json!(host.host),
        Engine::Podman(engine) => data["image"] = json!(engine.image),
        Engine::Slurm(slurm) => data["folder"] = json!(slurm.folder),
        Engine::Kubernetes(cluster) => data["image"] = json!(cluster.image),
        Engine::Loopback => {}
    }
    Ok(CliOutcome::report("placement.checked", data, lines.join("\n")))
}

async fn checked(
    placement: &Placement,
    host: &RemoteHost,
    program: &str,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let run = |line: &str| remote::run(placement, over_ssh(host, line), None, SHORT);
    let system = run("uname -sm").await?;
    found("host", system.last_line());
    let version = run(&ssh::line(program, &["--version"], false)).await?;
    found("runtime", same_version(placement, program, &version)?);
    let folder = format!("cd {} && pwd", ssh::path_word(&placement.cwd));
    let folder = run(&ssh::line("/bin/sh", &["-c", &folder], false)).await?;
    found("folder", folder_of(placement, &folder)?);
    // Greets, and ends with its input. A login shell starts it, as at the start of a worker.
    let stream = run(&ssh::line(program, &["dial", PROBE], true)).await?;
    let greeted = subagent_protocol::stream::after_magic(&stream.stdout).ok().flatten().is_some();
    if stream.code != 0 || !greeted {
        return Err(stream.failure(placement, program));
    }
    found("stream", "opened and ended".to_owned());
    Ok(())
}

/// Returns the version that a program there has printed, which must be this one.
pub(super) fn same_version(
    placement: &Placement,
    program: &str,
    printed: &remote::Printed,
) -> Result<String> {
    if printed.code != 0 {
        return Err(printed.failure(placement, program));
    }
    let (version, expected) =
        (printed.last_line(), format!("subagent-runtime {}", env!("CARGO_PKG_VERSION")));
    if version == expected {
        return Ok(version);
    }
    let (name, place) = (&placement.name, placement.located());
    let message = format!("{program} {place} is `{version}`, and this is `{expected}`");
    Err(Failure::new(Code::PlacementNotPrepared, message)
        .with("placement", name.as_str())
        .with("program", program)
        .recommend(format!(
            "install this version there, or remove placements.{name}.program and run `subagent placement prepare {name}`"
        )))
}

/// Returns the working folder that a shell there has printed.
pub(super) fn folder_of(placement: &Placement, printed: &remote::Printed) -> Result<String> {
    if printed.code == 0 {
        return Ok(printed.last_line());
    }
    let said = cleaned(&printed.stderr);
    let message = format!("the folder {} cannot be used {}: {said}", placement.cwd, placement.located());
    Err(Failure::new(Code::PlacementFolderMissing, message)
        .with("placement", placement.name.as_str())
        .with("cwd", placement.cwd.as_str())
        .recommend(format!("create it there, or correct placements.{}.cwd", placement.name)))
}

/// The id of a worker that does not exist.
pub(super) const PROBE: &str = "w_0000000000";
