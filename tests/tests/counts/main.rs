//! Counts that do not depend on the machine's speed: system calls, commits, instructions, allocations and bytes of a read
//! command, of a message and of an agent's stream. They guard what measurements have won; nothing here looks at a clock.
//!
//! All limits stand in `limits.rs`. What counts system calls and instructions are `strace` and `valgrind`; without them (or
//! where the kernel forbids it) those tests say loudly that they counted nothing, and `SUBAGENT_REQUIRE_COUNTS=1` makes
//! that a failure. What libraries allocate is counted in `allocations.rs` of the crates that own them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "all of this folder is a test")]

mod commands;
mod events;
mod idle;
mod limits;
mod line;
mod strace;
mod tools;
