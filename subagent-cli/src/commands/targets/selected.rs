//! The workers that `-l` and `--controller` choose: those that are not stopped.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::WorkerState;
use subagent_protocol::tags::Selector;

use crate::client::{ApiRequest, DaemonClient, RequestPath, items};
use crate::failure::{Failure, Result};
use crate::output::human;

/// A worker of a list, as far as commands choose by it; the rest stays in its JSON.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkerHead<'a> {
    pub(crate) worker_id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    state: Lenient<WorkerState>,
}

impl<'a> WorkerHead<'a> {
    pub(crate) fn of(item: &'a Value) -> Self {
        lenient::read(item)
    }

    /// Whether the worker has this state.
    pub(crate) fn is(self, state: WorkerState) -> bool {
        self.state.0 == Some(state)
    }
}

/// A worker that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectedWorker {
    pub(crate) worker_id: String,
    /// Its name, or its id where the daemon gives no name.
    pub(crate) name: String,
}

/// What workers are chosen by; both must fit.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerSelector {
    pub(crate) controller_id: Option<String>,
    pub(crate) selector: Option<String>,
}

impl WorkerSelector {
    /// Whether nothing was chosen by.
    pub(crate) fn is_empty(&self) -> bool {
        self.controller_id.is_none() && self.selector.is_none()
    }

    /// The request for the list of all of them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{selector,position}`.
    pub(crate) fn ask(&self) -> Result<ApiRequest> {
        self.listing(true)
    }

    /// The same; with those of tasks that are not inspectable or without.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{selector,position}`.
    pub(crate) fn listing(&self, all: bool) -> Result<ApiRequest> {
        if let Some(selector) = &self.selector {
            Selector::parse(selector)?;
        }
        let path = RequestPath::new("/v1/workers")
            .with("controllerId", self.controller_id.as_deref())
            .with("selector", self.selector.as_deref())
            .with("all", all.then_some("true"));
        Ok(ApiRequest::get(path))
    }

    /// Those that are not stopped, newest first.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{selector,position}`, `DAEMON_TOO_OLD`, `WORKER_NOT_FOUND{selector,controllerId}` if there is none.
    pub(crate) async fn workers(&self, client: &mut DaemonClient) -> Result<Vec<SelectedWorker>> {
        let found = self.live(client).await?;
        if found.is_empty() {
            return Err(self.none());
        }
        Ok(found)
    }

    /// The same, where there may be none.
    ///
    /// # Errors
    /// As above, but for the last one.
    pub(crate) async fn live(&self, client: &mut DaemonClient) -> Result<Vec<SelectedWorker>> {
        let list = client.ask(&self.ask()?).await?;
        self.check(&list)?;
        let live = items(&list).iter().map(WorkerHead::of);
        let live = live.filter(|worker| !worker.is(WorkerState::Stopped));
        let chosen = |worker: WorkerHead<'_>| {
            let worker_id = worker.worker_id?;
            let name = human::called(worker.name.unwrap_or_default(), worker_id).to_owned();
            Some(SelectedWorker { worker_id: worker_id.to_owned(), name })
        };
        Ok(live.filter_map(chosen).collect())
    }

    /// A daemon that knows nothing of tags has listed all workers.
    ///
    /// # Errors
    /// `DAEMON_TOO_OLD`.
    pub(crate) fn check(&self, list: &Value) -> Result<()> {
        if self.selector.is_some() && list.get("selector").is_none() {
            return Err(Failure::new(
                Code::DaemonTooOld,
                "the daemon is older than this command and does not support worker tags",
            )
            .recommend("restart the daemon with `subagent daemon restart`"));
        }
        Ok(())
    }

    /// The error where there is no such worker.
    pub(crate) fn none(&self) -> Failure {
        let mut failure = match (&self.selector, &self.controller_id) {
            (Some(selector), _) => Failure::new(
                Code::WorkerNotFound,
                format!("no worker that is not stopped has the tags {selector}"),
            ),
            (None, _) => {
                Failure::new(Code::WorkerNotFound, "the controller has no worker that is not stopped")
            }
        };
        for (key, value) in [("selector", &self.selector), ("controllerId", &self.controller_id)] {
            if let Some(value) = value {
                failure = failure.with(key, value.as_str());
            }
        }
        failure.recommend("`subagent worker list` shows the workers, with --json also their tags")
    }
}
