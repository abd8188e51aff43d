//! The text of one turn as a wait collects it. The text exists once in memory, however many
//! responses use it.

use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::TurnId;
use subagent_protocol::message_text::{ParagraphBreak, Paragraphs};

/// Maximum size of the collected text of a turn, in bytes.
const MAX_TEXT: usize = 64 * 1024 * 1024;

/// The agent's text of one turn, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The text up to the first gap. `None` if the agent sent no text.
    pub text: Option<String>,
    /// Whether the text exceeded the limit and is cut off.
    pub truncated: bool,
    /// The last chunk of the text.
    pub last: Last,
    /// The line breaks between paragraphs, which were inserted and not sent by the agent.
    pub breaks: Vec<ParagraphBreak>,
    pub(crate) paragraphs: Paragraphs,
}

/// Where the last chunk of a text is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Last {
    /// The agent sent no text.
    #[default]
    None,
    /// Byte offset in the text at which the last chunk begins.
    From(usize),
    /// The last chunk itself, because the text does not contain all of it.
    Beside(String),
}

impl Collected {
    pub(crate) fn add(&mut self, event: StoredEvent, turn: Option<&TurnId>) {
        if turn.is_none() || event.turn_id.as_ref() != turn {
            return;
        }
        if event.is_tool_call() {
            return self.tool_call();
        }
        if event.event_type != EventType::ProgressMessage {
            return;
        }
        if let Some(piece) = event.into_text() {
            self.push(piece);
        }
    }

    pub(crate) fn tool_call(&mut self) {
        self.paragraphs.tool_call(self.text.as_ref().map_or(0, String::len));
    }

    pub(crate) fn push(&mut self, piece: String) {
        let found = self.paragraphs.begin(self.text.as_deref().unwrap_or_default(), &piece);
        if let (Some(text), Some(found)) = (&mut self.text, found.filter(|found| found.length > 0))
            && !self.truncated
        {
            found.insert_into(text);
            self.breaks.push(found);
        }
        let length = self.text.as_ref().map_or(0, String::len);
        let kept = piece.floor_char_boundary(MAX_TEXT.saturating_sub(length));
        // After a gap, only the last chunk is kept.
        if self.truncated || kept < piece.len() {
            if !self.truncated {
                self.text.get_or_insert_default().push_str(&piece[..kept]);
            }
            self.truncated = true;
            self.last = Last::Beside(piece);
            return;
        }
        self.last = Last::From(length);
        match &mut self.text {
            Some(text) => text.push_str(&piece),
            // The first chunk is moved, not copied, because it may be long.
            none => *none = Some(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_by_a_blank_line() {
        let mut collected = Collected::default();
        collected.tool_call();
        collected.push("Hello\n".to_owned());
        collected.tool_call();
        collected.push("Bye".to_owned());
        assert_eq!(collected.text.as_deref(), Some("Hello\n\nBye"));
        assert_eq!(
            (collected.last, collected.breaks),
            (Last::From(7), vec![ParagraphBreak { at: 6, length: 1 }])
        );
    }

    #[test]
    fn pieces_follow_each_other_until_they_do_not_fit_any_more() {
        let mut collected = Collected::default();
        collected.push("first ".to_owned());
        collected.push("second".to_owned());
        assert_eq!((collected.text.as_deref(), &collected.last), (Some("first second"), &Last::From(6)));
        let long = "ä".repeat(MAX_TEXT / 2);
        collected.push(long.clone());
        let text = collected.text.as_deref().unwrap();
        assert_eq!((text.len(), collected.truncated), (MAX_TEXT, true));
        assert_eq!(collected.last, Last::Beside(long));
        collected.push("x".to_owned());
        assert!(collected.text.unwrap().ends_with('ä'), "nothing after a gap");
        assert_eq!(collected.last, Last::Beside("x".to_owned()));
    }
}
