//! Identifies the process at the other end of a connection, and whether it is below one of our
//! agents. It must not decide permissions (the API does) and must not trust the peer's own claims.

mod origin;
mod pid;

use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use subagent_config::proc::{self, AncestorReader, ProcessEntry};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::net::UnixStream;

use super::descriptors;
pub(crate) use origin::RequestOrigin;
use pid::PeerProcess;

/// Why a connection is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// The kernel does not report the peer's identity.
    #[error("the peer of the connection cannot be identified")]
    Unknown(#[source] std::io::Error),
    /// The peer is another user, whom the directory's mode should have kept out.
    #[error("the peer is user {0}, not the user of this daemon")]
    OtherUser(u32),
    /// The peer has ended, so its ancestors are unknown.
    #[error("the peer has ended")]
    Ended,
    /// The peer's ancestors cannot be read.
    #[error("the ancestors of the peer cannot be determined")]
    Ancestors(#[source] std::io::Error),
    /// The peer is below a guard that this daemon does not know: of a worker that is just starting,
    /// or of another daemon. A process below a guard is never an owner.
    #[error("the peer is the agent of a worker that this daemon does not know (yet), or was started by one")]
    BelowUnknown,
}

/// The process that opened a connection. A clone is cheap and shares the lookup results.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// A process of this machine.
    Local(Arc<PeerAncestry>),
    /// A process on the machine of this worker, which was found to be below the worker's agent there.
    Placed(Arc<WorkerId>),
}

#[derive(Debug)]
pub(crate) struct PeerAncestry {
    process: PeerProcess,
    /// The peer and its ancestors, read once: a process neither leaves nor enters the tree of a
    /// guard.
    chain: OnceLock<Vec<ProcessEntry>>,
}

impl Peer {
    /// Identifies the process that opened this connection.
    ///
    /// # Errors
    /// A [`PeerError`], after which the connection must be dropped.
    pub(crate) fn of(stream: &UnixStream) -> Result<Self, PeerError> {
        let unknown = |error: nix::Error| PeerError::Unknown(error.into());
        let credentials = getsockopt(stream, sockopt::PeerCredentials).map_err(unknown)?;
        if credentials.uid() != geteuid().as_raw() && !subagent_failpoint::sabotaged("peer.any_user") {
            return Err(PeerError::OtherUser(credentials.uid()));
        }
        let process = PeerProcess::of(stream, credentials.pid())?;
        Ok(Self::Local(Arc::new(PeerAncestry { process, chain: OnceLock::new() })))
    }

    /// Returns pid and start time of the peer. Those of another machine are unknown, and 0.
    #[must_use]
    pub(crate) fn process(&self) -> ProcessId {
        match self {
            Self::Local(ancestry) => ancestry.process.id(),
            Self::Placed(_) => ProcessId { pid: 0, start_time: 0 },
        }
    }

    /// Returns whether the peer is on another machine.
    #[must_use]
    pub(crate) fn is_placed(&self) -> bool {
        matches!(self, Self::Placed(_))
    }

    /// Returns whether the peer is one of the guards or below one. Reads `/proc` on the first call.
    ///
    /// # Errors
    /// [`PeerError::Ended`], [`PeerError::Ancestors`] and [`PeerError::BelowUnknown`]; such a peer
    /// must be refused.
    pub(crate) fn origin(&self, guards: &[(WorkerId, ProcessId)]) -> Result<RequestOrigin, PeerError> {
        let ancestry = match self {
            Self::Local(ancestry) => ancestry,
            Self::Placed(worker) => return Ok(RequestOrigin::BelowWorker(worker.as_ref().clone())),
        };
        let chain = match ancestry.chain.get() {
            Some(chain) => chain,
            None => {
                let chain = ancestry.ancestors()?;
                ancestry.chain.get_or_init(|| chain)
            }
        };
        origin::origin(chain, guards, above_us()?).ok_or(PeerError::BelowUnknown)
    }
}

impl PeerAncestry {
    fn ancestors(&self) -> Result<Vec<ProcessEntry>, PeerError> {
        let id = self.process.id();
        let read = self.process.as_read().clone();
        let chain = match READER.try_lock() {
            Ok(mut reader) => reader.ancestors_of(read),
            // Another lookup with many ancestors holds the reader.
            Err(_) => AncestorReader::keeping(0).ancestors_of(read),
        };
        let chain = chain.map_err(|error| {
            if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Ancestors(error) }
        })?;
        // The peer must still be alive and the same after the walk. Otherwise the walk may describe
        // a later process with its pid, or its orphans.
        let same = chain.first().is_some_and(|first| first.start_time == id.start_time && !first.ended);
        if !same || !self.process.is_alive() {
            return Err(PeerError::Ended);
        }
        Ok(chain)
    }
}

/// Returns whether a process, on whose behalf the peer sends a request, is one of the guards or
/// below one.
///
/// # Errors
/// Those of [`Peer::origin`].
pub(crate) fn origin_of(
    process: ProcessId,
    guards: &[(WorkerId, ProcessId)],
) -> Result<RequestOrigin, PeerError> {
    let unread = |error: std::io::Error| {
        if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Ancestors(error) }
    };
    let chain = proc::ancestors(process.pid).map_err(unread)?;
    // The process is read again after the walk, which may otherwise describe a later process with
    // its pid.
    let now = proc::process(process.pid).map_err(unread)?;
    if now.start_time != process.start_time || now.ended {
        return Err(PeerError::Ended);
    }
    origin::origin(&chain, guards, above_us()?).ok_or(PeerError::BelowUnknown)
}

/// Shared by all peers: most have the same ancestors as the one before.
static READER: LazyLock<Mutex<AncestorReader>> =
    LazyLock::new(|| Mutex::new(AncestorReader::keeping(descriptors::max_kept(descriptors::limit()))));

/// The daemon and its ancestors, read once. A guard among them is above all peers, so it does not
/// distinguish them; when it ends, the daemon ends.
fn above_us() -> Result<&'static [ProcessEntry], PeerError> {
    static ABOVE: OnceLock<Vec<ProcessEntry>> = OnceLock::new();
    if let Some(above) = ABOVE.get() {
        return Ok(above);
    }
    let own = nix::unistd::getpid().as_raw();
    let above = proc::ancestors(own).map_err(PeerError::Ancestors)?;
    Ok(ABOVE.get_or_init(|| above))
}

#[cfg(test)]
mod tests;
