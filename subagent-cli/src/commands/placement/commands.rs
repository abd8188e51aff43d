//! What `placement check` and `placement prepare` do for a place of the user's own commands.

use std::path::Path;

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::client::cleaned;
use subagent_protocol::placement::command::{LOGS, UserCommands};
use subagent_protocol::placement::engine::{NamedPlace, PlaceIdentity, PlaceQueue, PlaceStart, PlaceStatus};
use subagent_protocol::placement::kubernetes::manifest::PodManifest;
use subagent_protocol::placement::ssh::path_word;
use subagent_protocol::stream::after_magic;
use tokio::time::{Duration, Instant, sleep};

use super::queue::{self, CheckPlace, of, run, written};
use super::remote::{self, LocalRuntime, SHORT};
use super::steps::{PROBE, PassedStep, folder_of, same_version};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::random::random;

const PAUSE: Duration = Duration::from_millis(100);

/// Tries each command: starts a place, looks into it, and ends it.
pub(super) async fn checked(
    placement: &Placement,
    commands: &UserCommands,
    program: &str,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let name = format!("subagent-check-{}", random::<8>()?);
    let queue = PlaceQueue::Command(Box::new(commands.clone()));
    let (folder, manifest) = (Path::new(""), PodManifest::default());
    let start = PlaceStart { name: &name, worker: PROBE, number: 1, folder, program, request: "", manifest };
    let identity = queue::asked(placement, &queue, &start).await.map_err(|failure| {
        failure.with("place", name.as_str()).recommend(format!(
            "correct `submit`, and end the place `{name}` if it runs; then check the placement again"
        ))
    })?;
    let Some(handle) = identity.uid.as_deref() else {
        let message = format!(
            "`submit` of the placement `{}` printed no handle, so that a place `{name}` may run",
            placement.name
        );
        return Err(Failure::new(Code::PlacementUnreachable, message)
            .with("placement", placement.name.as_str())
            .with("reason", "command")
            .with("command", "submit")
            .recommend("end this place yourself; the last line of `submit` must be the handle, one word"));
    };
    found("submit", handle.to_owned());
    let place = NamedPlace { name: &name, handle };
    let outcome = looked_into(placement, &queue, (place, &identity, program), &mut found).await;
    let log = match queue.log(place) {
        Some(log) => Some(run(placement, log).await),
        None => None,
    };
    let ended = ended(placement, &queue, (place, &identity)).await;
    outcome?;
    if let Some(log) = log {
        found(LOGS, format!("{} bytes", log?.stdout.len()));
    }
    found("cancel", ended?);
    Ok(())
}

/// Looks at the runtime, the folder and the stream in a place.
async fn looked_into(
    placement: &Placement,
    queue: &PlaceQueue,
    (place, identity, program): (NamedPlace<'_>, &PlaceIdentity, &str),
    found: &mut impl FnMut(&'static str, String),
) -> Result<()> {
    if let CheckPlace::Ended(state) = queue::ready(placement, queue, place.name, identity).await? {
        let message = format!("the place {} of the check ended at once ({state})", place.handle);
        return Err(Failure::new(Code::PlacementUnreachable, message)
            .with("placement", placement.name.as_str())
            .with("reason", "place"));
    }
    found("status", "alive".to_owned());
    let there = |program: &str, words: &[&str]| of(placement, queue.exec(place, program, words));
    let version = remote::run(placement, there(program, &["--version"]), None, SHORT).await?;
    found("runtime", same_version(placement, program, &version)?);
    // On standard input, because `ssh` as `dial` joins words for a shell.
    let script = written(&format!("cd {} && pwd\n", path_word(&placement.cwd)));
    let script = script.map_err(|error| Failure::new(Code::StorageError, format!("a file: {error}")))?;
    let shell = (there("/bin/sh", &[]), Some("dial"));
    let folder = remote::output(placement, shell, Some(script.path()), SHORT).await?;
    found("folder", folder_of(placement, &folder)?);
    // Greets, and ends with its input.
    let stream = remote::run(placement, there(program, &["dial", PROBE]), None, SHORT).await?;
    if stream.code != 0 || after_magic(&stream.stdout).ok().flatten().is_none() {
        return Err(stream.failure(placement, program));
    }
    found("stream", "opened and ended".to_owned());
    Ok(())
}

/// Ends a place, and returns the state with which it is gone.
async fn ended(
    placement: &Placement,
    queue: &PlaceQueue,
    (place, identity): (NamedPlace<'_>, &PlaceIdentity),
) -> Result<String> {
    let (begun, mut is_canceled) = (Instant::now(), false);
    loop {
        let (status, _) = queue::look(placement, queue, place.name, identity).await?;
        if let PlaceStatus::Gone { state, .. } = status {
            return Ok(state);
        }
        if !is_canceled {
            run(placement, queue.end(place)).await?;
            is_canceled = true;
            continue;
        }
        if begun.elapsed() > SHORT {
            let (state, seconds) = (cleaned(status.state().as_bytes()), SHORT.as_secs());
            let message =
                format!("the place {} is not gone {seconds} s after `cancel` ({state})", place.handle);
            return Err(Failure::new(Code::PlacementUnreachable, message)
                .with("placement", placement.name.as_str())
                .with("reason", "command")
                .with("command", "cancel")
                .recommend("end it yourself; `status` must print `gone` for a place that has ended"));
        }
        sleep(PAUSE).await;
    }
}

/// Returns what a place needs. Each one is new, so nothing is put there from here.
pub(super) fn prepared(placement: &Placement, runtime: &LocalRuntime) -> CliOutcome {
    let (own, task_server) = (&runtime.own, &runtime.task_server);
    let program = runtime.program(placement);
    let sources = [own.path.display().to_string(), task_server.path.display().to_string()];
    let data = json!({
        "name": placement.name, "program": program, "version": env!("CARGO_PKG_VERSION"),
        "sha256": own.sha256, "uploaded": false, "files": sources,
    });
    let target = match &placement.program {
        Some(program) => format!("as {program}, and the second one beside it"),
        None => "into a folder of its PATH".to_owned(),
    };
    let shown = format!(
        "Each place is new, and is not changed from here. Let `submit`, or the image that it uses, put these files {target}:\n  \
         {}\n  {}\nThen run `subagent placement check {}`.",
        sources[0], sources[1], placement.name
    );
    CliOutcome::report("placement.prepared", data, shown)
}
