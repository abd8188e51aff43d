//! Git worktrees of workers: planned with the worker's start, made before its first runtime,
//! removed after its end if nothing in them would be lost, and landed. Must not run git:
//! [`operation`] has `subagent-runtime` do it.

// The row of a worktree is stored before anything is on disk and deleted after all of it is gone,
// so that the next daemon can finish each step.

mod ends;
pub(crate) mod land;
pub(crate) mod lookup;
mod making;
pub(crate) mod merge;
mod merging;
pub(super) mod operation;
mod planned;
pub(crate) mod removing;
mod rows;

pub(super) use ends::{finish, recover_landings};
pub(super) use making::{Making, take_over};
pub(super) use merging::write_back;
pub(super) use planned::Planned;
