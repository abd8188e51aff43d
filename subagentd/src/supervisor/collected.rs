//! The text of one turn as a wait collects it, held once however often it is told.

use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::TurnId;
use subagent_protocol::message_text::{ParagraphBreak, Paragraphs};

/// More bytes of a turn's text are not collected.
const MOST_TEXT: usize = 64 * 1024 * 1024;

/// The agent's text of one turn, as far as it was seen.
#[derive(Debug, Default)]
pub struct Collected {
    /// Without what did not fit any more.
    pub text: Option<String>,
    /// Whether something did not fit.
    pub truncated: bool,
    /// Its last piece.
    pub last: Last,
    /// The line breaks between its paragraphs, which the agent did not send.
    pub breaks: Vec<ParagraphBreak>,
    pub(crate) paragraphs: Paragraphs,
}

/// The last piece of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Last {
    /// There is none.
    #[default]
    None,
    /// It begins here in the text.
    From(usize),
    /// It is not in the text as a whole.
    Beside(String),
}

impl Collected {
    pub(super) fn add(&mut self, event: StoredEvent, turn: Option<&TurnId>) {
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

    pub(super) fn tool_call(&mut self) {
        self.paragraphs.tool_call(self.text.as_ref().map_or(0, String::len));
    }

    pub(super) fn push(&mut self, piece: String) {
        let found = self.paragraphs.begin(self.text.as_deref().unwrap_or_default(), &piece);
        if let (Some(text), Some(found)) = (&mut self.text, found.filter(|found| found.length > 0))
            && !self.truncated
        {
            found.insert_into(text);
            self.breaks.push(found);
        }
        let length = self.text.as_ref().map_or(0, String::len);
        let kept = piece.floor_char_boundary(MOST_TEXT.saturating_sub(length));
        // Nothing after a gap.
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
            // The first one may be all there is, and long.
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
        let long = "ä".repeat(MOST_TEXT / 2);
        collected.push(long.clone());
        let text = collected.text.as_deref().unwrap();
        assert_eq!((text.len(), collected.truncated), (MOST_TEXT, true));
        assert_eq!(collected.last, Last::Beside(long));
        collected.push("x".to_owned());
        assert!(collected.text.unwrap().ends_with('ä'), "nothing after a gap");
        assert_eq!(collected.last, Last::Beside("x".to_owned()));
    }
}
