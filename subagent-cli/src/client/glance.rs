//! A quick query of a running daemon, with a timeout that a user does not notice.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::ApiRequest;
use super::block_on;
use super::connect::attempt;
use super::exchange::exchange;
use crate::failure::Failure;

/// Queries the daemon of a state dir once. Returns `None` without a daemon or a timely response. Starts no
/// daemon and retries nothing.
#[must_use]
pub fn glance(state_dir: &Path, ask: &ApiRequest, limit: Duration) -> Option<Value> {
    let deadline = Instant::now() + limit;
    let look = async {
        let mut link = attempt(state_dir, deadline).await.ok()??;
        exchange::<Value>(&mut link, ask, None).await.ok()?.ok()
    };
    block_on(async { Ok::<_, Failure>(timeout_at(deadline, look).await.ok().flatten()) }).ok().flatten()
}
