//! Reports readiness, end and a status line to systemd (`sd_notify`), for a foreground daemon only:
//! a background one is not a service, and its `NOTIFY_SOCKET` belongs to the starter. Failures are
//! only logged. Child processes do not get the variable (`supervisor::process`).

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use subagent_protocol::Error;
use tokio::sync::watch;

use super::options::{RunOptions, StartMode};

/// Variable with the manager's socket: a path, or `@` and a name in the abstract namespace.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Maximum wait for a manager with a full queue. Then the message is dropped.
const SEND_TIME: Duration = Duration::from_secs(2);

/// The service manager of this process, if there is one.
#[derive(Debug)]
pub(super) struct ServiceManager {
    socket: Option<OsString>,
}

impl ServiceManager {
    /// Finds the manager of a daemon with these options.
    pub(super) fn of(options: &RunOptions) -> Self {
        let watched = options.mode == StartMode::Foreground && !options.once;
        let socket = options.environment.var(NOTIFY_SOCKET).filter(|_| watched);
        Self { socket: socket.map(OsStr::to_owned) }
    }

    /// Reports that the daemon serves.
    pub(super) fn ready(&self, live: usize) {
        self.notify_manager(&format!("READY=1\nSTATUS={}", serving(live)));
    }

    /// Updates the status line when the number of live workers changes.
    pub(super) async fn follow(&self, mut live: watch::Receiver<usize>) -> Infallible {
        live.mark_unchanged();
        while self.socket.is_some() && live.changed().await.is_ok() {
            let now = *live.borrow_and_update();
            self.notify_manager(&format!("STATUS={}", serving(now)));
        }
        std::future::pending().await
    }

    /// Reports an orderly end.
    pub(super) fn stopping(&self, reason: &str) {
        self.notify_manager(&format!("STOPPING=1\nSTATUS={}", one_line(&format!("ending: {reason}"))));
    }

    /// Reports the error that ends the daemon.
    pub(super) fn failed(&self, error: &Error) {
        self.notify_manager(&format!("STATUS={}", one_line(&error.to_string())));
    }

    fn notify_manager(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = send(socket, message.as_bytes()) {
            tracing::warn!(?socket, %error, "the service manager cannot be notified");
        }
    }
}

fn serving(live: usize) -> String {
    match live {
        1 => "1 live worker".to_owned(),
        live => format!("{live} live workers"),
    }
}

/// Replaces control characters: a line break would begin another message.
fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn send(socket: &OsStr, message: &[u8]) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => {
            let why = "NOTIFY_SOCKET is neither an absolute path nor @ and a name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(SEND_TIME))?;
    sender.send_to_addr(message, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn a_message_stays_one_message() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let listener = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager { socket: Some(path.into_os_string()) };
        manager.failed(&Error::new(Code::Internal, "a\nREADY=1"));
        let mut buffer = [0; 256];
        let length = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"STATUS=INTERNAL_ERROR: a READY=1");
    }

    #[test]
    fn a_socket_that_cannot_be_is_an_error() {
        for socket in ["n", "vsock:2:1", "/nowhere/at/all"] {
            assert!(send(OsStr::new(socket), b"READY=1").is_err(), "{socket}");
        }
    }
}
