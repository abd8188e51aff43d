//! Every process that may die is killed, stopped or asked twice, many times and at random moments,
//! and every invariant is checked afterwards. `SUBAGENT_FAULTS=N` does N times as much;
//! `SUBAGENT_TEST_SEED` repeats the order of a run.

// Each suite prints one line that begins with `faults:` and its amount of work. `red.rs` proves on
// demand that the checks work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

mod below;
mod clients;
mod comes_back;
mod deaths;
mod firings;
mod keys;
mod kills;
mod notified;
mod one_stroke;
mod owners;
mod red;
mod requests;
mod soak;
mod starts;
mod stops;
mod victims;

use std::time::Duration;

use subagent_tests::harness::{Random, wait_while};

/// Waits for a random time: the next fault occurs within this many milliseconds.
fn a_moment(random: &mut Random, millis: u64) {
    let _ = wait_while(Duration::from_millis(random.below(millis.max(1))), || Some(()));
}
