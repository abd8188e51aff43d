//! The text of one turn as a wait collects it, held once however often it is told.

use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::TurnId;

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
        if event.event_type != EventType::ProgressMessage || turn.is_none() || event.turn_id.as_ref() != turn
        {
            return;
        }
        if let Some(piece) = event.into_text() {
            self.push(piece);
        }
    }

    pub(super) fn push(&mut self, piece: String) {
        let length = self.text.as_ref().map_or(0, String::len);
        let kept = piece.floor_char_boundary(MOST_TEXT - length);
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
