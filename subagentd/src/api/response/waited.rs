//! Writes the answer to a wait. It contains the agent's text twice (whole and last piece), which
//! may be tens of megabytes. A long text is written in pieces while the answer is sent.

use std::convert::Infallible;
use std::io::Write;
use std::ops::Range;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use subagent_protocol::api::{Envelope, Waited};

use crate::api::response::reply::{json, unwritable};
use crate::supervisor::{Collected, Last, WaitMatch};

const KIND: &str = "worker.waited";
/// The end of the envelope of a [`Waited`] without texts.
const WITHOUT_TEXTS: &str = r#"null,"lastAssistantChunk":null}}"#;
/// Size in bytes of a piece. A shorter text is written at once.
const PIECE_BYTES: usize = 256 * 1024;

pub(in crate::api) fn reply(found: WaitMatch) -> Response {
    let written = match EnvelopeBody::of(found) {
        Ok(written) => written,
        Err(error) => return unwritable(KIND, &error),
    };
    if written.text.len() <= PIECE_BYTES {
        return json(StatusCode::OK, written.flatten().collect());
    }
    let mut response = Response::new(Body::from_stream(stream::iter(written.map(Ok::<_, Infallible>))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The envelope of a [`Waited`], written in pieces.
struct EnvelopeBody {
    text: String,
    parts: std::vec::IntoIter<BodyPart>,
    /// The unwritten rest of the current part.
    rest: Range<usize>,
}

enum BodyPart {
    Json(Vec<u8>),
    Text(Range<usize>),
}

impl EnvelopeBody {
    fn of(found: WaitMatch) -> serde_json::Result<Self> {
        let WaitMatch { matched_event, state, collected } = found;
        let Collected { text, truncated, last, breaks, .. } = collected;
        let mut waited = Waited {
            matched_event,
            state,
            paragraph_breaks: breaks,
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
                let json = serde_json::to_vec(&Envelope::success(KIND, waited))?;
                return Ok(Self::new(String::new(), vec![BodyPart::Json(json)]));
            }
        };
        let mut head = serde_json::to_vec(&Envelope::success(KIND, waited))?;
        debug_assert!(head.ends_with(WITHOUT_TEXTS.as_bytes()));
        head.truncate(head.len() - WITHOUT_TEXTS.len());
        head.push(b'"');
        let parts = vec![
            BodyPart::Json(head),
            BodyPart::Text(0..text.len()),
            BodyPart::Json(br#"","lastAssistantChunk":""#.to_vec()),
            BodyPart::Text(at..text.len()),
            BodyPart::Json(br#""}}"#.to_vec()),
        ];
        Ok(Self::new(text, parts))
    }

    fn new(text: String, parts: Vec<BodyPart>) -> Self {
        Self { text, parts: parts.into_iter(), rest: 0..0 }
    }
}

impl Iterator for EnvelopeBody {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        while self.rest.is_empty() {
            match self.parts.next()? {
                BodyPart::Json(json) => return Some(json),
                BodyPart::Text(range) => self.rest = range,
            }
        }
        let end = self.text.ceil_char_boundary(self.rest.end.min(self.rest.start + PIECE_BYTES));
        let mut piece = Vec::with_capacity(end - self.rest.start);
        // Writing a text to a Vec cannot fail.
        let _ =
            self.text[self.rest.start..end].serialize(&mut Serializer::with_formatter(&mut piece, Unquoted));
        self.rest.start = end;
        Some(piece)
    }
}

/// Formats a string without its quotes.
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
    use subagent_protocol::message_text::ParagraphBreak;
    use subagent_protocol::state::WorkerState;
    use subagent_protocol::time::Timestamp;

    use super::*;

    fn found(text: Option<&str>, truncated: bool, last: Last) -> WaitMatch {
        let matched_event = Event {
            schema_version: "v1".to_owned(),
            event_id: EventId(7),
            ts: Timestamp(0),
            worker_id: WorkerId::from_random([1; 5]),
            event_type: EventType::TurnCompleted,
            data: json!({"assistantText": null}),
            turn_id: None,
            path: None,
            raw: None,
        };
        let breaks = vec![ParagraphBreak { at: 2, length: 1 }];
        let collected =
            Collected { text: text.map(str::to_owned), truncated, last, breaks, ..Collected::default() };
        WaitMatch { matched_event, state: WorkerState::Idle, collected }
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
            let WaitMatch { matched_event, state, .. } = found(None, false, Last::None);
            let expected = Waited {
                matched_event,
                state,
                paragraph_breaks: vec![ParagraphBreak { at: 2, length: 1 }],
                assistant_text: text.map(str::to_owned),
                assistant_text_truncated: truncated,
                last_assistant_chunk: piece.map(str::to_owned),
            };
            let expected = serde_json::to_string(&Envelope::success(KIND, expected)).unwrap();
            let pieces = EnvelopeBody::of(found(text, truncated, last)).unwrap();
            let answer = String::from_utf8(pieces.flatten().collect()).unwrap();
            assert_eq!(answer, expected);
            assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["data"]["state"], "idle");
        }
    }

    #[test]
    fn a_long_text_comes_in_pieces_that_are_the_same_document() {
        let text = "ä\n".repeat(PIECE_BYTES);
        let pieces: Vec<Vec<u8>> =
            EnvelopeBody::of(found(Some(&text), false, Last::From(3))).unwrap().collect();
        assert!(pieces.len() > 8 && pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES));
        let answer: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        assert_eq!(answer["data"]["assistantText"], text);
        assert_eq!(answer["data"]["lastAssistantChunk"], text[3..]);
    }
}
