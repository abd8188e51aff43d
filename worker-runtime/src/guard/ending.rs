//! The timing of the kill loop, and the loop for a runtime whose guard died.
//!
//! Must not wait longer than its deadline.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::reap::{self, Reaped};
use super::state::ChildExit;
use super::tree::{self, DescendantTree};
use super::{EndReport, pidfd};

/// Maximum duration of one settling phase. A chain that keeps forking needs a new sweep soon.
pub(super) const SETTLE: Duration = Duration::from_millis(10);

/// The pause between two sweeps. Short at first, because the second sweep
/// nearly always finds nothing.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Pause {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = SETTLE;
    /// Pause between sweeps once processes have survived many of them.
    const LONG_PAUSE: Duration = Duration::from_millis(500);

    pub(super) fn new() -> Self {
        Self(Self::FIRST)
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(Self::LONGEST.max(pause));
        pause
    }

    pub(super) fn be_patient(&mut self) {
        self.0 = Self::LONG_PAUSE;
    }
}

/// Converts a timeout for [`poll`]. Rounds up, so that a wait never spins.
pub(super) fn timeout(duration: Duration) -> PollTimeout {
    PollTimeout::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
}

pub(super) fn end_descendants(deadline: Duration, spare: &[i32]) -> EndReport {
    let started = Instant::now();
    // Makes this process adopt the orphans that the kill creates. Idempotent; a failure results
    // in an unclean report.
    let subreaper = nix::sys::prctl::set_child_subreaper(true).is_ok();
    let tree = DescendantTree::below_self(spare);
    let mut pause = Pause::new();
    let mut killed = 0;
    loop {
        if reap_all(&tree, spare, &mut killed) {
            return EndReport { killed, remaining: vec![], clean: subreaper, elapsed: started.elapsed() };
        }
        let found = tree.sweep();
        // Even after the deadline, every process has got one SIGKILL.
        let Some(left) = deadline.checked_sub(started.elapsed()) else {
            let clean = reap_all(&tree, spare, &mut killed);
            let remaining = if clean { vec![] } else { tree::alive(found).collect() };
            return EndReport { killed, remaining, clean: clean && subreaper, elapsed: started.elapsed() };
        };
        wait_for_one(&found, pause.next().min(left));
    }
}

/// Reaps ended children. Returns true when nothing is left to end.
fn reap_all(tree: &DescendantTree<'_>, spare: &[i32], killed: &mut u32) -> bool {
    let mut count =
        |exit| *killed = killed.saturating_add(u32::from(exit == ChildExit::Signal(nix::libc::SIGKILL)));
    if spare.is_empty() {
        loop {
            match reap::next(None) {
                Reaped::Child { exit, .. } => count(exit),
                Reaped::NothingYet => return false,
                Reaped::NoneLeft => return true,
            }
        }
    }
    // One by one: the owner of a spared child needs that child's exit status.
    loop {
        let children = tree.children();
        let ended: Vec<_> = children.iter().map(|pid| reap::next(Some(*pid))).collect();
        for reaped in &ended {
            if let Reaped::Child { exit, .. } = reaped {
                count(*exit);
            }
        }
        if children.is_empty() {
            return true;
        }
        if !ended.iter().any(|reaped| matches!(reaped, Reaped::Child { .. })) {
            return false;
        }
    }
}

/// Waits until one of the processes ends, at most for this time. A pidfd becomes
/// readable at the end.
fn wait_for_one(pids: &[i32], at_most: Duration) {
    let process = pids.iter().find_map(|pid| pidfd::open(*pid).ok());
    let mut fds: Vec<_> = process.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    // The caller checks again, whether interrupted or not.
    let _ = poll(&mut fds, timeout(at_most));
}
