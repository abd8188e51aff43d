//! What `placement check` and `placement prepare` do for a container.

use std::time::Duration;

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::podman::{CLIENT_FAILED, ContainerEngine, ContainerRun};
use subagent_protocol::placement::ssh::path_word;

use super::remote::{self, LocalRuntime, Printed, SHORT, command, user};
use super::steps::{PassedStep, folder_of, same_version};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Time limit of the download of an image.
const PULL: Duration = Duration::from_secs(3600);
const SHELL: &str = "/bin/sh";

/// Checks client, image, runtime and folder, and starts and ends a container.
pub(super) async fn checked(
    placement: &Placement,
    engine: &ContainerEngine,
    runtime: &LocalRuntime,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let program = &runtime.program(placement);
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let client = remote::run(placement, command(engine.client(), engine.other(&["--version"])), None, SHORT);
    let client = client.await?;
    found("engine", successful(placement, engine.client(), client)?.last_line());
    found("runtime", version(placement, engine, runtime).await?);
    let line = format!("cd {} && pwd", path_word(&placement.cwd));
    let folder = runtime.in_container(placement, engine, SHELL, &["-c", &line]);
    let folder = remote::run(placement, folder, None, SHORT).await?;
    found(
        "folder",
        match folder.code {
            126 | 127 => format!("{} was not looked at: the image has no {SHELL}", placement.cwd),
            _ => folder_of(placement, &folder)?,
        },
    );
    let name = format!("subagent-check-{}", std::process::id());
    let outcome = started(placement, engine, runtime, &name).await;
    let ended = remote::run(placement, command(engine.client(), engine.remove(&name)), None, SHORT).await;
    outcome?;
    successful(placement, program, ended?)?;
    found("container", "started and ended".to_owned());
    Ok(())
}

/// Starts a container as for a worker, and runs the runtime in it.
async fn started(
    placement: &Placement,
    engine: &ContainerEngine,
    runtime: &LocalRuntime,
    name: &str,
) -> Result<()> {
    let program = &runtime.program(placement);
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::new(Code::StorageError, format!("a folder for the check: {error}")))?;
    let run = ContainerRun {
        name,
        folder: folder.path(),
        hidden: &[],
        runtime: placement.program.is_none().then_some(runtime.own.path.as_path()),
        program,
        user: user(),
    };
    let start = remote::run(placement, command(engine.client(), engine.start(&run)), None, SHORT).await?;
    successful(placement, program, start)?;
    let words = engine.exec(name, program, &["--version"]);
    let inside = remote::run(placement, command(engine.client(), words), None, SHORT).await?;
    same_version(placement, program, &inside).map(drop)
}

/// Fetches the image, unless it is here, and checks that the runtime can be executed in it.
pub(super) async fn prepared(
    placement: &Placement,
    engine: &ContainerEngine,
    runtime: &LocalRuntime,
) -> Result<CliOutcome> {
    let (name, image) = (&placement.name, &engine.image);
    // A path is a root file system: see `--rootfs` of podman.
    let mut pulled = false;
    if !image.starts_with('/') {
        let look = engine.other(&["image", "inspect", image]);
        let look = remote::run(placement, command(engine.client(), look), None, SHORT).await;
        if !look.is_ok_and(|printed| printed.code == 0) {
            let pull = command(engine.client(), engine.other(&["pull", image]));
            let pulled_with = remote::run(placement, pull, None, PULL).await?;
            if pulled_with.code != 0 {
                let failed = Printed { code: CLIENT_FAILED[0], ..pulled_with };
                return Err(failed.failure(placement, engine.client()));
            }
            pulled = true;
        }
    }
    let version = version(placement, engine, runtime).await?;
    let data = json!({
        "name": name, "image": image, "program": runtime.program(placement), "version": version, "pulled": pulled,
    });
    let done = if pulled { "prepared" } else { "is prepared already" };
    Ok(CliOutcome::report("placement.prepared", data, format!("{name} {done}: {version} runs in {image}")))
}

/// Returns the version of the runtime in the image.
async fn version(placement: &Placement, engine: &ContainerEngine, runtime: &LocalRuntime) -> Result<String> {
    let program = &runtime.program(placement);
    let look = runtime.in_container(placement, engine, program, &["--version"]);
    let printed = remote::run(placement, look, None, SHORT).await?;
    same_version(placement, program, &printed).map_err(|failure| match (&placement.program, printed.code) {
        (None, 1..) => failure.recommend(format!(
            "the runtime of this installation does not run in this image: put one of version {} that was built for it \
             into the image, and set placements.{}.program to its path",
            env!("CARGO_PKG_VERSION"),
            placement.name
        )),
        _ => failure,
    })
}

fn successful(placement: &Placement, program: &str, printed: Printed) -> Result<Printed> {
    if printed.code == 0 { Ok(printed) } else { Err(printed.failure(placement, program)) }
}
