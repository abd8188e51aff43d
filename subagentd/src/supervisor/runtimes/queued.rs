//! The place of a runtime in an engine's queue: asks for it, looks at it, and learns how it ended.
//! Only an answer of the engine proves anything; its silence is an error.

use std::path::Path;
use std::time::Duration;

use subagent_config::start::templates;
use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::ids::{WorkerId, hex};
use subagent_protocol::placement::Engine;
use subagent_protocol::placement::client::cleaned;
use subagent_protocol::placement::engine::{
    ClientCommand, ClientOutput, NamedPlace, PlaceIdentity, PlaceQueue, PlaceStart, PlaceStatus,
};
use subagent_protocol::placement::kubernetes::manifest::PodManifest;
use subagent_protocol::placement::slurm::JOB_LOG;
use subagent_protocol::{Code, Error, Result};
use tokio::time::{Instant, sleep, timeout};

use super::asked;
use super::carrier::Carrier;
use super::client::{ClientAnswer, output, successful};
use super::ended::{self, PlaceEnding};
use super::forgotten;
use super::stream::{DialTarget, unreachable};
use crate::supervisor::entropy;

/// Time in which an engine with free nodes gives a place. After it, the worker waits visibly.
const QUICK_START: Duration = Duration::from_secs(2);
/// Time in which a place that is ending can be expected to have ended.
pub(super) const ENDING_TIMEOUT: Duration = Duration::from_secs(15);
/// Pauses between two looks at a place that changes soon.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(super) const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Whether the place of a runtime that is not started yet can be used.
pub(crate) enum PlaceTurn {
    /// Commands can be run in it. It has the engine's id.
    Ready(String),
    Waits(PendingPlace),
}

/// Asks for the place of a runtime, once. `waited` is what is known of an earlier request. `earlier` are
/// the places that must have ended before there is another one.
///
/// # Errors
/// The engine refuses it, has ended it, or does not answer to the first request. `FENCED`.
pub(super) async fn ask(
    carrier: &Carrier,
    engine: &PlaceQueue,
    runtime: (&WorkerId, u64),
    waited: Option<&PendingPlace>,
    earlier: Option<&PlaceEnding>,
) -> Result<PlaceTurn> {
    let (worker, number) = runtime;
    // One without a handle was asked for, and the engine has not confirmed it yet.
    let confirmed = waited.filter(|waited| !waited.handle.is_empty());
    let waits = |handle: &str, reason: String| {
        let (since, engine) = (waited.map_or_else(entropy::now, |waited| waited.since), carrier.kind());
        let (engine, handle) = (engine.to_owned(), handle.to_owned());
        Ok(PlaceTurn::Waits(PendingPlace { since, engine, handle, reason }))
    };
    if let Some(earlier) = earlier {
        match ended::end_all(carrier, engine, worker, earlier).await {
            Ok(_) => {}
            Err(error) if error.code == Code::Fenced => return Err(error),
            Err(error) => {
                return waits("", format!("an earlier {} may still run: {}", engine.noun(), error.message));
            }
        }
    }
    let mut asked = asked::read(carrier, worker, number).await?.unwrap_or_default();
    let status = look(carrier, engine, runtime, &mut asked.identity).await;
    let is_named = !engine.is_known_by_uid() || asked.identity.uid.is_some();
    if asked.given_up && status.is_ok() && is_named {
        asked::take_back(carrier, worker, number).await?;
    }
    let status = match status {
        Ok(PlaceStatus::Absent) if confirmed.is_none() => request(carrier, engine, runtime).await?,
        // Confirmed, it ended because no daemon came in time.
        Ok(PlaceStatus::Gone { state, .. }) if confirmed.is_none() || engine.is_completed(&state) => {
            match ended_first(carrier, engine, runtime).await {
                Ok(()) => request(carrier, engine, runtime).await?,
                Err(error) => Err(error),
            }
        }
        status => status,
    };
    match status {
        Ok(PlaceStatus::Ready { handle }) => Ok(PlaceTurn::Ready(handle)),
        // It is asked for again when it has ended.
        Ok(PlaceStatus::Held { state, .. }) if confirmed.is_none() && engine.is_ending(&state) => {
            waits("", state)
        }
        Ok(PlaceStatus::Waiting { handle, reason: state } | PlaceStatus::Held { handle, state }) => {
            waits(&handle, state)
        }
        Ok(PlaceStatus::Gone { handle, state }) => {
            let log = log_of(carrier, engine, runtime, &handle).await;
            if let Err(error) = ended_first(carrier, engine, runtime).await {
                // The worker's end asks again.
                tracing::warn!(%worker, number, %error, "the place of a runtime was not ended");
            }
            Err(ended_early(carrier, engine, (&handle, &state), &log))
        }
        Ok(PlaceStatus::Absent) => {
            let handle = confirmed.map(|waited| waited.handle.as_str()).unwrap_or_default();
            let log = log_of(carrier, engine, runtime, handle).await;
            Err(ended_early(carrier, engine, (handle, "not known"), &log))
        }
        // The place may be in the queue.
        Err(error) if asked::read(carrier, worker, number).await?.is_some() => {
            waits(confirmed.map(|waited| waited.handle.as_str()).unwrap_or_default(), error.message)
        }
        Err(error) => Err(error),
    }
}

/// Ends what an engine keeps of a place that has ended.
async fn ended_first(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
) -> Result<()> {
    match engine.shares_folder() {
        true => Ok(()),
        false => ended::end(carrier, engine, (worker, number), None).await,
    }
}

/// Asks the engine for a place, and looks at it until it is ready or certainly waits. The inner error
/// says that it may have taken the request.
async fn request(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
) -> Result<Result<PlaceStatus>> {
    let earlier = asked::read(carrier, worker, number).await?;
    if earlier.as_ref().is_some_and(|asked| asked.identity.uid.is_some()) {
        // Absence alone is no proof.
        if let Err(error) = forgotten::proved(carrier, engine, worker, number).await {
            return Ok(Err(error));
        }
    }
    let cluster = forgotten::cluster(carrier, engine).await?;
    let mut identity = match &earlier {
        // A second request creates no second place, because both have this word.
        Some(asked) if asked.identity.uid.is_none() => asked.identity.clone(),
        _ => {
            let request = hex(&entropy::random::<8>()?);
            let name = carrier.place_name(worker, number);
            PlaceIdentity { cluster: cluster.clone(), request, name, uid: None }
        }
    };
    if identity.cluster != cluster {
        return Ok(Err(unreachable("the place was asked for in another cluster or namespace", "")));
    }
    let manifest = manifest(carrier, engine).await?;
    // Anew, as this request may be the last one that is on its way.
    asked::write(carrier, worker, number, &identity).await?;
    let mut is_taken = false;
    let started = start(carrier, engine, (worker, number), &identity, manifest).await;
    subagent_failpoint::hit("queued.after_start");
    match started {
        Ok(said) if said.status.success() => {
            take_uid(carrier, engine, (worker, number), &mut identity, &said).await?;
            if engine.is_known_by_uid() && earlier.as_ref().is_some_and(|asked| asked.given_up) {
                asked::take_back(carrier, worker, number).await?;
            }
        }
        Ok(said) if engine.is_asked_before(&said.stderr) => is_taken = true,
        Ok(said) => {
            // One that was killed may have asked.
            let is_refused = said.status.code().is_some() && engine.is_refused(&said.stderr);
            let error = carrier.failure(said.failure());
            if is_refused && earlier.is_none() {
                // Nothing needs to be ended. If the file stays, a stop asks for an end.
                let _ = asked::remove(carrier, worker, number).await;
            }
            return if is_refused || !is_silence(&error) { Err(error) } else { Ok(Err(error)) };
        }
        Err(error) if is_silence(&error) => return Ok(Err(error)),
        Err(error) => {
            if reason(&error) == Some("command") && earlier.is_none() {
                // The command was not started.
                let _ = asked::remove(carrier, worker, number).await;
            }
            return Err(error);
        }
    }
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    let name = identity.name_or(|| carrier.place_name(worker, number));
    loop {
        let status = look(carrier, engine, (worker, number), &mut identity).await;
        if is_taken && matches!(status, Ok(PlaceStatus::Absent)) {
            if earlier.is_none() {
                // The only request was refused.
                asked::remove(carrier, worker, number).await?;
            }
            let reason = format!("another {} has the name {name}; delete it, or wait", engine.noun());
            return Ok(Ok(PlaceStatus::Waiting { handle: String::new(), reason }));
        }
        if !matches!(status, Ok(PlaceStatus::Waiting { .. })) || begun.elapsed() > QUICK_START {
            return Ok(status);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Asks the engine for the place of a runtime.
async fn start(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    identity: &PlaceIdentity,
    manifest: PodManifest,
) -> Result<ClientAnswer> {
    let start = PlaceStart {
        name: &identity.name_or(|| carrier.place_name(worker, number)),
        worker: worker.as_str(),
        number,
        folder: &carrier.folder_there(worker),
        program: &carrier.program(),
        request: &identity.request,
        manifest,
    };
    output(carrier, engine.start(&start)).await
}

/// Stores the engine's id of a place that was started.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE` if nothing else says it and it is missing. `STORAGE_ERROR`.
async fn take_uid(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    identity: &mut PlaceIdentity,
    said: &ClientAnswer,
) -> Result<()> {
    let Some(uid) = engine.started_uid(&said.stdout) else {
        let what = "`submit` has printed no handle, so that a place of this name may run";
        return match engine.is_known_by_uid() {
            false => Ok(()),
            true => Err(unreachable(what, &cleaned(&said.stdout))
                .with("reason", "command")
                .with("command", "submit")
                .with("name", identity.name_or(|| carrier.place_name(worker, number)))
                .recommend("correct `submit`: the last line must be the handle, one word")),
        };
    };
    identity.uid = Some(uid);
    asked::write(carrier, worker, number, identity).await
}

/// Asks once more for a place that may exist, to learn its id: the same request gives the same place.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`, `STORAGE_ERROR`.
pub(super) async fn learn_uid(
    carrier: &Carrier,
    engine: &PlaceQueue,
    runtime: (&WorkerId, u64),
    identity: &mut PlaceIdentity,
) -> Result<()> {
    if identity.uid.is_some() || !engine.is_known_by_uid() {
        return Ok(());
    }
    let manifest = manifest(carrier, engine).await?;
    let said = start(carrier, engine, runtime, identity, manifest).await?;
    take_uid(carrier, engine, runtime, identity, &successful(carrier, said)?).await
}

/// Reads what a place is made from.
async fn manifest(carrier: &Carrier, engine: &PlaceQueue) -> Result<PodManifest> {
    let Some((place, path)) = carrier.elsewhere().zip(engine.template().map(Path::to_owned)) else {
        return Ok(PodManifest::default());
    };
    let (name, engine) = (place.name.clone(), place.engine.clone());
    let read = tokio::task::spawn_blocking(move || {
        let container = match &engine {
            Engine::Kubernetes(cluster) => cluster.container.as_deref(),
            _ => None,
        };
        templates::pod_manifest(&name, &path, container)
    });
    read.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

/// Whether the engine gave no answer, so that it may have carried out a request.
fn is_silence(error: &Error) -> bool {
    error.code == Code::PlacementUnreachable && matches!(reason(error), Some("engine" | "timeout"))
}

fn reason(error: &Error) -> Option<&str> {
    error.details.get("reason").and_then(serde_json::Value::as_str)
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
    if is_given_up(carrier, worker, number).await? {
        return Ok(DialTarget::Vanished);
    }
    match inside(carrier, engine, (worker, number), &["dial", worker.as_str()]).await? {
        Some(dial) => Ok(DialTarget::Reached(Box::new(carrier.client_in_place(dial).await))),
        None if engine.shares_folder() => Ok(DialTarget::Reached(Box::new(carrier.dial_here(worker)))),
        None => Ok(DialTarget::Vanished),
    }
}

/// Returns the command that runs `subagent-runtime` with these words in the place of a runtime; `None` if
/// the engine has ended it.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`: the engine does not answer, or no command can be run in the place.
pub(super) async fn inside(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    words: &[&str],
) -> Result<Option<ClientCommand>> {
    match settled(carrier, engine, worker, number).await? {
        PlaceStatus::Ready { handle } => {
            let name = asked::name(carrier, worker, number).await?;
            let place = NamedPlace { name: &name, handle: &handle };
            Ok(Some(engine.exec(place, &carrier.program(), words)))
        }
        PlaceStatus::Gone { .. } => Ok(None),
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
    if is_given_up(carrier, worker, number).await.unwrap_or(false) {
        return None;
    }
    match timeout(ENDING_TIMEOUT, settled(carrier, engine, worker, number)).await {
        Ok(Ok(PlaceStatus::Gone { handle, state })) => Some(format!("{} {handle}: {state}", engine.noun())),
        _ => None,
    }
}

/// Whether the owner accepts that the place of a runtime may run on. Then its end needs no proof.
async fn is_given_up(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<bool> {
    Ok(asked::read(carrier, worker, number).await?.is_some_and(|asked| asked.given_up))
}

/// Looks at a place, and waits for one that is ending. What the engine has forgotten must be proved.
async fn settled(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    let asked = asked::read(carrier, worker, number).await?;
    if asked.is_none() && !engine.shares_folder() {
        return forgotten::proved(carrier, engine, worker, number).await;
    }
    let mut identity = asked.unwrap_or_default().identity;
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match look(carrier, engine, (worker, number), &mut identity).await? {
            PlaceStatus::Held { state, .. }
                if engine.is_ending(&state) && begun.elapsed() < ENDING_TIMEOUT => {}
            PlaceStatus::Absent => return forgotten::proved(carrier, engine, worker, number).await,
            status => return Ok(status),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Looks at the place of a runtime. Its id is stored once the engine shows it.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`, `STORAGE_ERROR`.
pub(super) async fn look(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    identity: &mut PlaceIdentity,
) -> Result<PlaceStatus> {
    let name = identity.name_or(|| carrier.place_name(worker, number));
    let Some(look) = engine.look(&name, identity) else { return Ok(PlaceStatus::Absent) };
    let output = output(carrier, look).await?;
    let printed =
        ClientOutput { success: output.status.success(), stdout: &output.stdout, stderr: &output.stderr };
    let Some(status) = engine.seen(&name, identity, &printed) else {
        let output = successful(carrier, output)?;
        let said = if engine.is_known_by_uid() { cleaned(&output.stdout) } else { String::new() };
        return Err(unreachable("the answer of the engine cannot be understood", &said));
    };
    if identity.uid.is_none() && status != PlaceStatus::Absent {
        identity.uid = engine.uid(&output.stdout);
        if identity.uid.is_some() {
            asked::write(carrier, worker, number, identity).await?;
        }
    }
    Ok(status)
}

/// Returns the end of what was printed in a place that has ended.
async fn log_of(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    handle: &str,
) -> Vec<u8> {
    // Only for the message.
    let Ok(name) = asked::name(carrier, worker, number).await else { return Vec::new() };
    match engine.log(NamedPlace { name: &name, handle }) {
        None if !engine.shares_folder() => Vec::new(),
        None => {
            let file = carrier.folder(worker).join(JOB_LOG);
            let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
            read.ok().and_then(std::result::Result::ok).unwrap_or_default()
        }
        Some(command) => match output(carrier, command).await {
            Ok(output) if output.status.success() => output.stdout,
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
