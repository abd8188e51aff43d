//! No worker is reported as running without a live runtime, and none lives for a worker reported as
//! lost, failed or stopped. The runtime's lock is the proof; the process in the database is checked
//! as well.

// A temporary mismatch is not a violation: callers repeat the check for 5 s (`TestSandbox::check`, the
// lookout).

use rusqlite::Connection;
use subagent_protocol::process::ProcessId;

use super::evidence::Evidence;
use super::locks::HeldLocks;
use crate::harness::process::Process;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let held = HeldLocks::look(&evidence.state_dir, &evidence.there);
    let mut violations = Vec::new();
    let mut workers = database.prepare(
        "SELECT w.worker_id, w.state, w.runtime_pid, w.runtime_start, w.may_live,
                EXISTS (SELECT 1 FROM turns t WHERE t.worker = w.id AND t.status = 'accepted'
                       AND t.carrier = 'acp-stdio')
         FROM workers w",
    )?;
    let mut rows = workers.query([])?;
    while let Some(row) = rows.next()? {
        let (worker, state): (String, String) = (row.get(0)?, row.get(1)?);
        let (pid, start): (Option<i32>, Option<i64>) = (row.get(2)?, row.get(3)?);
        let (may_live, open): (bool, bool) = (row.get(4)?, row.get(5)?);
        let process = pid.zip(start).map(|(pid, start)| ProcessId { pid, start_time: start.unsigned_abs() });
        let alive = process.is_some_and(|known| {
            Process::find(known.pid).is_some_and(|process| process.start_time == known.start_time)
        });
        let locked = held.runtime.contains(&worker);
        if open && !locked {
            violations.push(format!("{worker} ({state}) has an open turn, but its runtime is dead"));
        }
        if state == "stopped" && (alive || locked) {
            violations.push(format!("{worker} is stopped, but its runtime {process:?} lives"));
        }
        if state == "error" && locked {
            violations.push(format!("{worker} is in error, but its runtime lives"));
        }
        if !may_live && locked {
            violations.push(format!("the runtime of {worker} ({state}) is reported as gone, but it lives"));
        }
        if !may_live && held.guard.contains(&worker) {
            violations
                .push(format!("{worker} ({state}) is reported as gone, but its guard has not finished"));
        }
    }
    Ok(violations)
}
