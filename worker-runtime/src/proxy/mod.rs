//! The proxy of a sandbox whose network is a list of hosts: HTTP `CONNECT` with a token. Must not
//! connect to a host that the list does not have.

// Each guard gets a channel. The sandbox below it sends a listening socket of its network
// namespace through that channel, so only its processes can connect. The proxy serves the socket
// until the guard ends.

mod addresses;
mod connection;
mod receive;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_protocol::ids::hex;
use subagent_protocol::sandbox::HostPort;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::ClientEvent;
use request::Credentials;

/// Maximum number of connections through one channel; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// Time for the sandbox to send its socket.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay after a failed accept, such as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of different refusals in the log.
const MAX_NOTES: usize = 100;

/// A running proxy. It ends, with all connections, when this value is dropped.
pub(crate) struct Proxy {
    token: String,
    channels: mpsc::UnboundedSender<UnixStream>,
}

/// What all connections share.
struct ProxyState {
    hosts: Vec<HostPort>,
    credentials: Credentials,
    noted: Mutex<BTreeSet<String>>,
    events: mpsc::Sender<ClientEvent>,
}

impl Proxy {
    /// Starts the proxy for these hosts on the current event loop. Each different refusal is one
    /// event.
    pub(crate) fn start(hosts: Vec<HostPort>, events: mpsc::Sender<ClientEvent>) -> io::Result<Self> {
        let mut random = [0_u8; subagent_sandbox::TOKEN_BYTES / 2];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token = hex(&random);
        let (channels, received) = mpsc::unbounded_channel();
        let credentials = Credentials::new(&token);
        let shared = ProxyState { hosts, credentials, noted: Mutex::default(), events };
        tokio::spawn(serve(received, Arc::new(shared)));
        Ok(Self { token, channels })
    }

    /// Returns the guard's end of a new channel.
    pub(crate) fn channel(&self) -> io::Result<OwnedFd> {
        let (mut ours, theirs) = UnixStream::pair()?;
        // Fits into the socket's buffer.
        ours.write_all(self.token.as_bytes())?;
        ours.set_nonblocking(true)?;
        self.channels.send(ours).map_err(|_| io::Error::other("the proxy has ended"))?;
        Ok(theirs.into())
    }
}

impl ProxyState {
    /// Writes a refusal to the log, once.
    async fn note(&self, refusal: String) {
        let text = {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            let count = noted.len();
            if count >= MAX_NOTES || !noted.insert(refusal.clone()) {
                return;
            }
            if count + 1 < MAX_NOTES { refusal } else { format!("{refusal}; later refusals are not logged") }
        };
        // The driver is gone: there is no log either.
        let _ = self.events.send(ClientEvent::ConnectionRefused(text)).await;
    }
}

async fn serve(mut channels: mpsc::UnboundedReceiver<UnixStream>, shared: Arc<ProxyState>) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            channel = channels.recv() => match channel {
                // A failed channel closes, and the start of its command fails.
                Some(channel) => { served.spawn(serve_channel(channel, Arc::clone(&shared))); }
                None => return,
            },
            Some(_) = served.join_next() => {}
        }
    }
}

/// Serves the socket of one sandbox until its guard ends.
async fn serve_channel(channel: UnixStream, shared: Arc<ProxyState>) -> io::Result<()> {
    let channel = tokio::net::UnixStream::from_std(channel)?;
    let received = tokio::time::timeout(HANDOVER_TIMEOUT, receive::listener(&channel));
    let listener = TcpListener::from_std(received.await??)?;
    let mut connections = JoinSet::new();
    loop {
        let accepts = connections.len() < MAX_CONNECTIONS;
        tokio::select! {
            accepted = listener.accept(), if accepts => match accepted {
                Ok((stream, _)) => { connections.spawn(connection::serve(stream, Arc::clone(&shared))); }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            () = receive::closed(&channel) => return Ok(()),
        }
    }
}
