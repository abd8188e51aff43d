//! When to check again whether all processes of a stopped worker have ended.

use std::time::Duration;

use tokio::time::Instant;

/// The next check. Its delay doubles each time, up to a second.
#[derive(Default)]
pub(crate) struct LeftoverCheck {
    pub(crate) at: Option<Instant>,
    pause: Duration,
}

impl LeftoverCheck {
    pub(crate) fn again(&mut self) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(1), Duration::from_secs(1));
        self.at = Some(Instant::now() + self.pause);
    }
}
