//! Runs many cases of one suite at once. They mostly wait, so more of them run
//! than there are cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::say;

/// If set, only cases whose name contains it run.
const ONLY: &str = "SUBAGENT_TEST_CASE";
/// Slower cases are reported: the suite may be waiting for them.
const SLOW: Duration = Duration::from_secs(20);

/// Slots for the cases of all suites in this process. More would compete for the processor and
/// miss their time limits.
static FREE_PLACES: Mutex<usize> = Mutex::new(8);
static PLACE_FREED: Condvar = Condvar::new();

/// The slot of one case.
struct CaseSlot;

impl CaseSlot {
    fn take() -> Self {
        let free = FREE_PLACES.lock().unwrap();
        *PLACE_FREED.wait_while(free, |free| *free == 0).unwrap() -= 1;
        Self
    }
}

impl Drop for CaseSlot {
    fn drop(&mut self) {
        *FREE_PLACES.lock().unwrap() += 1;
        PLACE_FREED.notify_one();
    }
}

/// Runs every case, `width` at a time, and prints their number. Failed cases are reported by name.
///
/// # Panics
///
/// If a case panics, after all cases have run.
#[track_caller]
pub fn crowd<C: Sync>(
    suite: &str,
    width: usize,
    cases: &[C],
    name: impl Fn(&C) -> String + Sync,
    run: impl Fn(&C) + Sync,
) {
    let only = std::env::var(ONLY).unwrap_or_default();
    let begun = Instant::now();
    let cases: Vec<(String, &C)> =
        cases.iter().map(|case| (name(case), case)).filter(|(name, _)| name.contains(&only)).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _place = CaseSlot::take();
            let begun = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| run(case)));
            if begun.elapsed() > SLOW {
                say(&format!("slow: {suite}, {name}: {:.0} s", begun.elapsed().as_secs_f32()));
            }
            if outcome.is_err() {
                // The panic was printed when it happened, so this names its case.
                say(&format!("^^^ the case {name} of {suite}"));
                failed.lock().unwrap().push(name.clone());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    let (count, seconds) = (cases.len(), begun.elapsed().as_secs_f32());
    say(&format!("{suite}: {count} cases, {} failed, in {seconds:.0} s", failed.len()));
    assert!(failed.is_empty(), "{suite}: failed ({ONLY} runs one alone): {failed:#?}");
}
