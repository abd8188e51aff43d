//! The proxy with real sockets, as a sandbox and its agent use it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;

/// A proxy whose channel has handed over a listener, as a sandbox does.
struct ProxyFixture {
    proxy: Proxy,
    channel: UnixStream,
    address: SocketAddr,
    events: mpsc::Receiver<ClientEvent>,
}

fn world(hosts: &[String]) -> ProxyFixture {
    let (sender, events) = mpsc::channel(16);
    let proxy = Proxy::start(hosts.iter().map(|host| host.parse().unwrap()).collect(), sender).unwrap();
    let channel = UnixStream::from(proxy.channel().unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = [listener.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)));
    sendmsg(&channel, &[io::IoSlice::new(&[0])], &mut control, SendFlags::empty()).unwrap();
    ProxyFixture { proxy, channel, address: listener.local_addr().unwrap(), events }
}

impl ProxyFixture {
    /// Sends a request with this token and then `body`. Returns everything that comes back.
    async fn ask(&self, target: &str, token: Option<&str>, body: &'static str) -> String {
        let header = token.map(|token| {
            format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(format!("subagent:{token}")))
        });
        let head = format!("CONNECT {target} HTTP/1.1\r\n{}\r\n{body}", header.unwrap_or_default());
        let address = self.address;
        let asked = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        asked.await.unwrap()
    }

    async fn status(&self, target: &str, token: Option<&str>) -> String {
        self.ask(target, token, "").await.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    async fn noted(&mut self) -> String {
        match self.events.recv().await {
            Some(ClientEvent::ConnectionRefused(text)) => text,
            other => panic!("{other:?}"),
        }
    }
}

/// A server that sends back what it gets, for one connection.
fn echo() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    });
    address
}

#[tokio::test]
async fn a_listed_host_is_reached_and_no_other() {
    let target = echo().to_string();
    let mut world = world(&[target.clone(), "127.0.0.1:1".to_owned()]);
    let token = world.proxy.token.clone();
    let said = world.ask(&target, Some(&token), "hello").await;
    assert_eq!(said, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    assert_eq!(world.status("127.0.0.1:1", Some(&token)).await, "502", "no program listens there");
    assert!(world.noted().await.contains("127.0.0.1:1: "));
    let port = target.rsplit_once(':').unwrap().1;
    for other in
        ["127.0.0.1:2", "example.com:443", &format!("localhost:{port}"), &format!("127.0.0.2:{port}")]
    {
        assert_eq!(world.status(other, Some(&token)).await, "403", "{other}");
        assert!(world.noted().await.contains(other), "{other}");
        assert_eq!(world.status(other, Some(&token)).await, "403", "{other}");
    }
    assert!(world.events.try_recv().is_err(), "each refusal is noted once");
}

#[tokio::test]
async fn a_wrong_token_reaches_nothing() {
    let target = echo().to_string();
    let (mut one, other) = (world(std::slice::from_ref(&target)), world(&[]));
    assert_ne!(one.proxy.token, other.proxy.token);
    assert_eq!(one.status(&target, None).await, "407");
    assert_eq!(one.status(&target, Some(&other.proxy.token)).await, "407");
    assert_eq!(one.status(&target, Some("")).await, "407");
    let noted = one.noted().await;
    assert!(noted.contains("credentials") && !noted.contains(&one.proxy.token), "{noted}");
}

#[tokio::test]
async fn the_guards_end_ends_the_listener_and_its_connections() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let ProxyFixture { proxy, channel, address, events: _events } = world(std::slice::from_ref(&target));
    let head = format!(
        "CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {}\r\n\r\n",
        STANDARD.encode(format!("subagent:{}", proxy.token))
    );
    let ended = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut other = listener.accept().unwrap().0;
        other.write_all(b"x").unwrap();
        let mut text = [0; 40];
        stream.read_exact(&mut text).unwrap();
        assert!(text.ends_with(b"\r\n\r\nx"));
        drop(channel);
        // Both sides of the tunnel are closed.
        assert_eq!(other.read(&mut text).unwrap(), 0);
        assert!(matches!(stream.read(&mut text), Ok(0) | Err(_)));
    });
    ended.await.unwrap();
}
