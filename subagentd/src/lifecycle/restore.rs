//! `subagentd restore`: replaces the database with a backup. The daemon is stopped; runtimes
//! continue and the next daemon adopts them. All refusals happen before the stop. `start.lock` is
//! held throughout, so that no command starts a daemon meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use subagent_config::{Environment, RuntimeDir, state_dir};
use subagent_protocol::api::ControllerHandle;
use subagent_protocol::ids::{InstanceId, WorkerId};
use subagent_protocol::{Code, Error, Result};

use super::claim::files::{DAEMON_LOCK, START_LOCK, daemon_info};
use super::claim::identity;
use super::claim::lock::{FileLock, Note};
use super::claim::takeover::{already_running, ask_to_end, own_process, start_lock};
use super::options::StartMode;
use super::{client, error, payload, process, refuse_below_guard, runtime};
use crate::store::OwnerCheck;
use crate::store::database::restore::{KnownWorker, PreparedRestore, may_replace, settle_replaced};
use crate::supervisor::runtimes::orphaned_runtimes::{self, WorkerFolder};

/// The mode in the note of a restore's lock.
const RESTORE: &str = "restore";
/// Maximum wait for the daemon's exit after it accepted the stop.
const END_TIME: Duration = Duration::from_secs(30);

/// All options of `subagentd restore`.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Absolute path of the state dir with links resolved. It is created if missing.
    pub state_dir: PathBuf,
    /// Environment of this process: `XDG_RUNTIME_DIR`.
    pub environment: Environment,
    /// Absolute path of the backup.
    pub file: PathBuf,
    /// Whether to end runtimes of workers that the backup does not contain.
    pub force: bool,
    /// Handle of the owner that requests the restore.
    pub handle: Option<ControllerHandle>,
}

/// The result of a restore.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Path of the backup.
    pub path: PathBuf,
    /// Path of the restored database.
    pub state_db_path: PathBuf,
    /// Path of the replaced database, which is kept; `None` if there was none.
    pub replaced_path: Option<PathBuf>,
    /// Schema version of the backup before its migration.
    pub schema: i64,
    /// Whether numbers continue from the replaced database. Otherwise it was unreadable and they
    /// jumped ahead.
    pub continued: bool,
    /// Number of ownerships that were ended.
    pub released_owners: usize,
    /// Workers whose runtimes continue.
    pub live_workers: Vec<WorkerId>,
    /// Workers missing in the backup whose runtimes were ended.
    pub ended_workers: Vec<WorkerId>,
    /// Workers missing in the backup whose folders were set aside.
    pub set_aside: Vec<WorkerId>,
    /// Folder that holds the folders set aside.
    pub set_aside_path: Option<PathBuf>,
    /// The daemon that was stopped for the restore.
    pub daemon: Option<EndedDaemon>,
}

/// A daemon that was stopped.
#[derive(Debug, Clone, Serialize)]
pub struct EndedDaemon {
    /// Pid of the daemon.
    pub pid: i32,
    /// Mode: `foreground` or `background`.
    pub mode: String,
}

/// Replaces the database with a backup.
///
/// # Errors
/// `FORBIDDEN_FROM_WORKER`, `INVALID_CONTROLLER_HANDLE`, `INVALID_ARGUMENT{path,error}`,
/// `BACKUP_INVALID{path,reason}`, `RESTORE_WOULD_ORPHAN{workers}`, `STATE_DIR_FOREIGN`,
/// `STATE_DIR_TOO_NEW`, `DAEMON_UNRESPONSIVE`, `STOP_INCOMPLETE`, `STORAGE_FULL`, `STORAGE_ERROR`.
/// The old database stays in place then.
pub fn restore(options: &RestoreOptions) -> Result<Restored> {
    // An agent must not erase its owner's record of it.
    refuse_below_guard("restore")?;
    let _ = process::prepare(StartMode::Foreground)?;
    state_dir::prepare(&options.state_dir).map_err(Error::from)?;
    identity::settle(&options.state_dir)?;
    let path = options.state_dir.join(START_LOCK);
    let starting = start_lock(&path)?;
    let note = Note { process: own_process()?, mode: RESTORE.to_owned() };
    // From the note a waiting process learns that a restore holds the lock.
    starting
        .write_note(&note)
        .map_err(|cause| error::at_path("its lock cannot be written:", &path, &cause))?;
    let owner = OwnerCheck(options.handle.clone());
    may_replace(&options.state_dir, &owner)?;
    let prepared = PreparedRestore::of(&options.file, &options.state_dir, payload::now())?;
    let known = prepared.known()?;
    let orphans = orphans(&options.state_dir, &known);
    if !options.force {
        refuse_orphans(&options.file, &orphans)?;
    }
    let (lock, daemon) = take_the_lock(&options.state_dir)?;
    let mut ended = Vec::new();
    let restored = replace(options, &owner, prepared, &known, &mut ended)
        .map(|restored| Restored { daemon: daemon.clone(), ended_workers: ended.clone(), ..restored })
        .map_err(|error| with_what_has_ended(error, daemon.as_ref(), &ended));
    // `daemon.lock` is released first: a process that waits for `start.lock` needs both.
    drop(lock);
    drop(starting);
    restored
}

fn replace(
    options: &RestoreOptions,
    owner: &OwnerCheck,
    mut prepared: PreparedRestore,
    known: &[KnownWorker],
    ended: &mut Vec<WorkerId>,
) -> Result<Restored> {
    let state_dir = &options.state_dir;
    subagent_failpoint::hit("restore.before_look");
    // Before its end, the daemon may have granted an ownership or started workers.
    may_replace(state_dir, owner)?;
    let orphans = orphans(state_dir, known);
    if !options.force {
        refuse_orphans(&options.file, &orphans)?;
    }
    let now = payload::now();
    let found = orphaned_runtimes::all(state_dir);
    let of = |known: &KnownWorker| found.iter().find(|remains| remains.worker_id.as_str() == known.worker_id);
    let live_workers: Vec<WorkerId> = known
        .iter()
        .filter_map(of)
        .filter(|remains| remains.lives())
        .map(|remains| remains.worker_id.clone())
        .collect();
    let goes_on = |known: &&KnownWorker| {
        of(known).is_some_and(|remains| remains.goes_on(known.cursor) || remains.lives())
    };
    let to_look_at: Vec<String> = known.iter().filter(goes_on).map(|known| known.worker_id.clone()).collect();
    let replaced = settle_replaced(state_dir)?;
    let mut fresh = || {
        let mut bytes = [0; InstanceId::BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::new(Code::Internal, format!("cannot get random bytes: {error}")))?;
        Ok(InstanceId::from_random(bytes))
    };
    let carried = prepared.carry_over(&replaced, &to_look_at, &mut fresh, now)?;
    let (all, schema) = (prepared.all()?, prepared.schema);
    // Ended runtimes cannot be brought back, so this happens as late as possible.
    end(options, &orphans, ended)?;
    let replaced_path = prepared.take_its_place(&replaced, now)?;
    let unknown = |remains: &&WorkerFolder| !all.iter().any(|id| id == remains.worker_id.as_str());
    let aside = state_dir.join(format!(
        "{}{}",
        state_dir::REPLACED_RUNTIMES,
        now.to_string().replace([':', '+'], "-")
    ));
    let set_aside: Vec<WorkerId> = found
        .iter()
        .filter(unknown)
        // A folder that cannot be moved does no harm.
        .filter(|remains| orphaned_runtimes::set_aside(remains, &aside).is_ok())
        .map(|remains| remains.worker_id.clone())
        .collect();
    Ok(Restored {
        path: options.file.clone(),
        state_db_path: state_dir.join(crate::store::database::files::DATABASE),
        replaced_path,
        schema,
        continued: carried.continued,
        released_owners: carried.released,
        live_workers,
        ended_workers: Vec::new(),
        set_aside_path: (!set_aside.is_empty()).then_some(aside),
        set_aside,
        daemon: None,
    })
}

/// Adds the effects of a failed restore to its error.
fn with_what_has_ended(mut error: Error, daemon: Option<&EndedDaemon>, ended: &[WorkerId]) -> Error {
    if let Some(daemon) = daemon {
        error = error.with("daemon", serde_json::json!(daemon));
    }
    if !ended.is_empty() {
        error = error.with("endedWorkers", serde_json::json!(ended));
    }
    error
}

/// Returns live runtimes that no worker of the backup would adopt.
fn orphans(state_dir: &Path, known: &[KnownWorker]) -> Vec<WorkerFolder> {
    let is_known =
        |remains: &WorkerFolder| known.iter().any(|known| known.worker_id == remains.worker_id.as_str());
    orphaned_runtimes::all(state_dir)
        .into_iter()
        .filter(|remains| !is_known(remains) && remains.lives())
        .collect()
}

fn refuse_orphans(file: &Path, orphans: &[WorkerFolder]) -> Result<()> {
    if orphans.is_empty() {
        return Ok(());
    }
    let workers: Vec<&str> = orphans.iter().map(|remains| remains.worker_id.as_str()).collect();
    let message = format!(
        "{} does not know these running workers, and they would be orphaned: {}",
        file.display(),
        workers.join(", ")
    );
    Err(Error::new(Code::RestoreWouldOrphan, message)
        .with("path", file.display().to_string())
        .with("workers", workers)
        .recommend("stop them with `subagent worker stop`, or add --force to end them; nothing was changed"))
}

/// Stops the running daemon, if there is one, and takes `daemon.lock`.
fn take_the_lock(state_dir: &Path) -> Result<(FileLock, Option<EndedDaemon>)> {
    let path = state_dir.join(DAEMON_LOCK);
    let at_path = |cause| error::at_path("its lock cannot be taken:", &path, &cause);
    let (lock, daemon) = match FileLock::try_take(&path).map_err(at_path)? {
        Some(lock) => (lock, None),
        None => {
            let note = Note::read(&path);
            ask_to_end(daemon_info(state_dir).as_ref(), note.as_ref())?;
            let lock = FileLock::take_within(&path, END_TIME).map_err(at_path)?;
            let lock = lock.ok_or_else(|| {
                let mut error = already_running(note.as_ref());
                error.code = Code::DaemonUnresponsive;
                error.details.remove("recommendedCommand");
                error.message =
                    format!("{}, was asked to end and has not ended; nothing was restored", error.message);
                match note.as_ref() {
                    Some(note) => error.recommend(client::advice(note.process.pid)),
                    None => error,
                }
            })?;
            (lock, note.map(|note| EndedDaemon { pid: note.process.pid, mode: note.mode }))
        }
    };
    lock.write_note(&Note { process: own_process()?, mode: RESTORE.to_owned() }).map_err(at_path)?;
    Ok((lock, daemon))
}

/// Ends these runtimes one by one and adds each ended one to `ended`.
fn end(options: &RestoreOptions, orphans: &[WorkerFolder], ended: &mut Vec<WorkerId>) -> Result<()> {
    if orphans.is_empty() {
        return Ok(());
    }
    let dir = RuntimeDir::prepare(&options.environment, &options.state_dir).map_err(Error::from)?;
    let runtime = runtime()?;
    let all = runtime.block_on(async {
        for remains in orphans {
            remains.end(&dir).await?;
            ended.push(remains.worker_id.clone());
        }
        Ok(())
    });
    runtime.shutdown_timeout(super::LAST_GRACE);
    all
}
