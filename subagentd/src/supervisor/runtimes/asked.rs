//! The files of the places that an engine with a queue was asked for: `asked-N` from before the first
//! request, `ended-N` from the proof that the place has ended. Each call uses a thread for the disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::engine::PlaceIdentity;
use subagent_protocol::{Code, Error, Result};

use super::carrier::Carrier;

const PREFIX: &str = "asked-";

/// A place that may exist.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedPlace {
    pub(super) identity: PlaceIdentity,
    /// Time since the file was written.
    pub(super) age: Duration,
}

/// Returns the place of a runtime, if the engine may have been asked for it.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn read(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<Option<AskedPlace>> {
    with_folder(carrier, worker, move |folder| {
        let path = path(folder, number);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        // An older version has stored nothing about a job of Slurm.
        let identity = match bytes.as_slice() {
            [] => PlaceIdentity::default(),
            bytes => serde_json::from_slice(bytes)?,
        };
        // A clock that was set back must not keep a place forever.
        let age = fs::metadata(&path)?.modified()?.elapsed().unwrap_or(Duration::MAX);
        Ok(Some(AskedPlace { identity, age }))
    })
    .await
}

/// Stores what is known of the place of a runtime.
///
/// # Errors
/// `STORAGE_ERROR`, `STORAGE_FULL`.
pub(super) async fn write(
    carrier: &Carrier,
    worker: &WorkerId,
    number: u64,
    identity: &PlaceIdentity,
) -> Result<()> {
    let (carrier_there, worker_there, identity) = (carrier.clone(), worker.clone(), identity.clone());
    with_folder(carrier, worker, move |folder| {
        carrier_there.make_folder(&worker_there)?;
        let path = path(folder, number);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&identity)?)?;
        file.sync_all()?;
        // The end of an earlier place of this number proves nothing about this one.
        absent(fs::remove_file(ended(folder, number)))?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()
    })
    .await
}

/// The engine has refused the place of a runtime.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn remove(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<()> {
    with_folder(carrier, worker, move |folder| fs::remove_file(path(folder, number))).await
}

/// The place of a runtime is proved to have ended. Does nothing if another place of this number was asked
/// for meanwhile.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn end(
    carrier: &Carrier,
    worker: &WorkerId,
    number: u64,
    identity: &PlaceIdentity,
) -> Result<()> {
    let known = read(carrier, worker, number).await?;
    if known.is_some_and(|known| known.identity.request != identity.request) {
        return Ok(());
    }
    with_folder(carrier, worker, move |folder| {
        absent(fs::rename(path(folder, number), ended(folder, number)))
    })
    .await
}

/// Returns whether the place of a runtime was proved to have ended.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn has_ended(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<bool> {
    with_folder(carrier, worker, move |folder| ended(folder, number).try_exists()).await
}

/// Returns the numbers of the runtimes whose places may exist.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn numbers(carrier: &Carrier, worker: &WorkerId) -> Result<Vec<u64>> {
    with_folder(carrier, worker, |folder| {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number: Option<u64> = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    })
    .await
}

/// A file that does not exist is no error.
fn absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

fn ended(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("ended-{number}"))
}

async fn with_folder<T: Send + 'static>(
    carrier: &Carrier,
    worker: &WorkerId,
    act: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let folder = carrier.folder(worker);
    let shown = folder.display().to_string();
    let done = tokio::task::spawn_blocking(move || act(&folder)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| Error::new(Code::StorageError, format!("{shown}: {error}")).or_storage_full(&error))
}
