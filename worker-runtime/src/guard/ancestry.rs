//! The ancestors of a process, which prove the worker that a peer belongs to. Everything that an
//! agent starts has the guard among its ancestors, even after double forks, because the guard is a
//! subreaper. Must not cache: parents change.

use std::io;

use subagent_protocol::process::ProcessId;

/// Returns the start time of a process in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
///
/// # Errors
///
/// `NotFound` or ESRCH if the process does not exist, `Unsupported` if the system has no `/proc`.
pub fn start_time(pid: i32) -> io::Result<u64> {
    platform::start_time(pid)
}

/// Returns the ancestors of a process up to init, nearest first, without the process itself.
///
/// The chain ends early at a process that is hidden from this one (`/proc` mounted with `hidepid`,
/// or another pid namespace).
///
/// # Errors
///
/// The errors of [`start_time`], and an error if the chain changed during every read.
pub fn ancestors(pid: i32) -> io::Result<Vec<ProcessId>> {
    Ok(platform::chain(pid)?.into_iter().map(|ancestor| ancestor.process).collect())
}

/// Returns the ancestors of a process that are guards, nearest first.
///
/// # Errors
///
/// The same errors as [`ancestors`].
pub fn guards_above(pid: i32) -> io::Result<Vec<ProcessId>> {
    let chain = platform::chain(pid)?;
    Ok(chain.into_iter().filter(|ancestor| ancestor.is_guard).map(|ancestor| ancestor.process).collect())
}

/// Whether a guard is among the ancestors of a process.
///
/// Also true if the ancestors are unknown, so that a process cannot hide from this check by ending.
/// False where guards do not exist (outside Linux).
#[must_use]
pub fn guard_above(pid: i32) -> bool {
    match guards_above(pid) {
        Ok(guards) => !guards.is_empty(),
        Err(error) => error.kind() != io::ErrorKind::Unsupported,
    }
}

struct Ancestor {
    process: ProcessId,
    is_guard: bool,
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io;

    use subagent_protocol::process::ProcessId;

    use super::super::{PROCESS_NAME, procfs};
    use super::Ancestor;

    /// How often a chain is read again because a process in it ended meanwhile.
    const ATTEMPTS: usize = 16;

    pub(super) fn start_time(pid: i32) -> io::Result<u64> {
        Ok(procfs::stat(pid, &mut [0; procfs::STAT_BYTES])?.start_time)
    }

    pub(super) fn chain(pid: i32) -> io::Result<Vec<Ancestor>> {
        let process = ProcessId { pid, start_time: start_time(pid)? };
        for _ in 0..ATTEMPTS {
            if let Some(chain) = read_chain(process)? {
                return Ok(chain);
            }
        }
        Err(io::Error::other(format!("the ancestors of process {pid} changed each time they were read")))
    }

    /// Returns `None` if a link changed during the read: the chain might then lead to a reused pid.
    fn read_chain(process: ProcessId) -> io::Result<Option<Vec<Ancestor>>> {
        let mut chain: Vec<Ancestor> = Vec::new();
        let mut child = process;
        loop {
            let Some(parent) = parent_of(child, process)? else { return Ok(None) };
            if parent == 0 {
                return Ok(Some(chain));
            }
            let mut buffer = [0; procfs::STAT_BYTES];
            let found = match procfs::stat(parent, &mut buffer) {
                Ok(stat) => Some(Ancestor {
                    process: ProcessId { pid: parent, start_time: stat.start_time },
                    is_guard: stat.comm == PROCESS_NAME.as_bytes(),
                }),
                Err(error) if procfs::gone(&error) => None,
                Err(error) => return Err(error),
            };
            // The parent is still the same after the inspection, so the
            // right process was inspected.
            if parent_of(child, process)? != Some(parent) {
                return Ok(None);
            }
            let Some(found) = found else { return Ok(Some(chain)) };
            child = found.process;
            chain.push(found);
        }
    }

    /// Returns the parent of `child`; `None` if `child` has ended.
    ///
    /// # Errors
    ///
    /// The process `whose` has ended, so that there is no chain to read.
    fn parent_of(child: ProcessId, whose: ProcessId) -> io::Result<Option<i32>> {
        let mut buffer = [0; procfs::STAT_BYTES];
        match procfs::stat(child.pid, &mut buffer) {
            Ok(stat) if stat.start_time == child.start_time => Ok(Some(stat.ppid)),
            Ok(_) if child == whose => Err(io::Error::from_raw_os_error(nix::libc::ESRCH)),
            Ok(_) => Ok(None),
            Err(error) if procfs::gone(&error) && child != whose => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    use super::Ancestor;

    pub(super) fn start_time(_pid: i32) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn chain(_pid: i32) -> io::Result<Vec<Ancestor>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_chain_leads_from_the_parent_to_the_first_process() {
        let me = i32::try_from(std::process::id()).unwrap();
        let chain = ancestors(me).unwrap();
        assert_eq!(chain.first().unwrap().pid, nix::unistd::Pid::parent().as_raw());
        assert!(!chain.iter().any(|ancestor| ancestor.pid == me));
        for ancestor in &chain {
            assert_eq!(start_time(ancestor.pid).unwrap(), ancestor.start_time);
            assert!(ancestor.start_time <= start_time(me).unwrap());
        }
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_counts_as_below_a_guard() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(ancestors(pid).is_err());
        assert!(guard_above(pid));
    }
}
