//! What the parts of deliveries share.

use std::path::PathBuf;

use subagent_config::{Environment, StateIdentity};
use subagent_protocol::ids::EventId;
use tokio::sync::{Mutex, Notify, watch};

use super::config::ConfigFile;
use crate::supervisor::Stream;

/// Shared by the dispatcher, the sinks and requests.
pub(super) struct Context {
    pub(super) stream: Stream,
    /// The environment in which the daemon was started.
    pub(super) environment: Environment,
    /// The executable `subagent-runtime`; `subagent-webhook` is beside it.
    pub(super) runtime_program: PathBuf,
    pub(super) config: Mutex<ConfigFile>,
    /// Told when the config file may have changed.
    pub(super) changed: Notify,
    /// The version of the config whose sinks are in use.
    pub(super) in_use: watch::Sender<u64>,
    /// How many sinks have something to deliver.
    pub(super) busy: watch::Sender<usize>,
    /// Begins the ids of messages: no other state dir has the same.
    pub(super) prefix: String,
}

impl Context {
    pub(super) fn new(
        stream: Stream,
        environment: Environment,
        runtime_program: PathBuf,
        identity: Option<&StateIdentity>,
    ) -> Self {
        Self {
            stream,
            config: Mutex::new(ConfigFile::new(environment.clone())),
            environment,
            runtime_program,
            changed: Notify::new(),
            in_use: watch::Sender::new(0),
            busy: watch::Sender::new(0),
            prefix: identity.map_or_else(String::new, |identity| identity.folder.id.clone()),
        }
    }

    /// The id of a message for its sink, by the event that it begins with: numbers of events are never given again, not even
    /// after a restore.
    pub(super) fn id_of(&self, message: EventId) -> String {
        format!("msg_{}_{message}", self.prefix)
    }
}
