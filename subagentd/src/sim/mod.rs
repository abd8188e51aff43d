//! Simulates the whole system: real rules and a real conversation on a faulty network, journal,
//! store, clock and agents. One seed is one history: it never waits, reads a clock or starts a
//! thread. `SUBAGENT_TEST_SEED=N` repeats it. Invariants are checked after each event.

mod agent;
mod daemon;
mod fleet;
mod manager;
mod queue;
mod runtime;
mod site;
mod task;
mod world;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use subagent_testkit::{Random, times};

use world::SimulatedWorld;

/// Number of histories in an ordinary run, half of them with places that can be cut off.
const SEEDS: usize = 2_500;
/// Number of further histories with such places: 10,000 with the half of the others.
const PLACED_SEEDS: usize = 8_750;
/// Number of histories within which each break must be noticed.
const SEEDS_TO_NOTICE: u64 = 10_000;

/// Seeds that once violated an invariant.
const FOUND: [u64; 5] = [
    // An ending runtime reports a prompt in its hello while the record waits for disk space; then
    // the prompt is canceled.
    4_430_183_903_349_186_363,
    // A prompt was sent for the hello and again for the session record. The runtime refused one for
    // a full disk and took the other.
    2_503_756_355_836_343_536,
    // Same by the session record, read because of the hello, and then by the hello itself.
    7_107_050_609_424_218_935,
    // An answer was taken, its record waited for disk space, and an ending runtime refused its
    // repetition for good.
    100_124_043,
    // A task's queue was resumed during a restart of its worker; the task model here did not
    // continue.
    100_173_120,
];

/// A defect of the product or the system below it. The checks must detect each one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    /// Appended journal data is lost when the runtime dies.
    AppendedIsLost,
    /// The runtime acts before it writes its records.
    ActsBeforeItWrites,
    /// The cursor of a transaction is stored without the rest.
    TornTransaction,
    /// A new daemon does not know earlier idempotency keys.
    KeysAreForgotten,
    /// A decision is confirmed before it is stored.
    DecisionIsNotStored,
    /// The daemon decides on its own.
    DecidesInTheUsersName,
    /// The journal is not read to its end after a runtime ends.
    EndIsNotRead,
    /// A turn whose prompt may have been sent is given to another runtime.
    SentTwice,
    /// A new daemon does not repeat the pending actions of a commit.
    NothingIsSaidAgain,
    /// A new daemon does not know the queue.
    QueueIsForgotten,
    /// A worker counts as stopped while its processes are still ending.
    StoppedTooEarly,
    /// A continued task still counts as ended.
    EndIsKept,
    /// The runtime of a place that does not answer counts as gone.
    GivenUpUnreached,
}

const BREAKS: [Break; 13] = [
    Break::AppendedIsLost,
    Break::ActsBeforeItWrites,
    Break::TornTransaction,
    Break::KeysAreForgotten,
    Break::DecisionIsNotStored,
    Break::DecidesInTheUsersName,
    Break::EndIsNotRead,
    Break::SentTwice,
    Break::NothingIsSaidAgain,
    Break::QueueIsForgotten,
    Break::StoppedTooEarly,
    Break::EndIsKept,
    Break::GivenUpUnreached,
];

/// Runs one history. Returns its tally.
fn live(seed: u64, broken: Option<Break>) -> world::Tally {
    let mut world = SimulatedWorld::new(seed, broken);
    world.trouble();
    world.settle()
}

/// Prints the seed if its history fails.
struct SeedReporter(u64);

impl Drop for SeedReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Standard error is the only output of a failing test.
            let _ = writeln!(std::io::stderr(), "this history failed: SUBAGENT_TEST_SEED={}", self.0);
        }
    }
}

/// Runs each part of the work on its own thread, one per core. These tests run last, so the other
/// cores are idle.
fn on_every_core<T: Send>(work: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let parts = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..parts).map(|part| scope.spawn(move || work(part, parts))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

#[test]
fn the_promises_hold_after_any_loss_repetition_or_kill() {
    // A given seed selects the one history that failed.
    let given = std::env::var("SUBAGENT_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let (count, placed) = if given.is_some() { (1, 0) } else { (times(SEEDS), times(PLACED_SEEDS)) };
    let first: u64 = given.unwrap_or_else(|| Random::announced().number() / 2);
    let total = on_every_core(|part, parts| {
        let mut total = world::Tally::default();
        let further = (first + count as u64..).filter(|seed| world::is_placed(*seed)).take(placed);
        for seed in (first..).take(count).chain(further).skip(part).step_by(parts) {
            let _named = SeedReporter(seed);
            total.add(&live(seed, None));
        }
        total
    });
    let total = total.iter().fold(world::Tally::default(), |mut sum, part| {
        sum.add(part);
        sum
    });
    if given.is_none() {
        total.assert_lively(count + placed);
    }
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        let _named = SeedReporter(seed);
        live(seed, None);
    }
}

#[test]
fn every_broken_promise_is_noticed() {
    on_every_core(|part, parts| {
        for broken in BREAKS.into_iter().skip(part).step_by(parts) {
            let noticed = (0..SEEDS_TO_NOTICE)
                .find(|seed| catch_unwind(AssertUnwindSafe(|| live(*seed, Some(broken)))).is_err());
            assert!(noticed.is_some(), "{broken:?} was not noticed in {SEEDS_TO_NOTICE} histories");
        }
    });
}

#[test]
fn a_seed_is_a_history() {
    for seed in 0..20 {
        assert_eq!(live(seed, None), live(seed, None));
    }
}
