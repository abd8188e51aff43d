//! Waits for several workers, and continues after lost connections.

use std::sync::OnceLock;

use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::WaitMany;
use tokio::time::Instant;

use super::wait::{GRACE, SHORTEST, duration};
use crate::client::{ApiRequest, DaemonClient};
use crate::failure::Result;

/// Waits. The time counts from the first request, including reconnects. With event types, each worker
/// gets a cursor, so that a repetition starts at the same positions.
///
/// # Errors
/// `WAIT_TIMEOUT`, and those of [`DaemonClient::ask`].
pub(crate) async fn wait(client: &mut DaemonClient, mut request: WaitMany) -> Result<Value> {
    if request.until.is_some() && !request.include_history {
        for worker in &mut request.workers {
            worker.from_event_id = client.newest_event(&worker.worker_id).await?;
        }
        // A worker without events has only later ones.
        request.include_history = true;
    }
    let begun = OnceLock::new();
    let timeout = request.timeout_seconds;
    let limit = (timeout > 0.0).then(|| duration(timeout) + GRACE);
    let waited = client
        .ask_made(|| {
            let now = Instant::now();
            let elapsed = now.duration_since(*begun.get_or_init(|| now)).as_secs_f64();
            let left = if timeout > 0.0 { (timeout - elapsed).max(SHORTEST) } else { 0.0 };
            let request = WaitMany { timeout_seconds: left, ..request.clone() };
            let wait = (left > 0.0).then(|| duration(left));
            Ok(ApiRequest::post("/v1/wait", &request)?.within(limit).waiting(wait))
        })
        .await;
    waited.map_err(|failure| match failure.is(Code::WaitTimeout) {
        true => failure.with("timeoutSeconds", timeout),
        false => failure,
    })
}
