//! Replaces the database with a backup in one exchange. Callers must hold `daemon.lock`. Sequence
//! numbers, generation, epochs, turn numbers and request results never go back: they are carried
//! over, or jump ahead if the old database is unreadable.

mod carry_over;
mod exchange;
mod names;
mod prepare;
mod replaced;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use subagent_config::state_dir::RESTORING_DATABASE as RESTORING;
use subagent_protocol::ids::InstanceId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::backup::check;
use super::files::DATABASE;
use super::open::immutable_uri;
use crate::store::error::StoreError;
use crate::store::rows::Cursor;
use carry_over::{TAKE_OVER, ids, jump, jump_epoch, settle};
use exchange::exchange;
use names::{Unfinished, clear, discard_beside, free_name, move_beside};
use prepare::{copy, ready};
pub(crate) use replaced::{Replaced, may_replace, settle_replaced};
use replaced::{is_damage, of_database};

/// A checked and migrated copy of the backup, in a file of the state dir.
pub(crate) struct PreparedRestore {
    state_dir: PathBuf,
    connection: Connection,
    /// Schema version of the original backup.
    pub(crate) schema: i64,
    file: Unfinished,
}

/// A worker that is not stopped in the backup.
pub(crate) struct KnownWorker {
    pub(crate) worker_id: String,
    pub(crate) cursor: Cursor,
}

/// Changes that were made to the backup before the exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarriedOver {
    /// Whether numbers continue from the replaced database; otherwise they jump ahead.
    pub(crate) continued: bool,
    /// Number of ownerships that were ended.
    pub(crate) released: usize,
}

impl PreparedRestore {
    /// Copies the backup into the state dir, then checks and migrates the copy. The backup file is
    /// only read.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{path,error}` for an unreadable file or the database itself;
    /// `BACKUP_INVALID{path,reason}`; `STORAGE_FULL`, `STORAGE_ERROR`.
    pub(crate) fn of(file: &Path, state_dir: &Path, now: Timestamp) -> Result<Self> {
        clear(state_dir, now).map_err(|error| failed(&state_dir.join(DATABASE), &error))?;
        let unfinished = Unfinished(state_dir.join(RESTORING));
        copy(file, state_dir, &unfinished.0)?;
        let (connection, schema) = ready(file, &unfinished.0)?;
        Ok(Self { state_dir: state_dir.to_owned(), connection, schema, file: unfinished })
    }

    /// Returns the workers that are not stopped.
    pub(crate) fn known(&self) -> Result<Vec<KnownWorker>> {
        let sql = "SELECT w.worker_id, j.segment, j.offset, j.number
                   FROM workers w JOIN journal_cursors j ON j.worker = w.id WHERE w.state <> 'stopped'";
        let read = |row: &rusqlite::Row<'_>| {
            let number = |index| row.get::<_, i64>(index).map(i64::unsigned_abs);
            let cursor = Cursor { segment: number(1)?, offset: number(2)?, number: number(3)? };
            Ok(KnownWorker { worker_id: row.get(0)?, cursor })
        };
        let mut statement = self.connection.prepare(sql).map_err(StoreError::from)?;
        let known = statement.query_map([], read).map_err(StoreError::from)?;
        Ok(known.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    }

    /// Returns the ids of all workers.
    pub(crate) fn all(&self) -> Result<Vec<String>> {
        let mut statement =
            self.connection.prepare("SELECT worker_id FROM workers").map_err(StoreError::from)?;
        let ids = statement.query_map([], |row| row.get(0)).map_err(StoreError::from)?;
        Ok(ids.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    }

    /// Carries over numbers and results that must not go back, and ends all ownerships. The next
    /// daemon checks the workers `to_look_at`, which have files newer than the backup.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`.
    pub(crate) fn carry_over(
        &mut self,
        replaced: &Replaced,
        to_look_at: &[String],
        instance_ids: &mut dyn FnMut() -> Result<InstanceId>,
        now: Timestamp,
    ) -> Result<CarriedOver> {
        subagent_failpoint::hit("restore.before_carry_over");
        let old = self.state_dir.join(DATABASE);
        let continued = matches!(replaced, Replaced::Readable)
            && match self.take_over(&old) {
                Ok(()) => true,
                Err(error) if is_damage(&error) => false,
                Err(error) => return Err(of_database(&old, error)),
            };
        let tx = self.connection.transaction().map_err(StoreError::from)?;
        if !continued {
            jump(&tx).map_err(StoreError::from)?;
            for controller in ids(&tx, "SELECT id FROM controllers").map_err(StoreError::from)? {
                jump_epoch(&tx, controller, &instance_ids()?, now).map_err(StoreError::from)?;
            }
        }
        let released = settle(&tx, to_look_at, now).map_err(StoreError::from)?;
        tx.commit().map_err(StoreError::from)?;
        check(&self.connection)?;
        Ok(CarriedOver { continued, released })
    }

    fn take_over(&mut self, old: &Path) -> rusqlite::Result<()> {
        // The replaced database is a single file without a writer. It is passed as a URI, since a
        // path need not be UTF-8.
        self.connection.execute("ATTACH ?1 AS old", [immutable_uri(old)])?;
        let tx = self.connection.transaction()?;
        let taken = tx.execute_batch(TAKE_OVER).and_then(|()| tx.commit());
        let detached = self.connection.execute("DETACH old", []);
        taken.and(detached.map(drop))
    }

    /// Puts the copy in place of the database in one step. Returns the path of the replaced
    /// database, which is kept.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`; the old database then stays in place.
    pub(crate) fn take_its_place(self, replaced: &Replaced, now: Timestamp) -> Result<Option<PathBuf>> {
        let Self { state_dir, connection, mut file, .. } = self;
        drop(connection);
        let database = state_dir.join(DATABASE);
        let failed = |error: io::Error| failed(&database, &error);
        let synced = || File::open(&state_dir).and_then(|folder| folder.sync_all());
        File::open(&file.0).and_then(|file| file.sync_all()).map_err(failed)?;
        if matches!(replaced, Replaced::None) {
            discard_beside(&database);
            subagent_failpoint::check("restore.before_rename").map_err(failed)?;
            fs::rename(&file.0, &database).and_then(|()| synced()).map_err(failed)?;
            subagent_failpoint::hit("restore.after_rename");
            return Ok(None);
        }
        let kept = free_name(&state_dir, now);
        file.name_by_number().map_err(failed)?;
        // A WAL of the old database must not be applied to the new one.
        let exchanged = move_beside(&database, &kept)
            .and_then(|()| synced())
            .and_then(|()| exchange(&file.0, &database, &kept));
        if let Err(error) = exchanged {
            let _ = move_beside(&kept, &database);
            return Err(failed(error));
        }
        // After an exchange, this name holds the old database. After a copy, it does not exist.
        let old = file.let_go();
        subagent_failpoint::hit("restore.after_exchange");
        let named = synced().and_then(|()| if old.exists() { fs::rename(&old, &kept) } else { Ok(()) });
        // The old database is kept, even if its rename failed.
        let kept = if named.and_then(|()| synced()).is_err() && old.exists() { old } else { kept };
        subagent_failpoint::hit("restore.after_rename");
        Ok(Some(kept))
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let message = format!("{} cannot be replaced: {error}; the old one is in place", path.display());
    Error::new(Code::StorageError, message)
        .with("path", path.display().to_string())
        .with("error", error.to_string())
        .or_storage_full(error)
}
