//! Section 7: starting, showing, stopping, handing over, continuing and restarting workers.

mod choice;
mod go_on;
mod handoff;
mod inspect;
mod looks;
mod restart;
mod restart_races;
mod start;
mod stop;

use serde_json::{Value, json};

/// The fields of `worker.started`, and of `worker.shown` without its agent.
fn shown() -> Value {
    let mut shape = listed();
    shape["recoveryState"] = "str".into();
    shape["lastError"] = "str?".into();
    shape["unresponsive"] = "bool".into();
    shape
}

/// The common fields of both with `worker.listed`, whose other keys are additions.
fn listed() -> Value {
    json!({
        "workerId": "w", "controllerId": "ctl", "label": "str", "launcher": "str", "role": "str", "state": "str",
        "cwd": "str", "sessionId": "str", "activeTurnId": "turn?", "runtimePid": "int?", "runtimeSocket": "str?",
        "createdAt": "ts", "updatedAt": "ts", "stoppedAt": "ts?",
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}
