//! Finds our live processes and their state dirs by the lock files that they hold open. It trusts no pid
//! file and needs no answer from the processes.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use subagent_config::{proc, regular};
use subagentd::stray_processes;

/// The program of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessRole {
    Daemon,
    Runtime,
    Guard,
}

/// A live process of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockHolder {
    pub(super) role: ProcessRole,
    pub(super) pid: i32,
    pub(super) start_time: u64,
    /// Its state dir (absolute, links resolved).
    pub(super) state_dir: PathBuf,
    /// The worker of the runtime or guard; empty for a daemon.
    pub(super) worker: String,
    /// Whether a signal or debugger has stopped it.
    pub(super) stopped: bool,
    /// Whether its executable was replaced or deleted after the start.
    pub(super) replaced: bool,
}

impl LockHolder {
    /// Whether the same process is still alive.
    pub(super) fn lives(&self) -> bool {
        proc::process(self.pid).is_ok_and(|now| now.start_time == self.start_time && !now.ended)
    }
}

/// Returns all of them, and those whose files are inaccessible: their state dir is unknown.
pub(super) fn find() -> (Vec<LockHolder>, Vec<i32>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for pid in stray_processes::pids() {
        match look(pid) {
            Ok(holder) => found.extend(holder),
            Err(_) => unknown.push(pid),
        }
    }
    (found, unknown)
}

/// Examines a process; `None` if it is not ours.
///
/// # Errors
/// The system denies access to its files.
fn look(pid: i32) -> io::Result<Option<LockHolder>> {
    let Some(process) = proc::process(pid).ok().filter(|process| !process.ended) else { return Ok(None) };
    let role = match process.name.as_str() {
        "subagentd" => ProcessRole::Daemon,
        "subagent-guard" => ProcessRole::Guard,
        // The kernel keeps 15 bytes of a name.
        "subagent-runtim" => ProcessRole::Runtime,
        _ => return Ok(None),
    };
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let open = match fs::read_dir(folder.join("fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(None),
        Ok(open) => open,
    };
    let held = open
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .find_map(|open| held(role, &open));
    let (Some((state_dir, worker)), Ok(exe)) = (held, fs::read_link(folder.join("exe"))) else {
        return Ok(None);
    };
    Ok(Some(LockHolder {
        role,
        pid,
        start_time: process.start_time,
        state_dir,
        worker,
        stopped: process.stopped,
        replaced: exe.to_string_lossy().ends_with(" (deleted)"),
    }))
}

/// Returns the state dir and worker of a lock file that is held open.
fn held(role: ProcessRole, path: &Path) -> Option<(PathBuf, String)> {
    let folder = path.parent()?;
    match (role, path.file_name()?.to_str()?) {
        (ProcessRole::Daemon, "daemon.lock") => Some((folder.to_owned(), String::new())),
        // A runtime holds both locks until its guard takes the second one.
        (ProcessRole::Runtime, "lock") | (ProcessRole::Guard, "guard.lock") => {
            let is_ours = |above: &&Path| above.ends_with("runtimes") || above.ends_with("placed");
            let state_dir = folder.parent().filter(is_ours)?.parent()?;
            Some((state_dir.to_owned(), folder.file_name()?.to_str()?.to_owned()))
        }
        _ => None,
    }
}

/// Whether any process holds a lock, including those that /proc does not show as ours. It takes the lock
/// shared for a moment and never blocks. An inaccessible lock counts as held.
pub(super) fn is_held(lock: &Path) -> bool {
    match regular::open_to_read(lock) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_locks_themselves_count() {
        let held = |role, path: &str| held(role, Path::new(path));
        let of = |worker: &str| Some((PathBuf::from("/s"), worker.to_owned()));
        assert_eq!(held(ProcessRole::Daemon, "/s/daemon.lock"), of(""));
        assert_eq!(held(ProcessRole::Runtime, "/s/runtimes/w_1/lock"), of("w_1"));
        assert_eq!(held(ProcessRole::Guard, "/s/runtimes/w_1/guard.lock"), of("w_1"));
        for (role, path) in [
            (ProcessRole::Daemon, "/s/runtimes/w_1/lock"),
            (ProcessRole::Guard, "/s/runtimes/w_1/lock"),
            (ProcessRole::Runtime, "/s/runtimes/w_1/1.journal"),
            (ProcessRole::Runtime, "/s/elsewhere/w_1/lock"),
            (ProcessRole::Runtime, "/s/daemon.lock"),
        ] {
            assert_eq!(held(role, path), None, "{path}");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!is_held(&path));
        let file = fs::File::create(&path).unwrap();
        assert!(!is_held(&path));
        file.lock().unwrap();
        assert!(is_held(&path));
        file.unlock().unwrap();
        assert!(!is_held(&path));
        // The pipe has no other end, so a blocking open would hang.
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(is_held(&dir.path().join("pipe")));
    }

    #[test]
    fn a_process_of_another_kind_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let _open = fs::File::create(dir.path().join("daemon.lock")).unwrap();
        assert!(find().0.iter().all(|holder| holder.state_dir != dir.path()));
    }
}
