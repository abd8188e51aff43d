//! `placement check`: what a worker on another machine, in a container, job or pod needs, step by step.
//! The first step that fails is the error of the command.

use clap::Args;
use serde_json::json;
use subagent_protocol::placement::ssh::{self, RemoteHost};
use subagent_protocol::placement::{Engine, Placement};

use super::remote::{self, LocalRuntime, SHORT, over_ssh};
use super::steps::{PROBE, PassedStep, folder_of, git_of, same_version};
use super::{NamedPlacement, agent, cluster, commands, container, pod};
use crate::client::block_on;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Check that workers can run on another machine, in a container or on a cluster
///
/// Looks for the host or image, the runtime of this version and the folder there, and opens and ends a
/// stream, a container, a job, a pod or a place of your commands. Then a daemon of its own runs a
/// worker with the scripted demo agent there, gives it a turn, reads its log and ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement check gpu1
  subagent placement check gpu1 --json")]
pub(crate) struct PlacementCheckArgs {
    #[command(flatten)]
    pub(crate) named: NamedPlacement,
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
            Engine::Command(own) => commands::checked(placement, own, &program, &mut steps).await,
            // No config file has one.
            Engine::Loopback => Ok(()),
        }
    });
    let checked = checked.and_then(|()| agent::checked(placement, (&runtime, &program), context, &mut steps));
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
        Engine::Command(_) | Engine::Loopback => {}
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
    if placement.git.is_some() {
        found("git", git_of(placement, &run("git --version").await?)?);
    }
    // Greets, and ends with its input. A login shell starts it, as at the start of a worker.
    let stream = run(&ssh::line(program, &["dial", PROBE], true)).await?;
    let greeted = subagent_protocol::stream::after_magic(&stream.stdout).ok().flatten().is_some();
    if stream.code != 0 || !greeted {
        return Err(stream.failure(placement, program));
    }
    found("stream", "opened and ended".to_owned());
    Ok(())
}
