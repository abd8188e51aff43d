//! Connections of a placed worker's task server, as channels of the stream. A channel whose reader
//! is slow delays no other message. Must not read what the channels carry.

// Each channel has two threads, each blocked on one thing: the connection, and the bytes from the
// daemon. Both end with the connection.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use subagent_protocol::stream::{
    CHANNEL_CHUNK_BYTES, CHANNEL_WINDOW_BYTES, MAX_CHANNELS, StreamControl, StreamMessage,
};

use super::dial::DaemonOutput;
use super::folder::PlacedFolder;
use super::task_socket::TaskSocket;

/// All channels of a stream. A clone is cheap.
#[derive(Clone)]
pub(super) struct ConnectionForwarder(Arc<ChannelSet>);

struct ChannelSet {
    output: DaemonOutput,
    socket: TaskSocket,
    table: Mutex<ChannelTable>,
}

#[derive(Default)]
struct ChannelTable {
    open: HashMap<u64, ForwardedConnection>,
    last: u64,
    /// Whether the stream or the runtime has ended.
    is_closed: bool,
}

struct ForwardedConnection {
    connection: UnixStream,
    /// `None` after the daemon has ended the channel. Then what it sent before is still written.
    to_write: Option<mpsc::Sender<Vec<u8>>>,
    /// Number of bytes from the daemon that were not written yet.
    waiting: usize,
    credit: Arc<Credit>,
}

impl ConnectionForwarder {
    /// Listens beside the runtime at the other end of `runtime`.
    ///
    /// # Errors
    ///
    /// Those of [`TaskSocket::listen`].
    pub(super) fn listen(
        folder: &Arc<PlacedFolder>,
        runtime: &UnixStream,
        generation: u64,
        output: DaemonOutput,
    ) -> io::Result<Self> {
        let socket = TaskSocket::listen(folder, runtime, generation)?;
        let channels = Self(Arc::new(ChannelSet { output, socket, table: Mutex::default() }));
        let accepting = channels.clone();
        std::thread::spawn(move || {
            while let Ok(connection) = accepting.0.socket.accept() {
                // It is closed if it cannot be served; its client tries again.
                let _ = accepting.open(connection);
            }
        });
        Ok(channels)
    }

    fn table(&self) -> MutexGuard<'_, ChannelTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, connection: UnixStream) -> io::Result<()> {
        let (reader, writer) = (connection.try_clone()?, connection.try_clone()?);
        let (to_write, from_daemon) = mpsc::channel();
        let credit = Arc::new(Credit::default());
        let number = {
            let mut table = self.table();
            if table.is_closed || table.open.len() >= MAX_CHANNELS {
                return Err(io::Error::other("no further channel can be opened"));
            }
            table.last += 1;
            let number = table.last;
            let to_write = Some(to_write);
            let channel =
                ForwardedConnection { connection, to_write, waiting: 0, credit: Arc::clone(&credit) };
            table.open.insert(number, channel);
            number
        };
        self.0.output.send(&StreamControl::ChannelOpen { channel: number }.into())?;
        let (reading, writing) = (self.clone(), self.clone());
        std::thread::spawn(move || {
            // An error ends the channel as the end of the connection does.
            let _ = reading.read(number, reader, &credit);
            reading.end(number, false);
        });
        std::thread::spawn(move || {
            // The client reads the end after the last byte.
            let _ = writing.write(number, &writer, &from_daemon);
            writing.end(number, true);
        });
        Ok(())
    }

    /// Sends what the connection brings.
    fn read(&self, channel: u64, mut connection: UnixStream, credit: &Credit) -> io::Result<()> {
        let mut buffer = [0; CHANNEL_CHUNK_BYTES];
        while let Some(allowed) = credit.wait() {
            let length = match connection.read(&mut buffer[..allowed.min(CHANNEL_CHUNK_BYTES)]) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            credit.use_up(length);
            self.0.output.send(&StreamMessage::Channel { channel, bytes: buffer[..length].to_vec() })?;
        }
        Ok(())
    }

    /// Writes what the daemon has sent.
    fn write(
        &self,
        channel: u64,
        mut connection: &UnixStream,
        from_daemon: &mpsc::Receiver<Vec<u8>>,
    ) -> io::Result<()> {
        while let Ok(bytes) = from_daemon.recv() {
            connection.write_all(&bytes)?;
            if let Some(open) = self.table().open.get_mut(&channel) {
                open.waiting -= bytes.len();
            } else {
                continue;
            }
            let bytes = bytes.len() as u64;
            self.0.output.send(&StreamControl::ChannelTaken { channel, bytes }.into())?;
        }
        Ok(())
    }

    /// Ends a channel whose connection has ended. If the daemon has ended it, only the thread that
    /// writes the rest may do so.
    fn end(&self, channel: u64, has_written: bool) {
        let ended = {
            let mut table = self.table();
            let may_end = |open: &ForwardedConnection| has_written || open.to_write.is_some();
            let may_end = table.open.get(&channel).is_some_and(may_end);
            if may_end { table.open.remove(&channel) } else { None }
        };
        if let Some(ended) = ended {
            ended.close();
            // One that has ended is ignored there. Without a reader the stream ends too.
            let _ = self.0.output.send(&StreamControl::ChannelEnd { channel }.into());
        }
    }

    /// Takes bytes of a channel. Never waits. A channel that has ended is not an error.
    ///
    /// # Errors
    ///
    /// If the daemon sends more than it may.
    pub(super) fn is_given(&self, channel: u64, bytes: Vec<u8>) -> io::Result<()> {
        let mut table = self.table();
        let Some(open) = table.open.get_mut(&channel) else { return Ok(()) };
        open.waiting += bytes.len();
        if open.waiting > CHANNEL_WINDOW_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a channel has more bytes than it may"));
        }
        if let Some(to_write) = &open.to_write {
            // Its thread ends only after the channel.
            let _ = to_write.send(bytes);
        }
        Ok(())
    }

    /// Lets a channel send more.
    pub(super) fn is_taken(&self, channel: u64, bytes: u64) {
        if let Some(open) = self.table().open.get(&channel) {
            open.credit.add(usize::try_from(bytes).unwrap_or(CHANNEL_WINDOW_BYTES));
        }
    }

    /// The daemon has ended a channel: the connection ends after what was sent before. It counts
    /// until then.
    pub(super) fn is_ended(&self, channel: u64) {
        if let Some(ended) = self.table().open.get_mut(&channel) {
            ended.to_write = None;
            ended.credit.close();
        }
    }

    /// Ends all channels and accepts no more.
    pub(super) fn close(&self) {
        self.0.socket.close();
        let open = {
            let mut table = self.table();
            table.is_closed = true;
            std::mem::take(&mut table.open)
        };
        open.into_iter().for_each(|(_, channel)| channel.close());
    }
}

impl ForwardedConnection {
    fn close(self) {
        self.credit.close();
        // The connection may have ended.
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

/// How many bytes may be sent on a channel.
struct Credit {
    /// `None` after the end of the channel.
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Default for Credit {
    fn default() -> Self {
        Self { left: Mutex::new(Some(CHANNEL_WINDOW_BYTES)), changed: Condvar::new() }
    }
}

impl Credit {
    /// Waits until something may be sent, and returns how much; `None` after the end.
    fn wait(&self) -> Option<usize> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *self.changed.wait_while(left, |left| *left == Some(0)).unwrap_or_else(PoisonError::into_inner)
    }

    fn use_up(&self, bytes: usize) {
        self.change(|left| left.saturating_sub(bytes));
    }

    fn add(&self, bytes: usize) {
        self.change(|left| left.saturating_add(bytes).min(CHANNEL_WINDOW_BYTES));
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.map(change);
        self.changed.notify_all();
    }

    fn close(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_sends_no_more_than_its_window_until_bytes_are_taken_or_it_ends() {
        let credit = Arc::new(Credit::default());
        assert_eq!(credit.wait(), Some(CHANNEL_WINDOW_BYTES));
        credit.use_up(CHANNEL_WINDOW_BYTES - 1);
        assert_eq!(credit.wait(), Some(1));
        credit.use_up(1);
        let waiting = Arc::clone(&credit);
        let waits = std::thread::spawn(move || (waiting.wait(), waiting.wait()));
        credit.add(7);
        // More than was used up is no credit.
        credit.add(10 * CHANNEL_WINDOW_BYTES);
        assert!(credit.wait() == Some(CHANNEL_WINDOW_BYTES));
        assert!(waits.join().unwrap().0.is_some_and(|bytes| bytes > 0));
        credit.use_up(CHANNEL_WINDOW_BYTES);
        let waiting = Arc::clone(&credit);
        let waits = std::thread::spawn(move || waiting.wait());
        credit.close();
        assert_eq!(waits.join().unwrap(), None);
    }
}
