//! A stream to a placed worker: owns the process of `dial`, writes the journal into the mirror, and
//! carries frames. Must not decide what the end of a stream means.

mod buffer;
pub(crate) mod channels;
mod ending;
mod error_output;
pub(crate) mod mirror;
pub(crate) mod redial;
pub(crate) mod turns;

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::stream::{
    CHUNK_BYTES, DAEMON_SILENCE, StreamControl, StreamDecoder, StreamMessage, StreamOpen,
};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Error, Result};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::supervisor::entropy;
use buffer::ReadBuffer;
use channels::{StreamChannels, TaskServing};
pub(crate) use ending::fenced;
pub(super) use ending::unreachable;
use ending::{broken, check_protocol, ended, no_stream, silent};
pub(super) use error_output::ErrorOutput;
use mirror::MirrorWriter;
use turns::{DialTurn, ReachedPlace, TakenTurn};

/// Time without a message after which the place is asked for a sign of life. Each stream adds up to
/// [`SPREAD`], so that many streams do not ask at once.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(15);
pub(crate) const SPREAD: Duration = Duration::from_secs(3);
/// The largest difference of two clocks that is not corrected.
const CLOCKS_AGREE: Duration = Duration::from_secs(2);
/// Time limit of the sign of life. Then the stream is ended.
pub(crate) const PONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a place that says much gets a sign of life. Others are asked for theirs before.
pub(crate) const LONGEST_SILENCE: Duration = KEEPALIVE.saturating_add(SPREAD);
const _: () = assert!(LONGEST_SILENCE.as_secs() < DAEMON_SILENCE.as_secs());

/// What is proved about a worker's processes there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndProof {
    /// Nothing was proved yet.
    #[default]
    None,
    /// The runtime has ended, and its whole journal is in the mirror.
    Runtime,
    /// The guard has ended too: no process of the agent is left.
    Guard,
}

/// What a stream has brought about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamState {
    pub(crate) proof: EndProof,
    /// Whether the place has ended with what it had of the journal.
    pub(crate) journal_lost: bool,
    /// Whether the place has answered in a protocol that this daemon speaks, or its engine for it.
    pub(crate) greeted: bool,
    /// The boot of the place's machine.
    pub(crate) boot_id: Option<String>,
    /// When `dial` was started; `None` while the stream waits for its turn.
    pub(crate) began: Option<Instant>,
    /// How much earlier the clock there is than the clock here, in milliseconds; 0 if they agree.
    pub(crate) clock_offset: i64,
    /// When the place was last heard. Watchers are not notified of it.
    pub(crate) heard: Option<Timestamp>,
    /// Why the stream has ended; `None` while it is open.
    pub(crate) end: Option<Error>,
}

/// How `dial` is started.
pub(super) enum DialCommand {
    Known(Command),
    /// It was started before, and waits for the first message.
    Started(Dialed),
    /// An engine is asked first.
    Asked(Pin<Box<dyn Future<Output = Result<DialTarget>> + Send>>),
}

/// What an engine says about the place of a runtime.
pub(super) enum DialTarget {
    /// This command reaches it, or what it has left.
    Reached(Box<Command>),
    /// It has ended, and all its files with it.
    Vanished,
}

/// A stream. Dropping it kills the process of `dial`; the runtime goes on.
pub(crate) struct PlacedStream {
    outgoing: mpsc::UnboundedSender<StreamMessage>,
    state: watch::Receiver<StreamState>,
    tasks: [JoinHandle<()>; 2],
    /// Lets it begin if it waits for its turn.
    hurry: Arc<Notify>,
}

impl PlacedStream {
    /// Starts `dial` with this command. Frames of the command socket go through the returned stream,
    /// which ends with the connection there. `serving` gets the connections of the task server. One that
    /// `hurries` waits for no turn.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(super) fn open(
        dial: DialCommand,
        open: StreamOpen,
        mirror: MirrorWriter,
        serving: Option<TaskServing>,
        turns: &DialTurn,
        hurries: bool,
    ) -> io::Result<(Self, DuplexStream)> {
        let (give_input, input) = oneshot::channel();
        let taken = if hurries { None } else { turns.now() };
        let waits = (taken.is_none() && !hurries).then(|| turns.clone());
        let (dial, dialed) = match dial {
            DialCommand::Started(dialed) => (None, Some(dialed)),
            DialCommand::Known(command) if waits.is_none() => (None, Some(Dialed::spawn(command)?)),
            DialCommand::Known(command) => (Some(DialCommand::Known(command)), None),
            asked @ DialCommand::Asked(_) => (Some(asked), None),
        };
        let (ours, theirs) = tokio::io::duplex(CHUNK_BYTES);
        let (from_actor, to_actor) = split(ours);
        let (outgoing, messages) = mpsc::unbounded_channel();
        // The receiver is alive.
        let _ = outgoing.send(StreamControl::Open(open).into());
        let (state, known) = watch::channel(StreamState::default());
        // A weak sender: the stream ends with the last sender of the actor.
        let (channels, of_channels) = StreamChannels::new(serving);
        let said = ErrorOutput::of(None);
        let asks = outgoing.downgrade();
        let hurry = Arc::new(Notify::new());
        let notified = Arc::clone(&hurry);
        let mut receiver = Receiver {
            mirror,
            to_actor,
            state,
            channels,
            asks,
            said,
            turns: turns.clone(),
            turn: None,
            reached: None,
        };
        let receives = async move {
            receiver.turn = match waits {
                Some(turns) => turns.wait(&notified).await,
                None => taken,
            };
            receiver.state.send_modify(|state| state.began = Some(Instant::now()));
            let spawned = |command| {
                let failed = |error: io::Error| unreachable("a client cannot be started", &error.to_string());
                Dialed::spawn(command).map_err(failed)
            };
            let dialed = match (dialed, dial) {
                (Some(dialed), _) => Ok(dialed),
                (None, Some(DialCommand::Known(command))) => spawned(command),
                (None, Some(DialCommand::Asked(asked))) => match asked.await {
                    Ok(DialTarget::Vanished) => return receiver.vanished().await,
                    Ok(DialTarget::Reached(command)) => spawned(*command),
                    Err(error) => Err(error),
                },
                (None, Some(DialCommand::Started(_)) | None) => Err(unreachable("there is no command", "")),
            };
            match dialed {
                Ok(Dialed { child, stdin, stdout, said, early }) => {
                    drop(early);
                    // The other task is alive, or the stream is dropped.
                    let _ = give_input.send(stdin);
                    Receiver { said, ..receiver }.run(child, stdout).await;
                }
                Err(error) => receiver.end(error).await,
            }
        };
        let sends = async move {
            if let Ok(stdin) = input.await {
                send(stdin, messages, from_actor, of_channels).await;
            }
        };
        let tasks = [tokio::spawn(receives), tokio::spawn(sends)];
        Ok((Self { outgoing, state: known, tasks, hurry }, theirs))
    }

    pub(super) fn state(&self) -> watch::Receiver<StreamState> {
        self.state.clone()
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<StreamMessage> {
        self.outgoing.clone()
    }

    /// Lets the stream begin if it waits for its turn.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Whether it has begun or waits to begin, and has not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.is_over() && self.state.borrow().end.is_none()
    }

    /// Whether nothing more will arrive.
    pub(super) fn is_over(&self) -> bool {
        self.tasks[0].is_finished()
    }
}

impl Drop for PlacedStream {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The process of `dial`. Dropping it kills it.
pub(super) struct Dialed {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    said: ErrorOutput,
    /// Of a `dial` that was started beside the runtime there. It is given back when the process ends or
    /// has its first message.
    early: Option<OwnedSemaphorePermit>,
}

impl Dialed {
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("it has no standard input or output");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let said = ErrorOutput::of(child.stderr.take());
        Ok(Self { child, stdin, stdout, said, early: None })
    }

    /// Starts it beside a start, in this turn.
    pub(super) fn early(command: Command, turn: OwnedSemaphorePermit) -> io::Result<Self> {
        Ok(Self { early: Some(turn), ..Self::spawn(command)? })
    }

    /// Whether the process has not ended.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

struct Receiver {
    mirror: MirrorWriter,
    to_actor: WriteHalf<DuplexStream>,
    state: watch::Sender<StreamState>,
    channels: StreamChannels,
    asks: mpsc::WeakUnboundedSender<StreamMessage>,
    said: ErrorOutput,
    turns: DialTurn,
    /// Until the place has answered.
    turn: Option<TakenTurn>,
    /// Since the place has answered.
    reached: Option<ReachedPlace>,
}

impl Receiver {
    /// Receives until the stream ends. `child` is killed then, if it has not ended.
    async fn run(mut self, mut child: Child, stdout: ChildStdout) {
        let spread = SPREAD.mul_f64(f64::from(child.id().unwrap_or(0) % 64) / 64.0);
        let why = match self.receive(stdout, KEEPALIVE + spread).await {
            Ok(()) => {
                let said = std::mem::replace(&mut self.said, ErrorOutput::of(None));
                ended(&mut child, said).await
            }
            Err(error) => error,
        };
        self.end(why).await;
    }

    /// The engine has proved the end of everything there. What was not received is lost.
    async fn vanished(mut self) {
        self.state.send_modify(|state| {
            if state.proof != EndProof::Guard {
                (state.greeted, state.journal_lost, state.proof) = (true, true, EndProof::Guard);
            }
        });
        // The other half may keep the stream open.
        let _ = self.to_actor.shutdown().await;
    }

    async fn end(mut self, why: Error) {
        (self.turn, self.reached) = (None, None);
        tracing::warn!(error = %why, "a stream to a placed worker has ended");
        self.state.send_modify(|state| state.end = Some(why));
        // The other half may keep the stream open.
        let _ = self.to_actor.shutdown().await;
    }

    async fn receive(&mut self, mut stdout: impl AsyncRead + Unpin, keepalive: Duration) -> Result<()> {
        let mut decoder = StreamDecoder::behind_banner();
        let mut buffer = ReadBuffer::new();
        loop {
            loop {
                match decoder.next_message() {
                    Ok(Some(message)) => self.take(message).await?,
                    Ok(None) => break,
                    Err(error) => return Err(no_stream(&error, decoder.banner(), &self.said)),
                }
            }
            buffer.renew();
            if self.read(&mut stdout, &mut buffer.0, keepalive).await? == 0 {
                return match decoder.banner() {
                    // The command has said why on its standard error.
                    None | Some([]) => Ok(()),
                    Some(banner) => {
                        self.said.add(banner);
                        Ok(())
                    }
                };
            }
            decoder.feed(&buffer.0);
        }
    }

    /// Reads, and asks a silent place for a sign of life. The time in which the actor takes nothing
    /// does not count, because then nothing is read.
    async fn read(
        &self,
        stdout: &mut (impl AsyncRead + Unpin),
        buffer: &mut Vec<u8>,
        keepalive: Duration,
    ) -> Result<usize> {
        let read = match timeout(keepalive, stdout.read_buf(buffer)).await {
            Ok(read) => read,
            Err(_) => {
                if let Some(outgoing) = self.asks.upgrade() {
                    // The other task is alive, or the stream ends.
                    let _ = outgoing.send(StreamControl::Ping.into());
                }
                timeout(PONG_TIMEOUT, stdout.read_buf(buffer))
                    .await
                    .map_err(|_| silent(keepalive + PONG_TIMEOUT, &self.said))?
            }
        };
        read.map_err(|error| broken(&error.to_string(), &self.said))
    }

    async fn take(&mut self, message: StreamMessage) -> Result<()> {
        self.state.send_if_modified(|state| {
            state.heard = Some(entropy::now());
            false
        });
        match message {
            // The actor may have dropped its connection.
            StreamMessage::Frames(bytes) => drop(self.to_actor.write_all(&bytes).await),
            StreamMessage::Journal { segment, offset, bytes } => {
                self.mirror
                    .write(segment, offset, &bytes)
                    .map_err(|error| broken(&format!("the mirror cannot be written: {error}"), &self.said))?
            }
            StreamMessage::Channel { channel, bytes } => {
                self.channels.is_given(channel, bytes).map_err(|error| broken(error, &self.said))?
            }
            StreamMessage::Control(StreamControl::ChannelOpen { channel }) => {
                self.channels.open(channel).map_err(|error| broken(error, &self.said))?
            }
            StreamMessage::Control(StreamControl::ChannelTaken { channel, bytes }) => {
                self.channels.is_taken(channel, bytes)
            }
            StreamMessage::Control(StreamControl::ChannelEnd { channel }) => self.channels.is_ended(channel),
            StreamMessage::Control(StreamControl::Hello(hello)) => {
                self.turn = None;
                self.reached = Some(self.turns.reached());
                check_protocol(&hello)?;
                let offset = hello.now_ms.map_or(0, |now| entropy::now().0.saturating_sub(now));
                self.state.send_modify(|state| {
                    (state.greeted, state.boot_id) = (true, Some(hello.boot_id));
                    // The way of the message takes time too.
                    let took = state.began.map_or(Duration::ZERO, |began| began.elapsed());
                    let differs = Duration::from_millis(offset.unsigned_abs()) > CLOCKS_AGREE + took;
                    state.clock_offset = if differs { offset } else { 0 };
                });
            }
            StreamMessage::Control(StreamControl::Closed) => drop(self.to_actor.shutdown().await),
            StreamMessage::Control(StreamControl::RuntimeGone) => {
                self.state.send_modify(|state| state.proof = EndProof::Runtime);
            }
            StreamMessage::Control(StreamControl::GuardGone) => {
                self.state.send_modify(|state| state.proof = EndProof::Guard);
            }
            StreamMessage::Control(StreamControl::Pong) => {}
            StreamMessage::Control(StreamControl::Fenced { generation }) => return Err(fenced(generation)),
            StreamMessage::Control(
                StreamControl::Open(_)
                | StreamControl::Stored { .. }
                | StreamControl::Kill
                | StreamControl::Ping,
            ) => return Err(broken("a message is not for this side", &self.said)),
        }
        Ok(())
    }
}

/// Sends messages and frames until the stream is dropped or breaks.
async fn send(
    mut stdin: ChildStdin,
    mut messages: mpsc::UnboundedReceiver<StreamMessage>,
    mut frames: ReadHalf<DuplexStream>,
    mut of_channels: mpsc::Receiver<StreamMessage>,
) {
    let mut buffer = ReadBuffer::new();
    let mut connected = true;
    loop {
        buffer.renew();
        let message = tokio::select! {
            // The first message is `open`.
            biased;
            message = messages.recv() => match message {
                Some(message) => message,
                None => return,
            },
            read = frames.read_buf(&mut buffer.0), if connected => {
                connected = matches!(read, Ok(1..));
                if !connected {
                    continue;
                }
                StreamMessage::Frames(buffer.0.clone())
            }
            // Last: a command does not wait for what channels carry.
            Some(message) = of_channels.recv() => message,
            () = sleep(LONGEST_SILENCE) => StreamControl::Ping.into(),
        };
        if write(&mut stdin, &message).await.is_err() {
            return;
        }
    }
}

async fn write(stdin: &mut (impl AsyncWrite + Unpin), message: &StreamMessage) -> io::Result<()> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    stdin.write_all(&bytes).await?;
    stdin.flush().await
}
