//! One output of the command: keeps the beginning, drops the rest.

use std::io::{self, Read};

/// Bytes per `read` call.
const CHUNK: usize = 64 * 1024;

/// An output pipe with the bytes kept from it.
pub(super) struct CapturedOutput<R> {
    /// `None` after end of file.
    pub(super) pipe: Option<R>,
    kept: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl<R: Read> CapturedOutput<R> {
    /// `pipe` must be non-blocking.
    pub(super) const fn new(pipe: Option<R>, limit: usize) -> Self {
        Self { pipe, kept: Vec::new(), limit, truncated: false }
    }

    /// Takes the bytes of one `read`. Returns false when nothing more is available now.
    pub(super) fn take(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; CHUNK];
        match pipe.read(&mut bytes) {
            Ok(length @ 1..) => {
                let kept = length.min(self.limit - self.kept.len());
                self.kept.extend_from_slice(&bytes[..kept]);
                self.truncated |= kept < length;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Ok(_) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }

    /// Returns the kept text and whether there was more.
    pub(super) fn text(mut self) -> (String, bool) {
        if self.truncated {
            // The limit may have cut a character in two.
            let whole = match std::str::from_utf8(&self.kept) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => self.kept.len(),
            };
            self.kept.truncate(whole);
        }
        (String::from_utf8_lossy(&self.kept).into_owned(), self.truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], limit: usize) -> (String, bool) {
        let mut output = CapturedOutput::new(Some(text), limit);
        while output.take() {}
        assert!(output.pipe.is_none());
        output.text()
    }

    #[test]
    fn the_limit_cuts_no_character_in_two() {
        assert_eq!(all("aé".as_bytes(), 3), ("aé".to_owned(), false));
        assert_eq!(all("aéb".as_bytes(), 3), ("aé".to_owned(), true));
        assert_eq!(all("aéb".as_bytes(), 2), ("a".to_owned(), true));
        assert_eq!(all(b"a\xff", 9), ("a\u{fffd}".to_owned(), false));
        assert_eq!(all(b"x", 0), (String::new(), true));
    }
}
