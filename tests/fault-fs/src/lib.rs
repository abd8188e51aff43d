//! Makes chosen calls on chosen files fail, in a process that has this library preloaded (`LD_PRELOAD`).
//!
//! `FAULT_FS` holds the rules, separated by `|`, each of `key=value` separated by `;`:
//!
//! | key | meaning |
//! |---|---|
//! | `op` | `open`, `change` (an `open` that could change something), `write`, `sync`, `truncate`, `allocate`, `rename`, `unlink`, `room` (asking how much there is; with `ENOSPC` the answer is none): what the call does, whatever its name |
//! | `path` | the whole path, with `*` for anything; for a call on a descriptor that of its file |
//! | `nth` | the first call that fails, from 1; counted over all processes |
//! | `count` | how many fail from there on (default 1) |
//! | `errno` | `EIO`, `ENOSPC`, `EACCES` or `EROFS` |
//! | `while` | instead of `nth` and `count`: every call fails while this file is there |
//! | `short` | with `1` the first of them is not failed but does half of its work, and the next ones fail |
//!
//! `FAULT_FS_COUNTERS` names a file with 16 zero bytes for each rule, where all processes count: calls that matched, and
//! faults.
//!
//! `FAULT_CLOCK` names a file: while it is there, the time of day is an hour earlier than it is.
//!
//! Must never be part of the product, and never change a call that no rule means. Calls go to the kernel directly, so
//! nothing here depends on the order of libraries. It sees what goes through the C library: the standard library, nix and
//! SQLite do, `rustix` (with which tempfile renames) does not.

#![allow(
    unsafe_code,
    non_snake_case,
    reason = "functions of the C library are replaced, with their names, their pointers and their errno"
)]

mod calls;
mod clock;
mod rules;
