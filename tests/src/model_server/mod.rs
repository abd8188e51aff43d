//! A model server of our own: what a real agent talks to instead of its vendor's service, so that it can be
//! driven without network, key or cost. It listens on the loopback only and forgets everything when dropped.
//!
//! What it answers is scripted by the user's text (`script` has the list of directives), so a test
//! decides in the prompt what the model will do.
//!
//! One file per wire format (`anthropic`, `gemini`, `openai_chat`, `openai_responses`) translates between it and the
//! neutral `script::Turn` and `reply::Piece`; a further one is one more file with a `routes()` that is merged in
//! `routes`. Only these know a vendor, only `tools` knows what agents call their tools, and nothing knows ACP or our
//! product.
//!
//! A request that offers the model no tools is no turn of the conversation (a title, a summary): it gets the same
//! harmless answer whatever it says, and counts as [`Asked::Aside`].

mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;
mod reply;
mod sample;
mod script;
mod seen;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use tokio::sync::oneshot;

use seen::Seen;
pub use seen::{Asked, ModelRequest};

/// A history grows with every turn and an agent sends it whole; the default limit of 2 MiB is too near.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A running model server. Dropping it closes the port and every open answer and joins its thread.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    /// Dropped to tell the thread to end.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1. It accepts connections when this returns.
    ///
    /// # Errors
    /// When no port can be bound, or no thread or runtime be made.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let seen = Arc::new(Seen::default());
        let app = routes(Arc::clone(&seen));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("model-server".into()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    // Never ends by itself: errors of accept are retried inside.
                    _ = axum::serve(listener, app).into_future() => {}
                    _ = stopped => {}
                }
            });
            // The runtime goes here, and with it the task of every connection, open streams included.
        })?;
        Ok(Self { address, seen, stop: Some(stop), thread: Some(thread) })
    }

    /// The base address, without a trailing slash: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in the order of arrival, those to unknown paths included.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.seen.all()
    }

    /// Has the model answer the next result of a tool as if a user had said what this makes of it. Several are for one result
    /// each, in order.
    pub fn react(&self, reaction: impl FnOnce(&str) -> String + Send + 'static) {
        self.seen.react(Box::new(reaction));
    }

    /// Has the model answer each user's text with these words in it as if the user had said this text.
    pub fn mean(&self, words: &str, text: &str) {
        self.seen.mean(words, text);
    }

    /// The names of the tools that the agent has offered so far.
    #[must_use]
    pub fn offered(&self) -> BTreeSet<String> {
        let requests = self.seen.all();
        requests.iter().flat_map(|request| tools::offered(&request.body)).collect()
    }

    /// The user texts of the *turns* that were asked for so far, one for each request that wanted a streamed
    /// answer to a user's text: no routing questions, and no requests that only hand in a tool's result.
    /// A prompt that is in here twice was delivered twice.
    #[must_use]
    pub fn prompts(&self) -> Vec<String> {
        self.seen
            .all()
            .into_iter()
            .filter_map(|request| match request.asked {
                Asked::Prompt { text } => Some(text),
                Asked::ToolResult { .. } | Asked::Aside | Asked::Unknown => None,
            })
            .collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was printed where it happened; a second one here would abort.
            let _ = thread.join();
        }
    }
}

/// All vendors' routes.
fn routes(seen: Arc<Seen>) -> Router {
    Router::new()
        .merge(anthropic::routes())
        .merge(gemini::routes())
        .merge(openai_chat::routes())
        .merge(openai_responses::routes())
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(seen)
}

/// A path that no vendor's file knows: recorded, so that a test can see what an agent wanted.
async fn unknown(
    axum::extract::State(seen): axum::extract::State<Arc<Seen>>,
    method: Method,
    uri: Uri,
) -> (StatusCode, String) {
    seen.add(ModelRequest {
        path: uri.path().to_owned(),
        body: serde_json::Value::Null,
        asked: Asked::Unknown,
    });
    (StatusCode::NOT_FOUND, format!("the model server does not know {method} {}\n", uri.path()))
}
