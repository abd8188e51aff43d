//! Counts that do not depend on the machine's speed: system calls, commits, instructions,
//! allocations and bytes of a read command, of a message and of an agent's stream. They preserve
//! measured improvements; nothing here reads a clock.

// All limits are in `limits.rs`. `strace` and `valgrind` count system calls and instructions.
// Without them (or if the kernel forbids it) these tests report that they counted nothing;
// `SUBAGENT_REQUIRE_COUNTS=1` makes that a failure. Allocations of libraries are counted in
// `allocations.rs` of their crates.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "all of this folder is a test")]

mod commands;
mod events;
mod idle;
mod limits;
mod line;
mod strace;
mod tools;
