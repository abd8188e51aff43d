//! The daemon from taking its lock to releasing it: open, bind, announce, serve, end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subagent_config::RuntimeDir;
use subagent_protocol::api::{DaemonInfo, StateFolder};
use subagent_protocol::{Error, OLDEST_PROTOCOL, PROTOCOL, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::awaited::Awaited;
use super::claim::files::{Announcement, DAEMON_INFO, remember_sockets};
use super::claim::lock::FileLock;
use super::claim::state_dir_watch::{StateDirWatch, remake_folder};
use super::claim::takeover::DaemonClaim;
use super::heartbeat::Heartbeat;
use super::log::DaemonLog;
use super::notify::ServiceManager;
use super::options::{RunOptions, StartMode};
use super::payload;
use super::report::StartReporter;
use super::signals::EndSignals;
use super::socket::SocketFile;
use super::stop::{self, Reason, ShutdownHandles};
use super::{error, idle};
use crate::api::{self, Api, Listening};
use crate::deliveries::DeliveryService;
use crate::schedules::{Scheduler, Stay};
use crate::supervisor::runtimes::stray_processes::FormerClients;
use crate::supervisor::runtimes::stream::turns::DialTurns;
use crate::supervisor::{DaemonSettings, Supervisor};

/// Maximum time for the supervisor to finish its commits.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(15);

/// Runs the daemon. Returns its outcome, and the lock to release when no part of the daemon is
/// left.
///
/// # Errors
/// The failure that prevented the start.
pub(super) async fn serve(
    options: &RunOptions,
    folder: StateFolder,
    claim: DaemonClaim,
    log: &DaemonLog,
    report: &mut StartReporter,
) -> Result<(FileLock, Result<()>)> {
    let mut signals = EndSignals::listen()?;
    let DaemonClaim { lock, starting, process } = claim;
    let began = Instant::now();
    let (supervisor, dir) = open(options).await?;
    let path = dir.daemon_socket();
    let (listener, socket) = SocketFile::bind(&path, &lock)
        .map_err(|cause| error::at_path("its socket cannot be made:", &path, &cause))?;
    let info = Arc::new(DaemonInfo {
        protocol: PROTOCOL,
        oldest_protocol: OLDEST_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process,
        generation: supervisor.generation(),
        socket: path,
        state_dir: options.state_dir.clone(),
        state_folder: Some(folder),
        mode: options.mode.as_str().to_owned(),
        ending: false,
        started_at: payload::now(),
    });

    let program = runtime_program(options)?;
    let deliveries =
        DeliveryService::start(&supervisor, options.environment.clone(), program.clone(), &options.state_dir);
    let state_dir = options.state_dir.clone();
    let environment = options.environment.clone();
    let schedules = Scheduler::start(&supervisor, environment, program, state_dir, stay(options));
    let (control, mut stops, phases) = api::control();
    let (listening, replace, connections) = Listening::new(listener);
    let listening = listening.with_placed(supervisor.placed_connections());
    let router = api::router(Api {
        supervisor: supervisor.clone(),
        deliveries: deliveries.clone(),
        environment: Arc::new(options.environment.clone()),
        schedules: schedules.clone(),
        info: info.clone(),
        last_worker: api::LastWorker::default(),
        control,
    });
    let of_workers = supervisor.clone();
    let guards: api::Guards = Arc::new(move || of_workers.guards());
    let (stop_accepting, accepting) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(api::serve(listening, router, guards, async move {
        let _ = accepting.await;
    }));
    let announcement = Announcement::write(&options.state_dir, &info).map_err(|cause| {
        // No client knows the socket yet.
        socket.remove();
        error::at_path("it cannot be announced in", &options.state_dir.join(DAEMON_INFO), &cause)
    })?;

    subagent_failpoint::hit("ready.before_notify");
    let mut heartbeat = Heartbeat::begin(options, &supervisor, &info, began).await;
    report.ready(&heartbeat.payload(), &format!("subagentd running (pid={})", process.pid));
    let (manager, live) = (ServiceManager::of(options), supervisor.live_workers());
    manager.ready(*live.borrow());
    if options.mode == StartMode::Background {
        log.take_over_output();
    }
    subagent_failpoint::hit("ready.after_notify");
    drop(starting);
    tracing::info!(generation = info.generation, socket = %info.socket.display(), "ready");

    let mut watcher = StateDirWatch::new(lock, socket, announcement, replace);
    let again = || {
        let prepare = || RuntimeDir::prepare(&options.environment, &options.state_dir);
        remake_folder(prepare, &info.socket)
    };
    let awaited = Awaited { sinks: deliveries.sinks_in_use(), schedules: schedules.waiting() };
    let reason = tokio::select! {
        biased;
        signal = signals.next() => Reason::Signal(signal),
        Some(request) = stops.recv() => Reason::Request(request),
        reason = watcher.keep(again, connections.clone(), awaited) => reason,
        ended = &mut serving => Reason::ServerEnded(format!("{ended:?}")),
        () = when_idle(options, &supervisor, (&deliveries, &schedules), &connections) => Reason::Idle,
        never = heartbeat.beat() => match never {},
        never = manager.follow(live) => match never {},
    };
    manager.stopping(&reason.to_string());

    let StateDirWatch { lock, socket, announcement, .. } = watcher;
    // Announced before any connection to a runtime ends.
    if lock.is_own() {
        announcement.ending();
    }
    let ending = ShutdownHandles { supervisor, connections, stops, phases, stop_accepting, serving };
    let outcome = tokio::select! {
        outcome = stop::end(ending, reason) => outcome,
        signal = signals.next() => {
            tracing::warn!(signal, "a second signal: the daemon ends at once");
            Ok(())
        }
    };
    socket.remove();
    // Without the lock, the state dir is gone or belongs to another daemon.
    if lock.is_own() {
        subagent_failpoint::hit("announcement.before_unlink");
        let _ = std::fs::remove_file(options.state_dir.join(DAEMON_INFO));
        heartbeat.end();
    }
    tracing::info!("ended");
    Ok((lock, outcome))
}

/// Opens the supervisor and the folder of its sockets.
///
/// # Errors
/// Errors of that folder or the store.
pub(super) async fn open(options: &RunOptions) -> Result<(Supervisor, RuntimeDir)> {
    let dir = match RuntimeDir::prepare(&options.environment, &options.state_dir) {
        Err(_) if subagent_failpoint::sabotaged("runtime_dir.foreign") => {
            RuntimeDir::existing(&options.environment, None, &options.state_dir).pop().ok_or_else(|| {
                error::start_failed("there is no folder for its sockets", &std::io::Error::other("none"))
            })?
        }
        found => found.map_err(Error::from)?,
    };
    remember_sockets(&options.state_dir, dir.path());
    if subagent_failpoint::sabotaged("state.world") {
        use std::os::unix::fs::PermissionsExt as _;
        let _ = std::fs::set_permissions(&options.state_dir, std::fs::Permissions::from_mode(0o755));
        let _ = std::fs::set_permissions(
            options.state_dir.join("state.db"),
            std::fs::Permissions::from_mode(0o644),
        );
    }
    let setup = DaemonSettings {
        state_dir: options.state_dir.clone(),
        runtime_dir: dir.clone(),
        runtime_program: runtime_program(options)?,
        // A single health check restarts dead runtimes itself and reports the results.
        restart_cooldown: options.restart_cooldown().filter(|_| !options.once),
        retention: options.retention(),
        placement: options.placement(),
        dial_turns: DialTurns::default(),
        former_clients: FormerClients::default(),
    };
    Ok((Box::pin(Supervisor::open(setup)).await?, dir))
}

fn runtime_program(options: &RunOptions) -> Result<PathBuf> {
    match &options.runtime_program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe()
            .map(|own| own.with_file_name("subagent-runtime"))
            .map_err(|cause| error::start_failed("it cannot find its own executable", &cause)),
    }
}

/// Returns how long the daemon stays.
fn stay(options: &RunOptions) -> Stay {
    match (options.mode, options.idle_exit_seconds) {
        (StartMode::Foreground, _) => Stay::Service,
        (StartMode::Background, 0) => Stay::Background,
        (StartMode::Background, seconds) => {
            Stay::Idle(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
        }
    }
}

async fn when_idle(
    options: &RunOptions,
    supervisor: &Supervisor,
    (deliveries, schedules): (&DeliveryService, &Scheduler),
    connections: &api::Connections,
) {
    match options.mode {
        StartMode::Background if options.idle_exit_seconds > 0 => {
            let after = Duration::from_secs(options.idle_exit_seconds);
            let work =
                [supervisor.live_workers(), supervisor.parked_workers(), deliveries.busy(), schedules.busy()];
            idle::idle(after, connections.clone(), work).await;
        }
        _ => std::future::pending().await,
    }
}
