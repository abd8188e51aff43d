//! A connection to a runtime: sends commands and receives notices. Events are not sent over it; the
//! daemon reads them from the journal.

use std::io;
use std::path::Path;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::tokio::Stream as _;
use interprocess::local_socket::{GenericFilePath, ToFsName as _};
use subagent_protocol::PROTOCOL;
use subagent_protocol::frame::{FromRuntime, RuntimeCommand, ToRuntime};
use subagent_protocol::state::Desired;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum length of a frame. Longer frames close the connection.
const MAX_FRAME_BYTES: u64 = 1024 * 1024;
/// Size of the read buffer, held for each runtime: a few common frames.
const READ_BYTES: usize = 1024;
/// Maximum number of notices that wait for the actor. The runtime merges notices that are not read.
const WAITING_FRAMES: usize = 64;
/// Time limit of a connect. The backlog of a stopped runtime may be full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An open connection. Dropping it closes it.
pub(crate) struct RuntimeConnection {
    outgoing: mpsc::UnboundedSender<ToRuntime>,
    incoming: mpsc::Receiver<FromRuntime>,
    tasks: [JoinHandle<()>; 2],
    next_id: u64,
}

impl RuntimeConnection {
    /// Connects and sends a hello. The answer arrives as a frame.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) async fn connect(socket: &Path, generation: u64, desired: Desired) -> io::Result<Self> {
        let name = socket.to_fs_name::<GenericFilePath>()?;
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, Stream::connect(name)).await.map_err(|_| {
            io::Error::new(io::ErrorKind::TimedOut, "the runtime does not accept connections")
        })??;
        Ok(Self::over(stream, generation, desired))
    }

    /// Sends a hello over an open byte stream.
    pub(crate) fn over(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        generation: u64,
        desired: Desired,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let (notices, incoming) = mpsc::channel(WAITING_FRAMES);
        let tasks = [tokio::spawn(read(reader, notices)), tokio::spawn(write(writer, to_write))];
        // The receiver lives as long as this value.
        let _ = outgoing.send(ToRuntime::Hello { protocol: PROTOCOL, generation, desired });
        Self { outgoing, incoming, tasks, next_id: 0 }
    }

    /// Sends a command and returns its id. A closed connection drops commands silently; commands
    /// that must arrive are sent again on the next connection.
    pub(crate) fn send(&mut self, command: RuntimeCommand) -> u64 {
        self.next_id += 1;
        let _ = self.outgoing.send(ToRuntime::Command { id: self.next_id, command });
        self.next_id
    }

    /// Returns the next frame, or `None` when the connection is closed. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<FromRuntime> {
        self.incoming.recv().await
    }
}

impl Drop for RuntimeConnection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn read(stream: impl AsyncRead + Unpin, notices: mpsc::Sender<FromRuntime>) {
    let mut reader = BufReader::with_capacity(READ_BYTES, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = tokio::io::AsyncReadExt::take(&mut reader, MAX_FRAME_BYTES);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() != Some(&b'\n') => {
                tracing::warn!(bytes = line.len(), "a runtime's frame is torn or too long");
                return;
            }
            Ok(_) => {}
        }
        match serde_json::from_slice::<FromRuntime>(&line) {
            Ok(frame) => {
                if notices.send(frame).await.is_err() {
                    return;
                }
            }
            // A newer runtime may send frames that this version does not know.
            Err(error) => tracing::warn!(%error, "a runtime's frame is not understood"),
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut frames: mpsc::UnboundedReceiver<ToRuntime>) {
    while let Some(frame) = frames.recv().await {
        let Ok(mut line) = serde_json::to_vec(&frame) else { continue };
        line.push(b'\n');
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Writes these bytes to the daemon's connection as a runtime would, and closes it. Returns the
/// frames that were decoded.
#[cfg(feature = "testing")]
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "for tests of this reader")]
pub fn frames_of_runtime(bytes: &[u8]) -> Vec<FromRuntime> {
    use interprocess::os::unix::uds_local_socket::tokio::Stream as UdsStream;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).unwrap();
        }
        let stream: Stream = UdsStream::try_from(std::os::fd::OwnedFd::from(ours)).unwrap().into();
        let (reader, writer) = tokio::io::split(stream);
        // The connection closes with the reader.
        drop(writer);
        let mut theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
        let (notices, mut incoming) = mpsc::channel(WAITING_FRAMES);
        let write = async move {
            // The reader may close the connection before everything is written.
            let _ = theirs.write_all(bytes).await;
        };
        let collect = async {
            let mut frames = Vec::new();
            while let Some(frame) = incoming.recv().await {
                frames.push(frame);
            }
            frames
        };
        let ((), (), frames) = tokio::join!(write, read(reader, notices), collect);
        frames
    })
}
