//! The files of the places that an engine with a queue was asked for: `asked-N` from before the first
//! request, `ended-N` from the proof that the place has ended, and `given-up-N` beside `asked-N` once the
//! owner accepts that the place may run on. Each call uses a thread for the disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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
    /// Whether the owner accepts that the place may run on.
    pub(super) given_up: bool,
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
        // Its word tells it from an earlier place of this number.
        let given_up = match fs::read_to_string(given_up(folder, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            read => read? == identity.request,
        };
        Ok(Some(AskedPlace { identity, age: age(&path)?, given_up }))
    })
    .await
}

/// Returns the name of the place of a runtime. A state dir that was moved gives other names to later places.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn name(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<String> {
    let stored = with_folder(carrier, worker, move |folder| {
        for path in [path(folder, number), ended(folder, number)] {
            match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // An older version has stored nothing about a job of Slurm.
                Ok(bytes) if bytes.is_empty() => break,
                read => return Ok(serde_json::from_slice(&read?)?),
            }
        }
        Ok(PlaceIdentity::default())
    });
    Ok(stored.await?.name_or(|| carrier.place_name(worker, number)))
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

/// The owner accepts that all places which may exist run on.
///
/// # Errors
/// `STORAGE_ERROR`, `STORAGE_FULL`.
pub(super) async fn give_up(carrier: &Carrier, worker: &WorkerId) -> Result<()> {
    for number in numbers(carrier, worker).await? {
        let Some(AskedPlace { identity, .. }) = read(carrier, worker, number).await? else { continue };
        with_folder(carrier, worker, move |folder| {
            let mut file = File::create(given_up(folder, number))?;
            file.write_all(identity.request.as_bytes())?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        })
        .await?;
    }
    Ok(())
}

/// The engine answers about a place that was given up, and the place will be used.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn take_back(carrier: &Carrier, worker: &WorkerId, number: u64) -> Result<()> {
    with_folder(carrier, worker, move |folder| absent(fs::remove_file(given_up(folder, number)))).await
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
        absent(fs::rename(path(folder, number), ended(folder, number)))?;
        absent(fs::remove_file(given_up(folder, number)))
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

/// Returns the time since a file was written. One from a later time than now begins to age now.
fn age(path: &Path) -> io::Result<Duration> {
    let file = File::open(path)?;
    file.metadata()?.modified()?.elapsed().or_else(|_| {
        // The clock was set back. This proves nothing about a request that is on its way.
        file.set_modified(SystemTime::now()).map(|()| Duration::ZERO)
    })
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

fn ended(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("ended-{number}"))
}

fn given_up(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("given-up-{number}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_from_a_later_time_begins_to_age_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 1);
        let file = File::create(&path).unwrap();
        let at = |time: SystemTime| file.set_modified(time).unwrap();
        at(SystemTime::now() - Duration::from_secs(70));
        assert!(age(&path).unwrap() >= Duration::from_secs(70));
        at(SystemTime::now() + Duration::from_secs(1000));
        assert_eq!(age(&path).unwrap(), Duration::ZERO);
        assert!(file.metadata().unwrap().modified().unwrap() <= SystemTime::now());
    }
}
