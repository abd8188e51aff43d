//! Receives each question of a worker and of its tasks once.

use std::collections::HashSet;

use subagent_protocol::api::{ApprovalShown, Inbox, InboxItem};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::ApprovalStatus;

use super::{ApiRequest, DaemonClient, RequestPath, WaitStart, WorkerWait, matched_event};
use crate::failure::Result;

/// The questions of one worker and of the tasks below it.
#[derive(Debug)]
pub struct QuestionReader {
    waiting: WorkerWait,
    heard: HashSet<RequestId>,
    /// Whether the list was read before.
    listed: bool,
}

impl QuestionReader {
    /// Creates the reader for a worker.
    #[must_use]
    pub fn of(worker_id: &str) -> Self {
        let waiting = WorkerWait {
            worker_id: worker_id.to_owned(),
            until: Some("waiting_approval".to_owned()),
            cursor: WaitStart::Latest,
            timeout: 0.0,
            no_progress: 0.0,
            collect_turn: None,
            only_turn: None,
        };
        Self { waiting, heard: HashSet::new(), listed: false }
    }

    /// Waits for new open questions. For a stopped worker, the wait never
    /// ends.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn next(&mut self, client: &mut DaemonClient) -> Result<Vec<InboxItem>> {
        // Questions after the cursor end the wait; earlier ones are in the list.
        client.pin(&mut self.waiting).await?;
        loop {
            if self.listed {
                let Ok(waited) = client.wait(self.waiting.clone()).await else {
                    return std::future::pending().await;
                };
                if let Some(event_id) = matched_event(&waited) {
                    self.waiting.cursor = WaitStart::After(event_id);
                }
            }
            self.listed = true;
            let query =
                RequestPath::new("/v1/approvals").with("workerId", Some(self.waiting.worker_id.as_str()));
            let open: Inbox = client.ask_for(&ApiRequest::get(query)).await?;
            let news = open.items.into_iter().filter(|item| self.heard.insert(item.request_id.clone()));
            let news: Vec<InboxItem> = news.collect();
            if !news.is_empty() {
                return Ok(news);
            }
        }
    }

    /// Waits until a question is closed. Also returns if the state is unknown.
    pub async fn over(client: &mut DaemonClient, question: &InboxItem) {
        let mut waiting = WorkerWait {
            until: Some(ENDS.to_owned()),
            cursor: WaitStart::Latest,
            ..Self::of(question.worker_id.as_str()).waiting
        };
        if client.pin(&mut waiting).await.is_err() {
            return;
        }
        loop {
            let path = format!("/v1/approvals/{}", super::segment(question.request_id.as_str()));
            match client.ask_for::<ApprovalShown>(&ApiRequest::get(path)).await {
                Ok(asked) if asked.item.status == ApprovalStatus::Pending => {}
                _ => return,
            }
            match client.wait(waiting.clone()).await {
                Ok(waited) => match matched_event(&waited) {
                    Some(event_id) => waiting.cursor = WaitStart::After(event_id),
                    None => return,
                },
                Err(_) => return,
            }
        }
    }
}

/// The events that close questions.
const ENDS: &str = "approval.decided,approval.canceled,approval.lost,elicitation.answered,elicitation.canceled,elicitation.lost";
