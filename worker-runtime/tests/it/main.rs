//! The runtime and its guard as processes, damaged input for its parsers, and allocation counts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this folder is a test")]

mod allocations;
mod bytes;
mod client;
#[cfg(target_os = "linux")]
mod command;
mod failpoints;
mod guard;
mod guard_harness;
mod placement;
mod runtime;
mod support;

use subagent_testkit::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
