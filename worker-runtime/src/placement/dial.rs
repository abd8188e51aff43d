//! `subagent-runtime dial WORKER`: a stream between the daemon, on standard input and output, and a
//! placed worker. Ends when its input ends. Must not decide anything about the worker.

// Three threads, each blocked on one thing: the daemon's messages, frames to the runtime, and
// everything from the runtime. The third one waits for the locks without a limit, because only such
// a thread learns at once that a lock is free. The first one answers pings: it waits for no other
// thread, except while the output is full. Then the daemon has something to read.

use std::ffi::OsString;
use std::io::{self, Read as _, Stdin, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use rustix::process::pidfd_send_signal;
use subagent_protocol::stream::{
    CHUNK_BYTES, DAEMON_SILENCE, MAGIC, OLDEST_STREAM_PROTOCOL, STREAM_PROTOCOL, StreamControl,
    StreamDecoder, StreamHello, StreamMessage, StreamOpen,
};

use super::channels::ConnectionForwarder;
use super::folder::{Fenced, PlacedFolder, PlacedRecord, WorkerLock};
use super::segments::{self, JournalSource};
use super::there;
use crate::journal::batch::now;

/// Time after which a daemon that keeps its streams alive is not behind this one any more.
const SILENCE_LIMIT: Duration = DAEMON_SILENCE.saturating_mul(3);
const NOT_HERE: &str =
    "the worker was started at this place and its folder is gone: another host, or not mounted?";

/// Serves the daemon until it closes the stream.
///
/// # Errors
///
/// Of the system, or the daemon's messages are not understood. The daemon dials again.
pub(crate) fn run(worker: Option<OsString>) -> io::Result<()> {
    super::set_name(c"subagent-dial");
    let worker = super::worker_id(worker)?;
    subagent_failpoint::check("dial.before_open")?;
    let output = DaemonOutput;
    // It may be started before the runtime, and the daemon's machine may die then.
    let limit = Some(SILENCE_LIMIT);
    let mut input = DaemonInput { stdin: io::stdin(), decoder: StreamDecoder::plain(), limit };
    // The daemon speaks first: until then, `kubectl` may drop what it should pass on.
    let first = input.message()?;
    // A banner may end without a line end. Also for a check, which only closes its end.
    output.write(&[b"\n", MAGIC].concat())?;
    let open = match first {
        Some(StreamMessage::Control(StreamControl::Open(open))) => open,
        Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "the first message must open")),
        None => return Ok(()),
    };
    // The connection may be dead, and nothing else says so to a place.
    input.limit = open.is_kept_alive.then_some(SILENCE_LIMIT);
    let folder = Arc::new(PlacedFolder::create(&there::root(open.root.clone())?, &worker)?);
    // Before the greeting, so that the daemon does not count this place as reached.
    if let Err(fenced) = folder.serve(&open.epoch, |record| check_is_here(&open, record))? {
        return output.fenced(fenced);
    }
    output.send(&StreamControl::Hello(hello(&folder)?).into())?;
    if !(OLDEST_STREAM_PROTOCOL..=STREAM_PROTOCOL).contains(&open.protocol) {
        return Ok(());
    }
    // The runtime may be about to listen: the daemon dials again.
    let mut socket = UnixStream::connect(folder.socket()).ok();
    if let (Some(socket), Some(token)) = (&mut socket, &open.container_token) {
        // A runtime that does not read it has ended.
        let _ = socket.write_all(format!("{token}\n").as_bytes());
    }
    let channels = socket.as_ref().filter(|_| open.serves_tasks).and_then(|socket| {
        let channels = ConnectionForwarder::listen(&folder, socket, open.epoch.generation, output);
        // Without them only tasks fail, and their server says so.
        channels.map_err(|error| report(&format!("tasks are not served: {error}"))).ok()
    });
    let _closed_at_the_end = ForwarderGuard(channels.clone());
    let (frames, to_write) = mpsc::channel::<Vec<u8>>();
    if let Some(mut socket) = socket.as_ref().map(UnixStream::try_clone).transpose()? {
        std::thread::spawn(move || {
            // The reader of the socket reports its end.
            while to_write.recv().is_ok_and(|bytes| socket.write_all(&bytes).is_ok()) {}
        });
    }
    let reads = socket.as_ref().map(UnixStream::try_clone).transpose()?;
    let (shown, epoch) = (Arc::clone(&folder), open.epoch.clone());
    let ends = ForwarderGuard(channels.clone());
    std::thread::spawn(move || {
        if let Err(error) = forward(&shown, &open, (reads, ends), output) {
            report(&error.to_string());
            std::process::exit(2);
        }
    });
    while let Some(message) = input.message()? {
        match message {
            // Nothing reads them if there is no runtime.
            StreamMessage::Frames(bytes) => drop(frames.send(bytes)),
            StreamMessage::Channel { channel, bytes } => {
                channels.as_ref().map_or(Ok(()), |channels| channels.is_given(channel, bytes))?
            }
            StreamMessage::Control(StreamControl::ChannelTaken { channel, bytes }) => {
                channels.iter().for_each(|channels| channels.is_taken(channel, bytes))
            }
            StreamMessage::Control(StreamControl::ChannelEnd { channel }) => {
                channels.iter().for_each(|channels| channels.is_ended(channel))
            }
            StreamMessage::Control(StreamControl::Ping) => output.send(&StreamControl::Pong.into())?,
            // A newer daemon may have spoken since the stream began.
            StreamMessage::Control(StreamControl::Stored { segment }) => {
                let removed = folder.serve(&epoch, |_| segments::remove_before(folder.path(), segment))?;
                if let Err(fenced) = removed {
                    return output.fenced(fenced);
                }
            }
            StreamMessage::Control(StreamControl::Kill) => {
                let killed = folder.serve(&epoch, |_| socket.as_ref().map_or(Ok(()), kill_listener))?;
                if let Err(fenced) = killed {
                    return output.fenced(fenced);
                }
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is not for this side")),
        }
    }
    Ok(())
}

/// Closes the channels when it is dropped.
struct ForwarderGuard(Option<ConnectionForwarder>);

impl Drop for ForwarderGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(ConnectionForwarder::close);
    }
}

/// Lost if stderr is gone too. The daemon shows it with the end of the stream.
fn report(what: &str) {
    let _ = writeln!(io::stderr(), "subagent-runtime: {what}");
}

fn hello(folder: &PlacedFolder) -> io::Result<StreamHello> {
    let later = super::later_protocol();
    Ok(StreamHello {
        oldest_protocol: OLDEST_STREAM_PROTOCOL + later,
        protocol: STREAM_PROTOCOL + later,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: super::boot_id()?,
        segment: segments::newest(folder.path()),
        runtime_lives: folder.try_lock(WorkerLock::Runtime)?.is_none(),
        guard_lives: folder.try_lock(WorkerLock::Guard)?.is_none(),
        now_ms: Some(now()),
    })
}

/// Forwards everything from the runtime, then the proofs that it and its guard have ended.
fn forward(
    folder: &PlacedFolder,
    open: &StreamOpen,
    (socket, channels): (Option<UnixStream>, ForwarderGuard),
    output: DaemonOutput,
) -> io::Result<()> {
    let mut journal = JournalSource::new(folder.path(), open.segment, open.offset);
    if let Some(mut socket) = socket {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let length = match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // Records are written before any frame that follows from them, and arrive before it.
            journal.pump(false, &mut |message| output.send(&message))?;
            output.send(&StreamMessage::Frames(buffer[..length].to_vec()))?;
        }
    }
    // The runtime has ended, or serves a newer stream, whose channels replace these.
    drop(channels);
    // A newer daemon takes the runtime's only connection.
    if let Err(fenced) = folder.serve(&open.epoch, |_| Ok(()))? {
        return output.fenced(fenced);
    }
    output.send(&StreamControl::Closed.into())?;
    let lock = folder.lock(WorkerLock::Runtime)?;
    let over = folder.serve(&open.epoch, |record| {
        check_is_here(open, record)?;
        record.incarnation = record.incarnation.max(open.incarnation);
        Ok(())
    })?;
    // Not held while the daemon reads: a dead connection would keep the next stream from its proof.
    drop(lock);
    if let Err(fenced) = over {
        return output.fenced(fenced);
    }
    journal.pump(true, &mut |message| output.send(&message))?;
    if let Err(fenced) = folder.serve(&open.epoch, |_| Ok(()))? {
        return output.fenced(fenced);
    }
    output.send(&StreamControl::RuntimeGone.into())?;
    drop(folder.lock(WorkerLock::Guard)?);
    output.send(&StreamControl::GuardGone.into())
}

/// Refuses a folder that does not know a runtime which was started.
fn check_is_here(open: &StreamOpen, record: &PlacedRecord) -> io::Result<()> {
    match open.is_known && record.incarnation < open.incarnation {
        true => Err(io::Error::new(io::ErrorKind::NotFound, NOT_HERE)),
        false => Ok(()),
    }
}

/// Kills the process that listens on the other end, and no other one with its pid.
pub(super) fn kill_listener(socket: &UnixStream) -> io::Result<()> {
    let killed = match getsockopt(socket, sockopt::PeerPidfd) {
        Ok(handle) => pidfd_send_signal(&handle, rustix::process::Signal::KILL).map_err(io::Error::from),
        // Before Linux 6.5. The runtime is alive while the connection is, so its pid is its own.
        Err(_) => {
            let pid = getsockopt(socket, sockopt::PeerCredentials)?.pid();
            kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(io::Error::from)
        }
    };
    match killed {
        // It has ended.
        Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(()),
        other => other,
    }
}

struct DaemonInput {
    stdin: Stdin,
    decoder: StreamDecoder,
    /// The longest wait for bytes; `None`: without a limit.
    limit: Option<Duration>,
}

impl DaemonInput {
    /// Returns the next message; `None` at the end.
    ///
    /// # Errors
    /// Of the system, or the daemon is silent for too long.
    fn message(&mut self) -> io::Result<Option<StreamMessage>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(message) = self.decoder.next_message().map_err(io::Error::other)? {
                return Ok(Some(message));
            }
            self.wait()?;
            match self.stdin.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => self.decoder.feed(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the input can be read. Nothing of it is buffered: all reads are large.
    fn wait(&self) -> io::Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let limit = PollTimeout::try_from(limit).map_err(io::Error::other)?;
        loop {
            match poll(&mut [PollFd::new(self.stdin.as_fd(), PollFlags::POLLIN)], limit) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the daemon says nothing any more"));
                }
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Standard output. Its lock keeps the messages of several threads whole.
#[derive(Clone, Copy)]
pub(super) struct DaemonOutput;

impl DaemonOutput {
    pub(super) fn send(self, message: &StreamMessage) -> io::Result<()> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.write(&bytes)
    }

    /// The last message: the place serves another daemon.
    fn fenced(self, Fenced { generation }: Fenced) -> io::Result<()> {
        self.send(&StreamControl::Fenced { generation }.into())
    }

    fn write(self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }
}
