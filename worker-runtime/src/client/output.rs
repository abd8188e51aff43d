//! Keeps the end of a terminal's output, within its limit.
//!
//! Pure. Never keeps more than the limit and never returns half a character.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct TerminalOutput {
    bytes: VecDeque<u8>,
    limit: usize,
    printed: u64,
}

impl TerminalOutput {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, printed: 0 }
    }

    /// Appends a chunk; drops surplus bytes from the beginning.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.printed += chunk.len() as u64;
        let chunk = &chunk[chunk.len().saturating_sub(self.limit)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(self.limit);
        self.bytes.drain(..surplus);
        self.bytes.extend(chunk);
    }

    /// Returns the total number of bytes printed.
    pub(super) fn printed(&self) -> u64 {
        self.printed
    }

    /// Returns the kept text (U+FFFD for invalid UTF-8) and whether earlier text was dropped.
    /// Leaves out an incomplete last character unless the command has `ended`.
    pub(super) fn text(&self, ended: bool) -> (String, bool) {
        let (front, back) = self.bytes.as_slices();
        let bytes = [front, back].concat();
        let mut kept = bytes.as_slice();
        let cut = self.printed > kept.len() as u64;
        if cut {
            // Remaining bytes of a character whose first byte was dropped.
            let rest = kept.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            kept = &kept[rest..];
        }
        if !ended {
            kept = &kept[..kept.len() - unfinished(kept)];
        }
        let text = String::from_utf8_lossy(kept);
        // A replacement character can be longer than the byte it replaces.
        let surplus = text.len().saturating_sub(self.limit);
        (text[text.ceil_char_boundary(surplus)..].to_owned(), cut || surplus > 0)
    }

    /// Returns the end of the text, at most `max` bytes.
    pub(super) fn tail(&self, max: usize) -> String {
        let (text, _) = self.text(true);
        text[text.ceil_char_boundary(text.len().saturating_sub(max))..].to_owned()
    }

    /// Keeps no output from now on.
    pub(super) fn forget(&mut self) {
        self.limit = 0;
        self.bytes = VecDeque::new();
    }
}

/// Returns how many bytes at the end form an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|byte| *byte >= 0xc0).map_or(0, |back| back + 1);
    let needed = match bytes.get(bytes.len().wrapping_sub(last)) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    if last < needed { last } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(limit: usize, chunks: &[&[u8]]) -> TerminalOutput {
        let mut output = TerminalOutput::new(limit);
        chunks.iter().for_each(|chunk| output.push(chunk));
        output
    }

    #[test]
    fn the_beginning_is_cut_at_a_character() {
        assert_eq!(printed(5, &[b"abc", b"de"]).text(true), ("abcde".to_owned(), false));
        assert_eq!(printed(5, &[b"abc", b"def"]).text(true), ("bcdef".to_owned(), true));
        assert_eq!(printed(3, &["äöü".as_bytes()]).text(true), ("ü".to_owned(), true));
        assert_eq!(printed(0, &[b"a"]).text(true), (String::new(), true));
        assert_eq!(printed(0, &[]).text(true), (String::new(), false));
    }

    #[test]
    fn half_a_character_waits_for_its_rest() {
        let euro = "€".as_bytes();
        let mut output = printed(9, &[b"a", &euro[..2]]);
        assert_eq!(output.text(false), ("a".to_owned(), false));
        assert_eq!(output.text(true), ("a\u{fffd}".to_owned(), false));
        output.push(&euro[2..]);
        assert_eq!(output.text(false), ("a€".to_owned(), false));
    }

    proptest! {
        #[test]
        fn the_text_is_within_its_limit_and_the_end_of_all(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..8),
            limit in 0_usize..60, ended in any::<bool>(),
        ) {
            let mut output = TerminalOutput::new(limit);
            chunks.iter().for_each(|chunk| output.push(chunk));
            let (text, truncated) = output.text(ended);
            prop_assert!(text.len() <= limit && output.bytes.len() <= limit);
            let all = chunks.concat();
            prop_assert_eq!(output.printed(), all.len() as u64);
            prop_assert!(truncated || !ended || text == String::from_utf8_lossy(&all));
            prop_assert!(output.tail(7).len() <= 7);
        }

        #[test]
        fn good_text_stays_good(text in ".{0,40}", cut in 0_usize..80, limit in 4_usize..60) {
            let cut = cut.min(text.len());
            let mut output = TerminalOutput::new(limit);
            output.push(&text.as_bytes()[..cut]);
            let (half, whole) = (output.text(false).0.contains('\u{fffd}'), text.contains('\u{fffd}'));
            prop_assert!(!half || whole);
            output.push(&text.as_bytes()[cut..]);
            let (kept, truncated) = output.text(true);
            prop_assert!(text.ends_with(&kept) && truncated == (text.len() > limit));
        }
    }
}
