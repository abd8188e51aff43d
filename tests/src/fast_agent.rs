//! The exact output of the fast agent. The agent writes it (`src/bin/fast-agent.rs`), and
//! measurements compute its size from here. No I/O.

/// The id of its only session.
pub const SESSION: &str = "fast";
/// The text before and after the parameters of an update.
const ENVELOPE: [&str; 2] = [r#"{"jsonrpc":"2.0","method":"session/update","params":"#, "}\n"];
/// The text before and after the chunk's text in the parameters.
const PARAMS: [&str; 2] = [
    r#"{"sessionId":"fast","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""#,
    r#""}}}"#,
];
/// Prefix of a chunk of `!pace`, followed by the nanoseconds of the monotonic clock.
pub const STAMP: &str = "at ";

/// The directive in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Writes only one chunk.
    Say,
    /// `!stream N`: N chunks, as fast as the pipe accepts them.
    Stream(u64),
    /// `!flood SECONDS`: chunks for this time, as fast as the pipe accepts them.
    Flood(u64),
    /// `!pace N SECONDS`: N chunks per second for this time, each with its time of writing.
    Pace(u64, u64),
    /// `!line BYTES`: one line of this length, including its end.
    Line(usize),
}

impl Order {
    /// Parses the first line of a prompt; other text is a message.
    #[must_use]
    pub fn parse(prompt: &str) -> Self {
        let words: Vec<&str> = prompt.lines().next().unwrap_or_default().split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
        match (words.first(), number(1), number(2)) {
            (Some(&"!stream"), Some(count), _) => Self::Stream(count),
            (Some(&"!flood"), Some(seconds), _) => Self::Flood(seconds),
            (Some(&"!pace"), Some(rate), Some(seconds)) => Self::Pace(rate.max(1), seconds),
            (Some(&"!line"), Some(bytes), _) => Self::Line(usize::try_from(bytes).unwrap_or(usize::MAX)),
            _ => Self::Say,
        }
    }
}

/// Writes the beginning of a chunk's line into `line`, replacing its content. The
/// text follows, then [`end_chunk`].
pub fn begin_chunk(line: &mut Vec<u8>) {
    line.clear();
    line.extend_from_slice(ENVELOPE[0].as_bytes());
    line.extend_from_slice(PARAMS[0].as_bytes());
}

/// Ends the line of a chunk.
pub fn end_chunk(line: &mut Vec<u8>) {
    line.extend_from_slice(PARAMS[1].as_bytes());
    line.extend_from_slice(ENVELOPE[1].as_bytes());
}

/// Returns the text of a chunk of `!stream` or `!flood`.
#[must_use]
pub fn text(index: u64) -> String {
    format!("chunk {index} ")
}

/// Returns the total size of the parameters of `!stream COUNT` in bytes.
#[must_use]
pub fn params_bytes(count: u64) -> u64 {
    let frame = PARAMS.iter().map(|part| part.len() as u64).sum::<u64>();
    (0..count).map(|index| frame + text(index).len() as u64).sum()
}

/// Returns the text length for a line of this length, in bytes.
#[must_use]
pub fn text_of_line(bytes: usize) -> usize {
    bytes.saturating_sub(ENVELOPE.iter().chain(&PARAMS).map(|part| part.len()).sum())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_prompt_is_an_order_or_a_message() {
        assert_eq!(Order::parse("!stream 12\nmore"), Order::Stream(12));
        assert_eq!(Order::parse("!flood 3"), Order::Flood(3));
        assert_eq!(Order::parse("!pace 1000 60"), Order::Pace(1000, 60));
        assert_eq!(Order::parse("!line 99"), Order::Line(99));
        for message in ["", "hello", "!stream", "!stream many", "!pace 5"] {
            assert_eq!(Order::parse(message), Order::Say, "{message}");
        }
    }

    #[test]
    fn a_chunk_is_an_update_of_the_protocol_and_its_bytes_are_known() {
        let mut line = b"of before".to_vec();
        begin_chunk(&mut line);
        line.extend_from_slice(text(0).as_bytes());
        end_chunk(&mut line);
        let message: Value = serde_json::from_slice(&line).unwrap();
        let content = json!({"type": "text", "text": "chunk 0 "});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        assert_eq!(message["params"], json!({"sessionId": SESSION, "update": update}));
        assert_eq!(params_bytes(1), message["params"].to_string().len() as u64);
        assert_eq!(params_bytes(11), 11 * params_bytes(1) + 1, "\"chunk 10 \" is one longer");
        assert_eq!(text_of_line(line.len()), text(0).len());
    }
}
