//! The panel: a page in a browser of this machine with all workers of the user, in a process of its
//! own. It keeps nothing on disk and holds no rule about workers: the daemons decide what may be
//! done, on behalf of the process that asked.

// It listens on the loopback addresses, serves embedded files, and passes a list of requests on to
// the daemons' unix sockets.

mod access;
mod assets;
mod body;
mod daemons;
mod form;
mod hook;
mod live;
mod page_story;
mod render;
mod routes;
mod rows;
mod server;
mod story;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use access::doors;
use access::seats::Seats;
pub use daemons::bridge::{
    Bridge, BridgeFuture, BridgeResult, DaemonAddress, FarConnection, FarDaemon, PanelMessage, PanelWorkspace,
};
use server::{BrowserConnection, PanelState};

/// How long a client may take for the head of a request, from the accepted connection or the answer before.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// The longest head of a request.
const MAX_HEAD: usize = 16 * 1024;
/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Ports that are tried for one that is free in both families.
const MAX_PORTS: usize = 16;

/// How the panel is run.
#[derive(Debug, Clone, Default)]
pub struct PanelOptions {
    /// The port; any that is free without it.
    pub port: Option<u16>,
    /// Whether all changes are refused.
    pub read_only: bool,
    /// Whether connections of processes that hide their files are accepted, as `ssh -L` needs it.
    pub is_forwarded: bool,
    /// The panel ends after this time without a page.
    pub idle_exit: Option<Duration>,
}

/// A panel that listens.
pub struct PanelServer {
    listeners: Vec<TcpListener>,
    port: u16,
    idle_exit: Option<Duration>,
    shared: Arc<PanelState>,
}

/// Creates links and pairing codes, each for one browser.
#[derive(Clone)]
pub struct PanelAccess {
    shared: Arc<PanelState>,
    port: u16,
}

impl PanelAccess {
    /// An address that is good for one browser, once.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn link(&self) -> io::Result<String> {
        let token = doors::token().map_err(io::Error::other)?;
        let link = format!("http://127.0.0.1:{}/#t={token}", self.port);
        self.shared.doors(|doors| doors.add_link(token));
        Ok(link)
    }

    /// The address of the panel, and a code for it that is good for one browser, once, for ten minutes.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn code(&self) -> io::Result<(String, String)> {
        let code = doors::code().map_err(io::Error::other)?;
        self.shared.doors(|doors| doors.set_code(&code, Instant::now()));
        Ok((format!("http://127.0.0.1:{}/", self.port), code))
    }
}

impl PanelServer {
    /// Listens on the loopback addresses.
    ///
    /// # Errors
    /// The system's: the port is in use.
    pub async fn bind(options: &PanelOptions, bridge: Arc<dyn Bridge>) -> io::Result<Self> {
        let listeners = listen(options.port).await?;
        let port =
            listeners.first().map(TcpListener::local_addr).transpose()?.map_or(0, |address| address.port());
        let shared = Arc::new(PanelState::new(bridge, port, options));
        Ok(Self { listeners, port, idle_exit: options.idle_exit, shared })
    }

    /// What lets browsers in.
    #[must_use]
    pub fn keys(&self) -> PanelAccess {
        PanelAccess { shared: Arc::clone(&self.shared), port: self.port }
    }

    /// Serves until no page was there for the idle time. Dropping the future ends it at any time.
    pub async fn serve(self) {
        let idle = async {
            match self.idle_exit {
                Some(time) => self.shared.presence.idle_for(time).await,
                None => std::future::pending().await,
            }
        };
        let mut accepting = JoinSet::new();
        let seats = Seats::default();
        for listener in self.listeners {
            accepting.spawn(accept(listener, Arc::clone(&self.shared), seats.clone()));
        }
        idle.await;
    }
}

/// Listens on one port in both families. A port that another program has in one family is refused: that program would get
/// requests of our pages to `localhost`.
async fn listen(port: Option<u16>) -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..MAX_PORTS {
        let v4 = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)))).await?;
        let taken = v4.local_addr()?.port();
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, taken))).await {
            Ok(v6) => return Ok(vec![v4, v6]),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            // There is no IPv6 on this machine.
            Err(_) => return Ok(vec![v4]),
        }
        if port.is_some() {
            break;
        }
    }
    Err(last)
}

async fn accept(listener: TcpListener, shared: Arc<PanelState>, seats: Seats) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve_connection(stream, peer, Arc::clone(&shared), seats.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, shared: Arc<PanelState>, seats: Seats) {
    let Ok(own) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true);
    let seat = Arc::new(seats.take());
    let connection = Arc::new(BrowserConnection {
        shared,
        seat: Arc::clone(&seat),
        peer,
        own,
        found: tokio::sync::Mutex::default(),
        permitted: OnceCell::new(),
    });
    let service = service_fn(move |request: Request<Incoming>| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, std::convert::Infallible>(connection.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // How a connection ends is its client's business.
        _ = served => {}
        () = seat.must_leave() => {}
    }
}
