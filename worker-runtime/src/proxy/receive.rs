//! The proxy's end of a channel: receives the listening socket, and notices the guard's end.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;

#[cfg(target_os = "linux")]
const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FLAGS: RecvFlags = RecvFlags::empty();

/// Waits for the sandbox's listening socket.
pub(super) async fn listener(channel: &UnixStream) -> io::Result<TcpListener> {
    let socket = channel.async_io(Interest::READABLE, || receive(channel)).await?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn receive(channel: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(channel, &mut [IoSliceMut::new(&mut byte)], &mut control, FLAGS)?;
    let sockets = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    sockets.ok_or_else(|| io::Error::other("the sandbox sent no socket"))
}

/// Returns when all copies of the other end are closed. The guard holds the last one.
pub(super) async fn closed(channel: &UnixStream) {
    let read = || match channel.try_read(&mut [0; 16]) {
        Ok(0) => Some(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        // Nothing is sent after the socket.
        Ok(_) => None,
        Err(_) => Some(()),
    };
    loop {
        if channel.readable().await.is_err() || read().is_some() {
            return;
        }
    }
}
