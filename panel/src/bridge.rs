//! What the panel needs of the program around it: where daemons are, and what commands do with the config and the
//! environment of the user.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;

use serde_json::{Map, Value};
use subagent_protocol::api::{ControllerHandle, StateFolder};

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
}

/// Where the daemon of a place is.
#[derive(Debug, Clone)]
pub struct DaemonAddress {
    /// The path of its unix socket.
    pub socket: PathBuf,
    /// The state dir that its requests mean; another daemon refuses them.
    pub state_folder: Option<StateFolder>,
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
    /// `start` also if it was stopped.
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
