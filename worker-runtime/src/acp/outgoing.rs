//! The queue of lines to the agent. Must not block: the agent's output is still read while its
//! input pipe is full, or both sides would deadlock. Automatic responses are bounded. While unread
//! results wait, no further request of the agent is started. We send one prompt at a time.

use std::collections::VecDeque;

/// Maximum size of queued automatic responses. More are dropped, as the agent does
/// not read its input.
const MAX_AUTOMATIC_BYTES: usize = 1024 * 1024;
/// Above this many bytes of queued results, no further result is produced.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// The kind of a line, as far as the sender needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutgoingKind {
    /// Part of the handshake, a cancel, or the close of a session.
    Plain,
    /// The prompt of a turn.
    Prompt,
    /// The answer to a permission request.
    Answer,
    /// The result of a file or terminal request.
    Result,
    /// An error response that the agent provoked.
    Automatic,
}

/// One line with its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingLine {
    pub(crate) kind: OutgoingKind,
    /// JSON text that ends with `\n`.
    pub(crate) bytes: Vec<u8>,
}

/// The queued lines, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    lines: VecDeque<OutgoingLine>,
    written: usize,
    automatic: usize,
    results: usize,
}

impl Outgoing {
    /// Appends a line. Drops an automatic one when too many of them wait.
    pub(crate) fn push(&mut self, line: OutgoingLine) {
        if line.kind == OutgoingKind::Automatic {
            if self.automatic + line.bytes.len() > MAX_AUTOMATIC_BYTES {
                return;
            }
            self.automatic += line.bytes.len();
        }
        if line.kind == OutgoingKind::Result {
            self.results += line.bytes.len();
        }
        self.lines.push_back(line);
    }

    /// Whether the agent reads its results fast enough for another one.
    pub(crate) fn has_room(&self) -> bool {
        self.results < MAX_RESULT_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the bytes to write next.
    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.lines.front().map(|line| &line.bytes[self.written..])
    }

    /// Records that this many bytes of [`Self::front`] were written. Returns the kind of a line
    /// that is now complete.
    pub(crate) fn wrote(&mut self, bytes: usize) -> Option<OutgoingKind> {
        self.written += bytes;
        if self.lines.front().is_none_or(|line| self.written < line.bytes.len()) {
            return None;
        }
        self.written = 0;
        let line = self.lines.pop_front()?;
        if line.kind == OutgoingKind::Automatic {
            self.automatic -= line.bytes.len();
        }
        if line.kind == OutgoingKind::Result {
            self.results -= line.bytes.len();
        }
        if self.lines.is_empty() {
            self.lines.shrink_to_fit();
        }
        Some(line.kind)
    }

    /// Drops all lines: the agent's input is closed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: OutgoingKind, bytes: usize) -> OutgoingLine {
        OutgoingLine { kind, bytes: vec![b'x'; bytes] }
    }

    #[test]
    fn lines_are_done_in_order_and_only_as_a_whole() {
        let mut outgoing = Outgoing::default();
        outgoing.push(line(OutgoingKind::Prompt, 3));
        outgoing.push(line(OutgoingKind::Plain, 1));
        assert_eq!(outgoing.wrote(2), None);
        assert_eq!(outgoing.front().map(<[u8]>::len), Some(1));
        assert_eq!(outgoing.wrote(1), Some(OutgoingKind::Prompt));
        assert_eq!(outgoing.wrote(1), Some(OutgoingKind::Plain));
        assert!(outgoing.is_empty());
    }

    #[test]
    fn there_is_no_room_while_results_wait() {
        let mut outgoing = Outgoing::default();
        outgoing.push(line(OutgoingKind::Result, MAX_RESULT_BYTES - 1));
        assert!(outgoing.has_room());
        outgoing.push(line(OutgoingKind::Result, 1));
        assert!(!outgoing.has_room());
        outgoing.wrote(MAX_RESULT_BYTES - 1);
        assert!(outgoing.has_room());
    }

    #[test]
    fn an_agent_that_never_reads_does_not_fill_our_memory() {
        let mut outgoing = Outgoing::default();
        for _ in 0..100_000 {
            outgoing.push(line(OutgoingKind::Automatic, 100));
        }
        assert!(outgoing.automatic <= MAX_AUTOMATIC_BYTES);
        outgoing.push(line(OutgoingKind::Prompt, 10 * MAX_AUTOMATIC_BYTES));
        while let Some(bytes) = outgoing.front().map(<[u8]>::len) {
            outgoing.wrote(bytes);
        }
        assert_eq!(outgoing.automatic, 0);
    }
}
