//! Keys from the bytes that a terminal sends. Pure. A sequence may come in pieces, as over a slow
//! connection. What was pasted is one key, so that no line of it can answer a question.

/// The longest sequence of a key; what is longer is none.
const MAX_SEQUENCE: usize = 32;
/// The most bytes of a paste that are kept.
const MAX_PASTE: usize = 64 * 1024;
const ESCAPE: u8 = 0x1b;
const INTERRUPT: u8 = 0x03;
/// What stands behind a paste.
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyPress {
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
    Other,
}

/// Decodes the bytes of a terminal into keys.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// What was pasted so far.
    paste: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes what was typed; returns the keys that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<KeyPress> {
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
    pub(super) fn flush(&mut self) -> Option<KeyPress> {
        match std::mem::take(&mut self.bytes).as_slice() {
            [] => None,
            [ESCAPE] => Some(KeyPress::Escape),
            _ => Some(KeyPress::Other),
        }
    }

    /// Takes the next key off the front. `None`: more has to come. `Some(None)`: there is no key yet.
    fn next(&mut self) -> Option<Option<KeyPress>> {
        if self.paste.is_some() {
            return self.pasted();
        }
        let (key, length) = match key(&self.bytes) {
            DecodedBytes::Key(key, length) => (key, length),
            DecodedBytes::Paste(length) => {
                self.bytes.drain(..length);
                self.paste = Some(Vec::new());
                return Some(None);
            }
            DecodedBytes::Nothing if self.bytes.len() > MAX_SEQUENCE => (KeyPress::Other, self.bytes.len()),
            DecodedBytes::Nothing => return None,
        };
        self.bytes.drain(..length);
        Some(Some(key))
    }

    /// Goes on with a paste. Ctrl-C ends one that a terminal does not end.
    fn pasted(&mut self) -> Option<Option<KeyPress>> {
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
        Some(Some(KeyPress::Paste(String::from_utf8_lossy(&paste).into_owned())))
    }
}

/// What bytes begin with.
enum DecodedBytes {
    /// A key, and how many bytes it has.
    Key(KeyPress, usize),
    /// A paste, and how many bytes begin it.
    Paste(usize),
    /// The bytes hold no complete key.
    Nothing,
}

fn key(bytes: &[u8]) -> DecodedBytes {
    match bytes {
        [] | [ESCAPE] => DecodedBytes::Nothing,
        [ESCAPE, b'[', rest @ ..] => control(rest),
        [ESCAPE, b'O'] => DecodedBytes::Nothing,
        [ESCAPE, b'O', letter, ..] => DecodedBytes::Key(by_letter(*letter), 3),
        [ESCAPE, ESCAPE, ..] => DecodedBytes::Key(KeyPress::Escape, 1),
        // A letter with Alt.
        [ESCAPE, ..] => DecodedBytes::Key(KeyPress::Other, 2),
        [first, ..] => single(*first, bytes),
    }
}

/// A sequence behind `ESC [`: parameters, and a letter that says which key it is.
fn control(rest: &[u8]) -> DecodedBytes {
    // The function keys of the Linux console.
    if rest.first() == Some(&b'[') {
        return if rest.len() > 1 { DecodedBytes::Key(KeyPress::Other, 4) } else { DecodedBytes::Nothing };
    }
    let Some(end) = rest.iter().position(|byte| !(b' '..=b'?').contains(byte)) else {
        return DecodedBytes::Nothing;
    };
    let length = end + 3;
    let number = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
    match (rest[end], number) {
        (b'~', b"200") => DecodedBytes::Paste(length),
        (b'~', number) => DecodedBytes::Key(by_number(number), length),
        // Not a letter that ends a sequence: what it is stays for the next key.
        (letter, _) if !(b'@'..=b'~').contains(&letter) => DecodedBytes::Key(KeyPress::Other, length - 1),
        (letter, _) => DecodedBytes::Key(by_letter(letter), length),
    }
}

fn by_letter(letter: u8) -> KeyPress {
    match letter {
        b'A' => KeyPress::Up,
        b'B' => KeyPress::Down,
        b'C' => KeyPress::Right,
        b'D' => KeyPress::Left,
        b'F' => KeyPress::End,
        b'H' => KeyPress::Home,
        b'M' => KeyPress::Enter,
        _ => KeyPress::Other,
    }
}

fn by_number(number: &[u8]) -> KeyPress {
    match number {
        b"1" | b"7" => KeyPress::Home,
        b"3" => KeyPress::Delete,
        b"4" | b"8" => KeyPress::End,
        b"5" => KeyPress::PageUp,
        b"6" => KeyPress::PageDown,
        _ => KeyPress::Other,
    }
}

/// A key without an escape: a control character, or a character of UTF-8.
fn single(first: u8, bytes: &[u8]) -> DecodedBytes {
    let control = match first {
        b'\r' | b'\n' => Some(KeyPress::Enter),
        b'\t' => Some(KeyPress::Tab),
        0x08 | 0x7f => Some(KeyPress::Backspace),
        0x01..=0x1a => Some(KeyPress::Ctrl(char::from(first + b'a' - 1))),
        0x00..0x20 => Some(KeyPress::Other),
        _ => None,
    };
    if let Some(key) = control {
        return DecodedBytes::Key(key, 1);
    }
    let length = match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    let character = bytes.get(..length).map(std::str::from_utf8);
    match character {
        None => DecodedBytes::Nothing,
        Some(Ok(text)) => match text.chars().next() {
            Some(char) if !char.is_control() => DecodedBytes::Key(KeyPress::Char(char), length),
            _ => DecodedBytes::Key(KeyPress::Other, length),
        },
        Some(Err(_)) => DecodedBytes::Key(KeyPress::Other, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Vec<KeyPress> {
        Decoder::default().push(text.as_bytes())
    }

    #[test]
    fn keys_are_what_terminals_send() {
        for (text, expected) in [
            ("y", KeyPress::Char('y')),
            ("\u{e4}", KeyPress::Char('\u{e4}')),
            ("\u{1f600}", KeyPress::Char('\u{1f600}')),
            ("\r", KeyPress::Enter),
            ("\n", KeyPress::Enter),
            ("\t", KeyPress::Tab),
            ("\u{7f}", KeyPress::Backspace),
            ("\u{3}", KeyPress::Ctrl('c')),
            ("\u{1a}", KeyPress::Ctrl('z')),
            ("\u{1b}[A", KeyPress::Up),
            ("\u{1b}OB", KeyPress::Down),
            ("\u{1b}[1;5C", KeyPress::Right),
            ("\u{1b}[5~", KeyPress::PageUp),
            ("\u{1b}[6;2~", KeyPress::PageDown),
            ("\u{1b}[H", KeyPress::Home),
            ("\u{1b}[4~", KeyPress::End),
            ("\u{1b}[3~", KeyPress::Delete),
            ("\u{1b}[15~", KeyPress::Other),
            ("\u{1b}[[A", KeyPress::Other),
            ("\u{1b}x", KeyPress::Other),
            ("\u{9b}", KeyPress::Other),
            ("\0", KeyPress::Other),
        ] {
            assert_eq!(keys(text), [expected], "{text:?}");
        }
        assert_eq!(
            keys("ab\u{1b}[Bc"),
            [KeyPress::Char('a'), KeyPress::Char('b'), KeyPress::Down, KeyPress::Char('c')]
        );
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows_it() {
        let mut decoder = Decoder::default();
        assert!(decoder.push(b"\x1b").is_empty() && decoder.is_waiting());
        assert_eq!((decoder.flush(), decoder.is_waiting()), (Some(KeyPress::Escape), false));
        assert!(decoder.push(b"\x1b[").is_empty());
        assert_eq!(decoder.push(b"B"), [KeyPress::Down], "a sequence in two pieces");
        assert!(decoder.push(b"\x1b[").is_empty());
        assert_eq!(decoder.flush(), Some(KeyPress::Other));
        assert_eq!(decoder.push(b"\x1b\x1b[A"), [KeyPress::Escape, KeyPress::Up]);
    }

    #[test]
    fn a_paste_is_one_key_with_any_content() {
        assert_eq!(
            keys("\u{1b}[200~y\ry\u{1b}[201~q"),
            [KeyPress::Paste("y\ry".to_owned()), KeyPress::Char('q')]
        );
        let mut decoder = Decoder::default();
        for byte in "\u{1b}[200~ab\u{1b}[201~".bytes().take(13) {
            assert!(decoder.push(&[byte]).is_empty());
        }
        assert_eq!(decoder.push(b"~"), [KeyPress::Paste("ab".to_owned())]);
        assert_eq!(keys("\u{1b}[200~ab\u{3}"), [KeyPress::Paste("ab".to_owned()), KeyPress::Ctrl('c')]);
        let long = format!("\u{1b}[200~{}\u{1b}[201~", "x".repeat(MAX_PASTE + 9));
        assert_eq!(keys(&long), [KeyPress::Paste("x".repeat(MAX_PASTE))]);
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
