//! The daemon's connections: serves the newest generation, refuses all others.

use std::io;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use subagent_protocol::frame::{
    CANCEL_CHILD, CHANGE_AGENT, CLIENT_RULES, ELICITATION, FromRuntime, HIBERNATE, Refusal, RuntimeHello,
};
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::Desired;
use subagent_protocol::{OLDEST_PROTOCOL, PROTOCOL};
use tokio::sync::mpsc;

use super::Driver;
use super::alarms::Alarm;
use crate::conversation::{ConversationInput, ReplyTo};
use crate::daemon_start::DaemonStartInput as Daemon;
use crate::guard::ancestry;
use crate::socket::{self, ConnectionEvent, EventKind, PeerAdmission};

/// Maximum number of open connections. Only one of them is served.
const MAX_CONNECTIONS: usize = 16;
/// Pause after an error of `accept`, which repeats until a descriptor is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connection that is served.
pub(super) struct Serving {
    connection: u64,
    out: mpsc::UnboundedSender<FromRuntime>,
}

impl Driver {
    pub(super) fn accepted(&mut self, stream: io::Result<Stream>) {
        // Frees the slots of connections that have ended.
        while self.connections.try_join_next().is_some() {}
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                self.log.note(&format!("a connection could not be accepted: {error}"));
                self.alarms.set(Alarm::Accept, ACCEPT_PAUSE);
                return;
            }
        };
        if self.connections.len() >= MAX_CONNECTIONS {
            return;
        }
        let Stream::UdSocket(socket) = &stream;
        match socket::judge(socket) {
            PeerAdmission::Trusted => {
                self.next_connection += 1;
                let (events, ends) = (self.events_in.clone(), self.ends.subscribe());
                self.connections.spawn(socket::serve(stream, self.next_connection, events, ends));
            }
            PeerAdmission::BelowGuard => {
                self.connections.spawn(socket::turn_away(stream, Refusal::BelowGuard, self.generation));
            }
            PeerAdmission::Dropped => {}
        }
    }

    pub(super) fn event(&mut self, event: ConnectionEvent) {
        let connection = event.connection;
        let served = self.serving.as_ref().is_some_and(|serving| serving.connection == connection);
        match event.kind {
            EventKind::Hello { protocol, generation, desired, out } => {
                self.hello(connection, protocol, generation, desired, out);
            }
            // Frames that an older daemon sent are dropped with its connection.
            EventKind::Command { .. } if !served => {}
            EventKind::Command { id, command } => {
                self.look_at_quota();
                self.look_at_lock();
                self.apply(ConversationInput::Command { to: ReplyTo { connection, id }, command });
            }
            EventKind::Closed if served => {
                self.serving = None;
                self.expect_a_daemon();
                self.decide(Daemon::Lost);
                // It may have ended because the state directory is gone.
                if self.watch.is_none() {
                    self.look_at_files();
                }
            }
            EventKind::Closed => {}
        }
    }

    fn hello(
        &mut self,
        connection: u64,
        protocol: u32,
        generation: u64,
        desired: Desired,
        out: mpsc::UnboundedSender<FromRuntime>,
    ) {
        let refusal = if protocol < OLDEST_PROTOCOL {
            Some(Refusal::Protocol)
        } else if generation < self.generation {
            Some(Refusal::OldGeneration)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            // A peer that is gone needs no answer.
            let _ = out.send(FromRuntime::Refused { refusal, generation: self.generation });
            return;
        }
        self.generation = generation;
        let _ = out.send(FromRuntime::Hello(Box::new(self.describe())));
        // Dropping its sender ends the older connection.
        self.serving = Some(Serving { connection, out });
        self.alarms.clear(Alarm::Orphaned);
        self.decide(Daemon::Served);
        self.look_at_quota();
        if desired == Desired::Stop {
            self.apply(ConversationInput::End { reason: "the daemon wants this worker stopped".to_owned() });
        }
    }

    fn describe(&self) -> RuntimeHello {
        let pid = nix::unistd::getpid().as_raw();
        let mut capabilities = vec![
            "prompt",
            "answer",
            "options",
            "attachments",
            ELICITATION,
            HIBERNATE,
            CLIENT_RULES,
            CANCEL_CHILD,
            CHANGE_AGENT,
        ];
        if subagent_failpoint::sabotaged("hello.without_client_rules") {
            capabilities.retain(|known| *known != CLIENT_RULES);
        }
        RuntimeHello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: capabilities.into_iter().map(str::to_owned).collect(),
            worker_id: self.worker_id.clone(),
            incarnation: self.incarnation,
            process: ProcessId { pid, start_time: ancestry::start_time(pid).unwrap_or_default() },
            guard: self.guard,
            phase: self.conversation.phase(),
            journal_end: self.journal.end(),
            last_turn: self.conversation.last_turn(),
            open_turn: self.conversation.open_turn_as_written(!self.journal.batch.is_empty()),
            open_approvals: self.conversation.open_approvals(),
        }
    }

    pub(super) fn reply(&mut self, connection: u64, frame: FromRuntime) {
        if let Some(serving) = self.serving.as_ref().filter(|serving| serving.connection == connection) {
            // A closed connection is reported by its own event.
            let _ = serving.out.send(frame);
        }
    }
}
