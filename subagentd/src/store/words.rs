//! The words of an event's row. Nearly all rows are pieces of an agent's text, and the three words of these would take more
//! place than all their numbers: each is stored as an empty text. Rows of schema 1 have the words themselves.

use subagent_protocol::event::EventType;
use subagent_protocol::record::RecordType;
use subagent_protocol::update;

/// How the type of a piece of text is stored, for SQL.
pub(super) const MESSAGE_TYPES: &str = "('', 'progress.message')";

/// How a type is stored.
pub(super) fn of_type(event_type: EventType) -> &'static str {
    if event_type == EventType::ProgressMessage { "" } else { event_type.as_str() }
}

/// The type that is stored so.
pub(super) fn event_type(word: &str) -> Option<EventType> {
    if word.is_empty() { Some(EventType::ProgressMessage) } else { EventType::parse(word) }
}

/// How a kind is stored.
pub(super) fn of_kind(kind: &str) -> &str {
    if kind == update::MESSAGE { "" } else { kind }
}

/// The kind that is stored so. One that is empty, and none of a message, is from 0.1.0, where an agent could say no word.
pub(super) fn kind(word: &str, event_type: EventType) -> String {
    match word {
        "" if event_type == EventType::ProgressMessage => update::MESSAGE,
        "" => "unknown",
        word => word,
    }
    .to_owned()
}

/// How the type of a record is stored.
pub(super) fn of_record(record: RecordType) -> &'static str {
    if record == RecordType::Update { "" } else { record.as_str() }
}

/// The type of a record that is stored so.
pub(super) fn record(word: &str) -> Option<RecordType> {
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
