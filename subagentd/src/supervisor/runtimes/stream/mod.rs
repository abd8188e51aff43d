//! A stream to a placed worker: owns the process of `dial`, writes the journal into the mirror, and
//! carries frames. Must not decide what the end of a stream means.

pub(crate) mod mirror;

use std::io;
use std::process::Stdio;

use subagent_protocol::stream::{CHUNK_BYTES, StreamControl, StreamDecoder, StreamMessage, StreamOpen};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use mirror::MirrorWriter;

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

/// A stream. Dropping it kills the process of `dial`; the runtime goes on.
pub(crate) struct PlacedStream {
    outgoing: mpsc::UnboundedSender<StreamMessage>,
    proof: watch::Receiver<EndProof>,
    tasks: [JoinHandle<()>; 2],
}

impl PlacedStream {
    /// Starts `dial` with this command. Frames of the command socket go through the returned stream,
    /// which ends with the connection there.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(super) fn open(
        mut dial: Command,
        open: StreamOpen,
        mirror: MirrorWriter,
    ) -> io::Result<(Self, DuplexStream)> {
        let mut child = dial
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("it has no standard input or output");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let (ours, theirs) = tokio::io::duplex(CHUNK_BYTES);
        let (from_actor, to_actor) = split(ours);
        let (outgoing, messages) = mpsc::unbounded_channel();
        // The receiver is alive.
        let _ = outgoing.send(StreamControl::Open(open).into());
        let (proved, proof) = watch::channel(EndProof::None);
        let receiver = Receiver { mirror, to_actor, proved };
        let tasks =
            [tokio::spawn(receiver.run(child, stdout)), tokio::spawn(send(stdin, messages, from_actor))];
        Ok((Self { outgoing, proof, tasks }, theirs))
    }

    pub(super) fn proof(&self) -> watch::Receiver<EndProof> {
        self.proof.clone()
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<StreamMessage> {
        self.outgoing.clone()
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

struct Receiver {
    mirror: MirrorWriter,
    to_actor: WriteHalf<DuplexStream>,
    proved: watch::Sender<EndProof>,
}

impl Receiver {
    /// Receives until the stream ends. `_child` is killed then, if it has not ended.
    async fn run(mut self, _child: Child, stdout: ChildStdout) {
        if let Err(error) = self.receive(stdout).await {
            tracing::warn!(%error, "a stream to a placed worker broke");
        }
        // The other half may keep the stream open.
        let _ = self.to_actor.shutdown().await;
    }

    async fn receive(&mut self, mut stdout: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut decoder = StreamDecoder::behind_banner();
        let mut buffer = Vec::with_capacity(CHUNK_BYTES);
        loop {
            while let Some(message) = decoder.next_message().map_err(io::Error::other)? {
                self.take(message).await?;
            }
            buffer.clear();
            if stdout.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            decoder.feed(&buffer);
        }
    }

    async fn take(&mut self, message: StreamMessage) -> io::Result<()> {
        match message {
            // The actor may have dropped its connection.
            StreamMessage::Frames(bytes) => drop(self.to_actor.write_all(&bytes).await),
            StreamMessage::Journal { segment, offset, bytes } => {
                self.mirror.write(segment, offset, &bytes)?
            }
            StreamMessage::Control(StreamControl::Hello(hello)) => {
                tracing::debug!(?hello, "a placed worker answers");
            }
            StreamMessage::Control(StreamControl::Closed) => drop(self.to_actor.shutdown().await),
            StreamMessage::Control(StreamControl::RuntimeGone) => {
                self.proved.send_replace(EndProof::Runtime);
            }
            StreamMessage::Control(StreamControl::GuardGone) => {
                self.proved.send_replace(EndProof::Guard);
            }
            StreamMessage::Control(
                StreamControl::Open(_) | StreamControl::Stored { .. } | StreamControl::Kill,
            ) => return Err(io::Error::other("a message is not for this side")),
        }
        Ok(())
    }
}

/// Sends messages and frames until the stream is dropped or breaks.
async fn send(
    mut stdin: ChildStdin,
    mut messages: mpsc::UnboundedReceiver<StreamMessage>,
    mut frames: ReadHalf<DuplexStream>,
) {
    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    let mut connected = true;
    loop {
        buffer.clear();
        let message = tokio::select! {
            // The first message is `open`.
            biased;
            message = messages.recv() => match message {
                Some(message) => message,
                None => return,
            },
            read = frames.read_buf(&mut buffer), if connected => {
                connected = matches!(read, Ok(1..));
                if !connected {
                    continue;
                }
                StreamMessage::Frames(buffer.clone())
            }
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
