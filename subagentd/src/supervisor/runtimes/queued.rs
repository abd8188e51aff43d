//! The place of a runtime in an engine's queue: asks for it, looks at it, and learns how it ended.
//! Only an answer of the engine proves anything; its silence is an error.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::client::{ClientFailure, cleaned};
use subagent_protocol::placement::engine::{
    ClientCommand, ClientOutput, PlaceQueue, PlaceStart, PlaceStatus,
};
use subagent_protocol::placement::slurm::JOB_LOG;
use subagent_protocol::{Code, Error, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::carrier::Carrier;
use super::forgotten;
use super::stream::{DialTarget, unreachable};
use crate::supervisor::entropy;

/// Time limit of a command of the engine's client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time in which an engine with free nodes gives a place. After it, the worker waits visibly.
const QUICK_START: Duration = Duration::from_secs(2);
/// Time in which a place that is ending can be expected to have ended.
const ENDING_TIMEOUT: Duration = Duration::from_secs(15);
/// Pauses between two looks at a place that changes soon.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Whether the place of a runtime that is not started yet can be used.
pub(crate) enum PlaceTurn {
    /// Commands can be run in it. It has the engine's id.
    Ready(String),
    Waits(PendingPlace),
}

/// Asks for the place of a runtime, once. `waited` is what is known of an earlier request.
///
/// # Errors
/// The engine refuses it, has ended it, or does not answer to the first request.
pub(super) async fn ask(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    waited: Option<&PendingPlace>,
) -> Result<PlaceTurn> {
    let name = carrier.place_name(worker, number);
    // One without a handle was asked for, and the engine has not confirmed it yet.
    let confirmed = waited.filter(|waited| !waited.handle.is_empty());
    let waits = |handle: &str, reason: String| {
        let (since, engine) = (waited.map_or_else(entropy::now, |waited| waited.since), carrier.kind());
        let (engine, handle) = (engine.to_owned(), handle.to_owned());
        Ok(PlaceTurn::Waits(PendingPlace { since, engine, handle, reason }))
    };
    let status = match look(carrier, engine, &name).await {
        Ok(PlaceStatus::Absent) if confirmed.is_none() => request(carrier, engine, (worker, number)).await?,
        // Confirmed, it ended because no daemon came in time.
        Ok(PlaceStatus::Gone { state, .. }) if confirmed.is_none() || engine.is_completed(&state) => {
            if engine.keeps_ended() && !end(carrier, engine, worker, number).await {
                Err(unreachable("the place of an earlier request does not end", ""))
            } else {
                request(carrier, engine, (worker, number)).await?
            }
        }
        status => status,
    };
    match status {
        Ok(PlaceStatus::Ready { handle }) => Ok(PlaceTurn::Ready(handle)),
        Ok(PlaceStatus::Waiting { handle, reason: state } | PlaceStatus::Held { handle, state }) => {
            waits(&handle, state)
        }
        Ok(PlaceStatus::Gone { handle, state }) => {
            let log = log_of(carrier, engine, worker, &name).await;
            // Otherwise it stays there.
            if engine.keeps_ended() {
                end(carrier, engine, worker, number).await;
            }
            Err(ended_early(carrier, engine, (&handle, &state), &log))
        }
        Ok(PlaceStatus::Absent) => {
            let handle = confirmed.map(|waited| waited.handle.as_str()).unwrap_or_default();
            let log = log_of(carrier, engine, worker, &name).await;
            Err(ended_early(carrier, engine, (handle, "not known"), &log))
        }
        // The place may be in the queue.
        Err(error) if is_asked(carrier, worker, number) => {
            waits(confirmed.map(|waited| waited.handle.as_str()).unwrap_or_default(), error.message)
        }
        Err(error) => Err(error),
    }
}

/// Asks the engine for a place, and looks at it until it is ready or certainly waits. The inner error
/// is the engine's silence after it has taken the request.
async fn request(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
) -> Result<Result<PlaceStatus>> {
    let asked = asked_file(carrier, worker, number);
    let is_first = matches!(asked.try_exists(), Ok(false));
    let identity = forgotten::identity(carrier, engine).await?;
    let written = carrier.make_folder(worker).and_then(|_| {
        let mut file = std::fs::File::create(&asked)?;
        file.write_all(identity.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| {
        let message = format!("the folder of placed workers: {error}");
        Error::new(Code::StorageError, message).or_storage_full(&error)
    })?;
    let (name, program, folder) =
        (carrier.place_name(worker, number), carrier.program(), carrier.folder_there(worker));
    let start =
        PlaceStart { name: &name, worker: worker.as_str(), number, folder: &folder, program: &program };
    match output(carrier, engine.start(&start)).await {
        Ok(said) if engine.is_asked_before(&said.stderr) => {}
        said => match said.and_then(|said| successful(carrier, said)) {
            Ok(_) => {}
            // Without an answer, it may have taken the request.
            Err(error) if is_silence(&error) => return Ok(Err(error)),
            Err(error) => {
                if is_first {
                    // Nothing needs to be ended. If the file stays, a stop asks for an end.
                    let _ = std::fs::remove_file(&asked);
                }
                return Err(error);
            }
        },
    }
    subagent_failpoint::hit("queued.after_start");
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let status = look(carrier, engine, &name).await;
        if !matches!(status, Ok(PlaceStatus::Waiting { .. })) || begun.elapsed() > QUICK_START {
            return Ok(status);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Whether the engine gave no answer, so that it may have carried out a request.
fn is_silence(error: &Error) -> bool {
    let reason = error.details.get("reason").and_then(serde_json::Value::as_str);
    error.code == Code::PlacementUnreachable && matches!(reason, Some("engine" | "timeout"))
}

/// Returns whether the engine may have been asked for the place of this runtime. The file is there
/// before the first request.
pub(super) fn is_asked(carrier: &Carrier, worker: &WorkerId, number: u64) -> bool {
    !matches!(asked_file(carrier, worker, number).try_exists(), Ok(false))
}

/// The file of the first request, with the identity of the engine that was asked.
pub(super) fn asked_file(carrier: &Carrier, worker: &WorkerId, number: u64) -> PathBuf {
    carrier.folder(worker).join(format!("asked-{number}"))
}

/// Returns the command that dials the runtime: in its place, or here if the engine has ended a place
/// that shares its folder, for the rest of the journal. The locks are then looked at too.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`: the engine does not answer, or no command can be run in the place.
pub(super) async fn dial(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    number: u64,
) -> Result<DialTarget> {
    match settled(carrier, engine, worker, number).await? {
        PlaceStatus::Ready { handle } => {
            let words = ["dial", worker.as_str()];
            Ok(DialTarget::Reached(Box::new(carrier.client(engine.exec(
                &handle,
                &carrier.program(),
                &words,
            )))))
        }
        PlaceStatus::Gone { .. } if engine.shares_folder() => {
            Ok(DialTarget::Reached(Box::new(carrier.dial_here(worker))))
        }
        PlaceStatus::Gone { .. } => Ok(DialTarget::Vanished),
        PlaceStatus::Waiting { handle, reason: state } | PlaceStatus::Held { handle, state } => {
            Err(unreachable(&format!("the {} {handle} is {state}", engine.noun()), ""))
        }
        PlaceStatus::Absent => {
            Err(unreachable(&format!("the engine does not know the {} any more", engine.noun()), ""))
        }
    }
}

/// Returns how the engine has ended the place, for messages; `None` if that is not known.
pub(super) async fn end_of(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    number: u64,
) -> Option<String> {
    match timeout(ENDING_TIMEOUT, settled(carrier, engine, worker, number)).await {
        Ok(Ok(PlaceStatus::Gone { handle, state })) => Some(format!("{} {handle}: {state}", engine.noun())),
        _ => None,
    }
}

/// Ends the place of a runtime. Returns whether the engine has taken the request, and has ended a place
/// that it would keep.
pub(super) async fn end(carrier: &Carrier, engine: &PlaceQueue, worker: &WorkerId, number: u64) -> bool {
    let name = carrier.place_name(worker, number);
    let ended = output(carrier, engine.end(&name)).await.and_then(|output| successful(carrier, output));
    if let Err(error) = &ended {
        tracing::warn!(%worker, number, %error, "the place of a runtime was not ended");
    }
    if ended.is_err() || !engine.keeps_ended() {
        return ended.is_ok();
    }
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    while begun.elapsed() < ENDING_TIMEOUT {
        match look(carrier, engine, &name).await {
            Ok(PlaceStatus::Absent) => return true,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%worker, number, %error, "it is unknown whether the place of a runtime has ended");
                return false;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
    false
}

/// Looks at a place, and waits for one that is ending. What the engine has forgotten must be proved.
async fn settled(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    let name = carrier.place_name(worker, number);
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match look(carrier, engine, &name).await? {
            PlaceStatus::Held { state, .. }
                if engine.is_ending(&state) && begun.elapsed() < ENDING_TIMEOUT => {}
            PlaceStatus::Absent => return forgotten::proved(carrier, engine, worker, number).await,
            status => return Ok(status),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

pub(super) async fn look(carrier: &Carrier, engine: &PlaceQueue, name: &str) -> Result<PlaceStatus> {
    let output = output(carrier, engine.look(name)).await?;
    let printed =
        ClientOutput { success: output.status.success(), stdout: &output.stdout, stderr: &output.stderr };
    match engine.seen(name, &printed) {
        Some(status) => Ok(status),
        None => {
            successful(carrier, output)?;
            Err(unreachable("the answer of the engine cannot be understood", ""))
        }
    }
}

/// Returns the end of what was printed in a place that has ended.
async fn log_of(carrier: &Carrier, engine: &PlaceQueue, worker: &WorkerId, name: &str) -> Vec<u8> {
    match engine.log(name) {
        None => std::fs::read(carrier.folder(worker).join(JOB_LOG)).unwrap_or_default(),
        Some(command) => match output(carrier, command).await {
            Ok(output) if output.status.success() => output.stdout,
            // Only for the message.
            _ => Vec::new(),
        },
    }
}

/// Returns the error for a place that ended before its runtime was started. `log` was printed in it.
fn ended_early(carrier: &Carrier, engine: &PlaceQueue, (handle, state): (&str, &str), log: &[u8]) -> Error {
    let said = cleaned(log);
    let after = if said.is_empty() { String::new() } else { format!(": {said}") };
    let noun = engine.noun();
    let message = format!("the {noun} {handle} ended before the runtime was started ({state}){after}");
    let (code, action) = match engine.is_not_prepared(state) {
        true => (Code::PlacementNotPrepared, "prepare"),
        // It was wanted.
        false => (Code::PlacementUnreachable, "check"),
    };
    let error = Error::new(code, message)
        .with("reason", noun)
        .with(noun, handle)
        .with("engineState", state)
        .with("dispatched", "no");
    let Some(placement) = carrier.elsewhere() else { return error };
    placement.named_in(error).recommend(format!("run `subagent placement {action} {}`", placement.name))
}

/// Runs a command of the engine's client.
pub(super) async fn output(carrier: &Carrier, command: ClientCommand) -> Result<Output> {
    let failed = |failure: ClientFailure<'_>| carrier.failure(failure);
    let input = command.input.clone();
    let mut client = carrier.client(command);
    client.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    client.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let run = async {
        let mut child = client.spawn()?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // One that does not read it says why.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    match timeout(CLIENT_TIMEOUT, run).await {
        Ok(output) => output.map_err(|error| failed(ClientFailure::NoClient(&error.to_string()))),
        Err(_) => Err(failed(ClientFailure::TimedOut(b""))),
    }
}

pub(super) fn successful(carrier: &Carrier, output: Output) -> Result<Output> {
    match output.status.success() {
        true => Ok(output),
        false => Err(carrier.failure(ClientFailure::Exited(output.status.code(), &output.stderr))),
    }
}
