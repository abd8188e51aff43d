//! The main loop of a runtime: waits for the next event, hands it to the conversation, writes the
//! records, and then carries out the conversation's actions. Decides nothing about the worker; the
//! conversation does.

mod agent;
mod agent_process;
mod alarms;
mod client;
mod connections;
mod daemon;
mod daemon_restart;
mod effects;
mod lifetime;
mod own_files;
mod records;
mod state;

use std::io;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::client::ClientEvent;
use crate::conversation::ConversationInput;
use crate::daemon_start::DaemonStartInput as Daemon;
use crate::memory;
use crate::socket::{ConnectionEvent, Endpoint};
use crate::spawn;
use crate::startup::{self, Startup};
use crate::watch::FileWatch;
use agent_process::AgentExit;
use alarms::Alarm;
#[cfg(feature = "testing")]
pub(crate) use records::withhold;
use state::Driver;

/// Time limit for the last frames.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The event that ended a wait.
enum Wake {
    Output,
    Errors,
    Writable,
    GuardStatus,
    Accepted(io::Result<Stream>),
    Event(ConnectionEvent),
    DaemonSays,
    Client(ClientEvent),
    Alarm(Alarm),
    FilesChanged,
    Terminated,
    ChildExited,
}

/// Runs one worker to its end.
///
/// # Errors
///
/// It could not begin: no journal or no socket. The journal contains later errors.
pub(crate) async fn run(startup: Startup) -> io::Result<()> {
    let Startup { start, lock, guard_lock } = startup;
    let mut driver = Driver::begin(&start, lock, guard_lock.try_clone()?)?;
    lifetime::begin(&mut driver);
    startup::say_listening()?;
    driver.apply(ConversationInput::Begin);
    let spawned = driver
        .client
        .executor
        .proxy_channel()
        .and_then(|proxy| spawn::spawn(&start.agent, &start.marker, guard_lock, proxy));
    match spawned {
        Ok(agent) => driver.agent.started(agent),
        Err(error) => driver.apply(ConversationInput::SpawnFailed {
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("{error} (working directory {})", start.agent.cwd.display()),
        }),
    }
    // Parsing the agent's environment took several times its size.
    drop(start);
    memory::trim();
    while !driver.done {
        let wake = wait(&mut driver).await;
        take(&mut driver, wake);
    }
    finish(driver).await;
    Ok(())
}

/// Waits for the next event. Takes nothing from its sources, except connections and frames.
async fn wait(driver: &mut Driver) -> Wake {
    let reads = driver.reads_output();
    let writes = !driver.agent.outgoing.is_empty();
    let accepts = !driver.alarms.is_set(Alarm::Accept);
    let agent = driver.agent.io.as_ref();
    let starting = driver.replacement.as_ref().and_then(|daemon_restart| daemon_restart.starting.as_ref());
    let starting = starting.map(|starting| &starting.output);
    tokio::select! {
        () = readable(agent.and_then(|agent| agent.output.as_ref())), if reads => Wake::Output,
        () = readable(agent.and_then(|agent| agent.errors.as_ref())) => Wake::Errors,
        _ = or_never(agent.and_then(|agent| agent.input.as_ref()).map(Sender::writable)), if writes => Wake::Writable,
        () = readable(agent.and_then(|agent| agent.status.as_ref())) => Wake::GuardStatus,
        stream = or_never(driver.files.endpoint.as_ref().map(Endpoint::accept)), if accepts => Wake::Accepted(stream),
        // The driver owns a sender, so the channel cannot end.
        Some(event) = driver.daemon.events.recv() => Wake::Event(event),
        () = readable(starting) => Wake::DaemonSays,
        // As above: the client owns a sender.
        Some(event) = driver.client.executor.events.recv() => Wake::Client(event),
        alarm = driver.alarms.next() => Wake::Alarm(alarm),
        () = or_never(driver.files.watch.as_ref().map(FileWatch::changed)) => Wake::FilesChanged,
        _ = driver.signals.terminate.recv() => Wake::Terminated,
        _ = driver.signals.child.recv() => Wake::ChildExited,
    }
}

fn take(driver: &mut Driver, wake: Wake) {
    match wake {
        Wake::Output => agent::read_output(driver),
        Wake::Errors => agent::read_errors(driver),
        Wake::Writable => {
            agent::write_input(driver);
            client::serve_calls(driver);
        }
        Wake::GuardStatus => agent::read_status(driver),
        Wake::Accepted(stream) => daemon::accepted(driver, stream),
        Wake::Event(event) => daemon::event(driver, event),
        Wake::DaemonSays => lifetime::read_readiness(driver),
        Wake::Client(event) => client::client_event(driver, event),
        Wake::Alarm(alarm) => on_alarm(driver, alarm),
        Wake::FilesChanged => lifetime::look_at_files(driver),
        Wake::Terminated => driver.apply(ConversationInput::End { reason: "SIGTERM".to_owned() }),
        Wake::ChildExited => agent::reap(driver),
    }
}

fn on_alarm(driver: &mut Driver, alarm: Alarm) {
    match alarm {
        Alarm::Conversation(timer) => driver.apply(ConversationInput::Timer(timer)),
        Alarm::Drain => agent::deliver_exit(driver),
        Alarm::PipeClosed if driver.agent.exit == AgentExit::Running => {
            driver.apply(ConversationInput::PipeClosed)
        }
        Alarm::PipeClosed => {}
        Alarm::Retry => driver.settle(Vec::new()),
        Alarm::Quota => driver.look_at_quota(),
        Alarm::Orphaned => lifetime::orphaned(driver),
        Alarm::DaemonCheck => lifetime::decide(driver, Daemon::Due),
        Alarm::Rebind => lifetime::rebind(driver),
        Alarm::Look => lifetime::look_and_watch(driver),
        Alarm::Rescue => agent::rescue(driver),
        Alarm::RescueLost => {
            client::rescue_lost(driver);
            agent::try_deliver_exit(driver);
        }
        Alarm::TerminalStart => client::give_up_start(driver),
        Alarm::Accept => {}
        Alarm::Trim => memory::trim(),
    }
}

/// Sends the last frames and waits for the guard. Afterwards only the journal is
/// left of this runtime.
async fn finish(mut driver: Driver) {
    if let Some(endpoint) = driver.files.endpoint.take() {
        endpoint.remove();
    }
    // Connections send the journal's last end and then see that no other follows.
    drop(driver.records.ends);
    let connections = &mut driver.daemon.connections;
    let mut guard = driver.agent.io.take().map(|agent| agent.guard);
    let signals = &mut driver.signals;
    let all = async {
        while connections.join_next().await.is_some() {}
        // The guard's locks are free once it is reaped. A process that waits for our end need
        // not wait for the guard's.
        while guard.as_mut().is_some_and(|guard| matches!(guard.try_wait(), Ok(None))) {
            signals.child.recv().await;
        }
    };
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, all).await;
}

/// Waits for this. Never returns without it.
async fn or_never<F: Future>(awaited: Option<F>) -> F::Output {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}

/// Waits until the pipe can be read. The next read reports an error again.
async fn readable(pipe: Option<&Receiver>) {
    let _ = or_never(pipe.map(Receiver::readable)).await;
}
