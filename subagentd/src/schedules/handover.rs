//! An entry that moves to another workspace takes its log and its pause along. The daemon of the
//! earlier workspace writes them into the state dir of the later one, whose daemon adopts them. A
//! daemon that dies in between does it again: a firing is adopted once.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use subagent_config::Workspace;
use subagent_config::write::{Replace, atomically};
use subagent_protocol::schedule::FiringStatus;
use subagent_protocol::{Code, Error, Result};

use super::context::ScheduleContext;
use crate::store::schedules::moves::MovedSchedule;
use crate::store::schedules::{self, ScheduleRow, firings};
use crate::store::{Durability, Tx};
use crate::supervisor::entropy;

/// The folder of what was handed over, in a state dir.
const FOLDER: &str = "moved-schedules";
/// Maximum size of such a file in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Whether something waits for the daemon of this state dir.
pub(super) fn is_pending(state_dir: &Path) -> bool {
    state_dir.join(FOLDER).exists()
}

/// Hands a row over to the daemon of another workspace, and removes it here.
///
/// # Errors
/// `WORKER_BUSY` while a firing runs here, `SCHEDULE_UNATTENDED` if the workspace never had a
/// daemon, `TIMED_OUT{folder}`, `STORAGE_ERROR`.
pub(super) async fn hand_over(context: &ScheduleContext, row: &ScheduleRow, to: &Workspace) -> Result<()> {
    let store = &context.stream.store;
    let open = store.read(firings::open).await?;
    if open.iter().any(|firing| firing.schedule == row.id && firing.status == FiringStatus::Running) {
        return Err(Error::new(Code::WorkerBusy, format!("a firing runs here; {}", goes_on(to))));
    }
    let of = row.clone();
    let moved = store.read(move |connection| schedules::moves::of_row(connection, &of)).await?;
    let content =
        serde_json::to_vec(&moved).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let (folder, name) = (to.state_dir.join(FOLDER), format!("{}.json", row.name));
    subagent_failpoint::hit("handover.before_write");
    let written = context.folders.look(&to.root, move || write(&folder, &name, &content)).await?;
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = format!("no daemon has been there; {}", goes_on(to));
            return Err(Error::new(Code::ScheduleUnattended, message)
                .recommend(format!("run `subagent schedule list --cwd {}`", to.root.display())));
        }
        Err(error) => return Err(Error::new(Code::InvalidArgument, format!("{}: {error}", goes_on(to)))),
    }
    subagent_failpoint::hit("handover.after_write");
    let id = row.id;
    store.write(Durability::Full, 1, move |tx: &mut Tx<'_>| schedules::delete(tx, id)).await
}

fn goes_on(to: &Workspace) -> String {
    format!("then it goes on in the workspace {}", to.root.display())
}

fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    atomically(&folder.join(name), content, 0o600, Replace::Yes)
}

/// Adopts what other daemons have handed over to this one.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn adopt(context: &ScheduleContext, state_dir: &Path) -> Result<()> {
    let folder = state_dir.join(FOLDER);
    if !folder.exists() {
        return Ok(());
    }
    let looked_at = folder.clone();
    let found = context.folders.look(state_dir, move || files(&looked_at)).await?;
    for (name, file, moved) in found {
        subagent_failpoint::hit("handover.before_adopt");
        let now = entropy::now();
        let write = move |tx: &mut Tx<'_>| schedules::moves::adopt(tx, &name, &moved, now);
        let (is_adopted, paused) = context.stream.store.write(Durability::Full, 1, write).await?;
        if let Some((worker, seq)) = paused {
            context.stream.noted(worker, seq);
        }
        subagent_failpoint::hit("handover.after_adopt");
        if is_adopted && let Err(error) = fs::remove_file(&file) {
            tracing::warn!(%error, file = %file.display(), "an adopted schedule is adopted once more");
        }
    }
    // It stays while a file waits for its entry.
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// The files that can be read, with the names of their entries.
fn files(folder: &Path) -> Vec<(String, PathBuf, MovedSchedule)> {
    let read = |file: &Path| -> io::Result<MovedSchedule> {
        let about = fs::symlink_metadata(file)?;
        if !about.is_file() || about.len() > MAX_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = entries.filter(|file| file.extension().is_some_and(|end| end == "json"));
    let parsed = named.filter_map(|file| {
        let name = file.file_stem()?.to_str()?.to_owned();
        match read(&file) {
            Ok(moved) => Some((name, file, moved)),
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "a moved schedule cannot be read");
                None
            }
        }
    });
    parsed.collect()
}
