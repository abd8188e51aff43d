//! A worker as a person wants to see it.

use subagent_protocol::Result;
use subagent_protocol::api::WorkerOverview;
use subagent_protocol::work_tree::{FILE, TreeBase};

use super::Supervisor;
use super::base_folder::base_folder;
use super::tasks::shown;
use crate::store::recent;
use crate::store::tasks::{self, TaskQuery};

impl Supervisor {
    /// One worker, what it does now, and what its diff starts from.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
    pub async fn worker_overview(&self, worker: &str) -> Result<WorkerOverview> {
        let shown = self.show_worker(worker).await?;
        let (id, parent) = (self.row(worker).await?.id, shown.worker.worker_id.as_str().to_owned());
        let folder = base_folder(&self.shared.setup.state_dir, &parent);
        let file = folder.join(FILE);
        let read = self.shared.store.read(move |connection| {
            let query = TaskQuery { parent: Some(parent), all: true, ..TaskQuery::default() };
            let base = std::fs::read(file).ok();
            Ok((recent::recent(connection, id)?, tasks::list(connection, &query)?, base))
        });
        let (recent, tasks, base) = read.await?;
        let (doing, last_message) = recent.finish();
        Ok(WorkerOverview {
            doing: shown.worker.active_turn_id.is_some().then_some(doing),
            shown,
            last_message,
            base: base.and_then(|text| serde_json::from_slice::<TreeBase>(&text).ok()),
            base_folder: folder.display().to_string(),
            tasks: tasks.iter().map(|task| shown::view(task, true)).collect(),
        })
    }
}
