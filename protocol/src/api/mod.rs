//! Requests and responses of the HTTP API (`/v1` on the daemon's socket).
//!
//! Every response is an envelope: `{schemaVersion, ok: true, type, data}` or
//! `{schemaVersion, ok: false, type: "error", error}`. Followed events are NDJSON without an envelope.

mod approvals;
mod controllers;
mod daemon;
mod envelope;
mod turns;
mod workers;

pub use approvals::{ApprovalDecided, Decide, PendingApproval};
pub use controllers::{
    ControllerChoice, ControllerInitialized, ControllerStatus, Handle, InitController, OwnerGranted,
    OwnerView,
};
pub use daemon::{DaemonInfo, StopDaemon};
pub use envelope::{Envelope, header};
pub use turns::{CancelTurn, SendTurn, Simulation, TurnAccepted, TurnCanceled, WaitRequest, Waited};
pub use workers::{LauncherSpec, StartWorker, WorkerList, WorkerLogs, WorkerStopped, WorkerView};
