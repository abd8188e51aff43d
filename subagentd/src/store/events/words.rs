//! Stored words of an event. Most rows are pieces of text: their three words are stored as empty
//! texts to save space. Rows of schema 1 have full words.

use subagent_protocol::event::EventType;
use subagent_protocol::record::RecordType;
use subagent_protocol::update;

/// SQL list of the stored words for a piece of text.
pub(in crate::store) const MESSAGE_TYPES: &str = "('', 'progress.message')";

/// Encodes an event type.
pub(in crate::store) fn of_type(event_type: EventType) -> &'static str {
    if event_type == EventType::ProgressMessage { "" } else { event_type.as_str() }
}

/// Decodes an event type.
pub(super) fn event_type(word: &str) -> Option<EventType> {
    if word.is_empty() { Some(EventType::ProgressMessage) } else { EventType::parse(word) }
}

/// Encodes an update's kind.
pub(in crate::store) fn of_kind(kind: &str) -> &str {
    if kind == update::MESSAGE { "" } else { kind }
}

/// Decodes a kind. Version 0.1.0 accepted empty kinds from agents; these decode to `unknown`.
pub(super) fn kind(word: &str, event_type: EventType) -> String {
    match word {
        "" if event_type == EventType::ProgressMessage => update::MESSAGE,
        "" => "unknown",
        word => word,
    }
    .to_owned()
}

/// Encodes a record type.
pub(in crate::store) fn of_record(record: RecordType) -> &'static str {
    if record == RecordType::Update { "" } else { record.as_str() }
}

/// Decodes a record type.
pub(in crate::store) fn record(word: &str) -> Option<RecordType> {
    if word.is_empty() { Some(RecordType::Update) } else { RecordType::parse(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_whether_it_is_stored_short_or_as_by_schema_1() {
        for name in ["progress.message", "progress.update", "turn.completed", "runtime.ended"] {
            let read = EventType::parse(name);
            assert_eq!(event_type(of_type(read.unwrap())), read);
            assert_eq!(event_type(name), read);
        }
        for name in [RecordType::Update, RecordType::ChildUpdate, RecordType::Ended] {
            assert_eq!((record(of_record(name)), record(name.as_str())), (Some(name), Some(name)));
        }
        for name in ["message", "thought", "a word of the agent"] {
            let read = |word| kind(word, EventType::ProgressMessage);
            assert_eq!((&*read(of_kind(name)), &*read(name)), (name, name));
        }
        assert_eq!(
            kind("", EventType::ProgressUpdate),
            "unknown",
            "what an agent says is no message of ours"
        );
        assert_eq!((event_type("x"), record("x")), (None, None));
        let short =
            [of_type(EventType::ProgressMessage), of_kind(update::MESSAGE), of_record(RecordType::Update)];
        assert_eq!(short, [""; 3]);
        assert!(MESSAGE_TYPES.contains(EventType::ProgressMessage.as_str()));
    }
}
