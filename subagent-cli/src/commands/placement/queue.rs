//! What `placement check` does for an engine with a queue: starts a place as for a worker, and looks
//! into it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use subagent_protocol::Code;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::client::{CLIENT_TIMEOUT, ClientFailure};
use subagent_protocol::placement::engine::{
    ClientCommand, ClientOutput, NamedPlace, PlaceIdentity, PlaceQueue, PlaceStart, PlaceStatus,
};
use subagent_protocol::placement::ssh::path_word;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::remote::{self, Printed, SHORT, command};
use super::steps::{folder_of, same_version};
use crate::failure::{Failure, Result};

/// Time limit until the place of the check can be used.
const QUEUE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);

/// The place of a check.
pub(super) enum CheckPlace {
    /// Commands can be run in it.
    Ready(String),
    /// It ended at once, with this state.
    Ended(String),
}

/// Starts a place and waits until it can be used.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`, also for one that waits too long.
pub(super) async fn started(
    placement: &Placement,
    queue: &PlaceQueue,
    start: &PlaceStart<'_>,
) -> Result<CheckPlace> {
    let identity = asked(placement, queue, start).await?;
    ready(placement, queue, start.name, &identity).await
}

/// Starts a place, and returns by what it is known again.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`.
pub(super) async fn asked(
    placement: &Placement,
    queue: &PlaceQueue,
    start: &PlaceStart<'_>,
) -> Result<PlaceIdentity> {
    let said = run(placement, queue.start(start)).await?;
    let uid = queue.started_uid(&said.stdout);
    Ok(PlaceIdentity { request: start.request.to_owned(), uid, ..PlaceIdentity::default() })
}

/// Waits until a place can be used.
///
/// # Errors
/// As [`started`].
pub(super) async fn ready(
    placement: &Placement,
    queue: &PlaceQueue,
    name: &str,
    identity: &PlaceIdentity,
) -> Result<CheckPlace> {
    let begun = Instant::now();
    loop {
        let (status, _) = look(placement, queue, name, identity).await?;
        let last = match status {
            PlaceStatus::Ready { handle } => return Ok(CheckPlace::Ready(handle)),
            PlaceStatus::Gone { state, .. } => return Ok(CheckPlace::Ended(state)),
            status => status.state().to_owned(),
        };
        if begun.elapsed() > QUEUE {
            let (noun, seconds) = (queue.noun(), QUEUE.as_secs());
            let message = format!("the {noun} of the check waits for {seconds} s ({last})");
            return Err(Failure::new(Code::PlacementUnreachable, message)
                .with("placement", placement.name.as_str())
                .with("reason", last)
                .recommend("workers wait too; correct the placement if the reason does not end by itself"));
        }
        sleep(PAUSE).await;
    }
}

/// Looks at the runtime and the folder in a place.
///
/// # Errors
/// `PLACEMENT_NOT_PREPARED`, `PLACEMENT_FOLDER_MISSING`, `PLACEMENT_UNREACHABLE`.
pub(super) async fn looked_into(
    placement: &Placement,
    queue: &PlaceQueue,
    (place, program): (NamedPlace<'_>, &str),
    found: &mut impl FnMut(&'static str, String),
) -> Result<()> {
    let there = |program: &str, words: &[&str]| {
        remote::run(placement, of(placement, queue.exec(place, program, words)), None, SHORT)
    };
    let version = there(program, &["--version"]).await?;
    found("runtime", same_version(placement, program, &version)?);
    let line = format!("cd {} && pwd", path_word(&placement.cwd));
    let printed = there("/bin/sh", &["-c", &line]).await?;
    found("folder", folder_of(placement, &printed)?);
    Ok(())
}

/// Returns the status of the place of this name and identity, and the engine's id of it.
pub(super) async fn look(
    placement: &Placement,
    queue: &PlaceQueue,
    name: &str,
    identity: &PlaceIdentity,
) -> Result<(PlaceStatus, Option<String>)> {
    let Some(client) = queue.look(name, identity) else { return Ok((PlaceStatus::Absent, None)) };
    let (key, program) = (client.key, client.program.clone());
    let printed = remote::output(placement, (of(placement, client), key), None, limit(key)).await?;
    let output =
        ClientOutput { success: printed.code == 0, stdout: &printed.stdout, stderr: &printed.stderr };
    let status = queue.seen(name, identity, &output);
    let uid = queue.uid(&printed.stdout);
    status.map(|status| (status, uid)).ok_or_else(|| failure(placement, (key, &program), &printed))
}

/// The error of a client that failed. `key` is that of a command of the user, whose output is the reason
/// if it has succeeded.
fn failure(placement: &Placement, (key, program): (Option<&str>, &str), printed: &Printed) -> Failure {
    match key {
        None => printed.failure(placement, program),
        Some(key) => {
            let said = if printed.code == 0 { &printed.stdout } else { &printed.stderr };
            ClientFailure::Refused(key, Some(printed.code), said).error(placement, program).into()
        }
    }
}

/// Ends the place of this name and identity, if there is one.
pub(super) async fn end(
    placement: &Placement,
    queue: &PlaceQueue,
    name: &str,
    identity: &PlaceIdentity,
) -> Result<()> {
    match look(placement, queue, name, identity).await? {
        (PlaceStatus::Absent, _) => Ok(()),
        (_, uid) => {
            let handle = &uid.unwrap_or_default();
            run(placement, queue.end(NamedPlace { name, handle })).await.map(drop)
        }
    }
}

/// Runs a command of the client, which must succeed.
///
/// # Errors
/// Those of [`remote::run`], also for another exit.
pub(super) async fn run(placement: &Placement, command: ClientCommand) -> Result<Printed> {
    let script = command.input.as_deref().map(written).transpose();
    let script = script.map_err(|error| Failure::new(Code::StorageError, format!("a file: {error}")))?;
    let (key, client) = (command.key, command.program.clone());
    let input = script.as_ref().map(tempfile::NamedTempFile::path);
    let command = of(placement, command);
    let printed = match key {
        None => remote::run(placement, command, input, SHORT).await?,
        Some(_) => remote::output(placement, (command, key), input, limit(key)).await?,
    };
    if printed.code == 0 { Ok(printed) } else { Err(failure(placement, (key, &client), &printed)) }
}

/// Time limit of a client; of a command of the user, that of the daemon.
fn limit(key: Option<&str>) -> Duration {
    if key.is_some() { CLIENT_TIMEOUT } else { SHORT }
}

pub(super) fn written(text: &str) -> io::Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), text)?;
    Ok(file)
}

/// Returns a command of a client, without variables that change what its options mean. A command of the
/// user runs as the daemon runs it.
pub(super) fn of(placement: &Placement, client: ClientCommand) -> Command {
    let mut command = command(&client.program, client.arguments);
    if client.key.is_some() {
        command.current_dir("/");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"SUBAGENT_")) {
            command.env_remove(name);
        }
    }
    command.envs(client.variables);
    for name in placement.hidden_variables() {
        command.env_remove(name);
    }
    command
}
