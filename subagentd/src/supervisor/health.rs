//! How the workers' runtimes are, for the status file of `subagentd run`.

use serde_json::{Value, json};
use subagent_protocol::Result;

use super::{Supervisor, entropy, views};

impl Supervisor {
    /// The object `workerHealth`: every worker that should have a live runtime, and whether it has one that answers.
    ///
    /// # Errors
    /// None of its own.
    pub async fn health(&self) -> Result<Value> {
        let mut items = Vec::new();
        let mut healthy_count = 0;
        for handle in self.roster.all() {
            let snapshot = views::settled(&handle).await;
            let Some(runtime) = snapshot.runtime else { continue };
            let state = snapshot.worker.public_state();
            let healthy = !snapshot.unresponsive;
            if healthy {
                healthy_count += 1;
                items.push(json!({"workerId": handle.worker_id, "state": state, "healthy": true}));
            } else {
                items.push(json!({
                    "workerId": handle.worker_id, "state": state, "healthy": false, "restarted": false,
                    "reason": {"pidAlive": true, "socketExists": true, "pingError": {"message": "no answer"}},
                    "runtime": {"pid": runtime.pid},
                }));
            }
        }
        let checked = items.len();
        Ok(json!({
            "checkedAt": entropy::now(),
            "summary": {
                "checked": checked, "healthy": healthy_count, "unhealthy": checked - healthy_count,
                "restarted": 0, "restartFailed": 0,
            },
            "items": items,
        }))
    }
}
