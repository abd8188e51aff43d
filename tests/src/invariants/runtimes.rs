//! Nothing is `running` without a live runtime, and no runtime lives for a worker that was stopped.

use rusqlite::Connection;
use subagent_protocol::process::ProcessId;

use super::evidence::Evidence;
use crate::harness::process::Process;

pub(super) fn check(_: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut workers = database.prepare(
        "SELECT w.worker_id, w.state, w.runtime_pid, w.runtime_start,
                EXISTS (SELECT 1 FROM turns t WHERE t.worker = w.id AND t.status = 'accepted'
                       AND t.carrier = 'acp-stdio')
         FROM workers w",
    )?;
    let mut rows = workers.query([])?;
    while let Some(row) = rows.next()? {
        let (worker, state): (String, String) = (row.get(0)?, row.get(1)?);
        let (pid, start): (Option<i32>, Option<i64>) = (row.get(2)?, row.get(3)?);
        let open: bool = row.get(4)?;
        let process = pid.zip(start).map(|(pid, start)| ProcessId { pid, start_time: start.unsigned_abs() });
        let alive = process.is_some_and(|known| {
            Process::find(known.pid).is_some_and(|process| process.start_time == known.start_time)
        });
        if open && !alive {
            violations
                .push(format!("{worker} ({state}) has an open turn, but its runtime {process:?} is dead"));
        }
        if state == "stopped" && alive {
            violations.push(format!("{worker} is stopped, but its runtime {process:?} lives"));
        }
    }
    Ok(violations)
}
