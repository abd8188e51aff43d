//! State shared by the parts of the delivery system.

use std::path::PathBuf;

use subagent_config::{Environment, StateIdentity};
use subagent_protocol::ids::EventId;
use tokio::sync::{Mutex, Notify, watch};

use super::config::SinkFile;
use crate::supervisor::EventAccess;

/// Shared by the dispatcher, the sinks and requests.
pub(super) struct DeliveryContext {
    pub(super) stream: EventAccess,
    /// Environment in which the daemon was started.
    pub(super) environment: Environment,
    /// Path of `subagent-runtime`; `subagent-webhook` is beside it.
    pub(super) runtime_program: PathBuf,
    pub(super) config: Mutex<SinkFile>,
    /// Notified when the config file may have changed.
    pub(super) changed: Notify,
    /// Version of the config whose sinks are active.
    pub(super) in_use: watch::Sender<u64>,
    /// How many sinks are in use.
    pub(super) sinks: watch::Sender<usize>,
    /// How many sinks have something to deliver.
    pub(super) busy: watch::Sender<usize>,
    /// Prefix of message ids, unique to this state dir.
    pub(super) prefix: String,
}

impl DeliveryContext {
    pub(super) fn new(
        stream: EventAccess,
        environment: Environment,
        runtime_program: PathBuf,
        identity: Option<&StateIdentity>,
    ) -> Self {
        Self {
            stream,
            config: Mutex::new(SinkFile::new(environment.clone())),
            environment,
            runtime_program,
            changed: Notify::new(),
            in_use: watch::Sender::new(0),
            sinks: watch::Sender::new(0),
            busy: watch::Sender::new(0),
            prefix: identity.map_or_else(String::new, |identity| identity.folder.id.clone()),
        }
    }

    /// Returns the message id for a sink, derived from its first event. Sequence numbers are never
    /// reused, even after a restore.
    pub(super) fn id_of(&self, message: EventId) -> String {
        format!("msg_{}_{message}", self.prefix)
    }
}
