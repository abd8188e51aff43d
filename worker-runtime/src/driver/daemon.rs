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

use super::alarms::Alarm;
use super::connections::Serving;
use super::lifetime;
use super::state::Driver;
use crate::conversation::{ConversationInput, ReplyTo};
use crate::daemon_start::DaemonStartInput as Daemon;
use crate::guard::ancestry;
use crate::socket::{self, ConnectionEvent, EventKind, PeerAdmission};

/// Maximum number of open connections. Only one of them is served.
const MAX_CONNECTIONS: usize = 16;
/// Pause after an error of `accept`, which repeats until a descriptor is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) fn accepted(driver: &mut Driver, stream: io::Result<Stream>) {
    // Frees the slots of connections that have ended.
    while driver.daemon.connections.try_join_next().is_some() {}
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            driver.log.note(&format!("a connection could not be accepted: {error}"));
            driver.alarms.set(Alarm::Accept, ACCEPT_PAUSE);
            return;
        }
    };
    if driver.daemon.connections.len() >= MAX_CONNECTIONS {
        return;
    }
    let Stream::UdSocket(socket) = &stream;
    let admission = socket::judge(socket, driver.daemon.container_token.is_some());
    match admission {
        PeerAdmission::Trusted | PeerAdmission::Outside => {
            let token = driver.daemon.container_token.clone();
            let token = token.filter(|_| admission == PeerAdmission::Outside);
            driver.daemon.next_connection += 1;
            let (events, ends) = (driver.daemon.events_in.clone(), driver.records.ends.subscribe());
            driver.daemon.connections.spawn(socket::serve(
                stream,
                driver.daemon.next_connection,
                token,
                events,
                ends,
            ));
        }
        PeerAdmission::BelowGuard => {
            driver.daemon.connections.spawn(socket::turn_away(
                stream,
                Refusal::BelowGuard,
                driver.daemon.generation,
            ));
        }
        PeerAdmission::Dropped => {}
    }
}

pub(super) fn event(driver: &mut Driver, event: ConnectionEvent) {
    let connection = event.connection;
    let served = driver.daemon.is_served(connection);
    match event.kind {
        EventKind::Hello { protocol, generation, desired, out } => {
            hello(driver, connection, protocol, generation, desired, out);
        }
        // Frames that an older daemon sent are dropped with its connection.
        EventKind::Command { .. } if !served => {}
        EventKind::Command { id, command } => {
            driver.look_at_quota();
            lifetime::look_at_lock(driver);
            driver.apply(ConversationInput::Command { to: ReplyTo { connection, id }, command });
        }
        EventKind::Closed if served => {
            driver.daemon.serving = None;
            lifetime::expect_a_daemon(driver);
            lifetime::decide(driver, Daemon::Lost);
            // It may have ended because the state directory is gone.
            if driver.files.watch.is_none() {
                lifetime::look_at_files(driver);
            }
        }
        EventKind::Closed => {}
    }
}

fn hello(
    driver: &mut Driver,
    connection: u64,
    protocol: u32,
    generation: u64,
    desired: Desired,
    out: mpsc::UnboundedSender<FromRuntime>,
) {
    let refusal = if protocol < OLDEST_PROTOCOL {
        Some(Refusal::Protocol)
    } else if generation < driver.daemon.generation {
        Some(Refusal::OldGeneration)
    } else {
        None
    };
    if let Some(refusal) = refusal {
        // A peer that is gone needs no answer.
        let _ = out.send(FromRuntime::Refused { refusal, generation: driver.daemon.generation });
        return;
    }
    driver.daemon.generation = generation;
    let _ = out.send(FromRuntime::Hello(Box::new(describe(driver))));
    // Dropping its sender ends the older connection.
    driver.daemon.serving = Some(Serving { connection, out });
    driver.alarms.clear(Alarm::Orphaned);
    lifetime::decide(driver, Daemon::Served);
    driver.look_at_quota();
    if desired == Desired::Stop {
        driver.apply(ConversationInput::End { reason: "the daemon wants this worker stopped".to_owned() });
    }
}

fn describe(driver: &Driver) -> RuntimeHello {
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
        worker_id: driver.daemon.worker_id.clone(),
        incarnation: driver.daemon.incarnation,
        process: ProcessId { pid, start_time: ancestry::start_time(pid).unwrap_or_default() },
        guard: driver.agent.guard,
        phase: driver.conversation.phase(),
        journal_end: driver.records.journal.end(),
        last_turn: driver.conversation.last_turn(),
        open_turn: driver.conversation.open_turn_as_written(!driver.records.journal.batch.is_empty()),
        open_approvals: driver.conversation.open_approvals(),
    }
}
