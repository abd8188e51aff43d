//! Kills this process and its running git at a step chosen by a test.

use std::process::Child;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};

/// `STEP`, or `STEP:MICROSECONDS`: kills after that time of the git run that begins with the step.
pub(crate) const VARIABLE: &str = "SUBAGENT_TEST_KILL";

static PASSED: AtomicU64 = AtomicU64::new(0);

fn chosen() -> Option<(u64, Option<u64>)> {
    static CHOSEN: OnceLock<Option<(u64, Option<u64>)>> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (step, delay) = text.split_once(':').map_or((&*text, None), |(step, delay)| (step, Some(delay)));
        Some((step.parse().ok()?, delay.map(|delay| delay.parse().unwrap())))
    })
}

/// Returns the number of steps so far.
pub(crate) fn passed() -> u64 {
    PASSED.load(Ordering::Relaxed)
}

/// Marks a step: before and after each git run and each other change on disk.
pub(crate) fn step() {
    let Some(chosen) = chosen() else { return };
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if chosen == (passed, None) {
        die();
    }
}

/// Kills git while it runs.
pub(crate) fn running(child: &Child) {
    let Some((step, Some(delay))) = chosen() else { return };
    if step == passed() {
        // Waits for the chosen time; no event marks a point within git's run.
        std::thread::park_timeout(Duration::from_micros(delay));
        let _ = killpg(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGKILL);
        die();
    }
}

fn die() -> ! {
    let _ = kill(getpid(), Signal::SIGKILL);
    unreachable!()
}
