//! Pseudo-random numbers that repeat with the same seed (SplitMix64), so that a failed
//! run can be repeated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's tool: it stops at what is wrong")]

use std::hash::{BuildHasher, RandomState};

/// The variable that sets the seed.
const SEED: &str = "SUBAGENT_TEST_SEED";

/// A generator of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator with the seed in `SUBAGENT_TEST_SEED`, or a new one each time,
    /// and prints the seed.
    ///
    /// # Panics
    ///
    /// If the variable is not a number.
    #[must_use]
    pub fn announced() -> Self {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().expect("SUBAGENT_TEST_SEED must be a number"),
            Err(_) => RandomState::new().hash_one(0),
        };
        super::say(&format!("seed: {SEED}={seed}"));
        Self(seed)
    }

    /// Returns the next number of the sequence.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Returns one of these; there must be at least one.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap();
        &all[index]
    }

    /// Changes the order at random.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            let other = usize::try_from(self.below(end as u64 + 1)).unwrap();
            all.swap(end, other);
        }
    }
}
