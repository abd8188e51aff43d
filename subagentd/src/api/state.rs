//! The shared state of all handlers.

use std::sync::Arc;

use subagent_config::Environment;
use subagent_protocol::api::DaemonInfo;

use super::control::Control;
use super::request::address::LastWorker;
use crate::deliveries::DeliveryService;
use crate::schedules::Scheduler;
use crate::supervisor::Supervisor;

/// The state of the router.
#[derive(Clone)]
pub(crate) struct Api {
    /// Executes the requests about workers.
    pub supervisor: Supervisor,
    /// Delivers notifications to sinks.
    pub deliveries: DeliveryService,
    /// Environment in which the daemon was started.
    pub environment: Arc<Environment>,
    /// Manages and fires schedules.
    pub schedules: Scheduler,
    /// Description of this daemon, as in `daemon.json`.
    pub info: Arc<DaemonInfo>,
    /// The worker that `@last` addresses.
    pub last_worker: LastWorker,
    /// Connection to the daemon's lifecycle: sends stop requests and receives the shutdown phase.
    pub control: Control,
}
