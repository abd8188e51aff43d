//! The log of the agent's stderr and of invalid lines on its stdout. Errors quote its last
//! characters. Its size is bounded. The file also contains notes of the runtime itself.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// Maximum number of characters in an error.
const TAIL_CHARS: usize = 4000;
/// A log above this size is renamed once.
const MAX_LOG_BYTES: u64 = 8 * 1024 * 1024;

/// Formats an invalid line of the agent's stdout for the log.
pub(crate) fn of_stdout(line: &str) -> Vec<u8> {
    format!("stdout: {}\n", line.trim_end()).into_bytes()
}

/// The last characters of a stream.
#[derive(Debug, Default)]
pub(crate) struct StderrTail {
    bytes: VecDeque<u8>,
}

impl StderrTail {
    /// Takes a chunk of the stream.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        // A character has at most four bytes.
        let max = TAIL_CHARS * 4;
        let chunk = &chunk[chunk.len().saturating_sub(max)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(max);
        self.bytes.drain(..surplus);
        self.bytes.extend(chunk);
    }

    /// Returns the text, with U+FFFD for invalid UTF-8.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[front, back].concat()).into_owned();
        let skip = text.chars().count().saturating_sub(TAIL_CHARS);
        text.chars().skip(skip).collect()
    }
}

#[derive(Debug)]
pub(crate) struct StderrLog {
    path: PathBuf,
    /// `None` if it cannot be opened: an agent without a log is better than no agent.
    file: Option<File>,
    bytes: u64,
}

impl StderrLog {
    /// Opens the file for appending.
    pub(crate) fn open(path: &Path) -> Self {
        let mut log = Self { path: path.to_owned(), file: None, bytes: 0 };
        log.reopen();
        log
    }

    fn reopen(&mut self) {
        self.file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            // A pipe with this name must not block us.
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(&self.path)
            .ok()
            .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()));
        self.bytes =
            self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
    }

    /// Appends the agent's output. A full disk only loses log lines.
    pub(crate) fn write(&mut self, chunk: &[u8]) {
        if self.bytes > 0 && self.bytes + chunk.len() as u64 > MAX_LOG_BYTES {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            if fs::rename(&self.path, aside).is_ok() {
                self.reopen();
            }
        }
        if self.bytes + (chunk.len() as u64) <= MAX_LOG_BYTES && self.append(chunk).is_ok() {
            self.bytes += chunk.len() as u64;
        }
    }

    /// Appends a line of the runtime. Must not contain prompt text or values of the environment.
    pub(crate) fn note(&mut self, message: &str) {
        self.write(format!("subagent-runtime: {message}\n").as_bytes());
    }

    fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_holds_the_last_characters() {
        let mut tail = StderrTail::default();
        tail.push("ä".repeat(TAIL_CHARS * 3).as_bytes());
        tail.push(b"end");
        let text = tail.text();
        assert_eq!(text.chars().count(), TAIL_CHARS);
        assert!(text.ends_with("äend"));
        tail.push(&vec![0xff; TAIL_CHARS * 9]);
        assert_eq!(tail.text().chars().count(), TAIL_CHARS);
    }

    #[test]
    fn the_log_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("start.log");
        let mut log = StderrLog::open(&path);
        for _ in 0..20 {
            log.write(&vec![b'x'; 1024 * 1024]);
        }
        log.note("here");
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&path) <= MAX_LOG_BYTES && size(&path.with_extension("log.1")) <= MAX_LOG_BYTES);
        assert!(fs::read_to_string(&path).unwrap().ends_with("subagent-runtime: here\n"));
    }
}
