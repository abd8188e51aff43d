//! Checks journals that the daemon has not stored, and files of unknown workers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use subagent_protocol::api::ExaminedWorker;
use subagent_protocol::ids::WorkerId;

use super::disk::size;
use super::facts::{Daemon, DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::holders::{ProcessRole, is_held};
use super::unseen::Unseen;

const GROUP: CheckedPart = CheckedPart::Journals;
const LOOK: &str = "journals.look";
const BACKLOG: &str = "journals.backlog";
const UNKNOWN: &str = "journals.unknown";
const LEFT: &str = "journals.leftFiles";

/// A backlog of this size is a warning: the daemon cannot store it at once.
const LARGE: u64 = 64 * 1024 * 1024;
/// At this size the runtime stops reading its agent.
const FULL: u64 = 1024 * 1024 * 1024;
/// A younger file may belong to a worker that is starting.
const SETTLED: Duration = Duration::from_secs(60);

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    if facts.state == StateDirStatus::Outside {
        return Vec::new();
    }
    if let Some(hidden) = facts.hidden(GROUP, LOOK) {
        return vec![hidden];
    }
    if !facts.has_state() {
        return vec![Finding::ok(GROUP, BACKLOG, "there are none yet")];
    }
    let mut unseen = Unseen::default();
    let mut found = backlog(facts, &mut unseen);
    found.extend(unknown(facts, &mut unseen));
    found.extend(left_files(facts, &mut unseen));
    found.extend(unseen.finding(GROUP, LOOK));
    found
}

fn backlog(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let Some(examination) = &facts.examination else {
        return untaken(facts, unseen);
    };
    let mut found = Vec::new();
    for worker in examination.workers.iter().filter(|worker| worker.unread_bytes > LARGE) {
        let seen =
            format!("{} of {} are not in the database yet", size(worker.unread_bytes), worker.worker_id);
        let finding = if worker.unread_bytes >= FULL {
            Finding::problem(GROUP, BACKLOG, format!("{seen}; its agent is not read until they are"))
        } else {
            Finding::warning(GROUP, BACKLOG, seen)
        };
        found.push(finding.advise("see what holds it up in `subagent daemon logs --lines 50`"));
    }
    if found.is_empty() {
        let bytes: u64 = examination.workers.iter().map(|worker| worker.unread_bytes).sum();
        found.push(Finding::ok(GROUP, BACKLOG, format!("{} are not in the database yet", size(bytes))));
    }
    found
}

/// Reports journal sizes without a daemon. A segment is deleted when all of it is stored, so several
/// segments mean a backlog.
fn untaken(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let (mut found, mut all) = (Vec::new(), 0);
    for worker in folders(facts, unseen) {
        let bytes = segments(&facts.runtimes().join(&worker), unseen);
        all += bytes;
        if bytes > LARGE {
            let seen = format!("{} of {worker} are on disk, and no daemon reads them", size(bytes));
            let advice = "start one with `subagent daemon start`";
            found.push(Finding::warning(GROUP, BACKLOG, seen).advise(advice));
        }
    }
    if found.is_empty() {
        let seen = format!("{} on disk; the next daemon reads them", size(all));
        found.push(Finding::ok(GROUP, BACKLOG, seen));
    }
    found
}

/// Returns the folders of workers in `runtimes`.
fn folders(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<String> {
    let names = unseen.entries(&facts.runtimes()).into_iter().filter(|path| path.is_dir());
    names
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .filter(|name| name.parse::<WorkerId>().is_ok())
        .collect()
}

fn segments(folder: &Path, unseen: &mut Unseen) -> u64 {
    let entries = unseen.entries(folder).into_iter();
    let journals = entries.filter(|path: &PathBuf| path.extension().is_some_and(|end| end == "journal"));
    journals.filter_map(|path| unseen.meta(&path)).map(|found| found.len()).sum()
}

/// Reports journals of workers that the database does not know. They may be the only copy, so only the user
/// removes them.
fn unknown(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let Some(examination) = facts.all_workers() else { return Vec::new() };
    let is_unknown = |worker: &&String| {
        let has_row = |known: &ExaminedWorker| known.worker_id == **worker;
        facts.orphan_reason(worker).is_some() && !examination.workers.iter().any(has_row)
    };
    let mut found = Vec::new();
    for worker in folders(facts, unseen).iter().filter(is_unknown) {
        let folder = facts.runtimes().join(worker);
        let bytes = segments(&folder, unseen);
        if bytes == 0 || !is_settled(&folder) {
            continue;
        }
        let seen = format!("{} of {worker}, which the database does not know", size(bytes));
        let quoted = shell_words::quote(&folder.to_string_lossy()).into_owned();
        found.push(
            Finding::warning(GROUP, UNKNOWN, seen)
                .advise(format!("if its history is not needed, remove them with `rm -r {quoted}`")),
        );
    }
    if found.is_empty() {
        found.push(Finding::ok(GROUP, UNKNOWN, "each belongs to a known worker"));
    }
    found
}

/// Reports environment files and sockets of unknown workers, which a crash left.
fn left_files(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let live: BTreeSet<&str> = facts.holders.iter().map(|holder| holder.worker.as_str()).collect();
    // Some of our processes may be invisible; a held lock shows that the worker is alive.
    let lives = |worker: &str| {
        let folder = facts.runtimes().join(worker);
        live.contains(worker) || is_held(&folder.join("lock")) || is_held(&folder.join("guard.lock"))
    };
    let mut found = Vec::new();
    for folder in &facts.runtime_dirs {
        let files = folder.worker_files().unwrap_or_else(|error| {
            unseen.note(folder.path(), &error);
            Vec::new()
        });
        for (worker, path) in files {
            let is_socket = path.extension().is_some_and(|end| end == "sock");
            // A worker whose agent never started has only an environment file, so only the database can
            // decide.
            let needed = !is_socket && facts.orphan_reason(&worker).is_none();
            if !needed && is_settled(&path) && !lives(&worker) {
                found.push(left(
                    facts,
                    &path,
                    if is_socket { "a socket" } else { "an environment" },
                    &worker,
                ));
            }
        }
        let socket = folder.daemon_socket();
        let served = || {
            !matches!(facts.daemon, Daemon::None)
                || facts.holders.iter().any(|holder| holder.role == ProcessRole::Daemon)
                || is_held(&facts.state_dir.join("daemon.lock"))
        };
        if socket.exists() && is_settled(&socket) && !served() {
            found.push(left(facts, &socket, "a socket", "a daemon that is gone"));
        }
    }
    if found.is_empty() {
        found.push(Finding::ok(GROUP, LEFT, "no socket and no environment is left over"));
    }
    found
}

fn left(facts: &DoctorFacts, path: &Path, what: &str, of: &str) -> Finding {
    let seen = format!("{what} of {of} is left over: {}", path.display());
    if !facts.fix {
        return Finding::warning(GROUP, LEFT, seen).advise(format!("remove it with {}", facts.fix_command()));
    }
    match fs::remove_file(path) {
        Ok(()) => Finding::fixed(GROUP, LEFT, format!("{seen}; it was removed")),
        Err(error) => Finding::problem(GROUP, LEFT, format!("{seen}; it cannot be removed: {error}"))
            .advise(format!("remove it with `rm {}`", shell_words::quote(&path.to_string_lossy()))),
    }
}

fn is_settled(path: &Path) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > SETTLED))
}

impl DoctorFacts {
    fn runtimes(&self) -> PathBuf {
        self.state_dir.join("runtimes")
    }
}
