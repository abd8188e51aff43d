//! Ends the places of a worker in an engine's queue. A place counts as ended only with the proof of the
//! engine; without it, the caller asks again.

use std::process::Stdio;
use std::time::Duration;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::client::NO_PROGRAM;
use subagent_protocol::placement::engine::{NamedPlace, PlaceQueue, PlaceStatus};
use subagent_protocol::stream::{StreamControl, StreamDecoder, StreamMessage, StreamOpen};
use subagent_protocol::{Code, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::asked;
use super::carrier::Carrier;
use super::client::{output, successful};
use super::forgotten;
use super::queued::{ENDING_TIMEOUT, FIRST_PAUSE, LAST_PAUSE, learn_uid, look};
use super::stream::{fenced, unreachable};

/// Time limit of the question whether a place serves this daemon.
const SERVED_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of the attempts to end places that were given up. A stop waits for it.
const GIVEN_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// Which places of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPlaces {
    /// All but that of the next runtime.
    Earlier,
    /// All but those of the newest runtime and the next one: the newest one may live.
    Superseded,
    /// That of the next runtime, which was not started.
    Next,
}

/// How the places of a worker have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacesEnd {
    Proved,
    /// Some may run on, as the owner has accepted.
    Accepted,
}

/// The end of places that is to be asked for.
pub(super) struct PlaceEnding {
    pub(super) which: WorkerPlaces,
    /// Whether it is also asked for the end of places that the owner has given up.
    pub(super) tries_given_up: bool,
    /// The number of the newest runtime.
    pub(super) newest: u64,
    /// Whether the place of the newest runtime ends with it, by itself.
    pub(super) newest_ends: bool,
    /// Asks a place that may be in use whether it serves this daemon.
    pub(super) open: StreamOpen,
}

impl WorkerPlaces {
    /// Whether the place of a runtime is one of these. Where the worker's folder is shared, its locks prove
    /// the end of all runtimes, but the engine may still have empty places.
    fn includes(self, number: u64, newest: u64, shares_folder: bool) -> bool {
        match self {
            Self::Earlier if shares_folder => number <= newest,
            Self::Superseded if shares_folder => false,
            // After the restore of a backup, there may be places of higher numbers.
            Self::Earlier => number != newest + 1,
            Self::Superseded => number != newest + 1 && number != newest,
            Self::Next => number > newest,
        }
    }
}

/// Ends these places of a worker. One that does not end keeps none of the others.
///
/// # Errors
/// `FENCED`: a place serves another daemon, and was not touched. `PLACEMENT_UNREACHABLE` and others: it
/// is not proved that all have ended which were not given up.
pub(super) async fn end_all(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    ending: &PlaceEnding,
) -> Result<PlacesEnd> {
    let is_proved_elsewhere = engine.shares_folder() && ending.which == WorkerPlaces::Earlier;
    let (mut first, mut given_up) = (None, Vec::new());
    for number in asked::numbers(carrier, worker).await? {
        if !ending.which.includes(number, ending.newest, engine.shares_folder()) {
            continue;
        }
        let Some(asked) = asked::read(carrier, worker, number).await? else { continue };
        if asked.given_up {
            given_up.push(number);
            continue;
        }
        let ended = match ending.newest_ends && number == ending.newest {
            true => Ok(()),
            false => end(carrier, engine, (worker, number), Some(&ending.open)).await,
        };
        match ended {
            // It is not asked for again.
            Ok(()) if is_proved_elsewhere => asked::end(carrier, worker, number, &asked.identity).await?,
            Ok(()) => {}
            Err(error) if error.code == Code::Fenced => return Err(error),
            // The locks in the shared folder have proved the end of what ran there.
            Err(error) if is_proved_elsewhere => {
                tracing::warn!(%worker, number, %error, "the place of a runtime was not ended");
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    let end = end_given_up(carrier, engine, (worker, &given_up), ending).await?;
    first.map_or(Ok(end), Err)
}

/// Tries to end places that the owner has given up.
///
/// # Errors
/// `FENCED`.
async fn end_given_up(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, numbers): (&WorkerId, &[u64]),
    ending: &PlaceEnding,
) -> Result<PlacesEnd> {
    if numbers.is_empty() {
        return Ok(PlacesEnd::Proved);
    }
    if !ending.tries_given_up {
        return Ok(PlacesEnd::Accepted);
    }
    let mut have_ended = PlacesEnd::Proved;
    let until = Instant::now() + GIVEN_UP_TIMEOUT;
    for number in numbers {
        let ended = timeout_at(until, end(carrier, engine, (worker, *number), Some(&ending.open))).await;
        let error = match ended {
            Ok(Ok(())) => continue,
            Ok(Err(error)) if error.code == Code::Fenced => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => unreachable("the engine did not end the place in time", ""),
        };
        tracing::warn!(%worker, number, %error, "a place that was given up may run on");
        have_ended = PlacesEnd::Accepted;
    }
    Ok(have_ended)
}

/// Ends the place of a runtime. Without `open`, the place has ended and is only kept.
///
/// # Errors
/// As [`end_all`].
pub(super) async fn end(
    carrier: &Carrier,
    engine: &PlaceQueue,
    (worker, number): (&WorkerId, u64),
    open: Option<&StreamOpen>,
) -> Result<()> {
    let Some(mut asked) = asked::read(carrier, worker, number).await? else { return Ok(()) };
    let name = asked.identity.name_or(|| carrier.place_name(worker, number));
    if engine.shares_folder() {
        if let Some(open) = open {
            // A folder in which no command can be run serves no other daemon.
            serves(carrier.dial_here(worker), open).await?;
        }
        // It ends by itself soon after its runtime.
        return output(carrier, engine.end(NamedPlace { name: &name, handle: "" }))
            .await
            .and_then(|said| successful(carrier, said))
            .map(drop);
    }
    learn_uid(carrier, engine, (worker, number), &mut asked.identity).await?;
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    let mut is_deleted = false;
    loop {
        let status = look(carrier, engine, (worker, number), &mut asked.identity).await?;
        if matches!(status, PlaceStatus::Gone { .. }) && !engine.keeps_ended() {
            return asked::end(carrier, worker, number, &asked.identity).await;
        }
        if status == PlaceStatus::Absent {
            match forgotten::proved(carrier, engine, worker, number).await {
                Ok(_) => return asked::end(carrier, worker, number, &asked.identity).await,
                // Its creation may be on its way.
                Err(_) if asked.identity.uid.is_none() && begun.elapsed() < ENDING_TIMEOUT => {}
                Err(error) => return Err(error),
            }
        } else if let (false, Some(uid)) = (is_deleted, asked.identity.uid.as_deref()) {
            if let (PlaceStatus::Ready { handle }, Some(open)) = (&status, open) {
                let place = NamedPlace { name: &name, handle };
                let dial = engine.exec(place, &carrier.program(), &["dial", worker.as_str()]);
                // One of a pod that is not in use ends by itself.
                let answer = serves(carrier.client(dial), open).await?;
                // Where our own program holds the place, it is there.
                let has_no_program = answer == ServedAnswer::NoProgram && !engine.is_held();
                if answer != ServedAnswer::Serves && !has_no_program {
                    return Err(unreachable("the place does not say whom it serves", ""));
                }
            }
            let said = output(carrier, engine.end(NamedPlace { name: &name, handle: uid })).await?;
            // Then the next look says so.
            is_deleted = said.status.success();
            if !is_deleted && !engine.is_ended_before(&said.stderr) {
                successful(carrier, said)?;
            }
        }
        if is_deleted && matches!(status, PlaceStatus::Gone { .. }) {
            return asked::end(carrier, worker, number, &asked.identity).await;
        }
        if begun.elapsed() > ENDING_TIMEOUT {
            let state = status.state();
            return Err(unreachable(
                &format!("the {} {name} has not ended yet ({state})", engine.noun()),
                "",
            ));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// What a place that may be in use has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedAnswer {
    /// It serves this daemon.
    Serves,
    /// It has no program that could serve a daemon.
    NoProgram,
    /// No command can be run in it.
    Silent,
}

/// Asks the place behind this command whether it serves this daemon.
///
/// # Errors
/// `FENCED`, `PLACEMENT_UNREACHABLE`.
async fn serves(mut dial: Command, open: &StreamOpen) -> Result<ServedAnswer> {
    let exchange = async {
        let dial = dial.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = dial.kill_on_drop(true).spawn().ok()?;
        let (mut stdin, mut stdout) = (child.stdin.take()?, child.stdout.take()?);
        let mut bytes = Vec::new();
        StreamMessage::from(StreamControl::Open(open.clone())).encode(&mut bytes);
        stdin.write_all(&bytes).await.ok()?;
        let mut decoder = StreamDecoder::behind_banner();
        loop {
            match decoder.next_message().ok()? {
                Some(StreamMessage::Control(StreamControl::Fenced { generation })) => {
                    return Some(Err(fenced(generation)));
                }
                Some(_) => return Some(Ok(ServedAnswer::Serves)),
                None => {}
            }
            bytes.clear();
            if stdout.read_buf(&mut bytes).await.ok()? == 0 {
                let code = child.wait().await.ok()?.code()?;
                return NO_PROGRAM.contains(&code).then_some(Ok(ServedAnswer::NoProgram));
            }
            decoder.feed(&bytes);
        }
    };
    match timeout(SERVED_TIMEOUT, exchange).await {
        Ok(answer) => answer.unwrap_or(Ok(ServedAnswer::Silent)),
        Err(_) => Err(unreachable("the place does not say whom it serves", "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_without_a_shared_folder_are_ended_but_the_one_that_is_used_next() {
        let included = |which: WorkerPlaces, shares_folder| -> Vec<u64> {
            (1..=5).filter(|number| which.includes(*number, 3, shares_folder)).collect()
        };
        // A restored backup may know of fewer runtimes than there were.
        assert_eq!(included(WorkerPlaces::Earlier, false), [1, 2, 3, 5]);
        assert_eq!(included(WorkerPlaces::Superseded, false), [1, 2, 5]);
        assert!(included(WorkerPlaces::Superseded, true).is_empty());
        assert_eq!(included(WorkerPlaces::Earlier, true), [1, 2, 3]);
        assert_eq!(included(WorkerPlaces::Next, false), [4, 5]);
        assert_eq!(included(WorkerPlaces::Next, true), [4, 5]);
    }
}
