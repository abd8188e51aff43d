//! What the panel needs of the program around it: where daemons are, and what commands do with the config and the
//! environment of the user.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use subagent_protocol::api::{ControllerHandle, StateFolder};
use tokio::net::UnixStream;

/// Something that is under way.
pub type BridgeFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The data of a result, or the `error` of its envelope.
pub type BridgeResult = Result<Value, Value>;

/// A workspace with a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanelWorkspace {
    /// Names it in addresses: letters and digits.
    pub id: String,
    /// What it is shown as: the folder of the workspace.
    pub title: String,
    /// The state dir of its daemon.
    pub state_dir: PathBuf,
    /// Whether the panel was started in this workspace. Then its daemon is started on demand.
    pub is_own: bool,
    /// The host of the config file on which it is; `None` is this machine.
    pub host: Option<String>,
}

/// Where the daemon of a place is.
#[derive(Debug, Clone)]
pub enum DaemonAddress {
    /// A daemon of this machine.
    Socket {
        /// The path of its unix socket.
        socket: PathBuf,
        /// The state dir that its requests mean; another daemon refuses them.
        state_folder: Option<StateFolder>,
    },
    /// A daemon of another host. Processes of this machine and its owner mean nothing there.
    Far(Arc<dyn FarDaemon>),
}

/// A daemon on another host.
pub trait FarDaemon: Debug + Send + Sync {
    /// Connects with it; each connection is for one request.
    fn dial(&self) -> BridgeFuture<'_, Result<FarConnection, Value>>;
    /// The name of the host in the config file.
    fn host(&self) -> &str;
    /// Notes that the host has just answered.
    fn note_answer(&self);
    /// The error for a host that no longer answers, with the age of its last answer.
    fn silence(&self) -> Value;
}

/// A connection with a daemon on another host.
pub struct FarConnection {
    /// The bytes of HTTP.
    pub stream: UnixStream,
    /// The state dir that the request means.
    pub state_folder: Option<StateFolder>,
    /// What carries the bytes. It ends when it is dropped.
    pub carrier: Box<dyn Send>,
}

/// A message to a worker.
#[derive(Debug)]
pub struct PanelMessage {
    /// The address of the worker that receives it.
    pub worker: String,
    /// The text of the message.
    pub text: String,
    /// `queue` or `steer`; without it a busy worker refuses it.
    pub if_busy: Option<String>,
    /// The idempotency key of the page's request: the same message under the same key is sent once.
    pub key: Option<String>,
}

/// The program around the panel.
pub trait Bridge: Debug + Send + Sync + 'static {
    /// The workspace of the panel and those of the other daemons that run, in a stable order.
    fn places(&self) -> BridgeFuture<'_, Vec<PanelWorkspace>>;
    /// The address of the daemon of a place. The daemon of the panel's own workspace is started if it died, and with
    /// `start` also if it was stopped. A daemon of another host is started with `start` only.
    fn address<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        start: bool,
    ) -> BridgeFuture<'a, Result<DaemonAddress, Value>>;
    /// The handle of the owner in whose name requests are sent.
    fn handle(&self) -> Option<ControllerHandle>;
    /// The launchers and definitions of agents that a new worker can have.
    fn choices<'a>(&'a self, place: &'a PanelWorkspace) -> BridgeFuture<'a, BridgeResult>;
    /// Starts a worker: the keys of `worker start --input`, and `text` for its first message.
    fn start<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        worker: Map<String, Value>,
    ) -> BridgeFuture<'a, BridgeResult>;
    /// Sends a message, with the environment if the daemon has lost it.
    fn send<'a>(&'a self, place: &'a PanelWorkspace, message: PanelMessage)
    -> BridgeFuture<'a, BridgeResult>;
    /// Starts a worker that takes over the work of another one, once for this idempotency key. Returns the data of
    /// `worker.continued`.
    fn hand_off<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        worker: String,
        key: Option<String>,
    ) -> BridgeFuture<'a, BridgeResult>;
    /// The data of `worktree.landed`.
    fn land<'a>(&'a self, place: &'a PanelWorkspace, worker: String) -> BridgeFuture<'a, BridgeResult>;
}
