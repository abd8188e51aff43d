//! What handlers work with.

use std::sync::Arc;

use subagent_config::Environment;
use subagent_protocol::api::DaemonInfo;

use super::address::LastWorker;
use super::control::Control;
use crate::deliveries::Deliveries;
use crate::schedules::Schedules;
use crate::supervisor::Supervisor;

/// The state of the router.
#[derive(Clone)]
pub struct Api {
    /// What carries requests out.
    pub supervisor: Supervisor,
    /// Notifications.
    pub deliveries: Deliveries,
    /// The environment in which the daemon was started.
    pub environment: Arc<Environment>,
    /// Schedules.
    pub schedules: Schedules,
    /// What this daemon says of itself.
    pub info: Arc<DaemonInfo>,
    /// What `@last` means.
    pub last_worker: LastWorker,
    /// The way to its life: stop requests in, the end of waits out.
    pub control: Control,
}
