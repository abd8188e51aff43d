//! Checks the processes of this state dir, and finds stray ones.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::geteuid;
use subagent_protocol::Code;
use subagent_protocol::ids::WorkerId;
use subagentd::stray_processes;

use super::copies;
use super::database::counted;
use super::facts::{Daemon, DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::holders::{LockHolder, ProcessRole};
use super::repair;

const GROUP: CheckedPart = CheckedPart::Processes;
const DAEMON: &str = "processes.daemon";
const RUNTIMES: &str = "processes.runtimes";
const STRAYS: &str = "processes.strays";
const LOOK: &str = "processes.look";

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    if facts.state == StateDirStatus::Outside {
        return elsewhere(facts);
    }
    let mut found = vec![daemon(facts)];
    found.extend(copies::look(facts));
    found.extend(runtimes(facts));
    found.extend(strays(facts));
    found.extend(facts.hidden(GROUP, LOOK));
    found.extend(unknown(facts));
    found
}

/// Reports this user's processes of other state dirs, outside of a workspace.
fn elsewhere(facts: &DoctorFacts) -> Vec<Finding> {
    let (daemons, runtimes): (Vec<&LockHolder>, Vec<&LockHolder>) = facts
        .holders
        .iter()
        .filter(|holder| holder.role != ProcessRole::Guard)
        .partition(|holder| holder.role == ProcessRole::Daemon);
    let stopped = facts.holders.iter().filter(|holder| holder.stopped).map(|holder| {
        let (pid, place) = (holder.pid, holder.state_dir.display());
        let (id, what) = match holder.role {
            ProcessRole::Daemon => (DAEMON, "the daemon"),
            ProcessRole::Runtime => (RUNTIMES, "a runtime"),
            ProcessRole::Guard => (RUNTIMES, "a guard"),
        };
        Finding::warning(GROUP, id, format!("{what} of {place} (pid {pid}) is stopped by a signal"))
            .advise(format!("resume it with `kill -CONT {pid}`"))
    });
    let mut found: Vec<Finding> = stopped.collect();
    let list: Vec<String> =
        daemons.iter().map(|daemon| format!("{} (pid {})", daemon.state_dir.display(), daemon.pid)).collect();
    found.push(Finding::ok(
        GROUP,
        DAEMON,
        if list.is_empty() {
            "no daemon runs".to_owned()
        } else {
            format!("daemons run for {}", list.join(", "))
        },
    ));
    found.push(Finding::ok(GROUP, RUNTIMES, format!("{} live", counted(runtimes.len(), "runtime"))));
    found
}

/// Reports inaccessible processes that may belong to this state dir.
fn unknown(facts: &DoctorFacts) -> Option<Finding> {
    let owner = |path: &Path| path.metadata().map(|meta| meta.uid()).ok();
    // Our own processes are inaccessible only while they exit.
    let of_state = owner(&facts.state_dir).filter(|owner| *owner != geteuid().as_raw())?;
    let theirs = |pid: &&i32| owner(Path::new(&format!("/proc/{pid}"))) == Some(of_state);
    let list: Vec<String> = facts.unknown_processes.iter().filter(theirs).map(i32::to_string).collect();
    (!list.is_empty()).then(|| {
        let seen = format!(
            "it is unknown whether these belong to this state dir, and how they are: pid {}",
            list.join(", ")
        );
        Finding::warning(GROUP, LOOK, seen).advise(format!("run this as their owner, user {of_state}"))
    })
}

fn daemon(facts: &DoctorFacts) -> Finding {
    let process = facts.holders.iter().find(|holder| holder.role == ProcessRole::Daemon);
    match (&facts.daemon, process) {
        (_, Some(LockHolder { pid, stopped: true, .. })) => {
            Finding::problem(GROUP, DAEMON, format!("the daemon (pid {pid}) is stopped by a signal"))
                .advise(format!("resume it with `kill -CONT {pid}`"))
        }
        (Daemon::Answers(shown), _) => {
            let pid = shown.info.process.pid;
            Finding::ok(GROUP, DAEMON, format!("it runs (pid {pid}) and answers"))
        }
        (Daemon::Fails(failure), _) if failure.is(Code::DaemonNotRunning) => {
            Finding::problem(GROUP, DAEMON, failure.message.clone())
                .advise("run this as the owner of the socket, or see `subagent daemon logs --lines 50`")
        }
        (Daemon::Fails(failure), _) if !failure.is(Code::DaemonUnresponsive) => {
            let advice = failure.facts().recommended_action.0;
            Finding::problem(GROUP, DAEMON, format!("{}: {}", failure.code, failure.message))
                .advise(advice.unwrap_or("end it with `subagent daemon stop`; workers go on"))
        }
        (Daemon::Hidden, Some(LockHolder { pid, .. })) => {
            Finding::warning(GROUP, DAEMON, format!("it runs (pid {pid}); it is unknown whether it answers"))
                .advise("run this as its owner")
        }
        (_, Some(LockHolder { pid, .. })) => {
            Finding::problem(GROUP, DAEMON, format!("the daemon (pid {pid}) is alive but does not answer"))
                .advise(format!(
                    "end it with `kill {pid}`; workers go on, the next command starts another one"
                ))
        }
        (Daemon::Hidden, None) => {
            let place = facts.state_dir.display();
            Finding::warning(
                GROUP,
                DAEMON,
                format!("it is unknown whether one runs: {place} is not readable"),
            )
            .advise("run this as its owner")
        }
        (Daemon::None | Daemon::Fails(_), None) => {
            Finding::ok(GROUP, DAEMON, "none runs; the next command that needs one starts it")
        }
    }
}

fn runtimes(facts: &DoctorFacts) -> Vec<Finding> {
    let mut by_worker: BTreeMap<&str, Vec<&LockHolder>> = BTreeMap::new();
    for holder in facts.holders.iter().filter(|holder| holder.role != ProcessRole::Daemon) {
        by_worker.entry(&holder.worker).or_default().push(holder);
    }
    let count = by_worker.len();
    let mut found = Vec::new();
    for (worker, holders) in by_worker {
        if let Some(why) = facts.orphan_reason(worker) {
            // A worker is stored as stopped when its locks are free. By now an exiting process is gone.
            if holders.iter().any(|holder| holder.lives()) {
                found.push(orphaned(facts, worker, why, &holders));
            }
            continue;
        }
        for holder in holders.iter().filter(|holder| holder.stopped) {
            let what = if holder.role == ProcessRole::Runtime { "runtime" } else { "guard" };
            let (pid, seen) = (holder.pid, format!("the {what} of {worker} is stopped by a signal"));
            found.push(
                Finding::problem(GROUP, RUNTIMES, format!("{seen} (pid {pid})"))
                    .advise(format!("resume it with `kill -CONT {pid}`")),
            );
        }
        let hangs = facts.examination.iter().flat_map(|examination| &examination.workers).any(|known| {
            known.worker_id == worker && known.unresponsive && !holders.iter().any(|holder| holder.stopped)
        });
        if hangs {
            found.push(
                Finding::problem(
                    GROUP,
                    RUNTIMES,
                    format!("the runtime of {worker} is alive but does not answer"),
                )
                .advise(format!("restart it with `subagent worker restart {worker} --force`")),
            );
        }
        if holders.iter().all(|holder| holder.role == ProcessRole::Guard && !holder.stopped) {
            let seen = format!("the guard of {worker} is still ending the agent's processes");
            found.push(Finding::warning(GROUP, RUNTIMES, seen).advise(
                "try again in a moment; what does not end hangs in the kernel or belongs to another user",
            ));
        }
    }
    if found.is_empty() {
        let seen = match (count, &facts.daemon) {
            (0, Daemon::Hidden) => "none is seen".to_owned(),
            (0, _) => "no runtime lives".to_owned(),
            (count, Daemon::None) => format!("{count} live; without a daemon they go on by themselves"),
            (count, _) if facts.all_workers().is_some() => format!("{count} live, each of a known worker"),
            (count, _) => format!("{count} live; it is unknown whether each belongs to a known worker"),
        };
        found.push(Finding::ok(GROUP, RUNTIMES, seen));
    }
    found
}

fn orphaned(facts: &DoctorFacts, worker: &str, why: &str, holders: &[&LockHolder]) -> Finding {
    let pids: Vec<String> = holders.iter().map(|holder| holder.pid.to_string()).collect();
    let seen = format!("a runtime of {worker} lives (pid {}), and that worker {why}", pids.join(", "));
    if !facts.fix {
        return Finding::problem(GROUP, RUNTIMES, seen)
            .advise(format!("end it with {}", facts.fix_command()));
    }
    match repair::end_runtime(holders) {
        Ok(()) => {
            Finding::fixed(GROUP, RUNTIMES, format!("{seen}; it was ended with all that it had started"))
        }
        Err(left) => Finding::problem(GROUP, RUNTIMES, format!("{seen}; it could not be ended: {left}"))
            .advise("look at these processes; what hangs in the kernel ends only with a reboot"),
    }
}

/// Returns processes with the marker of a runtime of this state dir that is gone, by marker.
fn stray_markers(facts: &DoctorFacts) -> BTreeMap<&str, Vec<i32>> {
    // A runtime without a guard ends its children itself.
    let unguarded = |worker: &str| {
        let of = |role| facts.holders.iter().any(|holder| holder.role == role && holder.worker == worker);
        of(ProcessRole::Runtime) && !of(ProcessRole::Guard)
    };
    let mut found: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (pid, marker) in &facts.marked {
        let Some((worker, _)) = marker.rsplit_once('.') else { continue };
        let ours = worker.parse::<WorkerId>().is_ok()
            && facts.state_dir.join("runtimes").join(worker).is_dir()
            && !unguarded(worker)
            && !stray_processes::is_guarded(marker);
        if ours {
            found.entry(marker).or_default().push(*pid);
        }
    }
    found
}

fn strays(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for (marker, pids) in stray_markers(facts) {
        let list: Vec<String> = pids.iter().map(i32::to_string).collect();
        let seen = format!(
            "{} left by runtime {marker}, which is gone (pid {})",
            if pids.len() == 1 { "a process".to_owned() } else { format!("{} processes", pids.len()) },
            list.join(", ")
        );
        found.push(if facts.fix {
            match stray_processes::end_marked(marker) {
                0 => Finding::ok(GROUP, STRAYS, format!("{seen}; gone by themselves")),
                ended => Finding::fixed(GROUP, STRAYS, format!("{seen}; {ended} ended")),
            }
        } else {
            Finding::problem(GROUP, STRAYS, seen).advise(format!("end them with {}", facts.fix_command()))
        });
    }
    if found.is_empty() {
        let seen = "no process carries the marker of a runtime that is gone";
        found.push(Finding::ok(GROUP, STRAYS, seen));
    }
    found
}
