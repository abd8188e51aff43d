//! Makes chosen calls on chosen files fail in a process with this library preloaded (`LD_PRELOAD`).
//! Must never be part of the product, nor change a call that matches no rule.

// `FAULT_FS` contains rules separated by `|`, each made of `key=value` pairs separated by `;`:
//
// | key | meaning |
// |---|---|
// | `op` | `open`, `change` (an `open` that could change something), `write`, `sync`, `truncate`, `allocate`, `rename`, `unlink`, `room` (asking how much there is; with `ENOSPC` the answer is none): what the call does, by any name |
// | `path` | the whole path, with `*` for anything; for a call on a descriptor that of its file |
// | `nth` | the first call that fails, from 1; counted over all processes |
// | `count` | how many fail from there on (default 1) |
// | `errno` | `EIO`, `ENOSPC`, `EACCES` or `EROFS` |
// | `while` | instead of `nth` and `count`: every call fails while this file is there |
// | `short` | with `1` the first of them is not failed but does half of its work, and the next ones fail |
//
// `FAULT_FS_COUNTERS` names a file with 16 zero bytes per rule, where all processes count matching
// calls and faults.
//
// `FAULT_CLOCK` names a file. While it exists, the time of day is one hour early, or differs by
// `FAULT_CLOCK_SECONDS` (negative: early).
//
// Calls go directly to the kernel, so the order of libraries does not matter. It intercepts calls
// through the C library: those of the standard library, nix and SQLite, but not of `rustix` (which
// tempfile uses for renames).

#![allow(
    unsafe_code,
    non_snake_case,
    reason = "functions of the C library are replaced, with their names, their pointers and their errno"
)]

mod calls;
mod clock;
mod rules;
