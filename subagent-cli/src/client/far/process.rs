//! The ssh process of one stream: both directions are one socket, which hyper takes as it takes that
//! of a daemon here. Dropping it ends the process: by a signal before the other side has greeted, later
//! by the end of its input, because other sessions may share its connection.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_protocol::hosts::DaemonHost;
use subagent_protocol::placement::client::MAX_SAID_BYTES;
use subagent_protocol::placement::ssh;

/// Time for the rest of standard error after the end of the stream.
const REST: Duration = Duration::from_millis(500);

/// The clients that have not been answered: they do not end with their input.
static UNANSWERED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Ends all clients that have not been answered, before a process ends that does not wait for them.
pub(crate) fn end_dialing() {
    for pid in UNANSWERED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // It is a child that was not reaped, so the pid is its own.
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

fn note(child: &Child, is_unanswered: bool) {
    let Ok(pid) = i32::try_from(child.id()) else { return };
    let mut unanswered = UNANSWERED.lock().unwrap_or_else(PoisonError::into_inner);
    match is_unanswered {
        true => unanswered.insert(pid),
        false => unanswered.remove(&pid),
    };
}

/// A running ssh client.
#[derive(Debug)]
pub(in crate::client) struct SshProcess {
    /// Absent once it was waited for.
    child: Option<Child>,
    /// Whether `dial-daemon` has answered, which ends with its input.
    has_greeted: bool,
    said: Arc<Mutex<Vec<u8>>>,
    said_all: Receiver<()>,
}

impl SshProcess {
    /// Starts the client, which runs `dial-daemon` there.
    pub(super) fn start(host: &DaemonHost) -> io::Result<(Self, UnixStream)> {
        let (own, other) = UnixStream::pair()?;
        let input: OwnedFd = other.try_clone()?.into();
        let mut child = Command::new(ssh::CLIENT)
            .args(host.remote.arguments(&host.dial_line()))
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(OwnedFd::from(other)))
            .stderr(Stdio::piped())
            // Ctrl-C is for the command, which may have to say something to the daemon.
            .process_group(0)
            .spawn()?;
        note(&child, true);
        let said = Arc::new(Mutex::new(Vec::new()));
        let (ended, said_all) = channel();
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            thread::Builder::new().name("ssh stderr".to_owned()).spawn(move || {
                keep_end(stderr, &said);
                // Without a receiver, the process was dropped.
                let _ = ended.send(());
            })?;
        }
        Ok((Self { child: Some(child), has_greeted: false, said, said_all }, own))
    }

    /// Returns the exit code and the end of standard error, after the end of the stream.
    pub(super) fn ended(mut self) -> (Option<i32>, Vec<u8>) {
        // A shared connection may keep standard error open.
        let is_ending = self.said_all.recv_timeout(REST).is_ok();
        let child = if is_ending || !self.has_greeted { self.child.take() } else { None };
        let code = child.and_then(|mut child| {
            note(&child, false);
            if !is_ending {
                // A process that is ending keeps its exit code.
                let _ = child.kill();
            }
            child.wait().ok()?.code()
        });
        (code, self.said())
    }

    /// Notes that `dial-daemon` has answered.
    pub(super) fn greeted(&mut self) {
        self.has_greeted = true;
        self.child.iter().for_each(|child| note(child, false));
    }

    /// Returns the end of standard error so far.
    pub(super) fn said(&self) -> Vec<u8> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads until the end, and keeps the last bytes.
fn keep_end(mut stderr: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut piece) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..count]);
        let excess = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..excess);
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        note(&child, false);
        if self.has_greeted {
            // The stream is closed, so it ends by itself, or with the other sessions of its connection.
            // It is reaped then; without a thread, at the end of this process.
            let _ = thread::Builder::new().name("ssh".to_owned()).spawn(move || child.wait());
            return;
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
