//! Checks before a request is handled: its possible sender, protocol and state dir. Pure.

use axum::http::header::HOST;
use axum::http::{HeaderMap, Uri};
use subagent_protocol::api::{DaemonInfo, StateFolder, header};
use subagent_protocol::{Code, Error, OLDEST_PROTOCOL, PROTOCOL, Result};

/// Headers that only browsers and proxies send, never a native client of this API.
const FOREIGN: &[&str] =
    &["origin", "sec-fetch-site", "sec-fetch-mode", "forwarded", "x-forwarded-host", "x-forwarded-for"];

/// Refuses requests from browsers, with another protocol, or for another state dir.
///
/// # Errors
/// `FORBIDDEN_ORIGIN`, `DAEMON_TOO_NEW`, `DAEMON_TOO_OLD`, `STATE_DIR_MISMATCH`, and
/// `INVALID_ARGUMENT` for a malformed protocol number.
pub(in crate::api) fn check(uri: &Uri, headers: &HeaderMap, daemon: &DaemonInfo) -> Result<()> {
    origin(uri, headers)?;
    protocol(headers)?;
    state_dir(headers, daemon)
}

/// Refuses a request for another state dir: the client works in a copy of this one.
fn state_dir(headers: &HeaderMap, daemon: &DaemonInfo) -> Result<()> {
    // Older clients and manual requests (curl) send no header.
    let (Some(value), Some(own)) = (headers.get(header::STATE_DIR), &daemon.state_folder) else {
        return Ok(());
    };
    let meant: StateFolder = value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        let name = header::STATE_DIR;
        Error::new(Code::InvalidArgument, format!("the header {name} must be device:inode:id"))
            .with("header", name)
    })?;
    if own.agrees(&meant) {
        return Ok(());
    }
    let message = format!(
        "this daemon serves {}, not the state dir of the request; nothing was done",
        daemon.state_dir.display()
    );
    Err(Error::new(Code::StateDirMismatch, message)
        .with("stateDir", daemon.state_dir.display().to_string())
        .with("pid", daemon.process.pid)
        .recommend("Try again: the next command starts a daemon for its own state dir. `subagent doctor` says which one that is."))
}

fn origin(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let forbidden = |name: &str| {
        Error::new(
            Code::ForbiddenOrigin,
            format!("requests with this {name} header are refused: the API is not for browsers and proxies"),
        )
        .with("header", name)
        .recommend("Connect to the socket directly, for example with `curl --unix-socket SOCKET http://localhost/v1/daemon`.")
    };
    if let Some(name) = FOREIGN.iter().find(|name| headers.contains_key(**name)) {
        return Err(forbidden(name));
    }
    let written = headers.get_all(HOST).iter().map(|value| value.as_bytes());
    if written.chain(uri.authority().map(|authority| authority.as_str().as_bytes())).all(is_local) {
        Ok(())
    } else {
        Err(forbidden(HOST.as_str()))
    }
}

/// Whether the host is a single label, as clients make up for a socket (`localhost`, `d`), or
/// empty. Resolved names and network addresses contain a dot, a colon besides the port's, or
/// brackets.
fn is_local(host: &[u8]) -> bool {
    let name = match host.iter().position(|byte| *byte == b':') {
        Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => &host[..colon],
        _ => host,
    };
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_')
}

fn protocol(headers: &HeaderMap) -> Result<()> {
    // Manual requests (curl) send no header; they get the current protocol.
    let Some(value) = headers.get(header::PROTOCOL) else { return Ok(()) };
    let spoken: u32 = value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::new(Code::InvalidArgument, format!("the header {} must be a number", header::PROTOCOL))
            .with("header", header::PROTOCOL)
    })?;
    let facts = |error: Error| {
        error
            .with("clientProtocol", spoken)
            .with("protocol", PROTOCOL)
            .with("oldestProtocol", OLDEST_PROTOCOL)
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("pid", std::process::id())
    };
    if spoken < OLDEST_PROTOCOL {
        let message = format!(
            "the running daemon does not speak protocol {spoken} any more (oldest: {OLDEST_PROTOCOL}); nothing was done"
        );
        return Err(facts(Error::new(Code::DaemonTooNew, message))
            .recommend("Use the `subagent` that belongs to the running daemon, or update this one."));
    }
    if spoken > PROTOCOL {
        let message = format!(
            "the running daemon does not speak protocol {spoken} yet (newest: {PROTOCOL}); nothing was done"
        );
        return Err(facts(Error::new(Code::DaemonTooOld, message)).recommend(
            "Replace the daemon: run `subagentd run` of the new version, or end it with SIGTERM; workers go on.",
        ));
    }
    Ok(())
}

#[cfg(test)]
pub(in crate::api) mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use subagent_protocol::process::ProcessId;
    use subagent_protocol::time::Timestamp;

    use super::*;

    pub(in crate::api) fn daemon() -> DaemonInfo {
        DaemonInfo {
            protocol: PROTOCOL,
            oldest_protocol: OLDEST_PROTOCOL,
            version: String::new(),
            process: ProcessId { pid: 1, start_time: 1 },
            generation: 1,
            socket: "/s".into(),
            state_dir: "/ws/.subagent/state".into(),
            state_folder: Some(StateFolder { device: 8, inode: 42, id: "one".to_owned() }),
            mode: String::new(),
            ending: false,
            started_at: Timestamp(0),
        }
    }

    #[test]
    fn a_request_for_another_state_dir_is_refused() {
        for (value, expected) in [
            ("8:42:one", None),
            ("8:42:", None),
            ("8:43:one", Some(Code::StateDirMismatch)),
            ("9:42:one", Some(Code::StateDirMismatch)),
            ("8:42:other", Some(Code::StateDirMismatch)),
            ("8:42", Some(Code::InvalidArgument)),
            ("x:42:one", Some(Code::InvalidArgument)),
            ("", Some(Code::InvalidArgument)),
        ] {
            assert_eq!(code(&[("subagent-state-dir", value)]), expected, "{value:?}");
        }
    }

    fn code(pairs: &[(&str, &str)]) -> Option<Code> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        check(&Uri::from_static("/v1/daemon"), &headers, &daemon()).err().map(|error| error.code)
    }

    #[test]
    fn protocols_outside_of_the_range_are_refused() {
        let (oldest, newest) = (OLDEST_PROTOCOL.to_string(), PROTOCOL.to_string());
        let (before, after) = ((OLDEST_PROTOCOL - 1).to_string(), (PROTOCOL + 1).to_string());
        for (value, expected) in [
            (oldest.as_str(), None),
            (&newest, None),
            (&before, Some(Code::DaemonTooNew)),
            (&after, Some(Code::DaemonTooOld)),
            ("-1", Some(Code::InvalidArgument)),
            ("", Some(Code::InvalidArgument)),
            ("99999999999999999999", Some(Code::InvalidArgument)),
        ] {
            assert_eq!(code(&[("subagent-protocol", value)]), expected, "{value:?}");
        }
        assert_eq!(code(&[]), None);
    }

    #[test]
    fn headers_of_browsers_and_proxies_are_refused_beside_any_others() {
        for foreign in [
            ("origin", "null"),
            ("origin", "http://localhost"),
            ("sec-fetch-site", "same-origin"),
            ("x-forwarded-host", "localhost"),
            ("host", "evil.example"),
            ("host", "127.0.0.1:80"),
            ("host", "[::1]:80"),
            ("host", "::1"),
            ("host", "localhost:evil"),
        ] {
            let found = code(&[foreign, ("subagent-protocol", "999")]);
            assert_eq!(found, Some(Code::ForbiddenOrigin), "{foreign:?}");
        }
        for host in ["localhost", "localhost:80", "", "d", "subagentd"] {
            assert_eq!(code(&[("host", host)]), None, "{host:?}");
        }
    }

    #[test]
    fn the_host_of_an_absolute_target_counts_too() {
        let check = |uri| check(&Uri::from_static(uri), &HeaderMap::new(), &daemon());
        assert_eq!(check("http://evil.example/v1/daemon").unwrap_err().code, Code::ForbiddenOrigin);
        check("http://localhost/v1/daemon").unwrap();
    }
}
