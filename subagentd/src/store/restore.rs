//! Putting a backup in the place of the database: checked and made ready under another name, then exchanged in one
//! step. Only for the holder of `daemon.lock`.
//!
//! What must never go back goes on: sequence numbers, the generation, epochs, numbers of turns, and the results of
//! requests by their key are taken over from the database that is replaced; where that cannot be read they jump further
//! than anybody can have got.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use subagent_config::state_dir::{REPLACED_DATABASE, RESTORING_DATABASE as RESTORING};
use subagent_protocol::ids::InstanceId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::backup::{check, check_space};
use super::error::StoreError;
use super::open::{BUSY_TIMEOUT, Identity, allow, immutable_uri, read_identity, wal_path};
use super::rows::Cursor;
use super::tx::signed;
use super::{OwnerCheck, controllers, open_for_reading, schema};

/// The database of a state dir.
pub(crate) const DATABASE: &str = "state.db";
/// How much of it is copied at once.
const COPY_BYTES: usize = 1024 * 1024;
/// Added to numbers that must not go back where nobody can say how far they had got.
const JUMP: i64 = 1_000_000_000;

/// A backup that was checked and migrated, in a file of the state dir.
pub(crate) struct Prepared {
    state_dir: PathBuf,
    connection: Connection,
    /// The schema that the backup had.
    pub(crate) schema: i64,
    file: Unfinished,
}

/// The file, which goes unless it has taken its place.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            discard(&self.0);
        }
    }
}

impl Unfinished {
    /// Gives it a name that says which file it is, so that it is told from the old database after the exchange,
    /// whoever dies when.
    fn name_by_number(&mut self) -> io::Result<()> {
        let number = fs::metadata(&self.0)?.ino();
        let named = self.0.with_file_name(format!("{RESTORING}-{number}"));
        fs::rename(&self.0, &named)?;
        self.0 = named;
        Ok(())
    }

    fn let_go(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

/// Removes what a restore has left that was killed. What has the name of another file is the database that it had just
/// replaced: that is kept.
fn clear(state_dir: &Path, now: Timestamp) -> io::Result<()> {
    discard(&state_dir.join(RESTORING));
    for entry in fs::read_dir(state_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_prefix(RESTORING)?.strip_prefix('-')?.parse().ok());
        match number {
            Some(number) if entry.metadata()?.ino() == number => discard(&entry.path()),
            Some(_) => fs::rename(entry.path(), free_name(state_dir, now))?,
            None => {}
        }
    }
    Ok(())
}

/// A worker of the backup that is not stopped in it.
pub(crate) struct Known {
    pub(crate) worker_id: String,
    pub(crate) cursor: Cursor,
}

/// What the database that is replaced can still say.
pub(crate) enum Replaced {
    /// There is none.
    None,
    /// Everything.
    Readable,
    /// Nothing: it is damaged.
    Damaged,
}

/// What was changed in the backup before it took the place of the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarriedOver {
    /// Whether the numbers go on where the replaced database was; otherwise they have jumped.
    pub(crate) continued: bool,
    /// How many ownerships ended.
    pub(crate) released: usize,
}

impl Prepared {
    /// Copies the backup into the state dir, and checks and migrates the copy. The file itself is only read.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{path,error}` for a file that cannot be read or is the database itself; `BACKUP_INVALID{path,
    /// reason}`; `STORAGE_FULL`, `STORAGE_ERROR`.
    pub(crate) fn of(file: &Path, state_dir: &Path, now: Timestamp) -> Result<Self> {
        clear(state_dir, now).map_err(|error| failed(&state_dir.join(DATABASE), &error))?;
        let unfinished = Unfinished(state_dir.join(RESTORING));
        copy(file, state_dir, &unfinished.0)?;
        let (connection, schema) = ready(file, &unfinished.0)?;
        Ok(Self { state_dir: state_dir.to_owned(), connection, schema, file: unfinished })
    }

    /// The workers that are not stopped in it.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn known(&self) -> Result<Vec<Known>> {
        let sql = "SELECT worker_id, segment, offset, number FROM workers WHERE state <> 'stopped'";
        let read = |row: &rusqlite::Row<'_>| {
            let number = |index| row.get::<_, i64>(index).map(i64::unsigned_abs);
            let cursor = Cursor { segment: number(1)?, offset: number(2)?, number: number(3)? };
            Ok(Known { worker_id: row.get(0)?, cursor })
        };
        let mut statement = self.connection.prepare(sql).map_err(StoreError::from)?;
        let known = statement.query_map([], read).map_err(StoreError::from)?;
        Ok(known.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    }

    /// The ids of all its workers.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn all(&self) -> Result<Vec<String>> {
        let mut statement =
            self.connection.prepare("SELECT worker_id FROM workers").map_err(StoreError::from)?;
        let ids = statement.query_map([], |row| row.get(0)).map_err(StoreError::from)?;
        Ok(ids.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    }

    /// Takes over from the replaced database what must not go back, ends all ownerships, and has the next daemon look
    /// at these workers: something of them was there after the backup.
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
        // All of it is in one file that nobody else writes to; and a path need not be UTF-8, as a text must.
        self.connection.execute("ATTACH ?1 AS old", [immutable_uri(old)])?;
        let tx = self.connection.transaction()?;
        let taken = tx.execute_batch(TAKE_OVER).and_then(|()| tx.commit());
        let detached = self.connection.execute("DETACH old", []);
        taken.and(detached.map(drop))
    }

    /// Puts it in the place of the database in one step. Gives where the replaced one is kept.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`; the database is the old one then.
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
        // What could not be written into its database must not be taken for the new one's.
        let exchanged = move_beside(&database, &kept)
            .and_then(|()| synced())
            .and_then(|()| subagent_failpoint::check("restore.before_rename"))
            .and_then(|()| exchange(&file.0, &database, &kept));
        if let Err(error) = exchanged {
            let _ = move_beside(&kept, &database);
            return Err(failed(error));
        }
        // From here on it is the old one that has this name, if it has not been copied.
        let old = file.let_go();
        subagent_failpoint::hit("restore.after_exchange");
        let named = synced().and_then(|()| if old.exists() { fs::rename(&old, &kept) } else { Ok(()) });
        // Whatever it is called, it is kept.
        let kept = if named.and_then(|()| synced()).is_err() && old.exists() { old } else { kept };
        subagent_failpoint::hit("restore.after_rename");
        Ok(Some(kept))
    }
}

/// Whether the caller may replace this database: with a handle that is current for all that has workers.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`; `STORAGE_ERROR` if it cannot be read just now. A damaged database forbids nothing, and
/// neither does one of another program here.
pub(crate) fn may_replace(state_dir: &Path, owner: &OwnerCheck) -> Result<()> {
    let database = state_dir.join(DATABASE);
    // SQLite removes the WAL of an empty database as soon as it looks at it.
    if !fs::metadata(&database).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let connection = open_for_reading(&database)?;
    let tables = connection.prepare("SELECT 1 FROM controllers, owners, workers WHERE 0").map(drop);
    match tables {
        Err(error) if is_damage(&error) => return Ok(()),
        tables => tables.map_err(|error| of_database(&database, error))?,
    }
    let checked = controllers::with_workers(&connection).and_then(|concerned| {
        concerned.iter().try_for_each(|row| controllers::check_owner(&connection, owner, row))
    });
    match checked {
        Err(error) if error.code != Code::InvalidControllerHandle && !is_sound(&connection) => Ok(()),
        checked => checked,
    }
}

/// Whether SQLite finds no damage; also if it cannot look.
fn is_sound(connection: &Connection) -> bool {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(said) => said == "ok",
        Err(error) => !is_damage(&error),
    }
}

/// Writes everything of the replaced database into its one file, in the schema of today, so that nothing beside it is
/// taken for the new one's, and all that must go on can be read from it.
///
/// # Errors
/// `STATE_DIR_FOREIGN`, `STATE_DIR_TOO_NEW`; `STORAGE_ERROR` if another program keeps it locked for all of
/// [`BUSY_TIMEOUT`].
pub(crate) fn settle_replaced(state_dir: &Path) -> Result<Replaced> {
    let database = state_dir.join(DATABASE);
    match fs::metadata(&database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replaced::None),
        Err(error) => return Err(failed(&database, &error)),
        // Something has taken its content away. SQLite would remove its WAL as soon as it looks at it.
        Ok(meta) if meta.len() == 0 => return Ok(Replaced::Damaged),
        Ok(_) => {}
    }
    let settled = match read_identity(&database) {
        Ok(Identity::Empty) => return Ok(Replaced::Damaged),
        Ok(identity) => {
            allow(&database, &identity)?;
            into_one_file(&database)
        }
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => Ok(Replaced::Readable),
        Err(error) if is_damage(&error) => Ok(Replaced::Damaged),
        Err(error) => Err(of_database(&database, error)),
    }
}

/// Whether this says what the database is, and not what hinders just now.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
                // A table or a column is not there.
                || failure.extended_code == rusqlite::ffi::SQLITE_ERROR
        }
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code == rusqlite::ffi::SQLITE_ERROR,
        // A row that every database of ours has.
        rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// `STORAGE_ERROR` or `STORAGE_FULL` about the database that was to be replaced.
fn of_database(database: &Path, error: rusqlite::Error) -> Error {
    Error::from(StoreError::from(error)).with("stateDbPath", database.display().to_string())
}

fn into_one_file(database: &Path) -> rusqlite::Result<()> {
    let mut connection = open(database)?;
    // From the first look on nobody else reads it. SQLite waits for readers to end there, and would not wait for one in
    // `journal_mode`: somebody who looks into the database for a moment would fail the restore.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    schema::migrate(&mut connection)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode != "delete" {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, None));
    }
    connection.query_row("SELECT value FROM meta WHERE key = 'seq_reserved'", [], |_| Ok(()))?;
    // The index of the WAL that is gone, of whoever looked before: who has the database to himself neither uses nor
    // removes it.
    let _ = fs::remove_file(beside(database, "-shm"));
    Ok(())
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        // For what is attached.
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

fn copy(file: &Path, state_dir: &Path, to: &Path) -> Result<()> {
    let unreadable = |error: &io::Error| {
        let path = file.display().to_string();
        Error::new(Code::InvalidArgument, format!("the backup {path} cannot be read: {error}"))
            .with("path", path)
            .with("error", error.to_string())
            .recommend(
                "name a file that `subagent backup` has written and that you may read; nothing was changed",
            )
    };
    let meta = fs::metadata(file).map_err(|error| unreadable(&error))?;
    if !meta.is_file() {
        return Err(unreadable(&io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    let database = fs::metadata(state_dir.join(DATABASE));
    if database.is_ok_and(|database| (database.dev(), database.ino()) == (meta.dev(), meta.ino())) {
        return Err(unreadable(&io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is the database of this state dir itself",
        )));
    }
    let wal = wal_path(file);
    let bytes = meta.len() + fs::metadata(&wal).map_or(0, |wal| wal.len());
    check_space(state_dir, bytes, "name another state dir with SUBAGENT_STATE_DIR")?;
    let mut sources = vec![(file.to_owned(), to.to_owned())];
    if wal.exists() {
        sources.push((wal, wal_path(to)));
    }
    for (from, to) in sources {
        let mut source = File::open(&from).map_err(|error| unreadable(&error))?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| failed(&to, &error));
        let mut target = written?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let length = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            target.write_all(&buffer[..length]).map_err(|error| failed(&to, &error))?;
        }
    }
    Ok(())
}

/// Checks the copy of a backup, and brings it to the schema of today.
fn ready(file: &Path, path: &Path) -> Result<(Connection, i64)> {
    let invalid = |reason: String| {
        let message = format!("{} cannot be restored: {reason}", file.display());
        Error::new(Code::BackupInvalid, message)
            .with("path", file.display().to_string())
            .with("reason", reason)
            .recommend("restore a file that `subagent backup` has written; nothing was changed")
    };
    let damaged = |error: &dyn std::fmt::Display| invalid(format!("it is damaged or no database: {error}"));
    let version = match read_identity(path).map_err(|error| damaged(&error))? {
        Identity::Ours(version) if version > schema::VERSION => {
            let newest = schema::VERSION;
            return Err(invalid(format!("it has schema {version}, and {newest} is the newest known here"))
                .with("schema", version)
                .with("supported", newest));
        }
        Identity::Ours(version) => version,
        Identity::Empty | Identity::Foreign => return Err(invalid("another program wrote it".to_owned())),
    };
    let mut connection = open(path).map_err(|error| damaged(&error))?;
    let migrated = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "foreign_keys", true))
        .and_then(|()| schema::migrate(&mut connection))
        .and_then(|()| schema::is_current(&connection));
    match migrated {
        Ok(true) => {}
        Ok(false) => return Err(invalid("its tables are not those of subagent".to_owned())),
        Err(error) if is_full(&error) => return Err(StoreError::from(error).into()),
        Err(error) => return Err(damaged(&error)),
    }
    check(&connection).map_err(|error| damaged(&error.message))?;
    Ok((connection, version))
}

fn is_full(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.code == ErrorCode::DiskFull)
}

/// Everything here only ever raises or adds. A controller that the backup does not know keeps its id and epochs, unless
/// its workspace belongs to another one in the backup.
const TAKE_OVER: &str = "
    UPDATE meta SET value = max(value, (SELECT o.value FROM old.meta o WHERE o.key = meta.key))
     WHERE key IN ('seq_reserved', 'generation', 'syncs', 'worker_key');
    UPDATE meta SET value = max(value, (SELECT coalesce(max(seq), 0) FROM old.events)) WHERE key = 'seq_reserved';
    INSERT OR IGNORE INTO controllers (controller_id, label, workspace_key, require_handle, created_at, updated_at)
      SELECT controller_id, label, workspace_key, require_handle, created_at, updated_at FROM old.controllers;
    UPDATE controllers SET require_handle = 1 WHERE controller_id IN
      (SELECT controller_id FROM old.controllers WHERE require_handle = 1);
    INSERT OR IGNORE INTO owners
        (controller, instance_id, epoch, token_hash, pid, start_time, boot_id, created_at, released_at)
      SELECT c.id, o.instance_id, o.epoch, o.token_hash, o.pid, o.start_time, o.boot_id, o.created_at,
             coalesce(o.released_at, o.created_at)
        FROM old.owners o JOIN old.controllers oc ON oc.id = o.controller
        JOIN main.controllers c ON c.controller_id = oc.controller_id;
    UPDATE workers SET last_turn = max(last_turn, coalesce(
      (SELECT o.last_turn FROM old.workers o WHERE o.worker_id = workers.worker_id), 0));
    INSERT OR IGNORE INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
      SELECT h.snapshot_id, w.id, h.up_to, h.handoff_path, h.checkpoint_path, h.created_at
        FROM old.handoffs h JOIN old.workers o ON o.id = h.worker JOIN main.workers w ON w.worker_id = o.worker_id;
    INSERT OR IGNORE INTO requests (key, fingerprint, response, created_at)
      SELECT key, fingerprint, response, created_at FROM old.requests;
    INSERT OR IGNORE INTO removed_workers (worker_id, stopped_at, removed_at)
      SELECT worker_id, stopped_at, removed_at FROM old.removed_workers
       WHERE worker_id NOT IN (SELECT worker_id FROM main.workers);
";

fn jump(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE meta SET value = max(value, (SELECT coalesce(max(seq), 0) FROM events)) + ?1
         WHERE key IN ('seq_reserved', 'generation', 'worker_key')",
        [JUMP],
    )?;
    connection.execute("UPDATE workers SET last_turn = last_turn + ?1 WHERE state <> 'stopped'", [JUMP])?;
    Ok(())
}

/// An ownership of nobody, so that the next one has a higher epoch than any that was given.
fn jump_epoch(
    connection: &Connection,
    controller: i64,
    instance_id: &InstanceId,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO owners (controller, instance_id, epoch, token_hash, pid, start_time, boot_id, created_at, released_at)
         SELECT ?1, ?2, coalesce(max(epoch), 0) + ?3, x'', 0, 0, '', ?4, ?4 FROM owners WHERE controller = ?1",
        params![controller, instance_id.as_str(), JUMP, now.0],
    )?;
    Ok(())
}

/// Brings the rows to what can be true of them after a restore.
fn settle(connection: &Connection, to_look_at: &[String], now: Timestamp) -> rusqlite::Result<usize> {
    let released =
        connection.execute("UPDATE owners SET released_at = ?1 WHERE released_at IS NULL", [now.0])?;
    // Whether it was sent since nobody can tell, so it must not be sent again.
    connection.execute(
        "UPDATE turns SET dispatched = 'maybe' WHERE status = 'accepted' AND dispatched = 'no' AND carrier = 'acp-stdio'",
        [],
    )?;
    // The next daemon draws its conclusions from the locks and the journals of those.
    connection.execute(
        "UPDATE workers SET may_live = 1 WHERE state <> 'stopped' AND id IN
           (SELECT worker FROM turns WHERE status = 'accepted' AND carrier = 'acp-stdio')",
        [],
    )?;
    for worker_id in to_look_at {
        connection.execute(
            "UPDATE workers SET may_live = 1, segment = max(segment, 1) WHERE worker_id = ?1 AND state <> 'stopped'",
            [worker_id],
        )?;
    }
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('restored_at', ?1)",
        [signed(now.0.unsigned_abs())],
    )?;
    Ok(released)
}

fn ids(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<i64>> {
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// A name for the replaced database that nothing has.
fn free_name(state_dir: &Path, now: Timestamp) -> PathBuf {
    let time = now.to_string().replace([':', '+'], "-");
    let name = |again: u32| match again {
        0 => state_dir.join(format!("{REPLACED_DATABASE}{time}")),
        again => state_dir.join(format!("{REPLACED_DATABASE}{time}.{again}")),
    };
    (0..).map(name).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| name(0))
}

/// Gives what lies beside a database the names that belong to another one.
fn move_beside(from: &Path, to: &Path) -> io::Result<()> {
    for end in BESIDE {
        match fs::rename(beside(from, end), beside(to, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Exchanges two files in one step, so that there is a whole database under the name at any moment.
fn exchange(new: &Path, database: &Path, kept: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, new, CWD, database, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // A file system that cannot: the old one is copied first.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let copied = fs::copy(database, kept)
                .and_then(|_| File::open(kept)?.sync_all())
                .and_then(|()| fs::rename(new, database));
            if copied.is_err() {
                let _ = fs::remove_file(kept);
            }
            copied
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes a database that nobody uses, with what is beside it.
fn discard(path: &Path) {
    let _ = fs::remove_file(path);
    discard_beside(path);
}

fn discard_beside(path: &Path) {
    for end in BESIDE {
        let _ = fs::remove_file(beside(path, end));
    }
}

/// What SQLite makes beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::StorageFull,
        _ => Code::StorageError,
    };
    Error::new(code, format!("{} cannot be replaced: {error}; the old one is in place", path.display()))
        .with("path", path.display().to_string())
        .with("error", error.to_string())
}
