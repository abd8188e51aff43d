//! The status file of a foreground daemon: written at the start, at every heartbeat and at the end. A daemon in the
//! background has none, and does not wake up for it.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use subagent_protocol::api::DaemonInfo;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::options::{Mode, RunOptions};
use super::payload::{self, Payload};
use crate::supervisor::Supervisor;

/// What the status file says, and where it comes from.
pub(super) struct Heartbeat<'a> {
    options: &'a RunOptions,
    supervisor: Supervisor,
    payload: Payload,
    health: Value,
}

impl<'a> Heartbeat<'a> {
    /// Writes the first one.
    pub(super) async fn begin(options: &'a RunOptions, supervisor: &Supervisor, info: &DaemonInfo) -> Self {
        let payload = Payload {
            pid: info.process.pid,
            started_at: info.started_at,
            mode: options.mode.as_str(),
            stopped_at: None,
        };
        let mut heartbeat = Self { options, supervisor: supervisor.clone(), payload, health: Value::Null };
        if options.mode == Mode::Foreground {
            heartbeat.once().await;
        }
        heartbeat
    }

    /// What the file has now.
    pub(super) fn payload(&self) -> Value {
        self.payload.with_health(self.options, &self.health)
    }

    /// Writes it again and again.
    pub(super) async fn beat(&mut self) -> Infallible {
        if self.options.mode == Mode::Background {
            std::future::pending::<()>().await;
        }
        let every = Duration::from_secs(self.options.heartbeat_seconds.max(1));
        let mut ticks = interval_at(Instant::now() + every, every);
        // After a suspended night one heartbeat is enough.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.once().await;
        }
    }

    /// Writes the last one.
    pub(super) fn end(mut self) {
        if self.options.mode == Mode::Foreground {
            self.payload.stopped_at = Some(payload::now());
            payload::write(self.options, &self.payload());
        }
    }

    async fn once(&mut self) {
        match self.supervisor.health().await {
            Ok(health) => self.health = health,
            // The last known one stays, with its own time in it.
            Err(error) => tracing::error!(%error, "the workers' health is not known"),
        }
        payload::write(self.options, &self.payload());
    }
}
