//! A look at the daemon that runs, within a time that a person does not notice.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Ask;
use super::block_on;
use super::connect::attempt;
use super::exchange::exchange;
use crate::failure::Failure;

/// Asks the daemon of a state dir once. `None` without a daemon, and without its answer in time: nothing is started,
/// waited for or tried again.
#[must_use]
pub fn glance(state_dir: &Path, ask: &Ask, limit: Duration) -> Option<Value> {
    let deadline = Instant::now() + limit;
    let look = async {
        let mut link = attempt(state_dir, deadline).await.ok()??;
        exchange::<Value>(&mut link, ask, None).await.ok()?.ok()
    };
    block_on(async { Ok::<_, Failure>(timeout_at(deadline, look).await.ok().flatten()) }).ok().flatten()
}
