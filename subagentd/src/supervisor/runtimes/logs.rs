//! The end of the log of a worker's agents: of a file on this machine, or as a command there prints it.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use subagent_config::regular;
use subagent_protocol::placement::UNKNOWN_COMMAND;
use subagent_protocol::placement::client::ClientFailure;
use subagent_protocol::stream::after_magic;
use subagent_protocol::{Code, Error, Result};

use super::carrier::Carrier;
use super::client;
use super::queued;
use crate::store::WorkerRow;
use crate::supervisor::shared::DaemonSettings;

/// The end of the log of a worker's agents.
#[derive(Debug, Default)]
pub(crate) struct ReadLog {
    pub(crate) bytes: Vec<u8>,
    /// Whether the log has more before it.
    pub(crate) truncated: bool,
}

/// Returns at most this many bytes of a worker's log. `path` is that of a log on this machine.
///
/// # Errors
/// `STORAGE_ERROR`. From elsewhere: `PLACEMENT_UNREACHABLE`, also if the log ended with its place, and
/// `PLACEMENT_NOT_PREPARED`.
pub(crate) async fn end_of_log(
    setup: &DaemonSettings,
    row: &WorkerRow,
    path: &Path,
    length: u64,
) -> Result<ReadLog> {
    let placement = row.placement.as_ref();
    let carrier = placement.map(|placement| Carrier::of(placement, setup, &row.worker_id));
    match carrier.filter(Carrier::has_own_files) {
        Some(carrier) => there(&carrier, row, length).await,
        None => here(path, length).await,
    }
}

async fn here(path: &Path, length: u64) -> Result<ReadLog> {
    let file = path.to_owned();
    match tokio::task::spawn_blocking(move || end_of_file(&file, length)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(ReadLog::default()),
        Ok(end) => end.map_err(|error| {
            Error::new(Code::StorageError, format!("cannot read {}: {error}", path.display()))
        }),
        Err(error) => Err(Error::new(Code::Internal, error.to_string())),
    }
}

fn end_of_file(path: &Path, length: u64) -> io::Result<ReadLog> {
    let mut file = regular::open_to_read(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(length)))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(ReadLog { bytes, truncated: size > length })
}

async fn there(carrier: &Carrier, row: &WorkerRow, length: u64) -> Result<ReadLog> {
    let (worker, number) = (&row.worker_id, row.incarnation);
    if number == 0 {
        return Ok(ReadLog::default());
    }
    // One more says whether there are more.
    let asked = (length + 1).to_string();
    let root = carrier.root().map(|root| root.display().to_string());
    let words: Vec<&str> = ["logs", worker.as_str(), &asked].into_iter().chain(root.as_deref()).collect();
    let command = match carrier.queue() {
        None => carrier.on_host(&words),
        Some(engine) => queued::inside(carrier, &engine, (worker, number), &words).await?,
    };
    let Some(command) = command else {
        let noun = carrier.queue().map_or("place", |engine| engine.noun());
        let message = format!("the {noun} of the worker has ended, and its log with it");
        return Err(Error::new(Code::PlacementUnreachable, message).with("reason", "ended").recommend(
            "look at the messages of its turns: one that its agent ended has the end of the log",
        ));
    };
    let answer = client::output(carrier, command).await?;
    let failed = |said: &[u8]| carrier.failure(ClientFailure::Exited(answer.status.code(), said));
    if !answer.status.success() {
        return Err(if is_of_older(&answer.stderr) { older() } else { failed(&answer.stderr) });
    }
    let Ok(Some(end)) = after_magic(&answer.stdout) else { return Err(failed(b"its answer cannot be read")) };
    let surplus = u64::try_from(end.len()).unwrap_or(u64::MAX).saturating_sub(length);
    let start = usize::try_from(surplus).unwrap_or(usize::MAX).min(end.len());
    Ok(ReadLog { bytes: end[start..].to_vec(), truncated: surplus > 0 })
}

/// Whether a program there does not know what it was asked for.
fn is_of_older(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).contains(UNKNOWN_COMMAND)
}

fn older() -> Error {
    let message = "the runtime of the worker is of an older version, which does not show its log";
    Error::new(Code::PlacementIncompatible, message)
        .recommend("restart the worker: it gets the runtime of this version")
}
