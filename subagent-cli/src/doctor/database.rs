//! The database, as the daemon sees it: only it opens `state.db`.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use subagent_config::regular;
use subagent_protocol::Code;
use subagent_protocol::api::{Examination, ExaminedDatabase, ExaminedWorker};

use subagentd::store::{APPLICATION_ID, SCHEMA};

use super::disk::size;
use super::facts::{Daemon, Facts, State};
use super::finding::{Finding, Group};
use super::unseen::Unseen;

const GROUP: Group = Group::Database;
const LOOK: &str = "database.look";
const SOUND: &str = "database.sound";
const SIZE: &str = "database.size";
const WORKERS: &str = "database.workers";
const GAPS: &str = "database.gaps";

/// A log of changes of this size is not taken over into the database: somebody keeps it busy.
const LARGE_WAL: u64 = 256 * 1024 * 1024;

pub(super) fn look(facts: &Facts) -> Vec<Finding> {
    if facts.state == State::Outside {
        return Vec::new();
    }
    if let Some(hidden) = facts.hidden(GROUP, LOOK) {
        return vec![hidden];
    }
    if !facts.has_state() {
        return vec![Finding::ok(GROUP, SOUND, "there is none yet")];
    }
    let file = facts.state_dir.join("state.db");
    match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return vec![Finding::ok(GROUP, SOUND, "there is none yet")];
        }
        Err(error) => {
            let seen = format!("{} cannot be looked at: {error}", file.display());
            return vec![Finding::problem(GROUP, SOUND, seen).advise("look as the user whose it is")];
        }
        Ok(_) => {}
    }
    let mut found = match (&facts.examination, &facts.daemon) {
        (Some(examination), _) => examined(examination),
        (None, Daemon::None | Daemon::Hidden) => vec![unopened(&file)],
        (None, _) => vec![unexamined(facts)],
    };
    found.extend(sizes(facts));
    found
}

/// What the first bytes of the file say; only a daemon opens it.
fn unopened(file: &Path) -> Finding {
    match header(file) {
        Ok(schema) => {
            let seen =
                format!("schema {schema}; not examined further: only a daemon opens it, and none runs");
            Finding::ok(GROUP, SOUND, seen).advise("start one with `subagent daemon start`, then look again")
        }
        Err(why) => Finding::problem(GROUP, SOUND, format!("{}: {why}", file.display()))
            .advise("put a backup in its place with `subagent restore FILE`; see docs/troubleshooting.md"),
    }
}

/// The version of the tables of a database of ours; otherwise what it is instead.
fn header(file: &Path) -> Result<u32, String> {
    let opened = regular::open_to_read(file).and_then(|file| Ok((file.metadata()?.len(), file)));
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Err("it is no file".to_owned()),
        Err(error) => return Err(format!("it cannot be looked at: {error}")),
        // As after a start that was cut short: everything is in the WAL, or nothing was written yet.
        Ok((0, _)) => return Ok(0),
        Ok((_, file)) => file,
    };
    let mut bytes = [0; 100];
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err("it is cut off: too short for a database".to_owned());
        }
        Err(error) => return Err(format!("it cannot be read: {error}")),
        Ok(()) => {}
    }
    let number = |at: usize| bytes[at..at + 4].iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte));
    if !bytes.starts_with(b"SQLite format 3\0") {
        return Err("it is damaged: no SQLite database begins like that".to_owned());
    }
    let (application, version) = (i64::from(number(68)), i64::from(number(60)));
    // The tables are made in one transaction, which may still be in the WAL alone.
    if application != APPLICATION_ID && (application, version) != (0, 0) {
        return Err("it is another program's database".to_owned());
    }
    if version > SCHEMA {
        return Err(format!("it has schema {version}, this command knows {SCHEMA}: a newer version made it"));
    }
    Ok(number(60))
}

fn unexamined(facts: &Facts) -> Finding {
    match &facts.unexamined {
        Some(failure) if failure.is(Code::InvalidArgument) => {
            Finding::warning(GROUP, SOUND, "not examined: the daemon is of a version that cannot do that")
                .advise("replace it with `subagent daemon restart`; workers go on")
        }
        Some(failure) => Finding::problem(GROUP, SOUND, format!("{}: {}", failure.code, failure.message))
            .advise("look at `subagent daemon logs --lines 50`"),
        None => Finding::warning(GROUP, SOUND, "not examined: the daemon does not answer"),
    }
}

fn examined(Examination { database, workers, all_workers, .. }: &Examination) -> Vec<Finding> {
    let mut found = vec![if *all_workers {
        soundness(database)
    } else {
        let seen = "not examined: its checks are for the owner of the workers alone";
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
            let seen = "SQLite's checks were ended after 10 s; they had found nothing wrong so far";
            Finding::warning(GROUP, SOUND, seen).advise("look again when less is going on")
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
                    "nothing can be done with it any more; its events are in `subagent watch --worker-id {}`",
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

/// So many of them, in words.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// What is missing stays missing: it is told for as long as the worker is there to be asked.
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

fn sizes(facts: &Facts) -> Vec<Finding> {
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
    fn the_first_bytes_tell_what_is_no_database_of_ours() {
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
            assert!(look(bytes).unwrap_err().contains(word), "{word}");
        }
        assert!(header(dir.path()).unwrap_err().contains("no file"));
    }
}
