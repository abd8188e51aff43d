//! One connection as a task: frames in, frames out. Decides nothing. Sends only the newest end of
//! the journal, so that a slow daemon delays no other work.

use std::io;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use serde::Deserialize;
use subagent_protocol::frame::{FromRuntime, JournalEnd, Refusal, RuntimeCommand, ToRuntime};
use subagent_protocol::state::Desired;
use subagent_protocol::{MAX_LINE_BYTES, PROTOCOL};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::acp::lines::{AgentLine, LineSplitter};

/// How long a peer may take for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take to read its refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of commands per connection without a delivered reply. Reading stops at the limit.
const MAX_OPEN_COMMANDS: usize = 64;
const READ_BYTES: usize = 8 * 1024;

/// An event of a connection for the runtime.
#[derive(Debug)]
pub(crate) struct ConnectionEvent {
    pub(crate) connection: u64,
    pub(crate) kind: EventKind,
}

#[derive(Debug)]
pub(crate) enum EventKind {
    /// The first frame. Frames to the peer go into `out`.
    Hello {
        /// The peer's protocol version.
        protocol: u32,
        /// The peer's daemon generation.
        generation: u64,
        /// The state that the peer wants for this runtime.
        desired: Desired,
        /// The sender of frames to the peer.
        out: mpsc::UnboundedSender<FromRuntime>,
    },
    /// A command of the peer.
    Command {
        /// The command's id for its reply.
        id: u64,
        command: RuntimeCommand,
    },
    /// The connection has ended.
    Closed,
}

#[derive(Deserialize)]
struct OnlyId {
    id: u64,
}

/// Serves a connection until either side ends it. One that does not begin with the `token` is closed.
pub(crate) async fn serve(
    stream: Stream,
    connection: u64,
    token: Option<String>,
    events: mpsc::Sender<ConnectionEvent>,
    ends: watch::Receiver<JournalEnd>,
) {
    // The reason does not matter: the daemon connects again.
    let _ = ConnectionReader { stream: &stream, connection, events: &events }.run(token, ends).await;
    let _ = events.send(ConnectionEvent { connection, kind: EventKind::Closed }).await;
}

pub(crate) async fn turn_away(stream: Stream, refusal: Refusal, generation: u64) {
    let frame = FromRuntime::Refused { refusal, generation };
    let refuse = async {
        // Closing a socket with an unread hello would look like an error to the peer.
        let _ = FrameBuffer::new().frame(&stream).await;
        write(&stream, &frame).await
    };
    // A courtesy: it does not matter whether the peer reads it.
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refuse).await;
}

struct ConnectionReader<'a> {
    stream: &'a Stream,
    connection: u64,
    events: &'a mpsc::Sender<ConnectionEvent>,
}

impl ConnectionReader<'_> {
    async fn run(&self, token: Option<String>, mut ends: watch::Receiver<JournalEnd>) -> io::Result<()> {
        let (out, mut frames) = mpsc::unbounded_channel();
        let mut input = FrameBuffer::new();
        if let Some(token) = token {
            let first = tokio::time::timeout(HELLO_TIMEOUT, input.frame(self.stream)).await;
            if !matches!(first, Ok(Ok(Some(line))) if line.trim_ascii() == token.as_bytes()) {
                return Ok(());
            }
        }
        let hello = tokio::time::timeout(HELLO_TIMEOUT, input.frame(self.stream)).await;
        let Ok(Ok(Some(line))) = hello else { return Ok(()) };
        let Ok(ToRuntime::Hello { protocol, generation, desired }) = serde_json::from_slice(&line) else {
            let refusal = Refusal::Unknown { message: "the first frame must be hello".to_owned() };
            return write(self.stream, &FromRuntime::Refused { refusal, generation: 0 }).await;
        };
        // The only sender: the runtime drops it to end this connection.
        self.pass_on(EventKind::Hello { protocol, generation, desired, out }).await?;
        // Replies not read yet, and frames that need no runtime.
        let open = Semaphore::new(MAX_OPEN_COMMANDS);
        let (own, mut own_frames) = mpsc::unbounded_channel();
        // Reads commands while a slow peer does not read: the two halves do not
        // wait for each other.
        tokio::select! {
            result = self.read(&mut input, &open, &own) => result,
            result = self.write(&mut frames, &mut own_frames, &open, &mut ends) => result,
        }
    }

    async fn read(
        &self,
        input: &mut FrameBuffer,
        open: &Semaphore,
        own: &mpsc::UnboundedSender<FromRuntime>,
    ) -> io::Result<()> {
        while let Some(line) = input.frame(self.stream).await? {
            // The permit returns with the reply.
            open.acquire().await.map_err(io::Error::other)?.forget();
            match serde_json::from_slice(&line) {
                Ok(ToRuntime::Command { id, command }) => {
                    self.pass_on(EventKind::Command { id, command }).await?
                }
                Ok(ToRuntime::Hello { .. }) => return Ok(()),
                Err(error) => {
                    let message = format!("protocol {PROTOCOL} has no such frame: {error}");
                    let Ok(OnlyId { id }) = serde_json::from_slice(&line) else { return Ok(()) };
                    let refusal = Some(Refusal::Unknown { message });
                    // The receiver lives as long as this future.
                    let _ = own.send(FromRuntime::Reply { id, refusal });
                }
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        frames: &mut mpsc::UnboundedReceiver<FromRuntime>,
        own_frames: &mut mpsc::UnboundedReceiver<FromRuntime>,
        open: &Semaphore,
        ends: &mut watch::Receiver<JournalEnd>,
    ) -> io::Result<()> {
        // The journal's end that the peer knows; `None` before the reply to its hello.
        let mut known: Option<JournalEnd> = None;
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.recv() => {
                    let Some(frame) = frame else { return Ok(()) };
                    frame
                }
                Some(frame) = own_frames.recv() => frame,
                changed = ends.changed(), if known.is_some() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let end = *ends.borrow_and_update();
                    if known >= Some(end) {
                        continue;
                    }
                    FromRuntime::End(end)
                }
            };
            write(self.stream, &frame).await?;
            match frame {
                FromRuntime::Hello(hello) => known = Some(hello.journal_end),
                FromRuntime::End(end) => known = Some(end),
                FromRuntime::Reply { .. } => open.add_permits(1),
                FromRuntime::Refused { .. } => return Ok(()),
            }
        }
    }

    async fn pass_on(&self, kind: EventKind) -> io::Result<()> {
        let event = ConnectionEvent { connection: self.connection, kind };
        self.events.send(event).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

/// Received frames that were not returned yet.
struct FrameBuffer {
    splitter: LineSplitter,
    lines: std::collections::VecDeque<Vec<u8>>,
}

impl FrameBuffer {
    fn new() -> Self {
        Self { splitter: LineSplitter::new(MAX_LINE_BYTES), lines: std::collections::VecDeque::new() }
    }

    /// Returns the next frame; `None` at the end. Cancel safe: bytes already read are kept.
    async fn frame(&mut self, mut stream: &Stream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let mut buffer = Vec::with_capacity(READ_BYTES);
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(None);
            }
            let mut too_long = false;
            let lines = &mut self.lines;
            self.splitter.feed(&buffer, |line| match line {
                AgentLine::Whole(line) => lines.push_back(line.to_vec()),
                AgentLine::TooLong { .. } => too_long = true,
            });
            if too_long {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
            }
        }
    }
}

async fn write(mut stream: &Stream, frame: &FromRuntime) -> io::Result<()> {
    let mut line = serde_json::to_vec(frame)?;
    line.push(b'\n');
    stream.write_all(&line).await
}
