//! The conversation with `subagent dial-daemon` there, before the bytes of HTTP. Blocks until its
//! deadline, so that a command can ask for the workspace before it has an event queue.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use subagent_protocol::hosts::{
    DaemonHost, DialFailure, DialReply, DialRequest, MAX_DIAL_BYTES, after_greeting,
};

use super::process::SshProcess;
use crate::failure::{Failure, Result};

/// A conversation that has had its answer.
#[derive(Debug)]
pub(super) struct DialedHost {
    pub(super) reply: DialReply<Failure>,
    conversation: DialConversation,
}

#[derive(Debug)]
struct DialConversation {
    host: DaemonHost,
    ssh: SshProcess,
    stream: UnixStream,
    received: Vec<u8>,
}

/// Connects, and sends a request.
///
/// # Errors
/// `HOST_UNREACHABLE`, `HOST_NOT_PREPARED`.
pub(super) fn dial(host: &DaemonHost, request: &DialRequest, limit: Duration) -> Result<DialedHost> {
    let deadline = Instant::now() + limit;
    let (ssh, stream) = SshProcess::start(host)
        .map_err(|error| Failure::from(DialFailure::NoClient(&error.to_string()).error(host)))?;
    let mut conversation = DialConversation { host: host.clone(), ssh, stream, received: Vec::new() };
    loop {
        match after_greeting(&conversation.received).map(|rest| rest.map(<[u8]>::to_vec)) {
            Ok(Some(rest)) => {
                conversation.received = rest;
                conversation.ssh.greeted();
                return conversation.ask(request, deadline);
            }
            Ok(None) => conversation = conversation.more(deadline)?,
            Err(_) => return Err(conversation.foreign()),
        }
    }
}

impl DialedHost {
    /// Sends another request, after an answer without a daemon.
    ///
    /// # Errors
    /// Those of [`dial`].
    pub(super) fn ask(self, request: &DialRequest, limit: Duration) -> Result<Self> {
        self.conversation.ask(request, Instant::now() + limit)
    }

    /// Returns what carries the bytes of HTTP.
    pub(super) fn into_stream(self) -> io::Result<(UnixStream, SshProcess, DialReply<Failure>)> {
        let DialConversation { ssh, stream, .. } = self.conversation;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        stream.set_nonblocking(true)?;
        Ok((stream, ssh, self.reply))
    }
}

impl DialConversation {
    fn ask(mut self, request: &DialRequest, deadline: Instant) -> Result<DialedHost> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| Failure::internal(format!("cannot write a request: {error}")))?;
        line.push(b'\n');
        let limit = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let written = self.stream.set_write_timeout(Some(limit)).and_then(|()| self.stream.write_all(&line));
        if let Err(error) = written {
            return Err(self.lost(&error));
        }
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                return match serde_json::from_slice(&self.received[..end]) {
                    Ok(reply) => {
                        self.received.clear();
                        Ok(DialedHost { reply, conversation: self })
                    }
                    Err(_) => Err(self.foreign()),
                };
            }
            if self.received.len() > MAX_DIAL_BYTES {
                return Err(self.foreign());
            }
            self = self.more(deadline)?;
        }
    }

    /// Reads more bytes until the deadline.
    fn more(mut self, deadline: Instant) -> Result<Self> {
        let limit = deadline.saturating_duration_since(Instant::now());
        if limit.is_zero() {
            return Err(self.lost(&ErrorKind::TimedOut.into()));
        }
        let mut piece = [0; 4096];
        let read = self.stream.set_read_timeout(Some(limit)).and_then(|()| self.stream.read(&mut piece));
        match read {
            Ok(0) => Err(self.lost(&ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(self)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(self),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(self, error: &io::Error) -> Failure {
        if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) {
            return DialFailure::TimedOut(&self.ssh.said()).error(&self.host).into();
        }
        let (code, said) = self.ssh.ended();
        DialFailure::Exited(code, &said).error(&self.host).into()
    }

    fn foreign(self) -> Failure {
        DialFailure::Foreign(&self.ssh.said()).error(&self.host).into()
    }
}
