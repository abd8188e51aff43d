//! Writes an event as one line of JSON, directly from its stored data. A piece of the agent's text
//! is the most frequent event and may be the longest, so no intermediate value is built.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::{EventType, StoredEvent};
use crate::depth;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::record::RecordType;
use crate::time::Timestamp;
use crate::update;

/// [`super::Event`] with borrowed fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventLine<'a> {
    schema_version: &'static str,
    event_id: EventId,
    ts: Timestamp,
    worker_id: &'a WorkerId,
    #[serde(rename = "type")]
    event_type: EventType,
    data: EventLineData<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'a TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EventLineData<'a> {
    Message {
        role: &'static str,
        text: Cow<'a, str>,
    },
    Other(Value),
    #[serde(rename_all = "camelCase")]
    Below {
        path: &'a [String],
        worker_id: &'a WorkerId,
        agent: Option<&'a str>,
        event: Box<EventLine<'a>>,
    },
}

/// The task of an event that is shown in the stream of a worker above it.
#[derive(Debug, Clone, Copy)]
pub struct Below<'a> {
    /// The names from the root to the task.
    pub path: &'a [String],
    /// Id of the task.
    pub worker_id: &'a WorkerId,
    /// Definition of the task.
    pub agent: Option<&'a str>,
}

impl<P: AsRef<str>> StoredEvent<P> {
    /// Returns the agent's text, if the event is a readable piece of it. Does not copy it if its
    /// JSON has no escapes.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self.record {
            _ if self.event_type != EventType::ProgressMessage => None,
            Some(RecordType::Update | RecordType::ChildUpdate) => update::text_of(self.payload()),
            Some(_) => None,
            None => self.data()["text"].as_str().map(|text| Cow::Owned(text.to_owned())),
        }
    }

    /// Appends the line of [`StoredEvent::view`], with its end.
    ///
    /// # Errors
    ///
    /// None are known: stored data was valid JSON, and writing to a `Vec` cannot fail.
    pub fn write_line(&self, worker_id: &WorkerId, raw: bool, out: &mut Vec<u8>) -> serde_json::Result<()> {
        end_line(&self.line(worker_id, raw), out)
    }

    /// Appends the line of the event in the stream of `above`, a worker above its own. It contains
    /// the line of its own stream.
    ///
    /// # Errors
    ///
    /// The same errors as [`StoredEvent::write_line`].
    pub fn write_line_above(
        &self,
        above: &WorkerId,
        below: Below<'_>,
        raw: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        let Below { path, worker_id, agent } = below;
        let line = EventLine {
            schema_version: "v1",
            event_id: EventId(self.seq),
            ts: self.at,
            worker_id: above,
            event_type: EventType::SubagentEvent,
            data: EventLineData::Below { path, worker_id, agent, event: Box::new(self.line(worker_id, raw)) },
            turn_id: None,
            path: None,
            raw: None,
        };
        end_line(&line, out)
    }

    /// Appends the line of the event for the stream of an ancestor of its worker. The line names
    /// the event's own worker and the path of its task. Only for events that
    /// [reach ancestors](EventType::reaches_ancestors).
    ///
    /// # Errors
    ///
    /// The same errors as [`StoredEvent::write_line`].
    pub fn write_line_with_path(
        &self,
        below: Below<'_>,
        raw: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        // The state of a task is reported with its name.
        let path = (!self.event_type.is_of_tasks()).then_some(below.path);
        end_line(&EventLine { path, ..self.line(below.worker_id, raw) }, out)
    }

    fn line<'a>(&'a self, worker_id: &'a WorkerId, raw: bool) -> EventLine<'a> {
        EventLine {
            schema_version: "v1",
            event_id: EventId(self.seq),
            ts: self.at,
            worker_id,
            event_type: self.event_type,
            data: match self.text() {
                Some(text) if self.record.is_some() => EventLineData::Message { role: "assistant", text },
                _ => EventLineData::Other(depth::shown(self.data())),
            },
            turn_id: self.turn_id.as_ref(),
            path: None,
            raw: raw.then(|| depth::shown(self.raw())),
        }
    }
}

fn end_line(line: &EventLine<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.push(b'\n');
    Ok(())
}

impl StoredEvent<&str> {
    /// Returns the same event with an owned payload.
    #[must_use]
    pub fn owned(self) -> StoredEvent {
        let Self { seq, at, event_type, kind, turn_id, carrier, record, payload } = self;
        StoredEvent { seq, at, event_type, kind, turn_id, carrier, record, payload: payload.to_owned() }
    }
}

impl StoredEvent {
    /// Returns the agent's text like [`StoredEvent::text`], reusing the
    /// payload's memory if possible.
    #[must_use]
    pub fn into_text(self) -> Option<String> {
        let (start, length) = match self.text()? {
            Cow::Owned(text) => return Some(text),
            Cow::Borrowed(text) => (text.as_ptr().addr() - self.payload.as_ptr().addr(), text.len()),
        };
        let mut text = self.payload;
        text.truncate(start + length);
        text.drain(..start);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Carrier;
    use crate::update::MESSAGE;

    fn stored(record: Option<RecordType>, event_type: EventType, payload: &str) -> StoredEvent {
        StoredEvent {
            seq: 7,
            at: Timestamp(1),
            event_type,
            kind: Some(MESSAGE.to_owned()),
            turn_id: Some(TurnId::from_random([7; 5])),
            carrier: Carrier::Runtime,
            record,
            payload: payload.to_owned(),
        }
    }

    fn chunk(content: &str) -> String {
        format!(
            r#"{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{content}}}}}"#
        )
    }

    #[test]
    fn a_line_is_what_the_view_of_the_event_is() {
        let worker = WorkerId::from_random([3; 5]);
        let (update, message) = (Some(RecordType::Update), EventType::ProgressMessage);
        let mut events: Vec<StoredEvent> = [
            r#"{"type":"text","text":"plain ä"}"#,
            r#"{"type":"text","text":"a\n\"\ud83d\ude00\u0001"}"#,
            r#"{"type":"text","text":"\ud83d"}"#,
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
        ]
        .map(|content| stored(update, message, &chunk(content)))
        .into();
        events.push(stored(update, message, "{"));
        events.push(stored(None, message, r#"{"role":"assistant","text":"of the daemon"}"#));
        events.push(stored(None, message, r#"{"role":"assistant"}"#));
        events.push(stored(None, EventType::TurnStarted, r#"{"a":[1]}"#));
        events.push(stored(Some(RecordType::Noise), EventType::ProgressUpdate, "{"));
        events.push(StoredEvent { turn_id: None, ..events[0].clone() });
        for event in events {
            for raw in [false, true] {
                let mut line = Vec::new();
                event.write_line(&worker, raw, &mut line).unwrap();
                let expected = serde_json::to_string(&event.view(&worker, raw)).unwrap() + "\n";
                assert_eq!(String::from_utf8(line).unwrap(), expected);
            }
            let (above, path) = (WorkerId::from_random([4; 5]), ["Root".to_owned(), "Child".to_owned()]);
            let below = Below { path: &path, worker_id: &worker, agent: Some("explore") };
            let mut line = Vec::new();
            event.write_line_above(&above, below, true, &mut line).unwrap();
            let inside = serde_json::to_value(event.view(&worker, true)).unwrap();
            let expected = serde_json::json!({
                "schemaVersion": "v1", "eventId": inside["eventId"], "ts": inside["ts"], "workerId": above,
                "type": "subagent.event",
                "data": {"path": path, "workerId": worker, "agent": "explore", "event": inside},
            });
            assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), expected);
            let data = event.data();
            assert_eq!(event.text().as_deref(), data["text"].as_str(), "{data}");
            assert_eq!(event.into_text().as_deref(), data["text"].as_str());
        }
    }
}
