//! Notifications: delivers events to sinks, in order, at least once. `dispatch` stores a row per
//! sink and event; one task per sink (`sink`) delivers its rows. After a crash at most the running
//! attempt is repeated, with the same id.

mod config;
mod context;
mod dispatch;
mod facts;
mod send;
mod sink;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use subagent_config::notify::{NotificationSink, NotifyOccasions};
use subagent_config::{Environment, StateIdentity};
use subagent_protocol::notification::{DeliveryLog, SinkTest, SinkTests, SinkView, Sinks, TestSinks};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{MutexGuard, watch};
use tokio::time::timeout;

use crate::notification::SinkNotification;
use crate::store::deliveries::{self, SinkCounts};
use crate::supervisor::{Supervisor, entropy};
use config::SinkFile;
use context::DeliveryContext;

/// Maximum wait until a new config is active.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of entries in the shown log.
const MAX_LOG: u32 = 200;

/// The delivery system of a daemon. A clone is cheap.
#[derive(Clone)]
pub(crate) struct DeliveryService(Arc<DeliveryContext>);

impl DeliveryService {
    /// Starts dispatching and delivering, until the daemon ends.
    #[must_use]
    pub(crate) fn start(
        supervisor: &Supervisor,
        environment: Environment,
        runtime_program: PathBuf,
        state_dir: &Path,
    ) -> Self {
        let identity = StateIdentity::read(state_dir);
        let context =
            DeliveryContext::new(supervisor.stream(), environment, runtime_program, identity.as_ref());
        let context = Arc::new(context);
        tokio::spawn(dispatch::run(Arc::clone(&context)));
        Self(context)
    }

    /// Watches the number of sinks with pending deliveries. The daemon does not exit while it is
    /// above 0.
    #[must_use]
    pub(crate) fn busy(&self) -> watch::Receiver<usize> {
        self.0.busy.subscribe()
    }

    /// How many sinks there are.
    #[must_use]
    pub(crate) fn sinks_in_use(&self) -> watch::Receiver<usize> {
        self.0.sinks.subscribe()
    }

    /// The sinks of the user's config file as it is now.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) async fn sinks(&self) -> Result<Sinks> {
        let standings = self.0.stream.store.read(deliveries::standings).await?;
        let config = self.config().await;
        let shown = |sink: &NotificationSink| {
            let SinkCounts { pending, failed, error } =
                standings.get(&sink.name).cloned().unwrap_or_default();
            SinkView {
                name: sink.name.clone(),
                to: sink.to.as_str().to_owned(),
                on: sink.on.listed().to_vec(),
                done_of_detached: sink.on == NotifyOccasions::Default,
                selector: sink.selector.clone(),
                pending,
                failed,
                error: config.resolved(&sink.to).err().or(error),
            }
        };
        let items: Vec<SinkView> = config.sinks().iter().map(shown).collect();
        Ok(Sinks {
            count: items.len(),
            items,
            config_path: config.path(),
            error: config.error().map(str::to_owned),
        })
    }

    /// Returns the newest deliveries and their results.
    pub(crate) async fn log(&self) -> Result<DeliveryLog> {
        let items = self.0.stream.store.read(|connection| deliveries::log(connection, MAX_LOG)).await?;
        Ok(DeliveryLog { count: items.len(), items })
    }

    /// Sends a test notification to one sink or to all, and waits for the results.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{name}` for an unknown sink.
    pub(crate) async fn test(&self, request: TestSinks) -> Result<SinkTests> {
        let mut targets = Vec::new();
        {
            let config = self.config().await;
            let named =
                |sink: &&NotificationSink| request.name.as_ref().is_none_or(|name| *name == sink.name);
            for sink in config.sinks().iter().filter(named) {
                targets.push((sink.name.clone(), config.resolved(&sink.to)));
            }
            if let Some(name) = request.name.filter(|_| targets.is_empty()) {
                let known: Vec<&str> = config.sinks().iter().map(|sink| sink.name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Error::new(
                    Code::InvalidArgument,
                    format!("{} has no sink `{name}`; it has: {known}", config.path()),
                )
                .with("name", name)
                .recommend("`subagent notify list` shows the sinks"));
            }
        }
        let tests = targets.into_iter().map(|(name, target)| async move {
            let sent = match target {
                Ok(target) => {
                    let id = format!("msg_{}_test_{}", self.0.prefix, entropy::now().0);
                    send::send(&self.0, &target, &id, &SinkNotification::Test)
                        .await
                        .map_err(|failed| failed.error)
                }
                Err(error) => Err(error),
            };
            SinkTest { name, delivered: sent.is_ok(), error: sent.err() }
        });
        let items = futures_util::future::join_all(tests).await;
        Ok(SinkTests { count: items.len(), items })
    }

    /// Reloads the config and waits until its sinks are active.
    async fn config(&self) -> MutexGuard<'_, SinkFile> {
        let context = &self.0;
        let mut config = context.config.lock().await;
        config.refresh();
        let version = config.version();
        drop(config);
        let mut in_use = context.in_use.subscribe();
        context.changed.notify_one();
        // The dispatcher reports failures of the store.
        let _ = timeout(TAKEN_WITHIN, in_use.wait_for(|in_use| *in_use >= version)).await;
        context.config.lock().await
    }
}
