//! The actor of one worker. All changes of the worker happen here, one at a time. It owns the state
//! of the rules, the journal cursor and the connection to the runtime. A handler sends a
//! [`ChangeRequest`] and waits; the change is executed even if its client disconnects.

mod actor;
mod base;
mod budget;
mod child_cancel;
mod commit;
mod deadlines;
mod handle;
mod identity;
mod ingest;
mod message;
mod order;
mod perform;
pub(crate) mod questions;
mod run;
mod runtime;
mod session;
mod settings;
mod snapshot;
pub(crate) mod tasks;
mod worktree;

use std::time::Duration;

pub(super) use child_cancel::broken;
pub(super) use handle::ActorHandle;
#[cfg(test)]
pub(crate) use ingest::batch::is_progress;
#[cfg(any(test, feature = "testing"))]
pub(crate) use ingest::records::{SessionUpdates, input};
pub(super) use message::{
    ActorMessage, Also, ChangeRequest, ChildCancel, LimitOrder, Respond, RevivalOutcome, SetOrder,
};
#[cfg(test)]
pub(crate) use runtime::reach::{REPORT_AFTER, REPORT_WAITING_AFTER};
pub(super) use runtime::revival::Revival;
pub(super) use snapshot::Snapshot;

/// Delay of the next attempt after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);
