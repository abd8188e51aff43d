//! What must hold after every test, in spite of any killed process: one file per invariant.

// They check from outside: the database (read-only), the journals, the processes, and what the
// product acknowledged during the test. `tests/invariants.rs` damages a finished state once for
// each check and proves that the check fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a check that cannot run must stop the test")]

mod acknowledged;
mod database;
mod describe;
mod ended;
mod evidence;
mod journal;
mod kept;
mod locks;
mod numbers;
mod owners;
mod recorder;
mod remains;
mod rows;
mod runtimes;
mod secrets;
mod stored;
mod watchers;
mod work;

use rusqlite::Connection;

pub use acknowledged::{Acknowledged, Decision, GrantedHandle, Seen, WatchedEvents};
pub use describe::describe;
pub use evidence::Evidence;
pub use locks::HeldLocks;
pub use recorder::Recorder;
pub use secrets::PROMPT_CANARY;

/// A check: returns a sentence for each violation.
type Check = fn(&Evidence, &Connection) -> rusqlite::Result<Vec<String>>;

/// All invariants, by name.
const CHECKS: &[(&str, Check)] = &[
    ("the database is sound", database::check),
    ("only what may go is gone", kept::check),
    ("what was acknowledged is stored", stored::check),
    ("a watcher misses nothing", watchers::check),
    ("numbers have no gap and no duplicate", numbers::check),
    ("the journal is stored", journal::check),
    ("a turn has one end", work::turns::check),
    ("what waits is nowhere else", work::queue::check),
    ("a task ends once and is reported once", work::tasks::check),
    ("an approval has one end", work::approvals::check),
    ("nothing runs without a runtime", runtimes::check),
    ("an ownership has one owner", owners::check),
    ("secrets stay secret", secrets::check),
    ("an ended state dir is at rest", ended::check),
];

/// Runs all checks. Returns a line for each violation.
///
/// # Panics
///
/// If the database exists and cannot be opened.
#[must_use]
pub fn check(evidence: &Evidence) -> Vec<String> {
    let Some(database) = evidence.database() else {
        let nothing = evidence.acknowledged.is_empty();
        return if nothing {
            Vec::new()
        } else {
            vec!["things were acknowledged, but there is no database".into()]
        };
    };
    let mut violations = Vec::new();
    for (name, check) in CHECKS {
        match check(evidence, &database) {
            Ok(found) => violations.extend(found.into_iter().map(|violation| format!("{name}: {violation}"))),
            Err(error) => violations.push(format!("{name}: the database cannot be read: {error}")),
        }
    }
    violations
}

/// Checks only statements about live and dead runtimes. Returns a line for each present violation.
///
/// # Panics
///
/// If the database exists and cannot be read.
#[must_use]
pub fn check_runtimes(evidence: &Evidence) -> Vec<String> {
    evidence.database().map_or_else(Vec::new, |database| runtimes::check(evidence, &database).unwrap())
}
