//! Finds or starts the daemon: probe, take `start.lock`, probe again, spawn, wait for its
//! readiness. Must not start a daemon from below a worker's guard: it would be the worker's child
//! and die with it. A command that may not start a daemon waits for another process to start one.

use std::ffi::OsString;
use std::path::Path;

use subagent_config::environment::daemon_inherits;
use subagent_config::{Environment, proc, state_dir};
use subagent_protocol::Code;
use subagent_protocol::api::DaemonInfo;
use subagentd::lifecycle::refuse_foreign_proc;
use tokio::time::Instant;

use super::lock;
use super::spawn::{self, Spawned};
use crate::client::connect::{DaemonConnection, attempt, read_info, unresponsive, unusable};
use crate::client::losses::RetryBudget;
use crate::client::state_watch::StateWatch;
use crate::client::{APPEAR_LIMIT, DaemonLocator, START_LIMIT, StartPolicy};
use crate::failure::{Failure, Result};
use crate::sibling_executable::sibling_executable;

/// Maximum number of attempts if the daemon exits at once.
const MAX_STARTS: usize = 3;

/// Connects to the daemon and starts it if there is none and the policy permits it.
pub(in crate::client) async fn find_or_start(
    place: &DaemonLocator,
    losses: &RetryBudget,
) -> Result<DaemonConnection> {
    if let Some(far) = &place.far {
        // Boxed, so that the futures of all requests stay small.
        return Box::pin(far.connect(place.start, losses)).await;
    }
    let deadline = Instant::now() + START_LIMIT;
    if let Some(link) = attempt(&place.state_dir, deadline).await? {
        return Ok(link);
    }
    match place.start {
        StartPolicy::OnlyRunning => Err(not_running("no daemon runs for this state dir")),
        // With an explicit patience, the command waits for a daemon.
        StartPolicy::Refuse if losses.none() && place.patience <= APPEAR_LIMIT => Err(not_running(
            "no daemon runs, and SUBAGENT_NO_AUTOSTART forbids starting one",
        )
        .recommend("start it with `subagent daemon start`, or unset SUBAGENT_NO_AUTOSTART, then try again")),
        StartPolicy::Refuse => appear(place, "no daemon runs, and none was started in time").await,
        StartPolicy::Start if proc::is_below_guard() => {
            appear(
                place,
                "no daemon runs, and a command of a worker must not start one: it would end with the worker",
            )
            .await
            // A foreign `/proc` counts as below a guard. The error must then name `/proc` as the reason.
            .map_err(|error| refuse_foreign_proc().err().map_or(error, Failure::from))
        }
        StartPolicy::Start => start(place, deadline).await,
    }
}

/// The variables of a command that a daemon inherits.
pub(in crate::client) fn daemon_environment(env: &Environment) -> Vec<(OsString, OsString)> {
    let inherited = env.vars.iter().filter(|(name, _)| daemon_inherits(name));
    inherited.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Waits until a stopping daemon removes its `daemon.json` or another one replaces it.
pub(in crate::client) async fn gone(old: &DaemonInfo, deadline: Instant) -> Result<()> {
    let Ok(mut watch) = StateWatch::new(&old.state_dir) else { return Ok(()) };
    while read_info(&old.state_dir).is_some_and(|info| info.generation == old.generation) {
        match watch.changed(deadline).await {
            Ok(true) => {}
            Ok(false) => return Err(unresponsive(old, "it was asked to end and has not ended in time")),
            Err(error) => return Err(unwatchable(&old.state_dir, &error)),
        }
    }
    Ok(())
}

/// Waits for a daemon that another process starts.
async fn appear(place: &DaemonLocator, why: &str) -> Result<DaemonConnection> {
    let deadline = Instant::now() + place.patience;
    let Ok(mut watch) = StateWatch::new(&place.state_dir) else { return Err(not_running(why)) };
    loop {
        if let Some(link) = attempt(&place.state_dir, deadline).await? {
            return Ok(link);
        }
        match watch.changed(deadline).await {
            Ok(true) => {}
            Ok(false) => return Err(not_running(why)),
            Err(error) => return Err(unwatchable(&place.state_dir, &error)),
        }
    }
}

async fn start(place: &DaemonLocator, deadline: Instant) -> Result<DaemonConnection> {
    state_dir::prepare(&place.state_dir)?;
    let path = place.state_dir.join("start.lock");
    let locked = lock::exclusive(&path, deadline)
        .await
        .map_err(|error| unusable(&place.state_dir, "cannot lock", &path, &error))?;
    if locked.is_none() {
        return Err(start_failed(
            "another command is starting a daemon or restoring a backup, and has not ended in time",
        )
        .recommend(
            "wait for its end and try again, or end it if it hangs; `subagent doctor` says what runs",
        ));
    }
    subagent_failpoint::hit("start_lock.after_take");
    let program = sibling_executable("subagentd")?;
    let mut last = start_failed("the daemon ended as soon as it had started");
    for _ in 0..MAX_STARTS {
        // The previous holder of the lock may have started it.
        if let Some(link) = attempt(&place.state_dir, deadline).await? {
            return Ok(link);
        }
        match spawn::daemon(place, &program, deadline).await? {
            Spawned::Ready => {}
            Spawned::Held(failure) => {
                last = failure;
                if let Some(link) = handed_over(place, deadline).await? {
                    return Ok(link);
                }
            }
        }
    }
    match attempt(&place.state_dir, deadline).await? {
        Some(link) => Ok(link),
        None => Err(last.with("log", spawn::log_path(&place.state_dir).to_string_lossy().into_owned())),
    }
}

/// Waits for a daemon that holds the state dir and is unreachable: it is starting or stopping. Returns
/// `None` if the state dir is free, or after the deadline.
async fn handed_over(place: &DaemonLocator, deadline: Instant) -> Result<Option<DaemonConnection>> {
    let broken = |error: std::io::Error| unwatchable(&place.state_dir, &error);
    let mut watch = StateWatch::new(&place.state_dir).map_err(broken)?;
    let lock = place.state_dir.join("daemon.lock");
    let released = lock::released(&lock, deadline);
    let came = async {
        loop {
            if let Some(link) = attempt(&place.state_dir, deadline).await? {
                return Ok(Some(link));
            }
            if !watch.changed(deadline).await.map_err(broken)? {
                return Ok(None);
            }
        }
    };
    tokio::select! {
        released = released => released.map(|_| None).map_err(broken),
        came = came => came,
    }
}

fn not_running(why: &str) -> Failure {
    Failure::new(Code::DaemonNotRunning, why.to_owned())
        .retryable()
        .recommend("start the daemon from outside of a worker, then try again")
        .with("recommendedCommand", "subagent daemon start")
}

pub(in crate::client) fn start_failed(why: impl Into<String>) -> Failure {
    Failure::new(Code::DaemonStartFailed, why).retryable()
}

fn unwatchable(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::internal(format!("cannot watch {}: {error}", folder.display()))
        .with("path", folder.to_string_lossy().into_owned())
        .with("error", error.to_string())
}
