//! Resolves `@last` once for a command that sends several requests.

use serde::Deserialize;
use subagent_protocol::worker_name::LAST;

use super::{ApiRequest, DaemonClient, segment};
use crate::failure::Result;

/// The worker that `@last` is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LatestWorker {
    worker_id: String,
    name: Option<String>,
}

/// Replaces `@last` by its current worker id. A request to another worker would change its meaning.
///
/// # Errors
/// `WORKER_NOT_FOUND` without workers, and those of [`DaemonClient::ask`].
pub(crate) async fn pin(client: &mut DaemonClient, addresses: &[String]) -> Result<Vec<String>> {
    if !addresses.iter().any(|address| address == LAST) {
        return Ok(addresses.to_vec());
    }
    let last: LatestWorker =
        client.ask_for(&ApiRequest::get(format!("/v1/workers/{}", segment(LAST)))).await?;
    client.last_name = last.name;
    let pinned = |address: &String| if address == LAST { &last.worker_id } else { address }.clone();
    Ok(addresses.iter().map(pinned).collect())
}
