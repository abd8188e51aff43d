//! Checks the database through the daemon. Must not open `state.db`.

use std::fs::Metadata;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use subagent_config::regular;
use subagent_protocol::Code;
use subagent_protocol::api::{Examination, ExaminedDatabase, ExaminedWorker};

use subagentd::{APPLICATION_ID, SCHEMA};

use super::disk::size;
use super::facts::{Daemon, DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::holders::ProcessRole;
use super::unseen::Unseen;

const GROUP: CheckedPart = CheckedPart::Database;
const LOOK: &str = "database.look";
const SOUND: &str = "database.sound";
const SIZE: &str = "database.size";
const WORKERS: &str = "database.workers";
const GAPS: &str = "database.gaps";

/// A WAL of this size is not checkpointed, because readers keep it busy.
const LARGE_WAL: u64 = 256 * 1024 * 1024;

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    if facts.state == StateDirStatus::Outside {
        return Vec::new();
    }
    if let Some(hidden) = facts.hidden(GROUP, LOOK) {
        return vec![hidden];
    }
    if !facts.has_state() {
        return vec![Finding::ok(GROUP, SOUND, "there is none yet")];
    }
    let file = facts.state_dir.join("state.db");
    if let Some(lost) = lost(facts, &file) {
        return vec![lost];
    }
    match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return vec![missing(facts, "there is none")],
        Err(error) => {
            let seen = format!("{} cannot be looked at: {error}", file.display());
            return vec![Finding::problem(GROUP, SOUND, seen).advise("run this as its owner")];
        }
        Ok(_) => {}
    }
    let mut found = match (&facts.examination, &facts.daemon) {
        (Some(examination), _) => examined(examination),
        (None, Daemon::None | Daemon::Hidden) => vec![unopened(facts, &file)],
        (None, _) => vec![unexamined(facts)],
    };
    found.extend(sizes(facts));
    found
}

/// Checks that the file with the database's name is the one that the daemon has open. A deleted file
/// disappears with the daemon's end.
fn lost(facts: &DoctorFacts, file: &Path) -> Option<Finding> {
    let daemon = facts.holders.iter().find(|holder| holder.role == ProcessRole::Daemon)?;
    let identity = |meta: Metadata| (meta.dev(), meta.ino());
    let named = file.metadata().map(identity).ok();
    let mut unknown = [file.as_os_str().to_owned(), file.as_os_str().to_owned()];
    unknown[1].push(" (deleted)");
    let folder = format!("/proc/{}/fd", daemon.pid);
    let mut open = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| {
        std::fs::read_link(path).is_ok_and(|target| unknown.iter().any(|name| target.as_os_str() == name))
    });
    let is_other = open.any(|path| path.metadata().is_ok_and(|meta| Some(identity(meta)) != named));
    is_other.then(|| {
        let seen = format!(
            "{} was removed or replaced while the daemon (pid {}) works with it: what is stored is lost when that ends",
            file.display(),
            daemon.pid
        );
        Finding::problem(GROUP, SOUND, seen).advise(
            "write down what matters with `subagent worker handoff`, then `subagent daemon stop --workers`; restore a backup with `subagent restore FILE`",
        )
    })
}

/// Reports a missing or empty database. This is normal if no worker ever existed.
fn missing(facts: &DoctorFacts, what: &str) -> Finding {
    let mut unseen = Unseen::default();
    let workers = unseen.entries(&facts.state_dir.join("runtimes")).into_iter();
    match workers.filter(|path| path.is_dir()).count() {
        0 => Finding::ok(GROUP, SOUND, format!("{what} yet")),
        count => {
            let seen = format!("{what}, and there are files of {}: it was removed", counted(count, "worker"));
            Finding::problem(GROUP, SOUND, seen).advise(
                "restore a backup with `subagent restore FILE`; otherwise the next command begins anew, without these workers",
            )
        }
    }
}

/// Examines the first bytes of the file without opening it as a database.
fn unopened(facts: &DoctorFacts, file: &Path) -> Finding {
    match header(file) {
        Ok(0) if has_no_wal(file) => missing(facts, "it is empty"),
        Err(Unusable::Unseen(why)) => Finding::problem(GROUP, SOUND, format!("{}: {why}", file.display()))
            .advise(format!(
                "run this as its owner: `ls -ld {}`",
                shell_words::quote(&file.to_string_lossy())
            )),
        Ok(schema) => {
            let seen =
                format!("schema {schema}; not examined further: only a daemon opens it, and none runs");
            Finding::ok(GROUP, SOUND, seen).advise("start one with `subagent daemon start`, then look again")
        }
        Err(Unusable::Damaged(why)) => Finding::problem(GROUP, SOUND, format!("{}: {why}", file.display()))
            .advise("restore a backup with `subagent restore FILE`; see docs/troubleshooting.md"),
    }
}

/// The reason why a file cannot be examined.
#[derive(Debug, PartialEq, Eq)]
enum Unusable {
    /// The system denies access.
    Unseen(String),
    /// It belongs to another program, or is incomplete.
    Damaged(String),
}

/// Whether all data is in the database file itself.
fn has_no_wal(file: &Path) -> bool {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    Path::new(&name)
        .metadata()
        .map_or_else(|error| error.kind() == ErrorKind::NotFound, |meta| meta.len() == 0)
}

/// Returns the schema version in the header of our database.
fn header(file: &Path) -> Result<u32, Unusable> {
    let damaged = |why: &str| Err(Unusable::Damaged(why.to_owned()));
    let unseen = |error: io::Error| Unusable::Unseen(format!("it cannot be looked at: {error}"));
    let mut opened = match regular::open_to_read(file) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return damaged("it is not a file"),
        opened => opened.map_err(unseen)?,
    };
    let length = opened.metadata().map_err(unseen)?.len();
    // After an interrupted start: all data is in the WAL, or no data was written.
    if length == 0 {
        return Ok(0);
    }
    let mut bytes = [0; 100];
    match opened.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return damaged("it is cut off: too short for a database");
        }
        read => read.map_err(unseen)?,
    }
    let number = |at: usize| bytes[at..at + 4].iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte));
    if !bytes.starts_with(b"SQLite format 3\0") {
        return damaged("it is damaged: it does not begin like an SQLite database");
    }
    let (application, version) = (i64::from(number(68)), i64::from(number(60)));
    // The schema is created in one transaction, which may still be in the WAL.
    if application != APPLICATION_ID && (application, version) != (0, 0) {
        return damaged("it is another program's database");
    }
    if version > SCHEMA {
        let why = format!("it has schema {version}, this command knows {SCHEMA}: a newer version made it");
        return Err(Unusable::Damaged(why));
    }
    // The page count is valid only if its writer confirms it; later pages may still be in the WAL.
    let page = match number(16) >> 16 {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let pages = if number(24) == number(92) { u64::from(number(28)) } else { 0 };
    if has_no_wal(file) && length < pages.saturating_mul(page) {
        return damaged("it is cut off: pages are missing at its end");
    }
    Ok(number(60))
}

fn unexamined(facts: &DoctorFacts) -> Finding {
    match &facts.unexamined {
        Some(failure) if failure.is(Code::InvalidArgument) => {
            Finding::warning(GROUP, SOUND, "not examined: the daemon's version cannot do that")
                .advise("replace it with `subagent daemon restart`; workers go on")
        }
        Some(failure) => Finding::problem(GROUP, SOUND, format!("{}: {}", failure.code, failure.message))
            .advise(
                "reopen it with `subagent daemon restart`, workers go on; `subagent daemon logs --lines 50` says more",
            ),
        None => Finding::warning(GROUP, SOUND, "not examined: the daemon does not answer"),
    }
}

fn examined(Examination { database, workers, all_workers, .. }: &Examination) -> Vec<Finding> {
    let mut found = vec![if *all_workers {
        soundness(database)
    } else {
        let seen = "not examined: its checks are for the owner of the workers only";
        Finding::ok(GROUP, SOUND, seen)
    }];
    found.extend(rows(database, workers));
    found.extend(gaps(workers));
    found
}

fn soundness(database: &ExaminedDatabase) -> Finding {
    let ExaminedDatabase { schema, problems, complete, .. } = database;
    match (problems.as_slice(), complete) {
        ([], true) => {
            Finding::ok(GROUP, SOUND, format!("schema {schema}; SQLite's checks find nothing wrong"))
        }
        ([], false) => {
            let seen = "SQLite's checks were stopped after 10 s; they had found nothing wrong so far";
            Finding::warning(GROUP, SOUND, seen).advise("try again when the machine is less busy")
        }
        (problems, _) => {
            let seen = format!("{} found by SQLite: {}", problems.len(), problems.join("; "));
            Finding::problem(GROUP, SOUND, seen).advise(
                "stop everything with `subagent daemon stop --workers`, and put a copy of the state dir in its place",
            )
        }
    }
}

fn rows(database: &ExaminedDatabase, workers: &[ExaminedWorker]) -> Vec<Finding> {
    let aside = workers.iter().filter_map(|worker| Some((worker, worker.set_aside.as_ref()?)));
    let mut found: Vec<Finding> = aside
        .map(|(worker, why)| {
            Finding::problem(GROUP, WORKERS, format!("{} is set aside: {why}", worker.worker_id)).advise(
                format!(
                    "it cannot be used; read its events with `subagent watch --worker-id {}`",
                    worker.worker_id
                ),
            )
        })
        .collect();
    if database.unreadable_workers > 0 {
        let seen = format!("{} rows of the table of workers cannot be read", database.unreadable_workers);
        found
            .push(Finding::problem(GROUP, WORKERS, seen).advise("look at `subagent daemon logs --lines 50`"));
    }
    for worker in workers.iter().filter(|worker| worker.misread > 0) {
        let seen = format!(
            "{}: {} not understood",
            worker.worker_id,
            counted(usize::try_from(worker.misread).unwrap_or(usize::MAX), "record")
        );
        found.push(Finding::warning(GROUP, WORKERS, seen).advise(
            "they are stored and change nothing; `subagent daemon logs --lines 50` says which they are",
        ));
    }
    if found.is_empty() {
        found.push(Finding::ok(
            GROUP,
            WORKERS,
            format!("{}, none set aside", counted(workers.len(), "worker")),
        ));
    }
    found
}

/// Returns a count with its noun.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Missing journal records cannot be restored, so they are reported as long as the worker exists.
fn gaps(workers: &[ExaminedWorker]) -> Vec<Finding> {
    let missing = workers.iter().filter(|worker| worker.gaps > 0);
    let (stopped, open): (Vec<_>, Vec<_>) = missing.partition(|worker| worker.state == "stopped");
    let mut found: Vec<Finding> = open
        .into_iter()
        .map(|worker| {
            let seen = format!("records of {} are missing ({} times)", worker.worker_id, worker.gaps);
            Finding::warning(GROUP, GAPS, seen).advise(format!(
                "see which in `subagent worker inspect {} --event-type journal.gap`",
                worker.worker_id
            ))
        })
        .collect();
    if found.is_empty() {
        let seen = match stopped.len() {
            0 => "no record is missing".to_owned(),
            count => format!("records are missing of {} that are stopped", counted(count, "worker")),
        };
        found.push(Finding::ok(GROUP, GAPS, seen));
    }
    found
}

fn sizes(facts: &DoctorFacts) -> Vec<Finding> {
    let mut unseen = Unseen::default();
    let mut length = |name| unseen.meta(&facts.state_dir.join(name)).map_or(0, |found| found.len());
    let (bytes, wal) = (length("state.db"), length("state.db-wal"));
    let free = facts.examination.as_ref().map_or(0, |examination| {
        examination.database.free_pages.saturating_mul(examination.database.page_bytes)
    });
    let seen = format!("{}, of that {} free; its WAL has {}", size(bytes), size(free), size(wal));
    let found = if wal > LARGE_WAL {
        Finding::warning(GROUP, SIZE, seen).advise(
            "another program may keep state.db open (fuser or lsof names it); else `subagent daemon restart`",
        )
    } else {
        Finding::ok(GROUP, SIZE, seen)
    };
    unseen.finding(GROUP, LOOK).into_iter().chain([found]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_bytes_identify_what_is_no_database_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state.db");
        let look = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            header(&file)
        };
        let made = |application: u32, version: u32| {
            let mut bytes = [0; 4096];
            bytes[..16].copy_from_slice(b"SQLite format 3\0");
            bytes[60..64].copy_from_slice(&version.to_be_bytes());
            bytes[68..72].copy_from_slice(&application.to_be_bytes());
            bytes[16..18].copy_from_slice(&4096_u16.to_be_bytes());
            bytes[28..32].copy_from_slice(&1_u32.to_be_bytes());
            bytes
        };
        let own = u32::try_from(APPLICATION_ID).unwrap();
        assert_eq!(look(&made(own, 1)), Ok(1));
        assert_eq!((look(b""), look(&made(0, 0))), (Ok(0), Ok(0)));
        for (bytes, word) in [
            (&[0; 4096][..], "damaged"),
            (b"SQLite format 3\0", "cut off"),
            (&made(7, 1), "another program"),
            (&made(own, 1_000_000), "newer"),
        ] {
            assert!(matches!(look(bytes), Err(Unusable::Damaged(why)) if why.contains(word)), "{word}");
        }
        assert!(matches!(header(dir.path()), Err(Unusable::Damaged(why)) if why.contains("not a file")));
        let mut longer = made(own, 1);
        longer[31] = 2;
        assert!(matches!(look(&longer), Err(Unusable::Damaged(why)) if why.contains("missing at its end")));
        // The other pages may be in the WAL.
        fs::write(dir.path().join("state.db-wal"), "x").unwrap();
        assert_eq!(look(&longer), Ok(1));
        std::os::unix::fs::symlink("knot", dir.path().join("knot")).unwrap();
        assert!(matches!(header(&dir.path().join("knot")), Err(Unusable::Unseen(_))));
    }
}
