//! Queries a running daemon and waits for its end.

use std::io::ErrorKind;
use std::path::Path;

use subagent_config::proc;
use subagent_protocol::Code;
use subagent_protocol::api::{DaemonInfo, DaemonShown};
use tokio::time::{Instant, sleep_until};

use super::lock::{self, released};
use crate::client::connect::{info_path, read_info};
use crate::client::state_watch::StateWatch;
use crate::client::{ApiRequest, DaemonClient, PROBE_LIMIT};
use crate::failure::{Failure, Result};

/// Returns the running daemon of this state dir, if any. Starts none.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE{pid}`, `DAEMON_TOO_OLD`, `DAEMON_TOO_NEW`; `DAEMON_NOT_RUNNING{socket}` for an
/// inaccessible socket, such as another user's: then the state is unknown.
pub async fn running(state_dir: &Path) -> Result<Option<DaemonShown>> {
    running_of(DaemonClient::of_running(state_dir.to_owned())).await
}

/// As [`running`], for a client that starts no daemon.
///
/// # Errors
/// Those of [`running`].
pub async fn running_of(mut client: DaemonClient) -> Result<Option<DaemonShown>> {
    match shown(&mut client).await {
        Ok(shown) => Ok(Some(shown)),
        Err(failure) if failure.is(Code::DaemonNotRunning) && !failure.details.contains_key("socket") => {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// As [`running`]. If none runs, it also removes the `daemon.json` of a crashed daemon, so that no runtime
/// of its workers restarts it.
///
/// # Errors
/// Those of [`running`].
pub async fn running_or_forgotten(state_dir: &Path, deadline: Instant) -> Result<Option<DaemonShown>> {
    let found = running(state_dir).await?;
    // An agent's command must not prevent its owner's daemon from a restart.
    if found.is_some() || read_info(state_dir).is_none() || proc::is_below_guard() {
        return Ok(found);
    }
    // A runtime may be starting the daemon now.
    let Ok(Some(_start_lock)) = lock::exclusive(&state_dir.join("start.lock"), deadline).await else {
        return running(state_dir).await;
    };
    let found = running(state_dir).await?;
    if found.is_none() {
        subagent_failpoint::hit("dead_daemon.before_unlink");
        // In a read-only state dir no daemon can start either.
        let _ = std::fs::remove_file(info_path(state_dir));
        subagent_failpoint::hit("dead_daemon.after_unlink");
    }
    Ok(found)
}

/// As [`running`], for a daemon whose process is alive: waits for its announcement.
///
/// # Errors
/// Those of [`running`].
pub async fn running_soon(state_dir: &Path, deadline: Instant) -> Result<Option<DaemonShown>> {
    let watch = StateWatch::new(state_dir);
    let Ok(mut watch) = watch else { return running(state_dir).await };
    loop {
        let found = running(state_dir).await?;
        if found.is_some() || !watch.changed(deadline).await.unwrap_or(false) {
            return Ok(found);
        }
    }
}

/// Waits until another daemon announces itself than the one that is announced now, or the deadline.
pub(crate) async fn announced(state_dir: &Path, deadline: Instant) {
    let before = read_info(state_dir).map(|info| info.process);
    let Ok(mut watch) = StateWatch::new(state_dir) else { return sleep_until(deadline).await };
    let is_other = || read_info(state_dir).is_some_and(|info| Some(info.process) != before);
    while !is_other() && watch.changed(deadline).await.unwrap_or(false) {}
}

/// Queries the daemon of a client.
///
/// # Errors
/// Those of [`DaemonClient::ask`].
pub async fn shown(client: &mut DaemonClient) -> Result<DaemonShown> {
    let answer = client.ask(&ApiRequest::get("/v1/daemon").within(Some(PROBE_LIMIT))).await?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::internal(format!("the daemon's answer is incomplete: {error}")))
}

/// Waits until this daemon releases its state dir: its lock is free, or another daemon has it. Returns
/// false after the deadline.
///
/// # Errors
/// `INTERNAL_ERROR` if the system provides no watch.
pub async fn ended(daemon: &DaemonInfo, deadline: Instant) -> Result<bool> {
    let lock = daemon.state_dir.join("daemon.lock");
    // Without the folder no other daemon can follow.
    let watch = StateWatch::new(&daemon.state_dir).ok();
    let followed = async {
        let Some(mut watch) = watch else { return std::future::pending().await };
        while read_info(&daemon.state_dir).is_none_or(|now| now.generation == daemon.generation) {
            if !watch.changed(deadline).await? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let free = async {
        match released(&lock, deadline).await {
            // An unreadable lock gives no information.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => std::future::pending().await,
            released => released,
        }
    };
    let ended = tokio::select! {
        free = free => free,
        followed = followed => followed,
    };
    ended.map_err(|error: std::io::Error| {
        Failure::internal(format!("cannot wait for the end of the daemon: {error}"))
            .with("pid", daemon.process.pid)
            .with("path", lock.to_string_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::client::fake::Fake;

    #[tokio::test]
    async fn a_daemon_whose_place_another_one_has_taken_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let info = |generation: u64| {
            json!({
                "protocol": 1, "oldestProtocol": 1, "version": "9", "process": {"pid": 1, "startTime": 1},
                "generation": generation, "socket": dir.path().join("s"), "stateDir": dir.path(),
                "mode": "background", "startedAt": "2026-11-21T20:29:42+00:00",
            })
        };
        let daemon: DaemonInfo = serde_json::from_value(info(1)).unwrap();
        let soon = || Instant::now() + Duration::from_millis(50);
        let write = |generation| std::fs::write(dir.path().join("daemon.json"), info(generation).to_string());
        write(1).unwrap();
        let lock = std::fs::File::create(dir.path().join("daemon.lock")).unwrap();
        lock.lock().unwrap();
        assert!(!ended(&daemon, soon()).await.unwrap(), "it holds the lock");
        std::fs::remove_file(dir.path().join("daemon.json")).unwrap();
        assert!(!ended(&daemon, soon()).await.unwrap(), "it is ending, and holds the lock");
        write(2).unwrap();
        assert!(ended(&daemon, soon()).await.unwrap(), "the lock is another one's");
        write(1).unwrap();
        drop(lock);
        let far = Instant::now() + Duration::from_secs(30);
        assert!(ended(&daemon, far).await.unwrap(), "after a crash daemon.json stays");
    }

    #[tokio::test]
    async fn another_daemon_is_noticed_when_it_announces_itself() {
        let fake = Fake::new(Vec::new());
        let dir = fake.dir.path();
        std::fs::remove_file(info_path(dir)).unwrap();
        let far = Instant::now() + Duration::from_secs(600);
        let mut waiting = pin!(announced(dir, far));
        assert!(timeout(Duration::from_millis(50), &mut waiting).await.is_err(), "there is none");
        // Anything else is not the daemon.
        std::fs::write(dir.join("start.lock"), "").unwrap();
        assert!(timeout(Duration::from_millis(50), &mut waiting).await.is_err());
        fake.come_back();
        timeout(Duration::from_secs(60), waiting).await.unwrap();
        // The one that is there already is not waited for.
        assert!(timeout(Duration::from_millis(50), announced(dir, far)).await.is_err());
    }
}
