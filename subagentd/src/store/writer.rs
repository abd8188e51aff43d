//! The single writer thread. It commits waiting jobs as one transaction ([`BATCH_WEIGHT`]). A batch
//! with a state change syncs (`FULL`); progress alone syncs within [`SYNC_AFTER`]. Sequence numbers
//! come from blocks reserved by a synced commit, so none is reused, even after a power loss.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, TransactionBehavior};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{oneshot, watch};

use super::error::StoreError;
use super::events::words::MESSAGE_TYPES;
use super::recent_workers::RecentWorkers;
use super::tx::{Notices, Tx};
use super::write_queue::{NextWork, WriteQueue};

/// Maximum size of a transaction in events.
pub(crate) const BATCH_WEIGHT: usize = 256;
/// Maximum time for which progress may stay unsynced.
pub(crate) const SYNC_AFTER: Duration = Duration::from_secs(1);
/// Minimum time between two commits of progress alone, while many workers have events: a frame of a
/// screen. Each commit writes whole pages and wakes every reader. A single worker's events never
/// wait.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(16);
/// Number of sequence numbers reserved at a time.
const SEQ_BLOCK: i64 = 65_536;
/// Minimum number of reserved numbers when a batch begins; no batch uses more.
const SEQ_MARGIN: i64 = 8_192;
/// WAL size, in pages of 4 KiB, at which an idle writer checkpoints.
const CHECKPOINT_PAGES_IDLE: i32 = 1_000;
/// WAL size, in pages of 4 KiB, at which the writer checkpoints even with waiting jobs.
const CHECKPOINT_PAGES_ALWAYS: i32 = 16_384;

/// The guarantee that a transaction gives before its result is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// Survives the death of any process; a power loss may undo the newest commits.
    Progress,
    /// Survives a power loss.
    Full,
}

type Finish = Box<dyn FnOnce(std::result::Result<(), &Error>) + Send>;
/// Runs a job in a transaction. `None` reports that no transaction could begin.
type TransactionFn = Box<dyn FnOnce(Option<&mut Tx<'_>>) -> Finish + Send>;

/// Whether SQLite checks foreign keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignKeys {
    /// SQLite checks foreign keys as usual.
    Checked,
    /// The job itself ensures that no row refers to what it deletes. SQLite's check might scan a
    /// whole table.
    KnownToBeNone,
}

type Chore = Box<dyn FnOnce(&mut Connection) + Send>;

enum WriterWork {
    Job(WriteJob),
    Chore(Chore),
}

struct WriteJob {
    durability: Durability,
    weight: usize,
    run: TransactionFn,
}

pub(super) struct Writer {
    queue: Arc<WriteQueue<WriterWork>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    newest_task_event: watch::Sender<i64>,
    asked: watch::Sender<i64>,
}

impl Writer {
    /// Starts the writer thread. `left_behind`: a WAL exists whose writer has died.
    pub(super) fn start(mut connection: Connection, left_behind: bool) -> Result<Self> {
        let reserved: i64 = connection
            .query_row(
                "SELECT max(value, (SELECT coalesce(max(seq), 0) FROM events)) FROM meta WHERE key = 'seq_reserved'",
                [],
                |row| row.get(0),
            )
            .map_err(StoreError::from)?;
        let reserved = if subagent_failpoint::sabotaged("seq.again") {
            // Simulates reuse of lost numbers that a client may have seen.
            let newest = "SELECT coalesce(max(seq), 0) FROM events";
            connection.query_row(newest, [], |row| row.get(0)).map_err(StoreError::from)?
        } else {
            reserved
        };
        let wal_pages = Arc::new(AtomicI32::new(0));
        let wrote = Arc::new(AtomicBool::new(false));
        let (counted, has_written) = (Arc::clone(&wal_pages), Arc::clone(&wrote));
        let count = move |_: &mut Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            has_written.store(true, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(count)).map_err(StoreError::from)?;
        let queue = Arc::new(WriteQueue::new());
        let (newest_task_event, asked) = (watch::Sender::new(0), watch::Sender::new(0));
        let mut state = WriterState {
            queue: Arc::clone(&queue),
            connection,
            wal_pages,
            wrote,
            newest_task_event: newest_task_event.clone(),
            asked: asked.clone(),
            next_seq: reserved + 1,
            reserved,
            unsynced: None,
            committed: None,
            recent: RecentWorkers::default(),
            forgets: left_behind,
            chores: VecDeque::new(),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.run())
            .map_err(|error| StoreError::Reader(error.to_string()))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)), newest_task_event, asked })
    }

    pub(super) fn newest_task_event(&self) -> watch::Receiver<i64> {
        self.newest_task_event.subscribe()
    }

    pub(super) fn asked(&self) -> watch::Receiver<i64> {
        self.asked.subscribe()
    }

    pub(super) async fn submit<T, F>(&self, durability: Durability, weight: usize, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let run: TransactionFn = Box::new(move |tx| {
            let result = match tx {
                Some(tx) => {
                    let result = job(tx);
                    tx.failed = result.is_err();
                    result
                }
                None => Err(StoreError::Closed.into()),
            };
            let finish: Finish = Box::new(move |committed| {
                let result = match (committed, result) {
                    (Err(error), Ok(_)) => Err(error.clone()),
                    // The job never ran; the transaction's error is the reason.
                    (Err(error), Err(own)) if own.code == Code::DaemonNotRunning => Err(error.clone()),
                    (_, result) => result,
                };
                // The caller may be gone; the commit stands.
                let _ = answer.send(result);
            });
            finish
        });
        self.hand_over(WriterWork::Job(WriteJob { durability, weight, run }))?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    pub(super) async fn chore<T, F>(&self, references: ForeignKeys, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let chore = Box::new(move |connection: &mut Connection| {
            // The caller may be gone; the commit stands.
            let _ = answer.send(carry_out(connection, references, job));
        });
        self.hand_over(WriterWork::Chore(chore))?;
        // Chores that have not begun when the store closes are dropped.
        answered.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    fn hand_over(&self, work: WriterWork) -> Result<()> {
        let (weight, urgent) = match &work {
            WriterWork::Job(job) => (job.weight, job.durability == Durability::Full),
            WriterWork::Chore(_) => (0, false),
        };
        Ok(self.queue.push(work, weight, urgent).map_err(|_| StoreError::Closed)?)
    }

    pub(super) async fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread ends when its queue is empty; every job is bounded.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

struct WriterState {
    queue: Arc<WriteQueue<WriterWork>>,
    connection: Connection,
    /// Pages in the WAL after the last commit, since its last reset.
    wal_pages: Arc<AtomicI32>,
    /// Whether the last commit wrote to the WAL. A commit without changes writes and syncs nothing.
    wrote: Arc<AtomicBool>,
    /// Sequence number of the newest event that reaches its worker's ancestors.
    newest_task_event: watch::Sender<i64>,
    /// Sequence number of the newest question.
    asked: watch::Sender<i64>,
    next_seq: i64,
    reserved: i64,
    /// Time of the first commit of progress that no FULL commit has covered.
    unsynced: Option<Instant>,
    /// Time of the last commit.
    committed: Option<Instant>,
    /// The workers whose records were stored last.
    recent: RecentWorkers,
    /// Whether the WAL may hold an erased secret.
    forgets: bool,
    /// Transactions that run when no job waits.
    chores: VecDeque<Chore>,
}

impl Drop for WriterState {
    fn drop(&mut self) {
        // Without the thread, also after a panic, no caller may wait.
        self.queue.abandon();
    }
}

impl WriterState {
    fn run(&mut self) {
        loop {
            let wait = match self.unsynced {
                _ if !self.chores.is_empty() => Some(Duration::ZERO),
                None => None,
                Some(since) => Some(SYNC_AFTER.saturating_sub(since.elapsed())),
            };
            match self.queue.take(wait) {
                NextWork::Work(WriterWork::Job(job)) => {
                    let idle = self.batch(job);
                    self.checkpoint(idle);
                    // Chores make progress even under constant load.
                    self.chore();
                }
                NextWork::Work(WriterWork::Chore(chore)) => self.chores.push_back(chore),
                NextWork::Late if self.is_overdue() => self.sync(),
                NextWork::Late => self.chore(),
                NextWork::Closed => break,
            }
        }
        self.chores.clear();
        if self.unsynced.is_some() {
            self.sync();
        }
        let checked = check("last_checkpoint.before_write");
        let truncate = |()| self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = checked.and_then(truncate) {
            tracing::warn!(%error, "the last checkpoint failed; the next start recovers from the WAL");
        }
        subagent_failpoint::hit("last_checkpoint.after_write");
    }

    /// Commits `first` and all waiting jobs up to the limit. Returns whether no job is waiting.
    fn batch(&mut self, first: WriteJob) -> bool {
        let mut weight = first.weight;
        let mut durability = first.durability;
        let mut jobs = VecDeque::from([first]);
        let mut idle = false;
        while weight < BATCH_WEIGHT {
            match self.queue.take_more(self.pause(durability), BATCH_WEIGHT - weight) {
                Some(WriterWork::Chore(chore)) => self.chores.push_back(chore),
                Some(WriterWork::Job(job)) => {
                    weight += job.weight;
                    durability = durability.max(job.durability);
                    jobs.push_back(job);
                }
                None => {
                    idle = true;
                    break;
                }
            }
        }
        let durability = if self.is_overdue() { Durability::Full } else { durability };
        let mut finishes = Vec::with_capacity(jobs.len());
        let result = self.transaction(durability, &mut jobs, &mut finishes);
        // Jobs that did not run fail with the rest.
        finishes.extend(jobs.into_iter().map(|job| (job.run)(None)));
        let result = result.map_err(|error| Error::from(StoreError::from(error)));
        if let Err(error) = &result {
            tracing::error!(%error, "a transaction failed");
        }
        for finish in finishes {
            finish(result.as_ref().copied());
        }
        idle
    }

    /// Returns how long a batch of this durability waits for further jobs.
    fn pause(&self, durability: Durability) -> Duration {
        let now = Instant::now();
        match (durability, self.committed) {
            (Durability::Progress, Some(last)) if self.recent.are_many(now) => {
                PROGRESS_INTERVAL.saturating_sub(now.saturating_duration_since(last))
            }
            _ => Duration::ZERO,
        }
    }

    fn is_overdue(&self) -> bool {
        self.unsynced.is_some_and(|since| since.elapsed() >= SYNC_AFTER)
    }

    /// Runs one chore, if there is one.
    fn chore(&mut self) {
        if let Some(chore) = self.chores.pop_front() {
            chore(&mut self.connection);
            self.checkpoint(true);
        }
    }

    fn transaction(
        &mut self,
        durability: Durability,
        jobs: &mut VecDeque<WriteJob>,
        finishes: &mut Vec<Finish>,
    ) -> rusqlite::Result<()> {
        self.reserve()?;
        check("transaction.before_begin")?;
        set_synchronous(&self.connection, durability)?;
        let mut tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut notices = Notices::default();
        while !jobs.is_empty() {
            let savepoint = tx.savepoint()?;
            let Some(job) = jobs.pop_front() else { break };
            let mut job_tx = Tx::new(&savepoint, &mut self.next_seq);
            let finish = (job.run)(Some(&mut job_tx));
            let failed = job_tx.failed;
            notices = if failed { notices } else { notices.max(job_tx.notices) };
            self.forgets |= job_tx.forgets;
            if let Some(worker) = job_tx.worker_of_records() {
                self.recent.add(worker, Instant::now());
            }
            drop(job_tx);
            finishes.push(finish);
            if savepoint.is_autocommit() {
                // SQLite has rolled back everything (full disk, I/O error). Continuing would commit
                // only a part of the batch in a new transaction.
                return Err(rolled_back());
            }
            // Dropping a savepoint without a commit rolls it back.
            if !failed {
                savepoint.commit()?;
            }
        }
        if subagent_failpoint::sabotaged("store.forget_events") {
            // Simulates losing events that a client may have seen.
            let sql = format!("DELETE FROM events WHERE type IN {MESSAGE_TYPES} AND seq < ?1");
            tx.execute(&sql, [self.next_seq - 20])?;
        }
        check("store.before_commit")?;
        self.wrote.store(false, Ordering::Relaxed);
        tx.commit()?;
        self.committed = Some(Instant::now());
        let wrote = self.wrote.load(Ordering::Relaxed);
        subagent_failpoint::hit("store.after_commit");
        // Watchers are notified before the callers get their results.
        for (sender, newest) in
            [(&self.newest_task_event, notices.newest_task_event), (&self.asked, notices.asked)]
        {
            if newest > 0 {
                sender.send_replace(newest);
            }
        }
        match durability {
            // Nothing was synced, so earlier progress stays unsynced.
            _ if !wrote => {}
            Durability::Full => self.unsynced = None,
            Durability::Progress => {
                self.unsynced.get_or_insert_with(Instant::now);
            }
        }
        Ok(())
    }

    fn reserve(&mut self) -> rusqlite::Result<()> {
        if self.next_seq + SEQ_MARGIN <= self.reserved {
            return Ok(());
        }
        let reserved = self.next_seq + SEQ_BLOCK;
        check("reserve.before_commit")?;
        set_synchronous(&self.connection, Durability::Full)?;
        self.connection.execute("UPDATE meta SET value = ?1 WHERE key = 'seq_reserved'", [reserved])?;
        self.reserved = reserved;
        subagent_failpoint::hit("reserve.after_commit");
        Ok(())
    }

    /// Syncs earlier progress with a FULL commit: syncing the WAL covers all of it.
    fn sync(&mut self) {
        let checked = check("sync.before_commit");
        let result =
            checked.and_then(|()| set_synchronous(&self.connection, Durability::Full)).and_then(|()| {
                self.connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'syncs'", [])
            });
        match result {
            Ok(_) => {
                self.unsynced = None;
                subagent_failpoint::hit("sync.after_commit");
            }
            Err(error) => {
                tracing::error!(%error, "progress could not be synced; the next attempt follows");
                self.unsynced = Some(Instant::now());
            }
        }
    }

    fn checkpoint(&mut self, idle: bool) {
        if subagent_failpoint::sabotaged("checkpoint.never") {
            return;
        }
        if self.forgets && idle {
            self.forgets = !self.empty_wal();
        }
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages > CHECKPOINT_PAGES_ALWAYS || (idle && pages > CHECKPOINT_PAGES_IDLE) {
            let checked = check("checkpoint.before_write");
            let passive = |()| self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            let result = checked.and_then(passive);
            if let Err(error) = result {
                tracing::warn!(%error, "a checkpoint failed; the WAL grows until the next one");
            }
            subagent_failpoint::hit("checkpoint.after_write");
        }
    }
}

impl WriterState {
    /// Moves the whole WAL into the database and truncates it. Returns false if a reader was in the
    /// way; the caller tries again later.
    fn empty_wal(&self) -> bool {
        let patience = |time| self.connection.busy_timeout(time);
        let emptied = check("forget.before_write").and_then(|()| patience(Duration::ZERO)).and_then(|()| {
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        });
        if let Err(error) = patience(super::database::open::BUSY_TIMEOUT) {
            tracing::error!(%error, "the database no longer waits for its readers");
        }
        subagent_failpoint::hit("forget.after_write");
        matches!(emptied, Ok(0))
    }
}

/// A failpoint before an SQLite call: its `error` action causes an I/O error.
fn check(name: &str) -> rusqlite::Result<()> {
    subagent_failpoint::check(name).map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })
}

fn carry_out<T>(
    connection: &mut Connection,
    references: ForeignKeys,
    job: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    // Neither setting can change inside a transaction.
    set_synchronous(connection, Durability::Progress).map_err(StoreError::from)?;
    let unchecked = references == ForeignKeys::KnownToBeNone;
    if unchecked {
        connection.pragma_update(None, "foreign_keys", false).map_err(StoreError::from)?;
    }
    let result = transact(connection, job);
    if unchecked && let Err(error) = connection.pragma_update(None, "foreign_keys", true) {
        tracing::error!(%error, "references are not checked until the daemon is restarted");
    }
    result
}

fn transact<T>(connection: &mut Connection, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let tx =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
    let result = job(&tx)?;
    check("chore.before_commit").map_err(StoreError::from)?;
    tx.commit().map_err(StoreError::from)?;
    Ok(result)
}

fn rolled_back() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    rusqlite::Error::SqliteFailure(code, Some("the transaction was rolled back".to_owned()))
}

fn set_synchronous(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    // The setting cannot change inside a transaction.
    connection.execute_batch(match durability {
        Durability::Full => "PRAGMA synchronous = FULL",
        Durability::Progress => "PRAGMA synchronous = NORMAL",
    })
}
