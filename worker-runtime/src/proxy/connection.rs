//! One connection of the agent: a request, its check, and the bytes in both directions.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::sandbox::HostPort;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::request::{self, MAX_HEAD_BYTES, Rejected};
use super::{ProxyState, addresses};

/// Time for a complete head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the lookup of a name, and for the connection to all its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for an agent to read a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Serves a connection to its end.
pub(super) async fn serve(mut agent: TcpStream, shared: Arc<ProxyState>) -> io::Result<()> {
    let opened = match timeout(HEAD_TIMEOUT, head(&mut agent, &shared)).await {
        Err(_) => Err(Rejected::new("408 Request Timeout", "the request was not complete in time")),
        Ok(Err(rejected)) => Err(rejected),
        // It closed the connection.
        Ok(Ok(None)) => return Ok(()),
        Ok(Ok(Some((target, early)))) => connect(&target, &shared).await.map(|stream| (stream, early)),
    };
    match opened {
        Ok((mut target, early)) => {
            agent.write_all(ESTABLISHED).await?;
            target.write_all(&early).await?;
            copy_bidirectional(&mut agent, &mut target).await.map(drop)
        }
        Err(rejected) => {
            shared.note(format!("the sandbox refused a connection: {}", rejected.reason)).await;
            let refusal = async {
                agent.write_all(rejected.response().as_bytes()).await?;
                agent.shutdown().await
            };
            timeout(REFUSAL_TIMEOUT, refusal).await.unwrap_or(Ok(()))
        }
    }
}

/// Reads the head. Returns the target and the bytes that follow, or `None` at the end of the stream.
async fn head(agent: &mut TcpStream, shared: &ProxyState) -> Result<Option<(HostPort, Vec<u8>)>, Rejected> {
    let mut bytes = Vec::new();
    loop {
        let mut room = [0; 1024];
        let room_left = room.len().min(MAX_HEAD_BYTES - bytes.len());
        match agent.read(&mut room[..room_left]).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(length) => bytes.extend_from_slice(&room[..length]),
        }
        if let Some(request) = request::parse(&bytes, &shared.credentials)? {
            return Ok(Some((request.target, bytes.split_off(request.bytes))));
        }
    }
}

async fn connect(target: &HostPort, shared: &ProxyState) -> Result<TcpStream, Rejected> {
    if !shared.hosts.contains(target) {
        return Err(Rejected::new("403 Forbidden", format!("{target} is not in the list `network`")));
    }
    match timeout(CONNECT_TIMEOUT, reach(target)).await {
        Ok(reached) => reached,
        Err(_) => Err(Rejected::new("504 Gateway Timeout", format!("{target} did not answer in time"))),
    }
}

async fn reach(target: &HostPort) -> Result<TcpStream, Rejected> {
    let failed = |error: io::Error| Rejected::new("502 Bad Gateway", format!("{target}: {error}"));
    let found: Vec<SocketAddr> = lookup_host((target.host(), target.port())).await.map_err(failed)?.collect();
    let (permitted, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| addresses::permitted(target, address.ip()));
    let forbidden = || {
        let reason = format!("{target} leads to an address of this machine or of a metadata service");
        Rejected::new("403 Forbidden", reason)
    };
    if permitted.is_empty() && !others.is_empty() {
        return Err(forbidden());
    }
    let stream = TcpStream::connect(&permitted[..]).await.map_err(failed)?;
    let (local, peer) = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
    // Nothing was sent yet.
    if addresses::is_own(target, local.ip(), peer.ip()) { Err(forbidden()) } else { Ok(stream) }
}
