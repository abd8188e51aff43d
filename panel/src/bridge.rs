//! What the panel needs of the program around it: where daemons are, and what commands do with the config and the
//! environment of the user.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;

use serde_json::{Map, Value};
use subagent_protocol::api::Handle;

/// Something that is under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The data of a result, or the `error` of its envelope.
pub type Answer = Result<Value, Value>;

/// A workspace with a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Names it in addresses: letters and digits.
    pub id: String,
    /// What it is shown as: the folder of the workspace.
    pub title: String,
    /// The state dir of its daemon.
    pub state_dir: PathBuf,
    /// Whether the panel was started in this workspace. Then its daemon is started on demand.
    pub is_own: bool,
}

/// A message to a worker.
#[derive(Debug)]
pub struct Message {
    /// The worker.
    pub worker: String,
    /// Its text.
    pub text: String,
    /// `queue` or `steer`; without it a busy worker refuses it.
    pub if_busy: Option<String>,
    /// The idempotency key of the page's request: the same message under the same key is sent once.
    pub key: Option<String>,
}

/// The program around the panel.
pub trait Bridge: Debug + Send + Sync + 'static {
    /// The workspace of the panel and those of the other daemons that run, in a stable order.
    fn places(&self) -> Pending<'_, Vec<Place>>;
    /// The socket of the daemon of a place. The daemon of the panel's own workspace is started if it died, and with
    /// `start` also if it was stopped.
    fn socket<'a>(&'a self, place: &'a Place, start: bool) -> Pending<'a, Result<PathBuf, Value>>;
    /// The handle of the owner in whose name requests are sent.
    fn handle(&self) -> Option<Handle>;
    /// The launchers and definitions of agents that a new worker can have.
    fn choices<'a>(&'a self, place: &'a Place) -> Pending<'a, Answer>;
    /// Starts a worker: the keys of `worker start --input`, and `text` for its first message.
    fn start<'a>(&'a self, place: &'a Place, worker: Map<String, Value>) -> Pending<'a, Answer>;
    /// Sends a message, with the environment if the daemon has lost it.
    fn send<'a>(&'a self, place: &'a Place, message: Message) -> Pending<'a, Answer>;
    /// The data of `worker.diff`.
    fn diff<'a>(&'a self, place: &'a Place, worker: String) -> Pending<'a, Answer>;
    /// Starts a worker that takes over the work of another one. Returns the data of `worker.continued`.
    fn hand_off<'a>(&'a self, place: &'a Place, worker: String) -> Pending<'a, Answer>;
    /// The data of `worktree.landed`.
    fn land<'a>(&'a self, place: &'a Place, worker: String) -> Pending<'a, Answer>;
}
