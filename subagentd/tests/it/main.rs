//! Damaged input for the daemon's readers, and counted allocations.

#![allow(clippy::unwrap_used, reason = "all of this folder is a test")]

mod allocations;
mod bytes;

use subagent_testkit::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
