//! Resolves `@last` once for a command that sends several requests.

use subagent_protocol::worker_name::LAST;

use super::{ApiRequest, DaemonClient, segment};
use crate::failure::Result;

/// Replaces `@last` by its current worker id. A request to another worker would change its meaning.
///
/// # Errors
/// `WORKER_NOT_FOUND` without workers, and those of [`DaemonClient::ask`].
pub(crate) async fn pin(client: &mut DaemonClient, addresses: &[String]) -> Result<Vec<String>> {
    if !addresses.iter().any(|address| address == LAST) {
        return Ok(addresses.to_vec());
    }
    let shown = client.ask(&ApiRequest::get(format!("/v1/workers/{}", segment(LAST)))).await?;
    let worker_id = shown["workerId"].as_str().unwrap_or(LAST);
    client.last_name = shown["name"].as_str().map(str::to_owned);
    let pinned = |address: &String| if address == LAST { worker_id } else { address }.to_owned();
    Ok(addresses.iter().map(pinned).collect())
}
