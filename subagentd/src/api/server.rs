//! Connections: accepting them, dropping those of strangers, counting them, and replacing a listener whose socket
//! vanished.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};

use crate::peer::Peer;

/// How many connections are open.
pub type Connections = watch::Receiver<usize>;

/// Where connections come from.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    replacements: mpsc::Receiver<UnixListener>,
    count: watch::Sender<usize>,
}

impl Listening {
    /// Begins with `listener`. Another one that is sent takes its place; connections that are open stay open.
    #[must_use]
    pub fn new(listener: UnixListener) -> (Self, mpsc::Sender<UnixListener>, Connections) {
        let (replace, replacements) = mpsc::channel(1);
        let (count, connections) = watch::channel(0);
        (Self { listener, replacements, count }, replace, connections)
    }
}

/// Serves until `end` comes, then until every request that is being answered is done.
///
/// # Errors
/// Never while it serves: what cannot be accepted is logged.
pub async fn serve(
    listening: Listening,
    router: Router,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(listening, service).with_graceful_shutdown(end).await
}

impl Listener for Listening {
    type Io = Counted;
    type Addr = Peer;

    async fn accept(&mut self) -> (Counted, Peer) {
        loop {
            tokio::select! {
                Some(listener) = self.replacements.recv() => self.listener = listener,
                // Out of descriptors or memory is waited out in there, after a line in the log.
                (stream, _) = Listener::accept(&mut self.listener) => match Peer::of(&stream) {
                    Ok(peer) => return (Counted::new(stream, self.count.clone()), peer),
                    Err(error) => tracing::warn!(%error, "a connection was dropped"),
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a peer is known only of a connection"))
    }
}

impl Connected<IncomingStream<'_, Listening>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listening>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A connection that is counted while it exists.
#[derive(Debug)]
pub struct Counted {
    stream: UnixStream,
    count: watch::Sender<usize>,
}

impl Counted {
    fn new(stream: UnixStream, count: watch::Sender<usize>) -> Self {
        count.send_modify(|open| *open += 1);
        Self { stream, count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.send_modify(|open| *open -= 1);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
