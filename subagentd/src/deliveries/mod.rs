//! Notifications: which sinks get which events, in order, at least once.
//!
//! `dispatch` stores a row for each sink and event, from a committed cursor; a task of each sink (`sink`) delivers its rows.
//! A daemon that dies repeats at most the delivery that was under way, with the same id. A sink that hangs holds up no other.

mod config;
mod context;
mod dispatch;
mod facts;
mod send;
mod sink;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use subagent_config::notify::{On, Sink};
use subagent_config::{Environment, StateIdentity};
use subagent_protocol::notification::{DeliveryLog, SinkTest, SinkTests, SinkView, Sinks, TestSinks};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{MutexGuard, watch};
use tokio::time::timeout;

use crate::notification::Notification;
use crate::store::deliveries::{self, Standing};
use crate::supervisor::{Supervisor, entropy};
use config::ConfigFile;
use context::Context;

/// How long to wait until a new config is in use.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Deliveries that the log shows.
const MAX_LOG: u32 = 200;

/// The deliveries of a daemon. Cheap to clone.
#[derive(Clone)]
pub struct Deliveries(Arc<Context>);

impl Deliveries {
    /// Begins to dispatch events and to deliver, until the daemon ends.
    #[must_use]
    pub fn start(
        supervisor: &Supervisor,
        environment: Environment,
        runtime_program: PathBuf,
        state_dir: &Path,
    ) -> Self {
        let identity = StateIdentity::read(state_dir);
        let context = Context::new(supervisor.stream(), environment, runtime_program, identity.as_ref());
        let context = Arc::new(context);
        tokio::spawn(dispatch::run(Arc::clone(&context)));
        Self(context)
    }

    /// How many sinks have something to deliver: the daemon stays for them.
    #[must_use]
    pub fn busy(&self) -> watch::Receiver<usize> {
        self.0.busy.subscribe()
    }

    /// The sinks of the user's config file as it is now.
    pub async fn sinks(&self) -> Result<Sinks> {
        let standings = self.0.stream.store.read(deliveries::standings).await?;
        let config = self.config().await;
        let shown = |sink: &Sink| {
            let Standing { pending, failed, error } = standings.get(&sink.name).cloned().unwrap_or_default();
            SinkView {
                name: sink.name.clone(),
                to: sink.to.as_str().to_owned(),
                on: sink.on.listed().to_vec(),
                done_of_detached: sink.on == On::Default,
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

    /// What became of the newest notifications.
    pub async fn log(&self) -> Result<DeliveryLog> {
        let items = self.0.stream.store.read(|connection| deliveries::log(connection, MAX_LOG)).await?;
        Ok(DeliveryLog { count: items.len(), items })
    }

    /// Sends a test to one sink, or to all of them, and waits for what comes of it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{name}` for a sink that is not configured.
    pub async fn test(&self, request: TestSinks) -> Result<SinkTests> {
        let mut targets = Vec::new();
        {
            let config = self.config().await;
            let named = |sink: &&Sink| request.name.as_ref().is_none_or(|name| *name == sink.name);
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
                    send::send(&self.0, &target, &id, &Notification::Test)
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

    /// The config as the file is now, once its sinks are in use.
    async fn config(&self) -> MutexGuard<'_, ConfigFile> {
        let context = &self.0;
        let mut config = context.config.lock().await;
        config.refresh();
        let version = config.version();
        drop(config);
        let mut in_use = context.in_use.subscribe();
        context.changed.notify_one();
        // A store that fails is said elsewhere.
        let _ = timeout(TAKEN_WITHIN, in_use.wait_for(|in_use| *in_use >= version)).await;
        context.config.lock().await
    }
}
