//! The open questions of a place, fetched beside its events: one that takes long stops nothing.

use std::collections::HashSet;

use serde_json::Value;
use subagent_model::Workers;
use subagent_protocol::api::ApprovalShown;
use tokio::task::JoinSet;

use crate::daemons::bridge::DaemonAddress;
use crate::daemons::daemon::DaemonRequest;
use crate::daemons::errors::is_not_found;
use crate::daemons::pulse::{PATIENCE, within};
use crate::rows::{OpenQuestions, question};

/// Maximum number of questions that are fetched at a time: each is a login at a host.
const MAX_FETCHES: usize = 4;
/// Maximum number of questions of a place that a page shows.
const MAX_QUESTIONS: usize = 256;

/// What the page knows of the questions of a place, and what is under way.
pub(crate) struct Inquiry {
    address: DaemonAddress,
    behalf: String,
    known: OpenQuestions,
    open: Vec<String>,
    /// The ids that are being fetched, or are over.
    begun: HashSet<String>,
    fetches: JoinSet<(String, Result<ApprovalShown, Value>)>,
    is_first: bool,
    is_changed: bool,
}

impl Inquiry {
    pub(crate) fn new(address: DaemonAddress, behalf: &str) -> Self {
        Self {
            address,
            behalf: behalf.to_owned(),
            known: OpenQuestions::new(),
            open: Vec::new(),
            begun: HashSet::new(),
            fetches: JoinSet::new(),
            is_first: true,
            is_changed: true,
        }
    }

    /// Forgets the questions that are over, and begins to fetch others.
    pub(crate) fn begin(&mut self, workers: &Workers) {
        let needs = workers.needs();
        self.open = needs.iter().take(MAX_QUESTIONS).map(|(_, need)| need.request_id.to_string()).collect();
        let count = self.known.len();
        self.known.retain(|id, _| self.open.contains(id));
        self.is_changed |= self.known.len() != count;
        self.begun.retain(|id| self.open.contains(id));
        for id in &self.open {
            if self.fetches.len() >= MAX_FETCHES {
                return;
            }
            if !self.known.contains_key(id) && self.begun.insert(id.clone()) {
                self.fetches.spawn(fetch(self.address.clone(), self.behalf.clone(), id.clone()));
            }
        }
    }

    /// Waits for a question that is being fetched. May be dropped and called again.
    pub(crate) async fn fetched(&mut self) -> Result<(), Value> {
        let Some(Ok((id, asked))) = self.fetches.join_next().await else {
            return if self.fetches.is_empty() { std::future::pending().await } else { Ok(()) };
        };
        match asked {
            Ok(asked) => {
                // It is taken away with the next change if it is over meanwhile.
                self.known.insert(id, question(&asked));
                self.is_changed = true;
                Ok(())
            }
            // It is over already: its end comes in the stream.
            Err(error) if is_not_found(&error) => Ok(()),
            // The question may still be open. The place begins again.
            Err(error) => Err(error),
        }
    }

    /// The questions if they changed, the oldest first. A page gets its first ones together.
    pub(crate) fn take_changed(&mut self) -> Option<Vec<&Value>> {
        if !self.is_changed || self.is_first && !self.fetches.is_empty() {
            return None;
        }
        (self.is_first, self.is_changed) = (false, false);
        let mut items: Vec<&Value> = self.known.values().collect();
        items.sort_by_key(|item| item["since"].as_str().map(str::to_owned));
        Some(items)
    }
}

async fn fetch(address: DaemonAddress, behalf: String, id: String) -> (String, Result<ApprovalShown, Value>) {
    let request = DaemonRequest::get(format!("/v1/approvals/{id}"), &behalf);
    let asked = within(PATIENCE, &address, request.read(&address)).await;
    (id, asked)
}
