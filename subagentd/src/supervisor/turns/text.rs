//! Texts of messages: their limits, and their events.

use serde_json::{Value, json};
use subagent_protocol::api::SendTurn;
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::{Code, Error, MAX_LINE_BYTES, Result};

/// Maximum size of a prompt as JSON, in bytes. With its frame and record, it must fit into one
/// line.
pub(in crate::supervisor) const MAX_PROMPT_BYTES: usize = MAX_LINE_BYTES - 64 * 1024;

/// Returns the data of a text message's `message.sent` and `turn.started` events.
pub(in crate::supervisor) fn plain(text: &str) -> (Value, TurnInput) {
    let input = TurnInput { text: text.to_owned(), blocks_count: 0, subagent: None };
    (json!({"text": text, "blocks": []}), input)
}

/// Refuses a text that is too long for a prompt.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE{limitBytes}`.
pub(in crate::supervisor) fn check_text(text: &str) -> Result<()> {
    let text = text.to_owned();
    let request = SendTurn {
        text,
        blocks: Vec::new(),
        attachments: Vec::new(),
        simulate: None,
        if_busy: None,
        agent: None,
        env: None,
        mcp_servers: Default::default(),
    };
    check_size(&request, MAX_PROMPT_BYTES)
}

/// Refuses a prompt that does not fit into one line for the runtime and the agent.
pub(super) fn check_size(request: &SendTurn, most: usize) -> Result<()> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut size = Count(0);
    serde_json::to_writer(&mut size, &(&request.text, &request.blocks, &request.attachments))
        .map_err(|error| Error::new(Code::InvalidInput, format!("the message cannot be sent: {error}")))?;
    if size.0 <= most {
        return Ok(());
    }
    Err(Error::new(
        Code::PayloadTooLarge,
        format!("the message has {} bytes as JSON; at most {most} can be sent", size.0),
    )
    .with("limitBytes", most)
    .with("bytes", size.0)
    .recommend("write it to a file in the worker's folder and send the file's path"))
}
