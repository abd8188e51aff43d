//! Splits the agent's output into lines and limits the memory that this takes.
//!
//! Does not interpret lines. Of a line above the limit, only size, checksum and head are kept.

use memchr::memchr;
use serde::de::DeserializeOwned;

/// Bytes kept from the start of a line that is too long.
pub(crate) const HEAD_BYTES: usize = 4096;

/// One line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentLine<'a> {
    /// The complete line, without its line end.
    Whole(&'a [u8]),
    /// The line is longer than the limit.
    TooLong {
        /// Length of the whole line, in bytes.
        bytes: u64,
        /// CRC-32C of the whole line.
        crc: u32,
        /// The first [`HEAD_BYTES`] of the line.
        head: &'a [u8],
    },
}

/// The splitter's state between two chunks.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    limit: usize,
    partial: Partial,
}

#[derive(Debug)]
enum Partial {
    /// The start of a line that is still within the limit.
    Kept(Vec<u8>),
    /// The line is above the limit already.
    Dropped { bytes: u64, crc: u32, head: Vec<u8> },
}

impl Default for Partial {
    fn default() -> Self {
        Self::Kept(Vec::new())
    }
}

impl LineSplitter {
    /// Keeps lines of up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, partial: Partial::default() }
    }

    /// Takes a chunk of output and passes on every line that it completes.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], mut on_line: impl FnMut(AgentLine<'_>)) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(end);
            chunk = &rest[1..];
            match &self.partial {
                // The common case: the whole line lies in the chunk and is not copied.
                Partial::Kept(kept) if kept.is_empty() && line.len() <= self.limit => {
                    on_line(AgentLine::Whole(line))
                }
                _ => {
                    self.extend(line);
                    self.finish(&mut on_line);
                }
            }
        }
        if !chunk.is_empty() {
            self.extend(chunk);
        }
    }

    /// Parses the lines of an internal pipe. Skips lines that cannot be parsed: they come
    /// from a newer version.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, chunk: &[u8]) -> Vec<T> {
        let mut read = Vec::new();
        self.feed(chunk, |line| {
            if let AgentLine::Whole(line) = line {
                read.extend(serde_json::from_slice(line).ok());
            }
        });
        read
    }

    /// Passes on the last line if the output ended without a line end.
    pub(crate) fn finish(&mut self, mut on_line: impl FnMut(AgentLine<'_>)) {
        match std::mem::take(&mut self.partial) {
            Partial::Kept(line) if line.is_empty() => {}
            Partial::Kept(line) => on_line(AgentLine::Whole(&line)),
            Partial::Dropped { bytes, crc, head } => on_line(AgentLine::TooLong { bytes, crc, head: &head }),
        }
    }

    fn extend(&mut self, more: &[u8]) {
        match &mut self.partial {
            Partial::Kept(line) if line.len() + more.len() <= self.limit => line.extend_from_slice(more),
            Partial::Kept(line) => {
                let mut head = line[..line.len().min(HEAD_BYTES)].to_vec();
                head.extend(more.iter().take(HEAD_BYTES - head.len()));
                let crc = crc32c::crc32c_append(crc32c::crc32c(line), more);
                self.partial = Partial::Dropped { bytes: (line.len() + more.len()) as u64, crc, head };
            }
            Partial::Dropped { bytes, crc, head } => {
                *bytes += more.len() as u64;
                *crc = crc32c::crc32c_append(*crc, more);
                head.extend(more.iter().take(HEAD_BYTES.saturating_sub(head.len())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(limit: usize, chunks: &[&[u8]]) -> Vec<(u64, u32, Vec<u8>, bool)> {
        let mut lines = Vec::new();
        let mut splitter = LineSplitter::new(limit);
        let mut take = |line: AgentLine<'_>| match line {
            AgentLine::Whole(line) => {
                lines.push((line.len() as u64, crc32c::crc32c(line), line.to_vec(), true));
            }
            AgentLine::TooLong { bytes, crc, head } => lines.push((bytes, crc, head.to_vec(), false)),
        };
        for chunk in chunks {
            splitter.feed(chunk, &mut take);
        }
        splitter.finish(&mut take);
        lines
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..400),
            cuts in proptest::collection::vec(0_usize..400, 0..20),
            limit in 1_usize..60,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let expected: Vec<_> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
                (line.len() as u64, crc32c::crc32c(line), line.to_vec(), line.len() <= limit)
            }).collect();
            // `feed` also passes on empty lines within one chunk; this test ignores them.
            let got: Vec<_> = split(limit, &chunks).into_iter().filter(|line| line.0 > 0).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_long_line_keeps_only_its_head() {
        let long = vec![b'a'; 3 * HEAD_BYTES];
        let lines = split(HEAD_BYTES + 1, &[&long, b"\nshort\n"]);
        assert_eq!(lines[0], (long.len() as u64, crc32c::crc32c(&long), long[..HEAD_BYTES].to_vec(), false));
        assert_eq!(lines[1].2, b"short");
    }
}
