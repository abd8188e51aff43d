//! Access to the control plane for the functions of all subjects, and the sender of a request.

use std::sync::Arc;

use subagent_protocol::api::ControllerHandle;
use subagent_protocol::ids::hex;
use subagent_protocol::{Code, Error, Result};

use super::roster::Roster;
use super::shared::SupervisorState;
use crate::store::OwnerCheck;

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct ApiCaller {
    /// The owner handle, if one was sent.
    pub handle: Option<ControllerHandle>,
    /// The idempotency key. Without it, a repetition is a new request.
    pub idempotency_key: Option<String>,
}

/// The control plane. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Supervisor {
    pub(super) shared: Arc<SupervisorState>,
    pub(super) roster: Arc<Roster>,
}

impl Supervisor {
    /// Returns the owner check and the idempotency key of a mutating request. The fingerprint of
    /// `what` and the request distinguishes requests with the same key.
    pub(super) fn guarded(
        &self,
        caller: ApiCaller,
        what: &str,
        request: &impl serde::Serialize,
    ) -> Result<(OwnerCheck, Option<(String, String)>)> {
        use sha2::{Digest as _, Sha256};
        let ApiCaller { handle, idempotency_key } = caller;
        let Some(key) = idempotency_key else { return Ok((OwnerCheck(handle), None)) };
        let request = serde_json::to_string(&(what, request)).map_err(|error| {
            Error::new(Code::Internal, format!("a request cannot be written down: {error}"))
        })?;
        let hash = Sha256::digest(request.as_bytes());
        Ok((OwnerCheck(handle), Some((key, hex(&hash)))))
    }
}
