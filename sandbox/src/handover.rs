//! Hands a listening socket of the sandbox's network to the proxy outside, which accepts the
//! agent's connections on it. The namespace has no other way out. A socket belongs to the namespace
//! in which it was made, so no process has to forward bytes between both.

use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use subagent_protocol::sandbox::HostPort;

use super::{PROXY_USER, TOKEN_BYTES};

/// Reads the token, and sends a socket that listens on loopback of this network. Returns the
/// variables with which programs find the proxy.
pub(crate) fn hand_over(
    mut channel: UnixStream,
    hosts: &[HostPort],
) -> io::Result<Vec<(&'static str, String)>> {
    let mut token = [0; TOKEN_BYTES];
    channel.read_exact(&mut token)?;
    let token = String::from_utf8(token.to_vec()).map_err(io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sockets = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(&channel, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(variables(listener.local_addr()?.port(), &token, hosts))
}

fn variables(port: u16, token: &str, hosts: &[HostPort]) -> Vec<(&'static str, String)> {
    const PROXIES: [&str; 6] =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let proxy = format!("http://{PROXY_USER}:{token}@127.0.0.1:{port}");
    // The agent's own servers, unless the list means those outside.
    let own = ["localhost", "127.0.0.1", "::1"];
    let direct: Vec<&str> =
        own.into_iter().filter(|own| !hosts.iter().any(|target| target.host() == *own)).collect();
    let direct = direct.join(",");
    let mut all: Vec<_> = PROXIES.map(|name| (name, proxy.clone())).into();
    all.extend(["NO_PROXY", "no_proxy"].map(|name| (name, direct.clone())));
    // Node.js ignores the variables above without this one.
    all.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    all
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_command_gets_the_address_with_the_token() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[b'a'; TOKEN_BYTES]).unwrap();
        let listed = ["localhost:80".parse().unwrap()];
        let variables = hand_over(theirs, &listed).unwrap();
        let of = |name: &str| &variables.iter().find(|(known, _)| *known == name).unwrap().1;
        let start = format!("http://subagent:{}@127.0.0.1:", "a".repeat(TOKEN_BYTES));
        assert!(of("HTTPS_PROXY").starts_with(&start), "{variables:?}");
        assert_eq!(of("NO_PROXY"), "127.0.0.1,::1", "a listed host is reached through the proxy");
    }

    #[test]
    fn without_a_token_nothing_is_handed_over() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert_eq!(hand_over(theirs, &[]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
