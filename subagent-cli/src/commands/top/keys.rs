//! Keys from the bytes that a terminal sends. Pure.
//!
//! A sequence may come in pieces, as over a slow connection. What was pasted is one key, so that no line of it can answer
//! a question.

/// The longest sequence of a key; what is longer is none.
const MAX_SEQUENCE: usize = 32;
/// The most bytes of a paste that are kept.
const MAX_PASTE: usize = 64 * 1024;
const ESCAPE: u8 = 0x1b;
const INTERRUPT: u8 = 0x03;
/// What stands behind a paste.
const PASTE_END: &[u8] = b"\x1b[201~";

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Text from the clipboard.
    Paste(String),
    /// Any other one.
    Other,
}

/// Puts keys together.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// What was pasted so far.
    paste: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes what was typed; returns the keys that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some(key) = self.next() {
            keys.extend(key);
        }
        keys
    }

    /// Whether more has to come, or [`Decoder::flush`] after a moment.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty() && self.paste.is_none()
    }

    /// Ends a sequence that does not go on: Escape alone is a key.
    pub(super) fn flush(&mut self) -> Option<Key> {
        match std::mem::take(&mut self.bytes).as_slice() {
            [] => None,
            [ESCAPE] => Some(Key::Escape),
            _ => Some(Key::Other),
        }
    }

    /// Takes the next key off the front. `None`: more has to come. `Some(None)`: there is no key yet.
    fn next(&mut self) -> Option<Option<Key>> {
        if self.paste.is_some() {
            return self.pasted();
        }
        let (key, length) = match key(&self.bytes) {
            Found::Key(key, length) => (key, length),
            Found::Paste(length) => {
                self.bytes.drain(..length);
                self.paste = Some(Vec::new());
                return Some(None);
            }
            Found::Nothing if self.bytes.len() > MAX_SEQUENCE => (Key::Other, self.bytes.len()),
            Found::Nothing => return None,
        };
        self.bytes.drain(..length);
        Some(Some(key))
    }

    /// Goes on with a paste. Ctrl-C ends one that a terminal does not end.
    fn pasted(&mut self) -> Option<Option<Key>> {
        let end = self.bytes.windows(PASTE_END.len()).position(|part| part == PASTE_END);
        let interrupt = self.bytes.iter().position(|byte| *byte == INTERRUPT);
        let (length, behind) = match (end, interrupt) {
            (Some(end), Some(interrupt)) if interrupt < end => (interrupt, 0),
            (Some(end), _) => (end, PASTE_END.len()),
            (None, Some(interrupt)) => (interrupt, 0),
            // The beginning of the end may be there.
            (None, None) => (self.bytes.len().saturating_sub(PASTE_END.len() - 1), 0),
        };
        let is_over = end.is_some() || interrupt.is_some();
        let part: Vec<u8> = self.bytes.drain(..length).collect();
        self.bytes.drain(..behind);
        let paste = self.paste.as_mut()?;
        let room = MAX_PASTE.saturating_sub(paste.len());
        paste.extend_from_slice(&part[..part.len().min(room)]);
        if !is_over {
            return None;
        }
        let paste = self.paste.take()?;
        Some(Some(Key::Paste(String::from_utf8_lossy(&paste).into_owned())))
    }
}

/// What bytes begin with.
enum Found {
    /// A key, and how many bytes it has.
    Key(Key, usize),
    /// A paste, and how many bytes begin it.
    Paste(usize),
    /// No complete key.
    Nothing,
}

fn key(bytes: &[u8]) -> Found {
    match bytes {
        [] | [ESCAPE] => Found::Nothing,
        [ESCAPE, b'[', rest @ ..] => control(rest),
        [ESCAPE, b'O'] => Found::Nothing,
        [ESCAPE, b'O', letter, ..] => Found::Key(by_letter(*letter), 3),
        [ESCAPE, ESCAPE, ..] => Found::Key(Key::Escape, 1),
        // A letter with Alt.
        [ESCAPE, ..] => Found::Key(Key::Other, 2),
        [first, ..] => single(*first, bytes),
    }
}

/// A sequence behind `ESC [`: parameters, and a letter that says which key it is.
fn control(rest: &[u8]) -> Found {
    // The function keys of the Linux console.
    if rest.first() == Some(&b'[') {
        return if rest.len() > 1 { Found::Key(Key::Other, 4) } else { Found::Nothing };
    }
    let Some(end) = rest.iter().position(|byte| !(b' '..=b'?').contains(byte)) else { return Found::Nothing };
    let length = end + 3;
    let number = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
    match (rest[end], number) {
        (b'~', b"200") => Found::Paste(length),
        (b'~', number) => Found::Key(by_number(number), length),
        // Not a letter that ends a sequence: what it is stays for the next key.
        (letter, _) if !(b'@'..=b'~').contains(&letter) => Found::Key(Key::Other, length - 1),
        (letter, _) => Found::Key(by_letter(letter), length),
    }
}

fn by_letter(letter: u8) -> Key {
    match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        b'M' => Key::Enter,
        _ => Key::Other,
    }
}

fn by_number(number: &[u8]) -> Key {
    match number {
        b"1" | b"7" => Key::Home,
        b"3" => Key::Delete,
        b"4" | b"8" => Key::End,
        b"5" => Key::PageUp,
        b"6" => Key::PageDown,
        _ => Key::Other,
    }
}

/// A key without an escape: a control character, or a character of UTF-8.
fn single(first: u8, bytes: &[u8]) -> Found {
    let control = match first {
        b'\r' | b'\n' => Some(Key::Enter),
        b'\t' => Some(Key::Tab),
        0x08 | 0x7f => Some(Key::Backspace),
        0x01..=0x1a => Some(Key::Ctrl(char::from(first + b'a' - 1))),
        0x00..0x20 => Some(Key::Other),
        _ => None,
    };
    if let Some(key) = control {
        return Found::Key(key, 1);
    }
    let length = match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    let character = bytes.get(..length).map(std::str::from_utf8);
    match character {
        None => Found::Nothing,
        Some(Ok(text)) => match text.chars().next() {
            Some(char) if !char.is_control() => Found::Key(Key::Char(char), length),
            _ => Found::Key(Key::Other, length),
        },
        Some(Err(_)) => Found::Key(Key::Other, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Vec<Key> {
        Decoder::default().push(text.as_bytes())
    }

    #[test]
    fn keys_are_what_terminals_send() {
        for (text, expected) in [
            ("y", Key::Char('y')),
            ("\u{e4}", Key::Char('\u{e4}')),
            ("\u{1f600}", Key::Char('\u{1f600}')),
            ("\r", Key::Enter),
            ("\n", Key::Enter),
            ("\t", Key::Tab),
            ("\u{7f}", Key::Backspace),
            ("\u{3}", Key::Ctrl('c')),
            ("\u{1a}", Key::Ctrl('z')),
            ("\u{1b}[A", Key::Up),
            ("\u{1b}OB", Key::Down),
            ("\u{1b}[1;5C", Key::Right),
            ("\u{1b}[5~", Key::PageUp),
            ("\u{1b}[6;2~", Key::PageDown),
            ("\u{1b}[H", Key::Home),
            ("\u{1b}[4~", Key::End),
            ("\u{1b}[3~", Key::Delete),
            ("\u{1b}[15~", Key::Other),
            ("\u{1b}[[A", Key::Other),
            ("\u{1b}x", Key::Other),
            ("\u{9b}", Key::Other),
            ("\0", Key::Other),
        ] {
            assert_eq!(keys(text), [expected], "{text:?}");
        }
        assert_eq!(keys("ab\u{1b}[Bc"), [Key::Char('a'), Key::Char('b'), Key::Down, Key::Char('c')]);
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows_it() {
        let mut decoder = Decoder::default();
        assert!(decoder.push(b"\x1b").is_empty() && decoder.is_waiting());
        assert_eq!((decoder.flush(), decoder.is_waiting()), (Some(Key::Escape), false));
        assert!(decoder.push(b"\x1b[").is_empty());
        assert_eq!(decoder.push(b"B"), [Key::Down], "a sequence in two pieces");
        assert!(decoder.push(b"\x1b[").is_empty());
        assert_eq!(decoder.flush(), Some(Key::Other));
        assert_eq!(decoder.push(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    }

    #[test]
    fn a_paste_is_one_key_whatever_it_holds() {
        assert_eq!(keys("\u{1b}[200~y\ry\u{1b}[201~q"), [Key::Paste("y\ry".to_owned()), Key::Char('q')]);
        let mut decoder = Decoder::default();
        for byte in "\u{1b}[200~ab\u{1b}[201~".bytes().take(13) {
            assert!(decoder.push(&[byte]).is_empty());
        }
        assert_eq!(decoder.push(b"~"), [Key::Paste("ab".to_owned())]);
        assert_eq!(keys("\u{1b}[200~ab\u{3}"), [Key::Paste("ab".to_owned()), Key::Ctrl('c')]);
        let long = format!("\u{1b}[200~{}\u{1b}[201~", "x".repeat(MAX_PASTE + 9));
        assert_eq!(keys(&long), [Key::Paste("x".repeat(MAX_PASTE))]);
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_keys(bytes in proptest::collection::vec(any::<u8>(), 0..60), at in 0usize..60) {
            let at = at.min(bytes.len());
            let mut decoder = Decoder::default();
            let whole = decoder.push(&bytes);
            let mut decoder = Decoder::default();
            let mut parts = decoder.push(&bytes[..at]);
            parts.extend(decoder.push(&bytes[at..]));
            if bytes.len() <= MAX_SEQUENCE {
                prop_assert_eq!(whole, parts);
            }
            prop_assert!(decoder.bytes.len() <= MAX_SEQUENCE + 1);
        }
    }
}
