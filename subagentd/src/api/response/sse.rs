//! Server-sent events (`text/event-stream`): the lines of the NDJSON stream in frames that browsers
//! read.
//! It must not change the content of an event.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use subagent_protocol::{Code, Error, Result};

/// Content type of server-sent events.
pub(in crate::api) const EVENT_STREAM: &str = "text/event-stream";
/// Header with the cursor of a client that reconnects.
const LAST_EVENT_ID: &str = "last-event-id";
/// Time after which a silent stream gets a comment, so that both ends notice a dead connection.
pub(in crate::api) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The comment that keeps a stream alive.
pub(in crate::api) const COMMENT: &[u8] = b":\n\n";

/// Whether the request accepts server-sent events.
pub(in crate::api) fn is_wanted(headers: &HeaderMap) -> bool {
    let lists = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|kind| {
                kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENT_STREAM)
            })
        })
    };
    headers.get_all(ACCEPT).iter().any(lists)
}

/// Returns the cursor in `Last-Event-ID`. A browser repeats it with the URL of its first request,
/// so it precedes `from`.
///
/// # Errors
/// `INVALID_ARGUMENT{field}` for bytes that are not ASCII.
pub(in crate::api) fn last_event_id(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        Error::new(Code::InvalidArgument, "Last-Event-ID is not a cursor").with("field", LAST_EVENT_ID)
    })?;
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// Converts lines of JSON to frames: `id` is the cursor of the event, `event` its type.
pub(in crate::api) fn frames(lines: &[u8]) -> Vec<u8> {
    let mut frames = Vec::with_capacity(lines.len() + lines.len() / 4);
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let head: Head = serde_json::from_slice(line).unwrap_or_default();
        for (field, value) in [("id", &head.event_id), ("event", &head.event_type)] {
            if let Some(value) = value {
                frames.extend_from_slice(format!("{field}: {value}\n").as_bytes());
            }
        }
        frames.extend_from_slice(b"data: ");
        frames.extend_from_slice(line);
        frames.extend_from_slice(b"\n\n");
    }
    frames
}

/// Fields of an event in the head of its frame. An error envelope has the type `error` and no
/// cursor.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(rename = "eventId")]
    event_id: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_client_says_that_it_reads_server_sent_events() {
        for yes in ["text/event-stream", "application/json, TEXT/event-stream;q=0.9"] {
            assert!(is_wanted(&headers("accept", yes)), "{yes}");
        }
        for no in ["*/*", "application/x-ndjson", "text/event-streams"] {
            assert!(!is_wanted(&headers("accept", no)), "{no}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
        assert_eq!(last_event_id(&headers(LAST_EVENT_ID, "ev_1")).unwrap().as_deref(), Some("ev_1"));
        assert_eq!(last_event_id(&headers(LAST_EVENT_ID, "")).unwrap(), None);
        assert!(last_event_id(&headers(LAST_EVENT_ID, "\u{e9}")).is_err());
    }

    #[test]
    fn each_line_is_a_frame_with_its_cursor_and_type() {
        let lines = b"{\"eventId\":\"ev_1\",\"type\":\"turn.started\",\"data\":{}}\n{\"ok\":false,\"type\":\"error\"}\n";
        let expected = "id: ev_1\nevent: turn.started\ndata: {\"eventId\":\"ev_1\",\"type\":\"turn.started\",\"data\":{}}\n\n\
                        event: error\ndata: {\"ok\":false,\"type\":\"error\"}\n\n";
        assert_eq!(String::from_utf8(frames(lines)).unwrap(), expected);
        assert!(frames(b"").is_empty());
    }
}
