//! The client requests of the agent that have no response yet. Those that the worker's rules cover
//! are resolved first, then wait for a permission.

// Only an allowed request is carried out, and only at the resolved path.

use std::collections::BTreeSet;

use subagent_protocol::client::ClientRequestFacts;
use subagent_protocol::start::ClientRules;

use super::asking;
use crate::acp::client_operation::{ClientOperation, ClientOperationStep};

/// The state of a client request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::conversation) enum RequestStage {
    /// Its record may not be written yet.
    Begun,
    /// Its path is being resolved.
    Finding,
    /// A permission for this path was requested.
    Asking(String),
    /// Allowed at this path.
    Allowed(String),
}

/// An open client request.
pub(in crate::conversation) struct OpenClientRequest {
    pub(in crate::conversation) call: u64,
    /// The agent's request id, as JSON text.
    pub(in crate::conversation) rpc: String,
    pub(in crate::conversation) method: String,
    /// The session that makes the request, if named.
    pub(in crate::conversation) session: Option<String>,
    /// Facts for the response record.
    pub(in crate::conversation) about: ClientRequestFacts,
    /// Length of its parameters, in bytes.
    pub(in crate::conversation) bytes: usize,
    /// The operation, until the driver takes it.
    pub(in crate::conversation) request: Option<ClientOperation>,
    /// Progress before the operation.
    pub(in crate::conversation) stage: RequestStage,
}

/// All unanswered client requests.
#[derive(Default)]
pub(in crate::conversation) struct OpenClientRequests {
    pub(in crate::conversation) open: Vec<OpenClientRequest>,
    pub(in crate::conversation) last: u64,
    /// Terminals whose command still runs, as far as known.
    pub(in crate::conversation) running: BTreeSet<String>,
}

impl OpenClientRequests {
    /// Whether no request is open and no command runs.
    pub(in crate::conversation) fn is_quiet(&self) -> bool {
        self.open.is_empty() && self.running.is_empty()
    }

    pub(in crate::conversation) fn find(&mut self, call: u64) -> Option<&mut OpenClientRequest> {
        self.open.iter_mut().find(|open| open.call == call)
    }

    /// Returns the requests with this id of the agent, as JSON text.
    pub(in crate::conversation) fn with_id(&self, rpc: &str) -> Vec<u64> {
        self.open.iter().filter(|open| open.rpc == rpc).map(|open| open.call).collect()
    }

    pub(in crate::conversation) fn take(&mut self, call: u64) -> Option<OpenClientRequest> {
        let at = self.open.iter().position(|open| open.call == call)?;
        Some(self.open.remove(at))
    }
}

impl OpenClientRequest {
    /// Returns the next step, once.
    pub(in crate::conversation) fn next_step(
        &mut self,
        rules: Option<&ClientRules>,
    ) -> Option<ClientOperationStep> {
        match &self.stage {
            RequestStage::Begun => {
                match self
                    .request
                    .as_ref()
                    .zip(rules)
                    .and_then(|(request, rules)| asking::find(request, rules))
                {
                    Some(subject) => {
                        self.stage = RequestStage::Finding;
                        Some(ClientOperationStep::Find(subject))
                    }
                    None => Some(ClientOperationStep::Do(self.request.take()?, None)),
                }
            }
            RequestStage::Allowed(path) => {
                Some(ClientOperationStep::Do(self.request.take()?, Some(path.clone())))
            }
            RequestStage::Finding | RequestStage::Asking(_) => None,
        }
    }
}
