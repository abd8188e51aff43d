//! Waits for changes of a task, and continues after lost connections.

use std::time::Duration;

use subagent_protocol::Code;
use subagent_protocol::api::{KnownTask, TaskShown, TaskView, WaitTask};
use tokio::time::{Instant, timeout_at};

use super::waits::wait::GRACE;
use super::{ApiRequest, DaemonClient, read, segment};
use crate::failure::{Failure, Result};

/// Duration of one wait request.
const ROUND: Duration = Duration::from_secs(20);

/// A wait for one task.
#[derive(Debug)]
pub struct TaskWait {
    task: String,
    token: Option<String>,
    known: Option<KnownTask>,
    deadline: Option<Instant>,
}

impl TaskWait {
    /// Creates a wait for a task by name or id, on behalf of the token's agent, until a deadline.
    #[must_use]
    pub fn new(task: &str, token: Option<&str>, deadline: Option<Instant>) -> Self {
        Self { task: task.to_owned(), token: token.map(str::to_owned), known: None, deadline }
    }

    /// Sets the known state, so that only later changes are returned.
    #[must_use]
    pub fn knowing(mut self, task: &TaskView) -> Self {
        self.known = Some(KnownTask { status: task.status, steps: task.steps });
        self
    }

    /// Returns the next state that differs from the previous one, or `None` after a round without a change.
    /// The first call returns at once.
    ///
    /// # Errors
    /// `WAIT_TIMEOUT` after the deadline, and those of [`DaemonClient::ask`].
    pub async fn next(&mut self, client: &mut DaemonClient) -> Result<Option<TaskShown>> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if self.known.is_some() && left.is_some_and(|left| left.is_zero()) {
            return Err(self.is_over());
        }
        let round = match self.known {
            Some(_) => left.map_or(ROUND, |left| left.min(ROUND)),
            None => Duration::ZERO,
        };
        let request = self.request(round)?;
        let asked = client.ask(&request);
        let answer = match self.deadline {
            // A lost host may be dialed again for longer.
            Some(deadline) => {
                timeout_at(deadline + GRACE, asked).await.unwrap_or_else(|_| Err(self.is_over()))
            }
            None => asked.await,
        };
        let shown: TaskShown = match answer {
            Ok(shown) => read(shown)?,
            Err(failure) if failure.is(Code::WaitTimeout) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let known = KnownTask { status: shown.task.status, steps: shown.task.steps };
        let changed = self.known.replace(known) != Some(known);
        Ok((changed || shown.task.status.is_end()).then_some(shown))
    }

    /// The error after the deadline.
    fn is_over(&self) -> Failure {
        Failure::new(Code::WaitTimeout, format!("the task {} has not ended in time", self.task))
            .with("task", self.task.as_str())
            .retryable()
    }

    fn request(&self, round: Duration) -> Result<ApiRequest> {
        let path = format!("/v1/tasks/{}", segment(&self.task));
        let ask = match self.known {
            None => ApiRequest::get(path),
            Some(known) => {
                let millis = u64::try_from(round.as_millis()).unwrap_or(u64::MAX).max(1);
                let request = WaitTask { timeout_ms: Some(millis), known: Some(known) };
                // A wait without a deadline survives the daemon's absence and continues with the next one.
                let limit = self.deadline.map(|_| round + GRACE);
                let wait = self.deadline.map(|_| round);
                ApiRequest::post(format!("{path}/wait"), &request)?.within(limit).waiting(wait)
            }
        };
        Ok(ask.with_task_token(self.token.as_deref()))
    }

    /// Waits for the end of the task.
    ///
    /// # Errors
    /// Those of [`TaskWait::next`].
    pub async fn end(mut self, client: &mut DaemonClient) -> Result<TaskShown> {
        loop {
            match self.next(client).await? {
                Some(shown) if shown.task.status.is_end() => return Ok(shown),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::TaskStatus;

    use super::*;

    #[test]
    fn only_a_wait_that_has_an_end_is_not_asked_again_of_a_daemon_that_comes_late() {
        for deadline in [None, Some(Instant::now())] {
            let mut wait = TaskWait::new("a", None, deadline);
            wait.known = Some(KnownTask { status: TaskStatus::Running, steps: 0 });
            assert_eq!(wait.request(ROUND).unwrap().limit, deadline.map(|_| ROUND + GRACE));
        }
    }
}
