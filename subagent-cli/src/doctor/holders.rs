//! Our own live processes of one state dir, found by the locks that they hold open: no pid file is trusted, no lock is
//! touched, and nobody need answer.

use std::fs;
use std::path::{Path, PathBuf};

use subagent_config::proc;
use subagentd::supervisor::strays;

/// Which of our programs it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Daemon,
    Runtime,
    Guard,
}

/// A live process of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) role: Role,
    pub(super) pid: i32,
    pub(super) start_time: u64,
    /// Whose runtime or guard it is; empty for a daemon.
    pub(super) worker: String,
    /// Stopped by a signal, or by a debugger.
    pub(super) stopped: bool,
    /// Its executable was replaced or removed since it was started.
    pub(super) replaced: bool,
}

impl Holder {
    /// Whether it is still the same process, and still there.
    pub(super) fn lives(&self) -> bool {
        proc::process(self.pid).is_ok_and(|now| now.start_time == self.start_time && !now.ended)
    }
}

/// All of them, of this state dir (absolute, links resolved).
pub(super) fn find(state_dir: &Path) -> Vec<Holder> {
    strays::pids().filter_map(|pid| look(pid, state_dir)).collect()
}

fn look(pid: i32, state_dir: &Path) -> Option<Holder> {
    let process = proc::process(pid).ok().filter(|process| !process.ended)?;
    let role = match process.name.as_str() {
        "subagentd" => Role::Daemon,
        "subagent-guard" => Role::Guard,
        // The system keeps 15 bytes of a name.
        "subagent-runtim" => Role::Runtime,
        _ => return None,
    };
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let worker = fs::read_dir(folder.join("fd"))
        .ok()?
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .find_map(|open| held(role, open.strip_prefix(state_dir).ok()?))?;
    let exe = fs::read_link(folder.join("exe")).ok()?;
    Some(Holder {
        role,
        pid,
        start_time: process.start_time,
        worker,
        stopped: is_stopped(pid),
        replaced: exe.to_string_lossy().ends_with(" (deleted)"),
    })
}

/// Whose lock an open file is, given its path in the state dir.
fn held(role: Role, path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    match (role, parts.as_slice()) {
        (Role::Daemon, ["daemon.lock"]) => Some(String::new()),
        // A runtime holds both locks until its guard has the second one.
        (Role::Runtime, ["runtimes", worker, "lock"]) | (Role::Guard, ["runtimes", worker, "guard.lock"]) => {
            Some((*worker).to_owned())
        }
        _ => None,
    }
}

/// Whether somebody holds a lock, whoever that is: for what /proc does not show as ours. It is held shared for a moment.
/// What cannot be looked at counts as held.
pub(super) fn is_held(lock: &Path) -> bool {
    match fs::File::open(lock) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Whether a process is stopped; false for one that is gone.
pub(super) fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, fields)| matches!(fields.split_ascii_whitespace().next(), Some("T" | "t")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_locks_themselves_count() {
        let held = |role, path: &str| held(role, Path::new(path));
        assert_eq!(held(Role::Daemon, "daemon.lock").as_deref(), Some(""));
        assert_eq!(held(Role::Runtime, "runtimes/w_1/lock").as_deref(), Some("w_1"));
        assert_eq!(held(Role::Guard, "runtimes/w_1/guard.lock").as_deref(), Some("w_1"));
        for (role, path) in [
            (Role::Daemon, "runtimes/w_1/lock"),
            (Role::Guard, "runtimes/w_1/lock"),
            (Role::Runtime, "runtimes/w_1/1.journal"),
            (Role::Runtime, "daemon.lock"),
        ] {
            assert_eq!(held(role, path), None, "{path}");
        }
    }

    #[test]
    fn a_lock_is_held_by_whoever_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!is_held(&path));
        let file = fs::File::create(&path).unwrap();
        assert!(!is_held(&path));
        file.lock().unwrap();
        assert!(is_held(&path));
        file.unlock().unwrap();
        assert!(!is_held(&path));
    }

    #[test]
    fn a_process_of_another_kind_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let _open = fs::File::create(dir.path().join("daemon.lock")).unwrap();
        assert_eq!(find(dir.path()), []);
        assert!(!is_stopped(nix::unistd::getpid().as_raw()));
    }
}
