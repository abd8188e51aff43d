//! The status file of a foreground daemon, written at the start, at every heartbeat and at the end.
//! A background daemon has no status file and no timer for it.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::api::DaemonInfo;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::options::MAX_SECONDS;
use super::options::{RunOptions, StartMode};
use super::payload::{self, Payload};
use crate::supervisor;
use crate::supervisor::{HealthCheckOptions, Supervisor};

/// The content of the status file and its sources.
pub(super) struct Heartbeat<'a> {
    options: &'a RunOptions,
    supervisor: Supervisor,
    payload: Payload,
    health: Value,
    /// Start time of the last health check.
    looked: Instant,
}

impl<'a> Heartbeat<'a> {
    /// Writes the first status. It includes restarts since `began`.
    pub(super) async fn begin(
        options: &'a RunOptions,
        supervisor: &Supervisor,
        info: &DaemonInfo,
        began: Instant,
    ) -> Self {
        let payload = Payload {
            pid: info.process.pid,
            started_at: info.started_at,
            mode: options.mode.as_str(),
            stopped_at: None,
        };
        let (supervisor, health) = (supervisor.clone(), Value::Null);
        let mut heartbeat = Self { options, supervisor, payload, health, looked: began };
        if options.mode == StartMode::Foreground {
            heartbeat.once().await;
        }
        heartbeat
    }

    /// Returns the current content of the file.
    pub(super) fn payload(&self) -> Value {
        self.payload.with_health(self.options, &self.health)
    }

    /// Writes the file at every heartbeat.
    pub(super) async fn beat(&mut self) -> Infallible {
        if self.options.mode == StartMode::Background {
            std::future::pending::<()>().await;
        }
        let every = Duration::from_secs(self.options.heartbeat_seconds.clamp(1, MAX_SECONDS));
        let mut ticks = interval_at(Instant::now() + every, every);
        // After a suspended night one heartbeat is enough.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.once().await;
        }
    }

    /// Writes the final status.
    pub(super) fn end(mut self) {
        if self.options.mode == StartMode::Foreground {
            self.payload.stopped_at = Some(payload::now());
            payload::write(self.options, &self.payload());
        }
    }

    async fn once(&mut self) {
        let look = HealthCheckOptions { since: self.looked, restart: self.options.restart_cooldown() };
        self.looked = Instant::now();
        self.health = supervisor::runtimes::health::health(&self.supervisor, look).await;
        payload::write(self.options, &self.payload());
    }
}
