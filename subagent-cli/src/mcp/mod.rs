//! `subagent mcp`: an MCP server on stdin and stdout for agents and managers that delegate tasks. A
//! thin layer over the daemon's API without state of its own. It ends with its stdin. Foreground
//! tasks are then canceled; background tasks continue.

mod answers;
mod arguments;
mod calls;
mod changes;
mod elicit;
mod ends;
mod manager;
mod prefix;
mod server;
mod tools;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::block_on;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::tasks::{TaskPlacement, TaskSubmitter};
pub(crate) use manager::{CommandFuture, Commands, NewLanding, NewMessage, WorkerOptions};
use server::ToolServer;

/// The tools that a server offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolOffer {
    pub(crate) prefix: bool,
    /// Names of the offered tools without prefix; empty offers all.
    pub(crate) tools: Vec<String>,
    /// The commands for a manager.
    pub(crate) commands: Option<Arc<dyn Commands>>,
}

impl ToolOffer {
    /// Rejects unknown names of tools.
    fn check(&self) -> Result<()> {
        let known = || tools::NAMES.iter().chain(&manager::NAMES).copied();
        match self.tools.iter().find(|name| !known().any(|known| known == **name)) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<&str> = known().collect();
                let message = format!("--tools {unknown} is not a tool; these are: {}", known.join(", "));
                Err(Failure::argument(message).with("tool", unknown.as_str()).with("known", known))
            }
        }
    }
}

/// Maximum time for running calls after the end of the server; more than each of them takes.
const CALLS_LIMIT: Duration = Duration::from_secs(8);

/// Serves until stdin ends or a signal arrives.
///
/// # Errors
/// `INVALID_INPUT` if the first message does not initialize MCP.
pub(crate) fn run(placement: TaskPlacement, offer: ToolOffer, context: &CliContext) -> Result<CliOutcome> {
    let submitter = TaskSubmitter::new(context, placement);
    offer.check()?;
    block_on(async move {
        let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
        let signals: io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
        let mut signals =
            signals.map_err(|error| Failure::internal(format!("cannot hear signals: {error}")))?;
        let asked = std::future::poll_fn(|poller| {
            match signals.iter_mut().any(|signal| signal.poll_recv(poller).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        let (read, write) = stdio_pipes();
        Box::pin(serve((submitter, offer), read, write, asked)).await?;
        Ok(CliOutcome::Printed(ExitCode::SUCCESS))
    })
}

/// Serves on these streams until the first one ends or a stop is requested.
async fn serve<R, W>(
    (submitter, offer): (TaskSubmitter, ToolOffer),
    read: R,
    write: W,
    asked: impl Future<Output = ()>,
) -> Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (closing, closed) = watch::channel(false);
    let busy = Arc::new(watch::Sender::new(()));
    let server = ToolServer::new(submitter, offer, closed, busy.clone());
    let read = EofSignal { inner: read, closing: closing.clone() };
    let mut asked = pin!(asked);
    let begun = tokio::select! {
        begun = server.serve((read, write)) => begun,
        () = &mut asked => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        // The client sent no message.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => {
            let message =
                format!("this is an MCP server, and its client did not begin with an MCP handshake: {error}");
            return Err(Failure::input(message));
        }
    };
    let stop = running.cancellation_token();
    let mut ended = pin!(running.waiting());
    let quit = tokio::select! {
        quit = &mut ended => quit,
        () = &mut asked => {
            closing.send_replace(true);
            stop.cancel();
            // A client that does not read must not block the end.
            match timeout(CALLS_LIMIT, ended).await {
                Ok(quit) => quit,
                Err(_) => return Ok(()),
            }
        }
    };
    // The library's own timeout is shorter than a call may take.
    let _ = timeout(CALLS_LIMIT, busy.closed()).await;
    quit.map(drop).map_err(|error| Failure::internal(format!("the server has failed: {error}")))
}

/// Signals the end of input at once, so that waiting calls end before the server waits for their answers.
struct EofSignal<R> {
    inner: R,
    closing: watch::Sender<bool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for EofSignal<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        poller: &mut Poller<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = Pin::new(&mut self.inner).poll_read(poller, buffer);
        let over = match &read {
            Poll::Ready(Ok(())) => room > 0 && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if over {
            self.closing.send_replace(true);
        }
        read
    }
}

#[cfg(test)]
mod tests;
