//! Extracts requested lines from a text that arrives in pieces.
//!
//! Pure. Lines keep their ends, so that concatenated pages equal the file.

use memchr::memchr_iter;

/// Keeps `count` lines from line `first` on.
#[derive(Debug)]
pub(super) struct LineRange {
    /// Number of lines still to skip.
    skip: u64,
    /// Number of lines still wanted; `None` means all.
    want: Option<u64>,
    kept: Vec<u8>,
    max: usize,
}

/// The requested lines exceed the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl LineRange {
    /// Lines count from 1, and 0 means 1. Keeps at most `max` bytes.
    pub(super) fn new(first: Option<u64>, count: Option<u64>, max: usize) -> Self {
        Self { skip: first.unwrap_or(1).saturating_sub(1), want: count, kept: Vec::new(), max }
    }

    /// Whether all requested lines are complete.
    pub(super) fn is_full(&self) -> bool {
        self.want == Some(0)
    }

    /// Takes the next piece of text.
    pub(super) fn take(&mut self, mut piece: &[u8]) -> Result<(), TooLong> {
        if self.skip > 0 {
            let mut start = piece.len();
            for end in memchr_iter(b'\n', piece) {
                self.skip -= 1;
                if self.skip == 0 {
                    start = end + 1;
                    break;
                }
            }
            piece = &piece[start..];
        }
        if self.skip == 0
            && let Some(want) = &mut self.want
        {
            let mut ends = memchr_iter(b'\n', piece);
            let mut stop = if *want == 0 { 0 } else { piece.len() };
            while *want > 0
                && let Some(end) = ends.next()
            {
                *want -= 1;
                if *want == 0 {
                    stop = end + 1;
                }
            }
            piece = &piece[..stop];
        }
        if self.kept.len() + piece.len() > self.max {
            return Err(TooLong);
        }
        self.kept.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn kept(self) -> Vec<u8> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(text: &str, first: Option<u64>, count: Option<u64>, pieces: usize) -> String {
        let mut lines = LineRange::new(first, count, 1000);
        for piece in text.as_bytes().chunks(pieces) {
            lines.take(piece).unwrap();
        }
        String::from_utf8(lines.kept()).unwrap()
    }

    #[test]
    fn lines_are_counted_from_one_and_keep_their_ends() {
        let text = "a\r\nb\n\nd";
        for (first, count, expected) in [
            (None, None, text),
            (Some(0), Some(1), "a\r\n"),
            (Some(1), Some(1), "a\r\n"),
            (Some(2), None, "b\n\nd"),
            (Some(3), Some(2), "\nd"),
            (Some(4), Some(9), "d"),
            (Some(5), None, ""),
            (Some(1), Some(0), ""),
            (Some(u64::MAX), Some(u64::MAX), ""),
        ] {
            assert_eq!(page(text, first, count, 100), expected, "{first:?} {count:?}");
        }
    }

    #[test]
    fn text_over_the_limit_is_an_error() {
        let mut lines = LineRange::new(None, Some(2), 3);
        assert_eq!(lines.take(b"ab\n"), Ok(()));
        assert!(!lines.is_full());
        assert_eq!(lines.take(b"c"), Err(TooLong));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a\n]{0,60}", first in 0_u64..9, count in proptest::option::of(0_u64..9), pieces in 1_usize..9) {
            let start = usize::try_from(first.saturating_sub(1)).unwrap();
            let count_of = usize::try_from(count.unwrap_or(1000)).unwrap();
            let expected: String = text.split_inclusive('\n').skip(start).take(count_of).collect();
            prop_assert_eq!(page(&text, Some(first), count, pieces), expected);
        }
    }
}
