//! A line that is typed. Pure.

use subagent_protocol::clean::clean;
use unicode_width::UnicodeWidthChar as _;

use super::keys::KeyPress;

/// The longest text, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The text, and where the cursor is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Editor {
    text: String,
    /// The offset in `text`, in bytes.
    cursor: usize,
}

/// What a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditorOutcome {
    /// The text or the cursor is another one, or the key means nothing here.
    Going,
    /// The text is complete.
    Done,
    /// The person does not want to type it.
    Left,
}

impl Editor {
    /// A line with this text in it.
    pub(super) fn with(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn press(&mut self, key: &KeyPress) -> EditorOutcome {
        match key {
            KeyPress::Enter => return EditorOutcome::Done,
            KeyPress::Escape | KeyPress::Ctrl('g') => return EditorOutcome::Left,
            KeyPress::Char(char) => self.insert(&char.to_string()),
            // Lines of a paste stay lines.
            KeyPress::Paste(text) => self.insert(&clean(text)),
            KeyPress::Backspace => {
                let before = self.before();
                self.text.drain(before..self.cursor);
                self.cursor = before;
            }
            KeyPress::Delete | KeyPress::Ctrl('d') => _ = self.text.drain(self.cursor..self.after()),
            KeyPress::Left | KeyPress::Ctrl('b') => self.cursor = self.before(),
            KeyPress::Right | KeyPress::Ctrl('f') => self.cursor = self.after(),
            KeyPress::Home | KeyPress::Ctrl('a') => self.cursor = 0,
            KeyPress::End | KeyPress::Ctrl('e') => self.cursor = self.text.len(),
            KeyPress::Ctrl('k') => self.text.truncate(self.cursor),
            KeyPress::Ctrl('u') => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyPress::Ctrl('w') => {
                let kept = self.text[..self.cursor].trim_end();
                let start = kept.rfind(char::is_whitespace).map_or(0, |space| space + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            _ => {}
        }
        EditorOutcome::Going
    }

    fn insert(&mut self, text: &str) {
        let room = MAX_BYTES.saturating_sub(self.text.len());
        let text = &text[..text.floor_char_boundary(room)];
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |char| self.cursor + char.len_utf8())
    }

    /// The part around the cursor that fits into this many columns, and the column of the cursor.
    pub(super) fn shown(&self, width: usize) -> (String, usize) {
        let room = width.saturating_sub(1);
        let columns = |char: char| mark(char).width().unwrap_or(0);
        let (mut start, mut column) = (self.cursor, 0);
        for (at, char) in self.text[..self.cursor].char_indices().rev() {
            if column + columns(char) > room {
                break;
            }
            (start, column) = (at, column + columns(char));
        }
        let mut left = width;
        let fits = |char: &char| {
            let rest = left.checked_sub(columns(*char));
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        (self.text[start..].chars().take_while(fits).map(mark).collect(), column)
    }
}

/// How a character is shown in a line.
const fn mark(char: char) -> char {
    match char {
        '\n' => '↵',
        '\t' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[KeyPress]) -> Editor {
        let mut editor = Editor::default();
        keys.iter().for_each(|key| assert_eq!(editor.press(key), EditorOutcome::Going));
        editor
    }

    fn text(text: &str) -> Vec<KeyPress> {
        text.chars().map(KeyPress::Char).collect()
    }

    #[test]
    fn keys_change_the_line_at_the_cursor() {
        let with = |more: &[KeyPress]| typed(&[&text("fix ä log"), more].concat());
        for (more, expected) in [
            (vec![KeyPress::Backspace], "fix ä lo"),
            (vec![KeyPress::Ctrl('w')], "fix ä "),
            (vec![KeyPress::Ctrl('w'), KeyPress::Ctrl('w'), KeyPress::Backspace], "fix"),
            (vec![KeyPress::Ctrl('u')], ""),
            (vec![KeyPress::Home, KeyPress::Delete], "ix ä log"),
            (vec![KeyPress::Ctrl('a'), KeyPress::Ctrl('k')], ""),
            (vec![KeyPress::Left, KeyPress::Char('x'), KeyPress::End, KeyPress::Char('s')], "fix ä loxgs"),
            (vec![KeyPress::Paste("in\n\u{1b}[2Jx".to_owned())], "fix ä login\nx"),
            (vec![KeyPress::Up, KeyPress::Other, KeyPress::Ctrl('z')], "fix ä log"),
        ] {
            assert_eq!(with(&more).text(), expected, "{more:?}");
        }
        assert_eq!(Editor::default().press(&KeyPress::Enter), EditorOutcome::Done);
        assert_eq!(Editor::default().press(&KeyPress::Escape), EditorOutcome::Left);
    }

    #[test]
    fn the_part_around_the_cursor_is_shown() {
        let mut editor = Editor::with("abc\ndefghij");
        assert_eq!(editor.shown(20), ("abc↵defghij".to_owned(), 11));
        assert_eq!(editor.shown(5), ("ghij".to_owned(), 4));
        editor.press(&KeyPress::Home);
        assert_eq!(editor.shown(5), ("abc↵d".to_owned(), 0));
        assert_eq!(Editor::with("漢字漢字").shown(6), ("漢字".to_owned(), 4));
        assert_eq!(
            (Editor::with("ab").shown(0), Editor::with("ab").shown(1)),
            ((String::new(), 0), (String::new(), 0))
        );
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let mut editor = Editor::with(&"x".repeat(MAX_BYTES - 1));
        editor.press(&KeyPress::Paste("äöü".to_owned()));
        assert_eq!(editor.text().len(), MAX_BYTES - 1);
    }
}
