//! Accepts connections, refuses other users and connections above the limits, and replaces a
//! listener whose socket vanished.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use subagent_protocol::api::header;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::api::transport::admission::{Admission, ConnectionLimits, Party};
use crate::api::transport::connection::{Counted, RequestInProgress};
use crate::peer::{Peer, RequestOrigin};
use crate::supervisor::PlacedConnection;

/// Maximum time for the head of a request, from the accepted connection or the previous answer.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Maximum buffered size of an unread answer in bytes, besides the kernel's buffer. Also the
/// maximum size of a head.
const MAX_BUFFERED: usize = 64 * 1024;

/// Watches the number of open connections.
pub(crate) type Connections = watch::Receiver<usize>;

/// Returns the guards of all live workers, to find on whose behalf a connection was opened.
pub(crate) type Guards = Arc<dyn Fn() -> Vec<(WorkerId, ProcessId)> + Send + Sync>;

/// The source of connections.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    replacements: mpsc::Receiver<UnixListener>,
    count: watch::Sender<usize>,
    /// Connections from below workers on other machines.
    placed: Option<mpsc::Receiver<PlacedConnection>>,
}

impl Listening {
    /// Starts with `listener`. A listener sent later replaces it; open connections stay open.
    #[must_use]
    pub(crate) fn new(listener: UnixListener) -> (Self, mpsc::Sender<UnixListener>, Connections) {
        let (replace, replacements) = mpsc::channel(1);
        let (count, connections) = watch::channel(0);
        (Self { listener, replacements, count, placed: None }, replace, connections)
    }

    /// Also serves the connections from below workers on other machines.
    #[must_use]
    pub(crate) fn with_placed(self, placed: Option<mpsc::Receiver<PlacedConnection>>) -> Self {
        Self { placed, ..self }
    }

    async fn accept(&mut self) -> (UnixStream, Peer) {
        loop {
            tokio::select! {
                Some(listener) = self.replacements.recv() => self.listener = listener,
                // `accept` logs a lack of descriptors or memory and retries.
                (stream, _) = Listener::accept(&mut self.listener) => match Peer::of(&stream) {
                    Ok(peer) => return (stream, peer),
                    Err(error) => tracing::warn!(%error, "a connection was dropped"),
                },
            }
        }
    }
}

/// Serves until `end` completes, then until all running requests are answered.
///
/// # Errors
/// None while it serves: failures to accept are logged.
pub(crate) async fn serve(
    listening: Listening,
    router: Router,
    guards: Guards,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_within(listening, router, guards, HEAD_TIME, end).await
}

async fn serve_within(
    mut listening: Listening,
    router: Router,
    guards: Guards,
    head_time: Duration,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let admission = Admission::new(ConnectionLimits::of_process());
    let (ended, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    let mut placed = listening.placed.take();
    loop {
        tokio::select! {
            biased;
            () = &mut end => break,
            Some(_) = connections.join_next() => {}
            Some(PlacedConnection { worker, stream }) = next_placed(&mut placed) => {
                let peer = Peer::Placed(Arc::new(worker.clone()));
                // Without room it is closed.
                if let Some(seat) = admission.admit(Party::Below(worker), peer.process()) {
                    let stream = Counted::new(stream, listening.count.clone(), Arc::new(seat));
                    connections.spawn(answer(stream, peer, router.clone(), head_time, ending.clone()));
                }
            }
            (stream, peer) = listening.accept() => match admission.admit(party(&peer, &guards), peer.process()) {
                Some(seat) => {
                    let stream = Counted::new(stream, listening.count.clone(), Arc::new(seat));
                    connections.spawn(answer(stream, peer, router.clone(), head_time, ending.clone()));
                }
                None => tracing::debug!(peer = ?peer.process(), "a connection was closed: there is no room"),
            },
        }
    }
    drop(listening);
    ended.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn next_placed(placed: &mut Option<mpsc::Receiver<PlacedConnection>>) -> Option<PlacedConnection> {
    match placed {
        Some(placed) => placed.recv().await,
        None => None,
    }
}

/// Answers the requests of one connection.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Counted<S>,
    peer: Peer,
    router: Router,
    head_time: Duration,
    mut ending: watch::Receiver<bool>,
) {
    let seat = stream.seat();
    let router = TowerToHyperService::new(router);
    let attended = Arc::clone(&seat);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let attended = RequestInProgress::begin(&attended);
        if peer.is_placed() {
            // It names a folder of the other machine.
            request.headers_mut().remove(header::STATE_DIR);
        }
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        let response = router.call(request);
        async move {
            let response: Response<Body> = response.await?;
            Ok::<_, Infallible>(response.map(|body| attended.until_given(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(MAX_BUFFERED)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut notified = false;
    loop {
        tokio::select! {
            // Errors of a connection concern only its client.
            _ = connection.as_mut() => return,
            () = seat.must_end() => return,
            _ = ending.wait_for(|ending| *ending), if !notified => {
                notified = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Returns the principal of a peer, as far as it is known now.
fn party(peer: &Peer, guards: &Guards) -> Party {
    match peer.origin(&guards()) {
        Ok(RequestOrigin::Owner) => Party::Owner,
        Ok(RequestOrigin::BelowWorker(worker)) => Party::Below(worker),
        Err(_) => Party::Unplaced,
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_connection_without_a_whole_head_is_closed_in_time() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let path = dir.path().join("s");
        let (listening, _replace, mut connections) = Listening::new(UnixListener::bind(&path).unwrap());
        let router = Router::new().route("/", get(|| async { "yes" }));
        let time = Duration::from_millis(50);
        tokio::spawn(serve_within(listening, router, Arc::new(Vec::new), time, std::future::pending()));
        let whole = "GET / HTTP/1.1\r\nHost: d\r\n\r\n";
        for (said, is_answered) in [("", false), (&whole[..20], false), (whole, true)] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let mut heard = Vec::new();
            let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut heard));
            let _ = closed.await.expect("it is closed");
            assert_eq!(heard.ends_with(b"yes"), is_answered, "{said:?}");
        }
        let none = tokio::time::timeout(Duration::from_secs(20), connections.wait_for(|open| *open == 0));
        let _ = none.await.expect("all are gone").unwrap();
    }
}
