//! How a placed worker gets a new runtime.

use std::io;
use std::path::Path;

use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::placement::{Placement, SubmitFailure};
use subagent_protocol::{Code, Error, Result};

use super::incarnation::{begin_incarnation, killed_at_start, start_failed};
use super::live::LiveRuntime;
use super::{connection, gone, place_ends, placed};
use crate::supervisor::entropy;
use crate::supervisor::live_runtimes::LiveToken;
use crate::supervisor::runtimes::place::{RuntimePlace, Submitted};
use crate::supervisor::runtimes::queued::PlaceTurn;
use crate::supervisor::start::{environment, program};
use crate::supervisor::worker::actor::Actor;

/// Starts a placed runtime. Without an answer, a stream decides whether it lives.
pub(super) async fn try_start(actor: &mut Actor) -> Result<()> {
    let live = match LiveToken::take(&actor.shared.live, actor.runtime.place.is_placed()) {
        Ok(live) => live,
        Err(error) => {
            // The place is asked for again with the next start.
            (actor.runtime.queue.waits, actor.runtime.queue.answer) = (None, None);
            return Err(error);
        }
    };
    gone::end_strays(actor).await;
    if is_queued(actor)? {
        return Ok(());
    }
    let kept = environment::read(&actor.identity.environment)?;
    let program = match actor.runtime.place.elsewhere() {
        // It is looked up there.
        Some(_) => actor.spec.launcher.program.clone(),
        None => program::find(&actor.spec.launcher, &actor.identity.cwd, &kept.variables)?,
    };
    let start = begin_incarnation(actor, program, kept).await?;
    let RuntimePlace::Placed(place) = &mut actor.runtime.place else {
        return Err(Error::new(Code::Internal, "the worker is not placed"));
    };
    let submitted = place.submit(actor.shared.epoch(), start).await;
    subagent_failpoint::hit("spawn.after");
    let program = &actor.shared.setup.runtime_program.clone();
    let mut unknown = None;
    let process = match submitted {
        Submitted::Started { process, boot_id } => {
            placed::is_in_boot(actor, boot_id, true).await;
            Some(process)
        }
        Submitted::Failed(reason, message) => {
            let elsewhere = actor.runtime.place.elsewhere();
            let error =
                elsewhere.and_then(|place| refused_there(place, reason, &message, &actor.spec.launcher.name));
            return Err(error.unwrap_or_else(|| not_started(program, reason, message)));
        }
        Submitted::Fenced(error) => {
            actor.runtime.fenced = Some(error.clone());
            return Err(error);
        }
        Submitted::NotReached(error) => return Err(error),
        Submitted::NotSent(error) => return Err(start_failed(program, &error)),
        Submitted::Unknown(error) => {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "it is unknown whether a runtime was started");
            unknown = Some(error);
            None
        }
    };
    actor.runtime.stored_process = process;
    let mut runtime = LiveRuntime::new(live, None, None);
    if unknown.is_some() {
        runtime.reach.is_awaited(unknown);
    }
    actor.runtime.live = Some(runtime);
    subagent_failpoint::hit("listening.after_heard");
    if let Some(process) = process {
        connection::store_processes(actor, process, None).await;
    }
    place_ends::has_runtime(actor);
    connection::connect(actor).await;
    Ok(())
}

/// Asks for the place of the next runtime, in the background: an engine may be slow. Returns whether
/// the start waits for the answer or for the place. Then it is tried again.
fn is_queued(actor: &mut Actor) -> Result<bool> {
    let at = placed::position(actor);
    let runtime = &mut actor.runtime;
    match runtime.queue.answer.take() {
        None => {
            let waited = runtime.queue.pending().cloned();
            let Some(question) = runtime.place.question(at, waited) else {
                return Ok(false);
            };
            // Without a shared folder, the question begins with the end of all places that must end.
            if !runtime.queue.ends.running.is_empty() && !runtime.place.may_vanish() {
                // The end of a place that was given up is on its way.
                let pending = runtime.queue.pending().cloned().unwrap_or_else(|| PendingPlace {
                    since: entropy::now(),
                    engine: runtime.place.queue_kind().unwrap_or_default().to_owned(),
                    handle: String::new(),
                    reason: "an earlier place is being ended".to_owned(),
                });
                runtime.queue.wait_on(pending);
            } else if runtime.queue.asking.is_empty() {
                runtime.queue.ends.forget();
                runtime.queue.asking.spawn(question);
            }
        }
        Some(Ok(PlaceTurn::Ready(handle))) => {
            runtime.queue.waits = None;
            runtime.place.is_ready(handle);
            return Ok(false);
        }
        Some(Ok(PlaceTurn::Waits(pending))) => {
            runtime.queue.wait_on(pending);
        }
        Some(Err(error)) => {
            runtime.queue.waits = None;
            if error.code == Code::Fenced {
                runtime.fenced = Some(error.clone());
            }
            return Err(error);
        }
    }
    // Requests are accepted meanwhile.
    runtime.settled = true;
    Ok(true)
}

/// Returns the error for what the user has to correct at the place.
fn refused_there(
    elsewhere: &Placement,
    reason: SubmitFailure,
    message: &str,
    launcher: &str,
) -> Option<Error> {
    let (Placement { name, cwd, .. }, place) = (elsewhere, elsewhere.located());
    let error = match reason {
        SubmitFailure::NoFolder => Error::new(
            Code::PlacementFolderMissing,
            format!("the folder {cwd} cannot be used {place}: {message}"),
        )
        .with("cwd", cwd.as_str())
        .recommend(format!("create it there, or correct placements.{name}.cwd and start another worker")),
        SubmitFailure::NoProgram => Error::new(
            Code::BackendLauncher,
            format!("launcher {launcher} cannot be started {place}: {message}"),
        )
        .with("launcher", launcher)
        .with("reasonCategory", "launcher")
        .recommend(format!(
            "install it there, or correct launchers.{launcher}.command and start another worker"
        )),
        SubmitFailure::NoTaskServer => Error::new(
            Code::PlacementNotPrepared,
            format!("{message} ({place})"),
        )
        .recommend(format!(
            "run `subagent placement prepare {name}`, or put `subagent` beside the `program` of the placement"
        )),
        SubmitFailure::StorageFull => {
            Error::new(Code::StorageFull, format!("the worker's runtime cannot be started {place}: {message}"))
                .retryable()
                .recommend("make room on the disk there, and try again")
        }
        SubmitFailure::Other => Error::new(
            Code::BackendRuntimeError,
            format!("the worker's runtime cannot be started {place}: {message}"),
        )
        .with("reasonCategory", "worker")
        .recommend(format!("correct this there, then run `subagent placement check {name}`")),
        SubmitFailure::Busy
        | SubmitFailure::Superseded
        | SubmitFailure::Incompatible
        | SubmitFailure::Killed => return None,
    };
    Some(elsewhere.named_in(error))
}

fn not_started(program: &Path, reason: SubmitFailure, message: String) -> Error {
    match reason {
        SubmitFailure::Killed => killed_at_start(),
        SubmitFailure::Busy => {
            Error::new(Code::StopIncomplete, format!("{message}; try again in a moment")).retryable()
        }
        SubmitFailure::Superseded => {
            Error::new(Code::RuntimeLost, message).retryable().with("dispatched", "no")
        }
        SubmitFailure::Incompatible => Error::new(Code::PlacementIncompatible, message)
            .recommend("install the subagent-runtime of this version there"),
        SubmitFailure::StorageFull => {
            start_failed(program, &io::Error::new(io::ErrorKind::StorageFull, message))
        }
        SubmitFailure::NoFolder
        | SubmitFailure::NoProgram
        | SubmitFailure::NoTaskServer
        | SubmitFailure::Other => start_failed(program, &io::Error::other(message)),
    }
}
