//! The place of a runtime in an engine's queue: asks for it, looks at it, and learns how it ended.
//! Only an answer of the engine proves anything; its silence is an error.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::client::{ClientFailure, cleaned};
use subagent_protocol::placement::engine::{ClientCommand, PlaceStart, PlaceStatus};
use subagent_protocol::placement::slurm::{self, JOB_FILE, JOB_LOG, SlurmCluster};
use subagent_protocol::{Code, Error, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::carrier::{Carrier, clean};
use super::stream::unreachable;
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
    engine: &SlurmCluster,
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
        Ok(PlaceStatus::Absent | PlaceStatus::Gone { .. }) if confirmed.is_none() => {
            request(carrier, engine, (worker, number)).await?
        }
        // It ended because no daemon came in time.
        Ok(PlaceStatus::Gone { state, .. }) if state == slurm::COMPLETED => {
            request(carrier, engine, (worker, number)).await?
        }
        status => status,
    };
    match status {
        Ok(PlaceStatus::Ready { handle }) => Ok(PlaceTurn::Ready(handle)),
        Ok(PlaceStatus::Waiting { handle, reason: state } | PlaceStatus::Held { handle, state }) => {
            waits(&handle, state)
        }
        Ok(PlaceStatus::Gone { handle, state }) => Err(ended_early(carrier, worker, &handle, &state)),
        Ok(PlaceStatus::Absent) => {
            let handle = confirmed.map(|waited| waited.handle.as_str()).unwrap_or_default();
            Err(ended_early(carrier, worker, handle, "not known"))
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
    engine: &SlurmCluster,
    (worker, number): (&WorkerId, u64),
) -> Result<Result<PlaceStatus>> {
    let folder = carrier.make_folder(worker).and_then(|folder| {
        let asked = std::fs::File::create(asked_file(carrier, worker, number))?;
        asked.sync_all().map(|()| folder)
    });
    let folder = folder.map_err(|error| {
        let message = format!("the folder of placed workers: {error}");
        Error::new(Code::StorageError, message).or_storage_full(&error)
    })?;
    let (name, program) = (carrier.place_name(worker, number), carrier.program());
    let start = PlaceStart { name: &name, number, folder: &folder, program: &program };
    if let Err(error) = output(carrier, engine.start(&start)).await.and_then(|said| successful(carrier, said))
    {
        // Without an answer, it may have taken the request.
        return if is_silence(&error) { Ok(Err(error)) } else { Err(error) };
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

fn asked_file(carrier: &Carrier, worker: &WorkerId, number: u64) -> PathBuf {
    carrier.folder(worker).join(format!("asked-{number}"))
}

/// Returns the command that dials the runtime: in its place, or here if the engine has ended the place,
/// for the rest of the journal. The locks are then looked at too.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`: the engine does not answer, or no command can be run in the place.
pub(super) async fn dial(
    carrier: &Carrier,
    engine: &SlurmCluster,
    worker: &WorkerId,
    number: u64,
) -> Result<Command> {
    match settled(carrier, engine, worker, number).await? {
        PlaceStatus::Ready { handle } => {
            let words = ["dial", worker.as_str()];
            Ok(clean_client(engine.exec(&handle, &carrier.program(), &words)))
        }
        PlaceStatus::Gone { .. } => Ok(carrier.dial_here(worker)),
        PlaceStatus::Waiting { handle, reason: state } | PlaceStatus::Held { handle, state } => {
            Err(unreachable(&format!("the job {handle} is {state}"), ""))
        }
        PlaceStatus::Absent => Err(unreachable("the engine does not know the job any more", "")),
    }
}

/// Returns how the engine has ended the place, for messages; `None` if that is not known.
pub(super) async fn end_of(
    carrier: &Carrier,
    engine: &SlurmCluster,
    worker: &WorkerId,
    number: u64,
) -> Option<String> {
    match timeout(ENDING_TIMEOUT, settled(carrier, engine, worker, number)).await {
        Ok(Ok(PlaceStatus::Gone { handle, state })) => Some(format!("job {handle}: {state}")),
        _ => None,
    }
}

/// Ends the place of a runtime. Returns whether the engine has taken the request.
pub(super) async fn end(carrier: &Carrier, engine: &SlurmCluster, worker: &WorkerId, number: u64) -> bool {
    let command = engine.end(&carrier.place_name(worker, number));
    let ended = output(carrier, command).await.and_then(|output| successful(carrier, output));
    if let Err(error) = &ended {
        tracing::warn!(%worker, number, %error, "the place of a runtime was not ended");
    }
    ended.is_ok()
}

/// Looks at a place, and waits for one that is ending. What the engine has forgotten is looked up in
/// its accounting, and else in the worker's folder.
async fn settled(
    carrier: &Carrier,
    engine: &SlurmCluster,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    let name = carrier.place_name(worker, number);
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match look(carrier, engine, &name).await? {
            PlaceStatus::Held { state, .. } if state == "COMPLETING" && begun.elapsed() < ENDING_TIMEOUT => {}
            PlaceStatus::Absent => return forgotten(carrier, engine, worker, number).await,
            status => return Ok(status),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// The engine forgets a place only after its end. But these clients may reach another cluster.
async fn forgotten(
    carrier: &Carrier,
    engine: &SlurmCluster,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    // A cluster without accounting may not have this client.
    if let Ok(look_back) = output(carrier, engine.look_back(&carrier.place_name(worker, number))).await
        && look_back.status.success()
    {
        match slurm::status(&String::from_utf8_lossy(&look_back.stdout)) {
            PlaceStatus::Absent => {}
            status => return Ok(status),
        }
    }
    if !carrier.folder(worker).is_dir() {
        return Err(unreachable("the worker's folder is gone: is the shared file system mounted?", ""));
    }
    let file = carrier.folder(worker).join(format!("{JOB_FILE}{number}"));
    let Some((handle, cluster)) = read_job(&file)? else {
        // No process of this place has begun.
        return Ok(PlaceStatus::Gone { handle: String::new(), state: "not known".to_owned() });
    };
    let identity = successful(carrier, output(carrier, engine.identify()).await?)?;
    let identity = String::from_utf8_lossy(&identity.stdout);
    match slurm::cluster_name(&identity) {
        Some(name) if name == cluster => {
            // It may have another name now.
            let said = output(carrier, engine.look_at(&handle)).await?;
            match slurm::status(&String::from_utf8_lossy(&said.stdout)) {
                PlaceStatus::Absent if slurm::is_unknown(&said.stderr) => {}
                PlaceStatus::Absent => drop(successful(carrier, said)?),
                status => return Ok(status),
            }
            Ok(PlaceStatus::Gone { handle, state: "ended, and forgotten by the engine".to_owned() })
        }
        name => {
            let name = name.unwrap_or("another one");
            Err(unreachable(
                &format!("the job {handle} is of the cluster {cluster}, and the clients reach {name}"),
                "",
            ))
        }
    }
}

/// Returns the job and the cluster that a place has named; `None` if no process of it has begun.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE` if that cannot be read.
fn read_job(file: &Path) -> Result<Option<(String, String)>> {
    let unreadable = |why: &str| unreachable(&format!("{} cannot be read: {why}", file.display()), "");
    match std::fs::read_to_string(file) {
        Ok(text) => match text.trim().split_once(' ') {
            Some((job, cluster)) => Ok(Some((job.to_owned(), cluster.to_owned()))),
            None => Err(unreadable("it has no job")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}

async fn look(carrier: &Carrier, engine: &SlurmCluster, name: &str) -> Result<PlaceStatus> {
    let output = successful(carrier, output(carrier, engine.look(name)).await?)?;
    Ok(slurm::status(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the error for a place that ended before its runtime was started.
fn ended_early(carrier: &Carrier, worker: &WorkerId, handle: &str, state: &str) -> Error {
    let log = std::fs::read(carrier.folder(worker).join(JOB_LOG)).unwrap_or_default();
    let said = cleaned(&log);
    let after = if said.is_empty() { String::new() } else { format!(": {said}") };
    let message = format!("the job {handle} ended before the runtime was started ({state}){after}");
    // A script that fails at once lacks something there. Any other end was wanted.
    let code = if state == "FAILED" { Code::PlacementNotPrepared } else { Code::PlacementUnreachable };
    let error = Error::new(code, message)
        .with("reason", "job")
        .with("job", handle)
        .with("engineState", state)
        .with("dispatched", "no");
    let Some(placement) = carrier.elsewhere() else { return error };
    let action = if state == "FAILED" { "prepare" } else { "check" };
    placement.named_in(error).recommend(format!("run `subagent placement {action} {}`", placement.name))
}

/// Runs a command of the engine's client.
async fn output(carrier: &Carrier, command: ClientCommand) -> Result<Output> {
    let failed = |failure: ClientFailure<'_>| carrier.failure(failure);
    let input = command.input.clone();
    let mut client = clean_client(command);
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

fn successful(carrier: &Carrier, output: Output) -> Result<Output> {
    match output.status.success() {
        true => Ok(output),
        false => Err(carrier.failure(ClientFailure::Exited(output.status.code(), &output.stderr))),
    }
}

/// Returns a command of a client, without variables that change what its options mean.
pub(super) fn clean_client(command: ClientCommand) -> Command {
    let mut client = clean(Command::new(command.program), command.arguments);
    for name in slurm::variables_about_jobs() {
        client.env_remove(name);
    }
    client
}
