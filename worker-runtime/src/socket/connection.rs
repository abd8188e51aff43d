//! One connection: frames in, frames out, as one task.
//!
//! Must not decide anything. Of the journal's ends only the newest is ever sent: a slow daemon holds nobody up.

use std::io;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use serde::Deserialize;
use subagent_protocol::frame::{Command, FromRuntime, JournalEnd, Refusal, ToRuntime};
use subagent_protocol::state::Desired;
use subagent_protocol::{MAX_LINE_BYTES, PROTOCOL};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::acp::lines::{Line, LineSplitter};

/// A peer that says nothing is not kept.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// A peer that does not read its refusal is not waited for.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);
/// Commands of a connection whose replies it has not taken; behind them it is not heard.
const MAX_OPEN_COMMANDS: usize = 64;
const READ_BYTES: usize = 8 * 1024;

/// Something that a connection has for the runtime.
#[derive(Debug)]
pub(crate) struct Event {
    /// The connection.
    pub(crate) connection: u64,
    /// What it is.
    pub(crate) kind: EventKind,
}

/// What a connection may have.
#[derive(Debug)]
pub(crate) enum EventKind {
    /// The first frame. The answer goes into `out`.
    Hello {
        /// The peer's protocol.
        protocol: u32,
        /// Its generation.
        generation: u64,
        /// What it wants us to be doing.
        desired: Desired,
        /// Where frames to it go.
        out: mpsc::UnboundedSender<FromRuntime>,
    },
    /// A command.
    Command {
        /// Its id.
        id: u64,
        /// What to do.
        command: Command,
    },
    /// It is over.
    Closed,
}

#[derive(Deserialize)]
struct OnlyId {
    id: u64,
}

/// Serves a connection until either side ends it.
pub(crate) async fn serve(
    stream: Stream,
    connection: u64,
    events: mpsc::Sender<Event>,
    ends: watch::Receiver<JournalEnd>,
) {
    // How it ended does not matter: the daemon connects again.
    let _ = Connection { stream: &stream, connection, events: &events }.run(ends).await;
    let _ = events.send(Event { connection, kind: EventKind::Closed }).await;
}

/// Tells a peer that it is not served.
pub(crate) async fn turn_away(stream: Stream, refusal: Refusal, generation: u64) {
    let frame = FromRuntime::Refused { refusal, generation };
    let refuse = async {
        // Closing a socket with its hello unread would look like an error to the peer.
        let _ = Input::new().frame(&stream).await;
        write(&stream, &frame).await
    };
    // A courtesy: whether it is read does not matter.
    let _ = tokio::time::timeout(REFUSAL_PATIENCE, refuse).await;
}

struct Connection<'a> {
    stream: &'a Stream,
    connection: u64,
    events: &'a mpsc::Sender<Event>,
}

impl Connection<'_> {
    async fn run(&self, mut ends: watch::Receiver<JournalEnd>) -> io::Result<()> {
        let (out, mut frames) = mpsc::unbounded_channel();
        let mut input = Input::new();
        let hello = tokio::time::timeout(HELLO_PATIENCE, input.frame(self.stream)).await;
        let Ok(Ok(Some(line))) = hello else { return Ok(()) };
        let Ok(ToRuntime::Hello { protocol, generation, desired }) = serde_json::from_slice(&line) else {
            let refusal = Refusal::Unknown { message: "the first frame must be hello".to_owned() };
            return write(self.stream, &FromRuntime::Refused { refusal, generation: 0 }).await;
        };
        // The only sender: the runtime drops it to end this connection.
        self.tell(EventKind::Hello { protocol, generation, desired, out }).await?;
        // Replies that were not read yet; and those that need no runtime.
        let open = Semaphore::new(MAX_OPEN_COMMANDS);
        let (own, mut own_frames) = mpsc::unbounded_channel();
        // Commands are heard while a slow peer does not read: the two halves do not wait for each other.
        tokio::select! {
            result = self.read(&mut input, &open, &own) => result,
            result = self.write(&mut frames, &mut own_frames, &open, &mut ends) => result,
        }
    }

    async fn read(
        &self,
        input: &mut Input,
        open: &Semaphore,
        own: &mpsc::UnboundedSender<FromRuntime>,
    ) -> io::Result<()> {
        while let Some(line) = input.frame(self.stream).await? {
            // Given back with the reply.
            open.acquire().await.map_err(io::Error::other)?.forget();
            match serde_json::from_slice(&line) {
                Ok(ToRuntime::Command { id, command }) => {
                    self.tell(EventKind::Command { id, command }).await?
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
        // What the peer knows of the journal; nothing before the answer to its hello.
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

    async fn tell(&self, kind: EventKind) -> io::Result<()> {
        let event = Event { connection: self.connection, kind };
        self.events.send(event).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

/// Frames that were read and not handed out yet.
struct Input {
    splitter: LineSplitter,
    lines: std::collections::VecDeque<Vec<u8>>,
}

impl Input {
    fn new() -> Self {
        Self { splitter: LineSplitter::new(MAX_LINE_BYTES), lines: std::collections::VecDeque::new() }
    }

    /// The next frame, `None` at the end. Cancel safe: what was read is kept.
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
                Line::Whole(line) => lines.push_back(line.to_vec()),
                Line::TooLong { .. } => too_long = true,
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
