//! `subagentd status`: the state of a running daemon, or the last status file of a foreground daemon.
//!
//! The output has no envelope, for compatibility with existing scripts.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use subagent_config::regular;
use subagent_protocol::api::DaemonInfo;

use crate::client::{block_on, running};
use crate::context::path_value;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(super) fn status(state_dir: PathBuf) -> Result<CliOutcome> {
    let file = state_dir.join("subagentd-status.json");
    let running = block_on(running(&state_dir))?.map(|shown| shown.info);
    Ok(document(running.as_ref(), written(&file), &state_dir, &file))
}

/// Reads the status file; `None` if it is unreadable.
fn written(file: &Path) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&regular::read(file).ok()?) {
        Ok(Value::Object(status)) => Some(status),
        _ => None,
    }
}

fn document(
    running: Option<&DaemonInfo>,
    written: Option<Map<String, Value>>,
    state_dir: &Path,
    file: &Path,
) -> CliOutcome {
    let mut status = match (running, written) {
        (None, None) => {
            let document = json!({
                "schemaVersion": "v1", "running": false,
                "stateDir": path_value(state_dir), "statusFile": path_value(file),
            });
            return CliOutcome::Bare { document, text: "subagentd not initialized".to_owned(), code: 1 };
        }
        (None, Some(written)) => written,
        (Some(info), written) => of_running(info, written),
    };
    status.insert("running".to_owned(), running.is_some().into());
    let shown = |key: &str| status.get(key).map(text::value).unwrap_or_default();
    let text = format!(
        "subagentd running={} pid={} startedAt={}",
        if running.is_some() { "True" } else { "False" },
        shown("pid"),
        shown("startedAt"),
    );
    CliOutcome::Bare { document: Value::Object(status), text, code: 0 }
}

/// Merges the running daemon's state over its own status file, which also has heartbeat and health.
fn of_running(info: &DaemonInfo, written: Option<Map<String, Value>>) -> Map<String, Value> {
    let own = written.filter(|written| written.get("pid") == Some(&info.process.pid.into()));
    let mut status = own.unwrap_or_default();
    for (key, value) in [
        ("schemaVersion", "v1".into()),
        ("pid", info.process.pid.into()),
        ("stateDir", path_value(&info.state_dir)),
        ("dbPath", path_value(&info.state_dir.join("state.db"))),
        ("startedAt", info.started_at.to_string().into()),
        ("mode", info.mode.as_str().into()),
        ("socket", path_value(&info.socket)),
        ("generation", info.generation.into()),
        ("version", info.version.as_str().into()),
    ] {
        status.insert(key.to_owned(), value);
    }
    // A background daemon neither restarts workers nor writes a heartbeat.
    status.entry("monitorWorkers").or_insert(false.into());
    status.entry("lastHeartbeatAt").or_insert(Value::Null);
    status
}

#[cfg(test)]
mod tests {
    use subagent_protocol::process::ProcessId;
    use subagent_protocol::time::Timestamp;

    use super::*;

    fn info() -> DaemonInfo {
        DaemonInfo {
            protocol: 1,
            oldest_protocol: 1,
            version: "1".to_owned(),
            process: ProcessId { pid: 42, start_time: 7 },
            generation: 3,
            socket: "/run/s.sock".into(),
            state_dir: "/s".into(),
            state_folder: None,
            mode: "background".to_owned(),
            ending: false,
            started_at: Timestamp(1_795_292_982_000),
        }
    }

    fn bare(outcome: CliOutcome) -> (Value, String, u8) {
        match outcome {
            CliOutcome::Bare { document, text, code } => (document, text, code),
            other => panic!("{other:?}"),
        }
    }

    fn written(pid: i32) -> Option<Map<String, Value>> {
        json!({"pid": pid, "startedAt": "then", "lastHeartbeatAt": "now", "monitorWorkers": true})
            .as_object()
            .cloned()
    }

    #[test]
    fn nothing_at_all_is_not_initialized() {
        let (document, text, code) = bare(document(None, None, Path::new("/s"), Path::new("/s/f")));
        let expected =
            json!({"schemaVersion": "v1", "running": false, "stateDir": "/s", "statusFile": "/s/f"});
        assert_eq!((document, text.as_str(), code), (expected, "subagentd not initialized", 1));
    }

    #[test]
    fn a_daemon_that_ended_leaves_its_file() {
        let (document, text, code) = bare(document(None, written(41), Path::new("/s"), Path::new("/s/f")));
        assert_eq!((&document["running"], &document["pid"], code), (&json!(false), &json!(41), 0));
        assert_eq!(text, "subagentd running=False pid=41 startedAt=then");
    }

    #[test]
    fn a_running_daemon_is_believed_and_another_ones_file_is_not() {
        let (document, text, _) =
            bare(document(Some(&info()), written(41), Path::new("/s"), Path::new("/s/f")));
        assert_eq!((&document["running"], &document["pid"]), (&json!(true), &json!(42)));
        assert_eq!((&document["mode"], &document["monitorWorkers"]), (&json!("background"), &json!(false)));
        assert_eq!(text, "subagentd running=True pid=42 startedAt=2026-11-21T20:29:42+00:00");
        let (own, ..) = bare(super::document(Some(&info()), written(42), Path::new("/s"), Path::new("/s/f")));
        assert_eq!((&own["lastHeartbeatAt"], &own["monitorWorkers"]), (&json!("now"), &json!(true)));
    }
}
