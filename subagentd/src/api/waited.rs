//! The answer to a wait. It tells the agent's text twice, as a whole and its last piece, which may be all of it and tens of
//! megabytes: the text is written once and let go, and of what was written the end is repeated.

use std::io::Write;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use subagent_protocol::api::{Envelope, Waited};

use super::reply::{json, unwritable};
use crate::supervisor::{Collected, Found, Last};

const KIND: &str = "worker.waited";
/// How the envelope of a [`Waited`] without texts ends.
const WITHOUT_TEXTS: &str = r#"null,"lastAssistantChunk":null}}"#;

pub(super) fn reply(found: Found) -> Response {
    match written(found) {
        Ok(bytes) => json(StatusCode::OK, bytes),
        Err(error) => unwritable(KIND, &error),
    }
}

/// The envelope of the [`Waited`].
fn written(found: Found) -> serde_json::Result<Vec<u8>> {
    let Found { matched_event, state, collected } = found;
    let Collected { text, truncated, last } = collected;
    let mut waited = Waited {
        matched_event,
        state,
        assistant_text: None,
        assistant_text_truncated: truncated,
        last_assistant_chunk: None,
    };
    let (text, at) = match (text, last) {
        (Some(text), Last::From(at)) => (text, at),
        (text, last) => {
            waited.assistant_text = text;
            waited.last_assistant_chunk = match last {
                Last::Beside(last) => Some(last),
                Last::None | Last::From(_) => None,
            };
            return serde_json::to_vec(&Envelope::success(KIND, waited));
        }
    };
    let mut bytes = serde_json::to_vec(&Envelope::success(KIND, waited))?;
    debug_assert!(bytes.ends_with(WITHOUT_TEXTS.as_bytes()));
    bytes.truncate(bytes.len() - WITHOUT_TEXTS.len());
    let (before, last) = text.split_at(at);
    bytes.push(b'"');
    before.serialize(&mut Serializer::with_formatter(&mut bytes, Unquoted))?;
    let start = bytes.len();
    last.serialize(&mut Serializer::with_formatter(&mut bytes, Unquoted))?;
    drop(text);
    let end = bytes.len();
    bytes.extend_from_slice(br#"","lastAssistantChunk":""#);
    bytes.extend_from_within(start..end);
    bytes.extend_from_slice(br#""}}"#);
    Ok(bytes)
}

/// Writes a string without what stands around it.
struct Unquoted;

impl Formatter for Unquoted {
    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> std::io::Result<()> {
        Ok(())
    }

    fn end_string<W: ?Sized + Write>(&mut self, _: &mut W) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use subagent_protocol::event::{Event, EventType};
    use subagent_protocol::ids::{EventId, WorkerId};
    use subagent_protocol::state::WorkerState;
    use subagent_protocol::time::Timestamp;

    use super::*;

    fn found(text: Option<&str>, truncated: bool, last: Last) -> Found {
        let matched_event = Event {
            schema_version: "v1".to_owned(),
            event_id: EventId(7),
            ts: Timestamp(0),
            worker_id: WorkerId::from_random([1; 5]),
            event_type: EventType::TurnCompleted,
            data: json!({"assistantText": null}),
            turn_id: None,
            raw: None,
        };
        let collected = Collected { text: text.map(str::to_owned), truncated, last };
        Found { matched_event, state: WorkerState::Idle, collected }
    }

    #[test]
    fn the_answer_is_the_same_document_however_it_is_written() {
        for (text, truncated, last, piece) in [
            (None, false, Last::None, None),
            (Some("one"), false, Last::From(0), Some("one")),
            (Some("ä \"one\"\n\u{1f600}\u{1} two\\"), false, Last::From(14), Some(" two\\")),
            (Some("one"), false, Last::From(3), Some("")),
            (Some("on"), true, Last::Beside("one\"".to_owned()), Some("one\"")),
        ] {
            let Found { matched_event, state, .. } = found(None, false, Last::None);
            let expected = Waited {
                matched_event,
                state,
                assistant_text: text.map(str::to_owned),
                assistant_text_truncated: truncated,
                last_assistant_chunk: piece.map(str::to_owned),
            };
            let expected = serde_json::to_string(&Envelope::success(KIND, expected)).unwrap();
            let answer = String::from_utf8(written(found(text, truncated, last)).unwrap()).unwrap();
            assert_eq!(answer, expected);
            assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["data"]["state"], "idle");
        }
    }
}
