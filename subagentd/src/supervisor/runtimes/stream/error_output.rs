//! What a command of a placement says on its standard error. It is foreign text: bounded, and without
//! control characters.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_protocol::clean::one_line;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;

/// Number of bytes that are kept. The last ones: an error follows what a login shell prints.
const MAX_SAID_BYTES: usize = 2048;
/// Time limit for the rest after the command has ended. A process that it left may keep the pipe.
const REST_TIMEOUT: Duration = Duration::from_millis(200);

/// The end of the standard error. Reads until this is dropped.
pub(in crate::supervisor::runtimes) struct ErrorOutput {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl ErrorOutput {
    pub(in crate::supervisor::runtimes) fn of(stderr: Option<ChildStderr>) -> Self {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let into = Arc::clone(&kept);
        let reader = stderr.map(|mut stderr| {
            tokio::spawn(async move {
                let mut buffer = Vec::with_capacity(MAX_SAID_BYTES);
                while matches!(stderr.read_buf(&mut buffer).await, Ok(1..)) {
                    keep(&mut into.lock().unwrap_or_else(PoisonError::into_inner), &buffer);
                    buffer.clear();
                }
            })
        });
        Self { kept, reader }
    }

    /// Adds text from elsewhere.
    pub(super) fn add(&self, bytes: &[u8]) {
        keep(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner), bytes);
    }

    /// Returns what was said until now, as one harmless line.
    pub(super) fn text(&self) -> String {
        one_line(&String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns everything that was said. Call it after the command has ended.
    pub(in crate::supervisor::runtimes) async fn rest(mut self) -> String {
        if let Some(mut reader) = self.reader.take()
            && tokio::time::timeout(REST_TIMEOUT, &mut reader).await.is_err()
        {
            reader.abort();
        }
        self.text()
    }
}

impl Drop for ErrorOutput {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    let beyond = kept.len().saturating_sub(MAX_SAID_BYTES);
    kept.drain(..beyond);
}

/// Appends what a command said to a description, if it said anything.
pub(in crate::supervisor::runtimes) fn with_output(what: &str, said: &str) -> String {
    if said.is_empty() { what.to_owned() } else { format!("{what}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_are_harmless() {
        let said = ErrorOutput::of(None);
        said.add(&vec![b'x'; 3 * MAX_SAID_BYTES]);
        said.add(b"\x1b[2J\x1b]0;title\x07no\r\nroute \xff\n");
        let text = said.text();
        assert!(text.ends_with("no route \u{fffd}"), "{text:?}");
        assert!(text.len() <= MAX_SAID_BYTES && !text.contains(|c: char| c.is_control()), "{text:?}");
        assert_eq!(with_output("it ended", &text[text.len() - 3..]), "it ended: \u{fffd}");
        assert_eq!(with_output("it ended", ""), "it ended");
    }
}
