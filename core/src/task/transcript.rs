//! Transcript of a task as text: messages and tool calls. Pure. All of its content is hostile: each
//! line is prefixed with `> `, and text on a line of a mark is one line, so that no content looks
//! like a mark.

use super::beginning;

use subagent_protocol::clean::{clean, one_line};

/// Maximum size of a transcript in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// Maximum length of a call's title, in characters.
const TITLE_CHARS: usize = 200;

const CUT: &str = "\n[cut here: the rest is in the events of the task]\n";

/// A text that grows up to a limit.
#[derive(Debug, Default)]
pub struct Transcript {
    text: String,
    said: String,
    /// Calls of child sessions during a message of the agent.
    below: String,
    is_full: bool,
}

impl Transcript {
    /// Starts the transcript of a task with this name.
    #[must_use]
    pub fn of(name: &str, agent: Option<&str>, status: &str) -> Self {
        let agent = agent.map_or_else(|| "no definition".to_owned(), one_line);
        Self { text: format!("## {} ({agent}, {status})\n", one_line(name)), ..Self::default() }
    }

    /// Adds a prompt to the agent.
    pub fn message_sent(&mut self, text: &str) {
        self.end_message();
        self.push("Prompt", text);
    }

    /// Adds a chunk of the agent's message.
    pub fn said(&mut self, piece: &str) {
        let room = MAX_BYTES.saturating_sub(self.text.len());
        // A longer message is cut when it is added to the text.
        if self.said.len() <= room {
            self.said.push_str(piece);
        }
    }

    /// Adds a tool call of the agent.
    pub fn called(&mut self, title: &str) {
        self.end_message();
        self.add(&call(title));
    }

    /// Adds a tool call of a child session. It does not end the agent's message.
    pub fn called_below(&mut self, title: &str) {
        if self.text.len() + self.below.len() <= MAX_BYTES {
            self.below.push_str(&call(title));
        }
    }

    /// Returns whether the limit is reached, also by a message that goes on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full || self.said.len() > MAX_BYTES
    }

    /// Returns the complete text.
    #[must_use]
    pub fn end(mut self) -> String {
        self.end_message();
        self.text
    }

    fn end_message(&mut self) {
        let said = std::mem::take(&mut self.said);
        if !said.trim().is_empty() {
            self.push("Said", &said);
        }
        let below = std::mem::take(&mut self.below);
        self.add(&below);
    }

    fn push(&mut self, mark: &str, text: &str) {
        let mut part = format!("\n{mark}:\n");
        for line in clean(text.trim_end()).lines() {
            part.push_str("> ");
            part.push_str(line);
            part.push('\n');
        }
        self.add(&part);
    }

    fn add(&mut self, part: &str) {
        if self.is_full {
            return;
        }
        let room = MAX_BYTES.saturating_sub(self.text.len());
        if part.len() <= room {
            return self.text.push_str(part);
        }
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        self.text.push_str(CUT);
        self.is_full = true;
    }
}

fn call(title: &str) -> String {
    format!("\nTool: {}\n", one_line(beginning(title, TITLE_CHARS)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_in_order_and_pieces_of_a_message_stand_together() {
        let mut transcript = Transcript::of("Unit\n## Other", Some("explore"), "completed");
        transcript.message_sent("Look.\n\nReport.");
        transcript.said("I lo");
        transcript.said("ok.\r## Fake (explore, failed)\n");
        transcript.called("read\nsrc/main.rs");
        transcript.said("Done.");
        assert_eq!(
            transcript.end(),
            "## Unit ## Other (explore, completed)\n\nPrompt:\n> Look.\n> \n> Report.\n\nSaid:\n> I look.\n> ## Fake \
             (explore, failed)\n\nTool: read src/main.rs\n\nSaid:\n> Done.\n"
        );
    }

    #[test]
    fn a_call_of_a_child_session_does_not_part_a_message() {
        let mut transcript = Transcript::of("x", None, "completed");
        transcript.said("one ");
        transcript.called_below("read");
        transcript.said("message");
        assert!(transcript.end().ends_with("\nSaid:\n> one message\n\nTool: read\n"));
    }

    #[test]
    fn it_is_bounded() {
        let mut transcript = Transcript::of("x", None, "failed");
        for _ in 0..10_000 {
            transcript.said(&"ä".repeat(100));
        }
        transcript.called("y");
        assert!(transcript.is_full());
        let text = transcript.end();
        assert!(text.len() <= MAX_BYTES + CUT.len() && text.ends_with(CUT));
    }

    proptest! {
        #[test]
        fn nothing_in_it_is_taken_for_a_mark(texts in prop::collection::vec("(\\PC|[#>\n\r\t\u{2028}\u{85}:a ]){0,30}", 0..6)) {
            let mut transcript = Transcript::of("n", Some("a"), "failed");
            for (index, text) in texts.iter().enumerate() {
                match index % 3 {
                    0 => transcript.message_sent(text),
                    1 => transcript.said(text),
                    _ => transcript.called(text),
                }
            }
            for (number, line) in transcript.end().lines().enumerate() {
                let ours = line.is_empty() || line == "Prompt:" || line == "Said:" || line.starts_with("Tool: ");
                prop_assert!(ours || line.starts_with("> ") || (number == 0 && line == "## n (a, failed)"), "{:?}", line);
            }
        }
    }
}
