//! The head of a request to the proxy: `CONNECT host:port` with the token. Does no I/O.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subagent_protocol::sandbox::HostPort;
use subtle::ConstantTimeEq as _;

/// Maximum length of a head in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;

/// The value of `Proxy-Authorization` that the proxy accepts, after `Basic `.
pub(super) struct Credentials(String);

impl Credentials {
    pub(super) fn new(token: &str) -> Self {
        Self(STANDARD.encode(format!("{}:{token}", subagent_sandbox::PROXY_USER)))
    }

    fn accept(&self, value: &[u8]) -> bool {
        let Some((scheme, given)) = value.split_at_checked(6) else { return false };
        scheme.eq_ignore_ascii_case(b"basic ") && bool::from(given.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

/// A complete head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    /// The target that it names.
    pub(super) target: HostPort,
    /// Length of the head in bytes. What follows is for the target.
    pub(super) bytes: usize,
}

/// A refusal, with its status line and its reason for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) status: &'static str,
    pub(super) reason: String,
}

impl Rejected {
    pub(super) fn new(status: &'static str, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// Returns the response to the agent.
    pub(super) fn response(&self) -> String {
        let Self { status, reason } = self;
        let challenge =
            if status.starts_with("407") { "Proxy-Authenticate: Basic realm=\"subagent\"\r\n" } else { "" };
        let length = reason.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\n{challenge}Content-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{reason}\n"
        )
    }
}

/// Parses the start of a connection. Returns `None` while the head is incomplete.
pub(super) fn parse(bytes: &[u8], credentials: &Credentials) -> Result<Option<ProxyRequest>, Rejected> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Rejected::new("431 Request Header Fields Too Large", "the request is too long"));
        }
        Err(error) => return Err(Rejected::new("400 Bad Request", error.to_string())),
    };
    let mut given = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("proxy-authorization"));
    if !given.next().is_some_and(|header| credentials.accept(header.value)) {
        let reason = "the proxy of the sandbox needs the credentials from HTTPS_PROXY";
        return Err(Rejected::new("407 Proxy Authentication Required", reason));
    }
    if request.method != Some("CONNECT") {
        let reason = "the proxy of the sandbox accepts only CONNECT: use https";
        return Err(Rejected::new("405 Method Not Allowed", reason));
    }
    match request.path.unwrap_or_default().parse() {
        Ok(target) => Ok(Some(ProxyRequest { target, bytes: length })),
        Err(error) => Err(Rejected::new("400 Bad Request", format!("the target {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str) -> Result<Option<ProxyRequest>, &'static str> {
        let own = Credentials::new("token");
        parse(head.as_bytes(), &own).map_err(|rejected| rejected.status.split_at(3).0)
    }

    fn basic(text: &str) -> String {
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(text))
    }

    #[test]
    fn a_head_is_complete_with_its_empty_line() {
        let head = format!("CONNECT API.example.com:443 HTTP/1.1\r\n{}\r\n", basic("subagent:token"));
        let request = of(&format!("{head}hello")).unwrap().unwrap();
        assert_eq!((request.target.to_string().as_str(), request.bytes), ("api.example.com:443", head.len()));
        assert_eq!(of(&head[..head.len() - 1]), Ok(None));
        assert_eq!(of(""), Ok(None));
    }

    #[test]
    fn other_heads_are_rejected() {
        let with = |start: &str, more: &str| of(&format!("{start} HTTP/1.1\r\n{more}\r\n"));
        let token = basic("subagent:token");
        assert_eq!(with("CONNECT a:1", ""), Err("407"));
        assert_eq!(with("CONNECT a:1", &basic("subagent:tokem")), Err("407"));
        assert_eq!(with("CONNECT a:1", &basic("subagent:")), Err("407"));
        assert_eq!(with("CONNECT a:1", "Proxy-Authorization: Bearer token\r\n"), Err("407"));
        assert_eq!(with("GET http://a/", ""), Err("407"), "without the token nothing is revealed");
        assert_eq!(with("GET http://a/", &token), Err("405"));
        assert_eq!(with("CONNECT a", &token), Err("400"));
        assert_eq!(with("CONNECT a:0", &token), Err("400"));
        assert_eq!(of("\u{1}\u{2}"), Err("400"));
        assert_eq!(of(&format!("CONNECT a:1 HTTP/1.1\r\nX: {}", "a".repeat(MAX_HEAD_BYTES))), Err("431"));
        let many: String = (0..=MAX_HEADERS).map(|n| format!("X-{n}: 1\r\n")).collect();
        assert_eq!(with("CONNECT a:1", &many), Err("431"));
    }
}
