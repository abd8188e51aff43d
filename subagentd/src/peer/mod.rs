//! Who is at the other end of a connection: which process, and whether it is an agent of ours or something below one.
//!
//! Must not decide what anybody may do (that is the API's business) and must not trust what a peer says of itself.

mod origin;
mod pid;

use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use subagent_config::proc::{self, Process, Reader};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::net::UnixStream;

use crate::descriptors;
pub use origin::Origin;
use pid::PeerProcess;

/// Why a connection is not served.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The kernel does not say who it is.
    #[error("the peer of the connection cannot be told")]
    Unknown(#[source] std::io::Error),
    /// Another user; the directory's mode should have kept them out.
    #[error("the peer is user {0}, not the user of this daemon")]
    OtherUser(u32),
    /// It has ended, so nobody can say below whom it was.
    #[error("the peer has ended")]
    Ended,
    /// Its ancestors cannot be told.
    #[error("the ancestors of the peer cannot be told")]
    Ancestors(#[source] std::io::Error),
    /// It is below a guard of which this daemon does not know the worker: one that is only just being started, or
    /// one of another daemon. Nobody below a guard is an owner.
    #[error("the peer is the agent of a worker that this daemon does not know (yet), or was started by one")]
    BelowUnknown,
}

/// The process that opened a connection. Cheap to clone; all clones share what was found out.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    process: PeerProcess,
    /// The peer and its ancestors. Read once: a process that was started below a guard stays below it, and who is not
    /// below one cannot get there later.
    chain: OnceLock<Vec<Process>>,
}

impl Peer {
    /// Asks the kernel who opened this connection.
    ///
    /// # Errors
    /// Whenever the connection must be dropped: see [`PeerError`].
    pub fn of(stream: &UnixStream) -> Result<Self, PeerError> {
        let unknown = |error: nix::Error| PeerError::Unknown(error.into());
        let credentials = getsockopt(stream, sockopt::PeerCredentials).map_err(unknown)?;
        if credentials.uid() != geteuid().as_raw() && !subagent_failpoint::sabotaged("peer.any_user") {
            return Err(PeerError::OtherUser(credentials.uid()));
        }
        let process = PeerProcess::of(stream, credentials.pid())?;
        Ok(Self(Arc::new(Inner { process, chain: OnceLock::new() })))
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.0.process.id()
    }

    /// Whether the peer is one of the guards, or below one. Reads `/proc` at the first call.
    ///
    /// # Errors
    /// [`PeerError::Ended`], [`PeerError::Ancestors`] and [`PeerError::BelowUnknown`]; nobody who cannot be placed may
    /// act.
    pub fn origin(&self, guards: &[(WorkerId, ProcessId)]) -> Result<Origin, PeerError> {
        let chain = match self.0.chain.get() {
            Some(chain) => chain,
            None => {
                let chain = self.ancestors()?;
                self.0.chain.get_or_init(|| chain)
            }
        };
        origin::origin(chain, guards, above_us()?).ok_or(PeerError::BelowUnknown)
    }

    fn ancestors(&self) -> Result<Vec<Process>, PeerError> {
        let id = self.process();
        let read = self.0.process.as_read().clone();
        let chain = match READER.try_lock() {
            Ok(mut reader) => reader.ancestors_of(read),
            // Somebody has so many ancestors that others would wait.
            Err(_) => Reader::keeping(0).ancestors_of(read),
        };
        let chain = chain.map_err(|error| {
            if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Ancestors(error) }
        })?;
        // Alive after the walk, and still the same: so the walk was about the peer and not about a later process of
        // its number, or about the orphans that it left.
        let same = chain.first().is_some_and(|first| first.start_time == id.start_time && !first.ended);
        if !same || !self.0.process.is_alive() {
            return Err(PeerError::Ended);
        }
        Ok(chain)
    }
}

/// Whether a process for which the peer passes a request on is one of the guards, or below one.
///
/// # Errors
/// As [`Peer::origin`].
pub fn origin_of(process: ProcessId, guards: &[(WorkerId, ProcessId)]) -> Result<Origin, PeerError> {
    let unread = |error: std::io::Error| {
        if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Ancestors(error) }
    };
    let chain = proc::ancestors(process.pid).map_err(unread)?;
    // Read again after the walk: so the walk was about this process and not about a later one of its number.
    let now = proc::process(process.pid).map_err(unread)?;
    if now.start_time != process.start_time || now.ended {
        return Err(PeerError::Ended);
    }
    origin::origin(&chain, guards, above_us()?).ok_or(PeerError::BelowUnknown)
}

/// For all peers: most have the ancestors of the one before.
static READER: LazyLock<Mutex<Reader>> =
    LazyLock::new(|| Mutex::new(Reader::keeping(descriptors::max_kept(descriptors::limit()))));

/// The daemon itself and its ancestors, read once. A guard among them is above everything that the daemon can meet, so
/// it says nothing about a peer; and when it ends, the daemon ends.
fn above_us() -> Result<&'static [Process], PeerError> {
    static ABOVE: OnceLock<Vec<Process>> = OnceLock::new();
    if let Some(above) = ABOVE.get() {
        return Ok(above);
    }
    let own = nix::unistd::getpid().as_raw();
    let above = proc::ancestors(own).map_err(PeerError::Ancestors)?;
    Ok(ABOVE.get_or_init(|| above))
}

#[cfg(test)]
mod tests;
