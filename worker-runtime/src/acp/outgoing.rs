//! What waits to be written to the agent.
//!
//! Must not block: the pump of the agent's output goes on while its input pipe is full, or both would wait for each
//! other. Answers that an agent provokes by itself are bounded, and while results that it does not read wait, nothing
//! else that it asked for is begun; what we start is one prompt at a time.

use std::collections::VecDeque;

/// Answers to unknown requests that may wait; an agent that never reads its input gets no more of them.
const MAX_AUTOMATIC_BYTES: usize = 1024 * 1024;
/// With more than this of results waiting there is no room for another one.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// What a line is, as far as its sender wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of the handshake, a cancel, the close of a session.
    Plain,
    /// The prompt of a turn.
    Prompt,
    /// The answer to a permission request.
    Answer,
    /// The result of a file request or of one about a terminal.
    Result,
    /// An error that the agent provoked by itself.
    Automatic,
}

/// One line with its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingLine {
    /// What it is.
    pub(crate) kind: Kind,
    /// JSON text and `\n`.
    pub(crate) bytes: Vec<u8>,
}

/// The lines that wait, in order.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    lines: VecDeque<OutgoingLine>,
    written: usize,
    automatic: usize,
    results: usize,
}

impl Outgoing {
    /// Appends a line; an automatic one is dropped when too many of them wait.
    pub(crate) fn push(&mut self, line: OutgoingLine) {
        if line.kind == Kind::Automatic {
            if self.automatic + line.bytes.len() > MAX_AUTOMATIC_BYTES {
                return;
            }
            self.automatic += line.bytes.len();
        }
        if line.kind == Kind::Result {
            self.results += line.bytes.len();
        }
        self.lines.push_back(line);
    }

    /// Whether the agent reads what it asks for fast enough that another result may be made.
    pub(crate) fn has_room(&self) -> bool {
        self.results < MAX_RESULT_BYTES
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What to write next.
    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.lines.front().map(|line| &line.bytes[self.written..])
    }

    /// Notes that so many bytes of [`Self::front`] were written; gives the kind of a line that is done with it.
    pub(crate) fn wrote(&mut self, bytes: usize) -> Option<Kind> {
        self.written += bytes;
        if self.lines.front().is_none_or(|line| self.written < line.bytes.len()) {
            return None;
        }
        self.written = 0;
        let line = self.lines.pop_front()?;
        if line.kind == Kind::Automatic {
            self.automatic -= line.bytes.len();
        }
        if line.kind == Kind::Result {
            self.results -= line.bytes.len();
        }
        if self.lines.is_empty() {
            self.lines.shrink_to_fit();
        }
        Some(line.kind)
    }

    /// Forgets everything: the agent cannot be written to any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, bytes: usize) -> OutgoingLine {
        OutgoingLine { kind, bytes: vec![b'x'; bytes] }
    }

    #[test]
    fn lines_are_done_in_order_and_only_as_a_whole() {
        let mut outgoing = Outgoing::default();
        outgoing.push(line(Kind::Prompt, 3));
        outgoing.push(line(Kind::Plain, 1));
        assert_eq!(outgoing.wrote(2), None);
        assert_eq!(outgoing.front().map(<[u8]>::len), Some(1));
        assert_eq!(outgoing.wrote(1), Some(Kind::Prompt));
        assert_eq!(outgoing.wrote(1), Some(Kind::Plain));
        assert!(outgoing.is_empty());
    }

    #[test]
    fn there_is_no_room_while_results_wait() {
        let mut outgoing = Outgoing::default();
        outgoing.push(line(Kind::Result, MAX_RESULT_BYTES - 1));
        assert!(outgoing.has_room());
        outgoing.push(line(Kind::Result, 1));
        assert!(!outgoing.has_room());
        outgoing.wrote(MAX_RESULT_BYTES - 1);
        assert!(outgoing.has_room());
    }

    #[test]
    fn an_agent_that_never_reads_does_not_fill_our_memory() {
        let mut outgoing = Outgoing::default();
        for _ in 0..100_000 {
            outgoing.push(line(Kind::Automatic, 100));
        }
        assert!(outgoing.automatic <= MAX_AUTOMATIC_BYTES);
        outgoing.push(line(Kind::Prompt, 10 * MAX_AUTOMATIC_BYTES));
        while let Some(bytes) = outgoing.front().map(<[u8]>::len) {
            outgoing.wrote(bytes);
        }
        assert_eq!(outgoing.automatic, 0);
    }
}
