//! Numbers that look random and come again with the same seed (SplitMix64): a run that failed can be repeated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's tool: it stops at what is wrong")]

use std::hash::{BuildHasher, RandomState};

/// The variable that sets the seed.
const SEED: &str = "SUBAGENT_TEST_SEED";

/// A generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// With the seed of `SUBAGENT_TEST_SEED`, else with another one each time; prints it.
    ///
    /// # Panics
    /// When the variable holds no number.
    #[must_use]
    pub fn announced() -> Self {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().expect("SUBAGENT_TEST_SEED must be a number"),
            Err(_) => RandomState::new().hash_one(0),
        };
        super::say(&format!("seed: {SEED}={seed}"));
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// One of these; there is at least one.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap();
        &all[index]
    }

    /// Puts them in another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            let other = usize::try_from(self.below(end as u64 + 1)).unwrap();
            all.swap(end, other);
        }
    }
}
