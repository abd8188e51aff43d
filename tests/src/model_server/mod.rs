//! A local model server: real agents use it instead of their vendor's service, so that tests need
//! no network, key or cost. It listens only on the loopback interface. Dropping it discards all its
//! data.

// The user's text scripts its responses (`script` lists the directives): a test's prompt decides
// what the model does.
//
// One file per wire format (`anthropic`, `gemini`, `openai_chat`, `openai_responses`) translates
// to and from the neutral `script::Turn` and `reply::ReplyPiece`. A new format is one more file with a
// `routes()` that is merged in `routes`. Only these know a vendor, only `tools` knows the names of
// agents' tools, and nothing knows ACP or our product.
//
// A request that offers the model no tools is not a turn of the conversation (but a title or
// summary). It always gets the same harmless response and counts as [`Asked::Aside`].

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

use seen::RequestLog;
pub use seen::{Asked, ModelRequest};

/// An agent sends the whole history, which grows with every turn; the default limit of 2
/// MiB is too low.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A running model server. Dropping it closes the port and all responses, and joins its thread.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    seen: Arc<RequestLog>,
    /// Dropping it makes the thread end.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1. It accepts connections when this returns.
    ///
    /// # Errors
    ///
    /// If no port, thread or runtime is available.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let seen = Arc::new(RequestLog::default());
        let app = routes(Arc::clone(&seen));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("model-server".into()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    // Never ends by itself: it retries errors of accept.
                    _ = axum::serve(listener, app).into_future() => {}
                    _ = stopped => {}
                }
            });
            // Drops the runtime, and with it the task of every connection, including open streams.
        })?;
        Ok(Self { address, seen, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the base address without a trailing slash: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far in order of arrival, including those to unknown paths.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.seen.all()
    }

    /// Makes the model treat the next tool result like a user's text, which `reaction` creates from
    /// the result. Several reactions apply to one result each, in order.
    pub fn react(&self, reaction: impl FnOnce(&str) -> String + Send + 'static) {
        self.seen.react(Box::new(reaction));
    }

    /// Makes the model treat every user's text that contains `words` like `text`.
    pub fn mean(&self, words: &str, text: &str) {
        self.seen.mean(words, text);
    }

    /// The names of the tools that the agent has offered so far.
    #[must_use]
    pub fn offered(&self) -> BTreeSet<String> {
        let requests = self.seen.all();
        requests.iter().flat_map(|request| tools::offered(&request.body)).collect()
    }

    /// Returns the user texts of the *turns* so far, one for each request for a streamed response
    /// to a user's text. Excludes routing questions and requests with only a tool's result. A
    /// prompt that occurs twice was delivered twice.
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
            // A panic of the server's thread was printed already; a second one here would abort.
            let _ = thread.join();
        }
    }
}

/// Returns the routes of all vendors.
fn routes(seen: Arc<RequestLog>) -> Router {
    Router::new()
        .merge(anthropic::routes())
        .merge(gemini::routes())
        .merge(openai_chat::routes())
        .merge(openai_responses::routes())
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(seen)
}

/// An unknown path: recorded, so that a test can see the agent's request.
async fn unknown(
    axum::extract::State(seen): axum::extract::State<Arc<RequestLog>>,
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
