//! Connections of a placed worker's task server, which the stream carries as channels. The API
//! answers them like connections to the daemon's own socket. Must not read what they carry.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use subagent_protocol::ids::WorkerId;
use subagent_protocol::stream::{
    CHANNEL_CHUNK_BYTES, CHANNEL_WINDOW_BYTES, MAX_CHANNELS, StreamControl, StreamMessage,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Maximum number of connections that wait for the API. Further ones are closed.
const WAITING_CONNECTIONS: usize = 64;
/// Number of messages of channels that wait until nothing else is to be sent.
const WAITING_MESSAGES: usize = 4;

/// A connection of a process that the place has found to be below the agent of this worker.
pub(crate) struct PlacedConnection {
    pub(crate) worker: WorkerId,
    pub(crate) stream: DuplexStream,
}

/// Brings the connections of all streams to the API.
pub(crate) struct PlacedConnections {
    sender: mpsc::Sender<PlacedConnection>,
    receiver: Mutex<Option<mpsc::Receiver<PlacedConnection>>>,
}

impl Default for PlacedConnections {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_CONNECTIONS);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl PlacedConnections {
    /// Returns the source of connections, for the API; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<PlacedConnection>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns where the streams of this worker bring their connections.
    pub(crate) fn of(&self, worker: &WorkerId) -> TaskServing {
        TaskServing { worker: worker.clone(), api: self.sender.clone() }
    }
}

/// Where the connections of one worker's task server go.
#[derive(Clone)]
pub(crate) struct TaskServing {
    worker: WorkerId,
    api: mpsc::Sender<PlacedConnection>,
}

/// The channels of one stream. Dropping it ends their connections.
pub(super) struct StreamChannels {
    /// Absent if the worker gives no tasks.
    serving: Option<TaskServing>,
    outgoing: mpsc::Sender<StreamMessage>,
    open: HashMap<u64, StreamChannel>,
}

struct StreamChannel {
    incoming: mpsc::UnboundedSender<Vec<u8>>,
    /// Number of bytes that the API has not read yet.
    waiting: Arc<AtomicUsize>,
    /// How many bytes may be sent.
    credit: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Drop for StreamChannel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StreamChannels {
    /// Returns no channels, and the messages that they will send. Send those after all others.
    pub(super) fn new(serving: Option<TaskServing>) -> (Self, mpsc::Receiver<StreamMessage>) {
        let (outgoing, messages) = mpsc::channel(WAITING_MESSAGES);
        (Self { serving, outgoing, open: HashMap::new() }, messages)
    }

    /// Opens a channel. A connection that the API has no room for ends at once.
    ///
    /// # Errors
    /// If the place opens more than it may.
    pub(super) fn open(&mut self, channel: u64) -> Result<(), &'static str> {
        let serving = self.serving.as_ref().ok_or("a channel is opened for a worker that gives no tasks")?;
        self.open.retain(|_, open| !open.task.is_finished());
        if self.open.len() >= MAX_CHANNELS || self.open.contains_key(&channel) {
            return Err("too many channels are opened");
        }
        let (ours, theirs) = duplex(CHANNEL_CHUNK_BYTES);
        // Without room the other half is dropped, and the task below reports the end.
        let _ = serving.api.try_send(PlacedConnection { worker: serving.worker.clone(), stream: theirs });
        let (incoming, from_there) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let credit = Arc::new(Semaphore::new(CHANNEL_WINDOW_BYTES));
        let (reader, writer) = split(ours);
        let (inward, outward) = (
            write(channel, from_there, writer, Arc::clone(&waiting), self.outgoing.clone()),
            read(channel, reader, Arc::clone(&credit), self.outgoing.clone()),
        );
        let outgoing = self.outgoing.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = inward => {}
                () = outward => {}
            }
            // The place ignores the end of a channel that it has ended itself.
            let _ = outgoing.send(StreamControl::ChannelEnd { channel }.into()).await;
        });
        self.open.insert(channel, StreamChannel { incoming, waiting, credit, task });
        Ok(())
    }

    /// Takes bytes of a channel. A channel that has ended is not an error.
    ///
    /// # Errors
    /// If the place sends more than it may.
    pub(super) fn is_given(&self, channel: u64, bytes: Vec<u8>) -> Result<(), &'static str> {
        let Some(open) = self.open.get(&channel) else { return Ok(()) };
        let before = open.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if before + bytes.len() > CHANNEL_WINDOW_BYTES {
            return Err("a channel has more bytes than it may");
        }
        // The task may have ended.
        let _ = open.incoming.send(bytes);
        Ok(())
    }

    /// Lets a channel send more.
    pub(super) fn is_taken(&self, channel: u64, bytes: u64) {
        if let Some(open) = self.open.get(&channel) {
            let room = CHANNEL_WINDOW_BYTES.saturating_sub(open.credit.available_permits());
            open.credit.add_permits(usize::try_from(bytes).unwrap_or(room).min(room));
        }
    }

    /// The connection there has ended.
    pub(super) fn is_ended(&mut self, channel: u64) {
        self.open.remove(&channel);
    }
}

/// Passes on what the place sends.
async fn write(
    channel: u64,
    mut from_there: mpsc::UnboundedReceiver<Vec<u8>>,
    mut connection: WriteHalf<DuplexStream>,
    waiting: Arc<AtomicUsize>,
    outgoing: mpsc::Sender<StreamMessage>,
) {
    while let Some(bytes) = from_there.recv().await {
        if connection.write_all(&bytes).await.is_err() {
            return;
        }
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        let bytes = bytes.len() as u64;
        if outgoing.send(StreamControl::ChannelTaken { channel, bytes }.into()).await.is_err() {
            return;
        }
    }
}

/// Sends what the API answers.
async fn read(
    channel: u64,
    mut connection: ReadHalf<DuplexStream>,
    credit: Arc<Semaphore>,
    outgoing: mpsc::Sender<StreamMessage>,
) {
    let mut buffer = vec![0; CHANNEL_CHUNK_BYTES];
    loop {
        // Never closed.
        let Ok(permit) = credit.acquire().await else { return };
        permit.forget();
        let allowed = (1 + credit.available_permits()).min(CHANNEL_CHUNK_BYTES);
        let length = match connection.read(&mut buffer[..allowed]).await {
            Ok(length @ 1..) => length,
            Ok(_) | Err(_) => return,
        };
        // Nothing else uses permits.
        credit.forget_permits(length - 1);
        let bytes = buffer[..length].to_vec();
        if outgoing.send(StreamMessage::Channel { channel, bytes }).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn serving() -> (PlacedConnections, mpsc::Receiver<PlacedConnection>, TaskServing) {
        let connections = PlacedConnections::default();
        let serving = connections.of(&WorkerId::from_random([1; 5]));
        let api = connections.take().unwrap();
        assert!(connections.take().is_none());
        (connections, api, serving)
    }

    async fn next<T>(from: &mut mpsc::Receiver<T>) -> T {
        timeout(DEADLINE, from.recv()).await.expect("a message comes").unwrap()
    }

    #[tokio::test]
    async fn a_channel_carries_bytes_and_ends_with_either_side() {
        let (_kept, mut api, serving) = serving();
        let (mut channels, mut sent) = StreamChannels::new(Some(serving));
        channels.open(1).unwrap();
        let mut served = next(&mut api).await.stream;
        channels.is_given(1, b"ask".to_vec()).unwrap();
        let mut heard = [0; 3];
        served.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ask");
        assert_eq!(next(&mut sent).await, StreamControl::ChannelTaken { channel: 1, bytes: 3 }.into());
        served.write_all(b"answer").await.unwrap();
        assert_eq!(next(&mut sent).await, StreamMessage::Channel { channel: 1, bytes: b"answer".to_vec() });
        drop(served);
        assert_eq!(next(&mut sent).await, StreamControl::ChannelEnd { channel: 1 }.into());
        // What is on its way is ignored.
        channels.is_given(1, b"late".to_vec()).unwrap();
        channels.open(2).unwrap();
        let mut served = next(&mut api).await.stream;
        channels.is_ended(2);
        let ended = timeout(DEADLINE, served.read(&mut heard)).await.expect("the connection ends");
        assert_eq!(ended.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_slow_reader_on_either_side_bounds_its_channel_and_no_other() {
        let (_kept, mut api, serving) = serving();
        let (mut channels, mut sent) = StreamChannels::new(Some(serving));
        channels.open(1).unwrap();
        let mut slow = next(&mut api).await.stream;
        // The API may answer more than the window while nothing is taken there.
        let answer = tokio::spawn(async move {
            slow.write_all(&vec![b'x'; 3 * CHANNEL_WINDOW_BYTES]).await.unwrap();
            slow
        });
        let mut received = 0;
        while received < CHANNEL_WINDOW_BYTES {
            let StreamMessage::Channel { channel: 1, bytes } = next(&mut sent).await else { panic!() };
            received += bytes.len();
        }
        assert_eq!(received, CHANNEL_WINDOW_BYTES);
        channels.open(2).unwrap();
        next(&mut api).await.stream.write_all(b"other").await.unwrap();
        assert_eq!(next(&mut sent).await, StreamMessage::Channel { channel: 2, bytes: b"other".to_vec() });
        channels.is_taken(1, u64::MAX);
        while received < 2 * CHANNEL_WINDOW_BYTES {
            match next(&mut sent).await {
                StreamMessage::Channel { channel: 1, bytes } => received += bytes.len(),
                other => assert_eq!(other, StreamControl::ChannelEnd { channel: 2 }.into()),
            }
        }
        assert_eq!(received, 2 * CHANNEL_WINDOW_BYTES);
        // More than the window from there is refused.
        for _ in 0..CHANNEL_WINDOW_BYTES / CHANNEL_CHUNK_BYTES {
            channels.is_given(1, vec![0; CHANNEL_CHUNK_BYTES]).unwrap();
        }
        let mut refused = Ok(());
        for _ in 0..4 {
            refused = refused.and_then(|()| channels.is_given(1, vec![0; CHANNEL_CHUNK_BYTES]));
        }
        assert!(refused.is_err());
        answer.abort();
    }

    #[tokio::test]
    async fn only_so_many_channels_are_opened_and_none_without_tasks() {
        let (_kept, mut api, serving) = serving();
        let (mut channels, _sent) = StreamChannels::new(Some(serving));
        let mut served = Vec::new();
        for number in 0..MAX_CHANNELS as u64 {
            channels.open(number).unwrap();
            served.push(next(&mut api).await);
        }
        assert!(channels.open(1000).is_err());
        channels.is_ended(3);
        channels.open(1000).unwrap();
        assert!(StreamChannels::new(None).0.open(1).is_err());
    }
}
