//! The last resort: kills processes of a worker whose runtime and guard were both killed. They are
//! found by the marker in their environment, unless they wiped it. Must never touch a process
//! without exactly this marker, a daemon, runtime or guard, nor a process below a live guard.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_config::proc;
use tokio::process::Command;
use tokio::sync::OnceCell;

/// The variable that every process of an agent inherits. So do the clients of [`FormerClients`].
const MARKER: &str = "SUBAGENT_MARKER";
/// Maximum number of passes. A later pass finds processes forked during the previous one and those
/// that take a moment to die.
const LOOKS: usize = 64;
/// Executables of daemon, runtime and guard. The link of a replaced one has a suffix.
const OURS: [&str; 2] = ["subagentd", "subagent-runtime"];

/// Process names of guards. The kernel keeps 15 bytes of a name.
const GUARDS: [&str; 2] = ["subagent-guard", "subagent-runtim"];

/// Returns the marker of the processes below this runtime of the worker.
pub(crate) fn marker(worker_id: &str, incarnation: u64) -> String {
    format!("{worker_id}.{incarnation}")
}

/// The clients of engines that a killed daemon of this state dir has left. One to which its engine does
/// not tell the end waits for good, and keeps its job from ending.
#[derive(Debug, Clone, Default)]
pub struct FormerClients(Arc<OnceCell<()>>);

impl FormerClients {
    /// Marks a client as one of this state dir. The former ones have ended before the first one.
    pub(super) async fn succeed(&self, client: &mut Command, state: &str) {
        let marker = format!("client-of-{state}");
        self.0
            .get_or_init(|| async {
                end(marker.clone()).await;
            })
            .await;
        client.env(MARKER, marker);
    }
}

/// Kills the processes with the marker. Returns their number.
pub(crate) async fn end(marker: String) -> usize {
    // Reading /proc takes milliseconds, so it runs on a blocking thread.
    tokio::task::spawn_blocking(move || end_marked(&marker)).await.unwrap_or(0)
}

/// Kills the processes with the marker, unless a guard does. Blocks. Returns their number.
#[must_use]
pub fn end_marked(marker: &str) -> usize {
    let entry = format!("{MARKER}={marker}");
    let mut killed = BTreeSet::new();
    for _ in 0..LOOKS {
        let found: Vec<i32> = pids().filter(|pid| is_marked(*pid, entry.as_bytes())).collect();
        if found.is_empty() || is_guarded(marker) {
            break;
        }
        for pid in found {
            let Ok(before) = proc::start_time(pid) else { continue };
            // Checked again: the pid may have been reused meanwhile.
            if is_marked(pid, entry.as_bytes())
                && proc::start_time(pid).is_ok_and(|now| now == before)
                && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
            {
                killed.insert((pid, before));
            }
        }
        std::thread::yield_now();
    }
    killed.len()
}

/// Returns whether a live guard of any state dir has the marker: a copy of a workspace has the same
/// workers. The guard ends the processes below it.
#[must_use]
pub fn is_guarded(marker: &str) -> bool {
    let entry = format!("{MARKER}={marker}");
    pids().any(|pid| {
        // A guard that was just started still has the name of its executable.
        proc::process(pid).is_ok_and(|process| !process.ended && GUARDS.contains(&process.name.as_str()))
            && carries(pid, entry.as_bytes())
    })
}

/// Returns the pid and marker of all processes with a marker, except our own executables.
#[must_use]
pub fn marked() -> Vec<(i32, String)> {
    let look = |pid: i32| {
        let marker = marker_of(pid)?;
        is_marked(pid, format!("{MARKER}={marker}").as_bytes()).then_some((pid, marker))
    };
    pids().filter_map(look).collect()
}

/// Returns the marker of a process with any executable.
#[must_use]
pub fn marker_of(pid: i32) -> Option<String> {
    let environ = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    let mut variables = environ.split(|byte| *byte == 0);
    let prefix = format!("{MARKER}=");
    let value = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Returns the pids of the processes below this one, for an error about processes that do not end.
pub(crate) fn below(ancestor: i32) -> Vec<i32> {
    let is_below = |pid: &i32| {
        proc::ancestors(*pid).is_ok_and(|chain| chain.iter().skip(1).any(|above| above.pid == ancestor))
    };
    pids().filter(is_below).collect()
}

/// Returns the pids of all processes.
pub fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn carries(pid: i32, entry: &[u8]) -> bool {
    fs::read(Path::new("/proc").join(pid.to_string()).join("environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == entry))
}

fn is_marked(pid: i32, entry: &[u8]) -> bool {
    let folder = Path::new("/proc").join(pid.to_string());
    let ended = || proc::process(pid).is_ok_and(|process| process.ended);
    let ours = || {
        fs::read_link(folder.join("exe")).is_ok_and(|exe| {
            let name = exe.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            OURS.iter().any(|ours| name.starts_with(ours))
        })
    };
    carries(pid, entry) && !ended() && !ours()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn children_are_below_their_parent() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (own, pid) = (i32::try_from(std::process::id()).unwrap(), i32::try_from(child.id()).unwrap());
        assert!(below(own).contains(&pid) && !below(own).contains(&own));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_what_carries_exactly_the_marker_is_ended() {
        let own = std::process::id();
        let sleeper = |value: String| Command::new("sleep").arg("60").env(MARKER, value).spawn().unwrap();
        let mut marked = sleeper(format!("w_test{own}.1"));
        let mut other = sleeper(format!("w_test{own}.10"));
        assert_eq!(end_marked(&format!("w_test{own}.1")), 1);
        assert!(!marked.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "another runtime's process was ended");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
