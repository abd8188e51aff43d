//! A host and a port, as a list of reachable hosts and a `CONNECT` request name them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a host name in bytes (RFC 1035).
const MAX_HOST_BYTES: usize = 253;

/// A host and a port, such as `api.example.com:443` or `[2001:db8::1]:443`.
///
/// Names are in lower case without a final dot, so that equal values name the same host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    host: String,
    port: u16,
}

/// The text is no host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a host and a port, such as api.example.com:443")]
pub struct InvalidHostPort;

impl HostPort {
    /// Returns the name, or the address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is not 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address if the host is written as one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl FromStr for HostPort {
    type Err = InvalidHostPort;

    fn from_str(text: &str) -> Result<Self, InvalidHostPort> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidHostPort)?;
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or(InvalidHostPort)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().map_err(|_| InvalidHostPort)?.to_string(),
            None => name(host).ok_or(InvalidHostPort)?,
        };
        Ok(Self { host, port })
    }
}

fn name(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Some(address.to_string());
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let valid = !host.is_empty() && host.len() <= MAX_HOST_BYTES && host.bytes().all(known);
    valid.then(|| host.to_ascii_lowercase())
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl TryFrom<String> for HostPort {
    type Error = InvalidHostPort;

    fn try_from(text: String) -> Result<Self, InvalidHostPort> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(target: HostPort) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        let shown = |text: &str| text.parse::<HostPort>().map(|target| target.to_string());
        assert_eq!(shown("API.Example.com.:443").unwrap(), "api.example.com:443");
        assert_eq!(shown("127.0.0.1:80").unwrap(), "127.0.0.1:80");
        assert_eq!(shown("[2001:DB8:0::1]:443").unwrap(), "[2001:db8::1]:443");
        let read: HostPort = serde_json::from_str("\"[::1]:8080\"").unwrap();
        assert_eq!((read.host(), read.port(), read.address().is_some()), ("::1", 8080, true));
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"[::1]:8080\"");
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("{}:443", "a".repeat(254));
        let texts = [
            "",
            "host",
            "host:",
            ":443",
            ".:443",
            "host:0",
            "host:65536",
            "host:+1",
            "host: 1",
            "a b:1",
            "::1:443",
            "[::1]",
            "[host]:443",
            "http://host:443",
            "user@host:443",
            "host\n:443",
            "*.host:443",
            &long,
        ];
        for text in texts {
            assert_eq!(text.parse::<HostPort>(), Err(InvalidHostPort), "{text:?}");
        }
    }
}
