//! Kills this process, with the git that it runs, at a step that a test has chosen.

use std::process::Child;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};

/// `STEP`, or `STEP:MICROSECONDS`: while the git that begins with that step has run so long.
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

/// How many steps there were.
pub(crate) fn passed() -> u64 {
    PASSED.load(Ordering::Relaxed)
}

/// A step: before and after each git, and before and after each other change on the disk.
pub(crate) fn step() {
    let Some(chosen) = chosen() else { return };
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if chosen == (passed, None) {
        die();
    }
}

/// Kills a git that runs.
pub(crate) fn running(child: &Child) {
    let Some((step, Some(delay))) = chosen() else { return };
    if step == passed() {
        // As long as git has to run, which nothing tells.
        std::thread::park_timeout(Duration::from_micros(delay));
        let _ = killpg(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGKILL);
        die();
    }
}

fn die() -> ! {
    let _ = kill(getpid(), Signal::SIGKILL);
    unreachable!()
}
