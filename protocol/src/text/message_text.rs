//! The text of an agent's message: its pieces, and the tool calls between them.

// Text before and after a tool call forms separate paragraphs, joined by a blank line. The final
// message is the text after the last tool call, or the whole text if that is empty. Does not know
// the source of the pieces.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{EventType, SeenEvent, StoredEvent};
use crate::record::RecordType;

/// The kind of the update that begins a tool call.
const CALL: &str = "tool_call";
/// The separator of two paragraphs.
const BLANK_LINE: &str = "\n\n";

/// Line breaks that join two paragraphs of a text. Without all of them the text is
/// what the agent sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ParagraphBreak {
    /// Position in the text, in bytes of UTF-8.
    pub at: usize,
    /// Their number: 0, 1 or 2. The agent's own line breaks count for the blank line.
    pub length: usize,
}

impl ParagraphBreak {
    /// Inserts the line breaks into the text.
    pub fn insert_into(self, text: &mut String) {
        text.insert_str(self.at, &BLANK_LINE[..self.length]);
    }

    /// Returns the start of the paragraph.
    #[must_use]
    pub const fn end(self) -> usize {
        self.at + self.length
    }
}

/// Finds the paragraphs of a text that grows elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Paragraphs {
    /// Length of the text at the first tool call after the last text.
    call_at: Option<usize>,
}

impl Paragraphs {
    /// The agent calls a tool when its text has this length. Calls of its child
    /// sessions do not count.
    pub fn tool_call(&mut self, length: usize) {
        self.call_at.get_or_insert(length);
    }

    /// The text loses its first bytes.
    fn drop_before(&mut self, at: usize) {
        self.call_at = self.call_at.map(|call_at| call_at.saturating_sub(at));
    }

    /// Returns whether the agent has sent no text since its last tool call.
    #[must_use]
    pub const fn after_call(&self) -> bool {
        self.call_at.is_some()
    }

    /// Returns the break to insert into `text` before `piece` is appended, if the
    /// piece begins a paragraph.
    ///
    /// The result does not depend on how the agent splits its text into pieces.
    pub fn begin(&mut self, text: &str, piece: &str) -> Option<ParagraphBreak> {
        self.call_at?;
        // Blanks belong to the following paragraph, if there is one.
        let at = if piece.trim_start().is_empty() { None } else { self.call_at.take() }?;
        let (before, blanks) = text.split_at(at);
        let words = before.trim_end();
        if words.is_empty() {
            return Some(ParagraphBreak { at, length: 0 });
        }
        let indent = &piece[..piece.len() - piece.trim_start().len()];
        let breaks: usize =
            [&before[words.len()..], blanks, indent].iter().map(|part| line_breaks(part)).sum();
        Some(ParagraphBreak { at, length: BLANK_LINE.len().saturating_sub(breaks) })
    }
}

fn line_breaks(blanks: &str) -> usize {
    blanks.matches('\n').count()
}

/// Returns the text as the agent sent it: without these breaks, which are in order.
#[must_use]
pub fn without_breaks(text: &str, breaks: &[ParagraphBreak]) -> String {
    let mut sent = String::with_capacity(text.len());
    let mut from = 0;
    for found in breaks {
        sent.push_str(text.get(from..found.at).unwrap_or_default());
        from = found.end();
    }
    sent.push_str(text.get(from..).unwrap_or_default());
    sent
}

/// The text of one turn, up to a limit. If it is longer, the newest paragraph is kept.
#[derive(Debug, Clone)]
pub struct MessageText {
    limit: usize,
    text: String,
    paragraphs: Paragraphs,
    /// Start of the last paragraph.
    last: usize,
    /// Whether the end of the last paragraph was omitted.
    cut: bool,
    /// Whether text before the last paragraph was omitted.
    headless: bool,
}

impl MessageText {
    /// Creates a text of at most `limit` bytes.
    #[must_use]
    pub fn up_to(limit: usize) -> Self {
        let text = String::new();
        Self { limit, text, paragraphs: Paragraphs::default(), last: 0, cut: false, headless: false }
    }

    /// The agent calls a tool. Calls of its child sessions do not count.
    pub fn tool_call(&mut self) {
        self.paragraphs.tool_call(self.text.len());
    }

    /// The agent sends a piece of text.
    pub fn push(&mut self, piece: &str) {
        if let Some(found) = self.paragraphs.begin(&self.text, piece) {
            if self.cut {
                self.drop_before(found.at);
            } else {
                found.insert_into(&mut self.text);
                self.last = found.end();
            }
        }
        // Nothing is appended after a gap.
        if self.cut {
            return;
        }
        if self.text.len() + piece.len() > self.limit && self.last > 0 {
            self.drop_before(self.last);
        }
        let kept = piece.floor_char_boundary(self.limit.saturating_sub(self.text.len()));
        self.text.push_str(&piece[..kept]);
        self.cut = kept < piece.len();
    }

    fn drop_before(&mut self, at: usize) {
        self.text.drain(..at);
        self.paragraphs.drop_before(at);
        (self.last, self.cut, self.headless) = (0, false, true);
    }

    /// Returns the whole text.
    #[must_use]
    pub fn whole(&self) -> &str {
        &self.text
    }

    /// Returns the final message.
    #[must_use]
    pub fn last(&self) -> &str {
        let last = &self.text[self.last..];
        match self.paragraphs.after_call() || last.trim_start().is_empty() {
            true => &self.text,
            false if self.last > 0 => last.trim_start_matches(['\n', '\r']),
            false => last,
        }
    }

    /// Returns whether a part of the final message was omitted.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.cut || (self.headless && self.paragraphs.after_call())
    }
}

impl<P: AsRef<str>> StoredEvent<P> {
    /// Returns whether this event begins a tool call in the worker's own session.
    #[must_use]
    pub fn is_tool_call(&self) -> bool {
        self.event_type == EventType::ProgressUpdate
            && self.kind.as_deref() == Some(CALL)
            && self.record == Some(RecordType::Update)
    }
}

/// Returns the same for an event in the format for clients.
#[must_use]
pub fn is_tool_call(event: &Value) -> bool {
    /// The fields of an update that tell whether it begins a call.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct UpdateHead<'a> {
        kind: Option<&'a str>,
        session_id: Option<&'a str>,
    }
    let event: SeenEvent<'_, UpdateHead<'_>> = SeenEvent::of(event);
    event.event_type() == Some(EventType::ProgressUpdate)
        && event.data.kind == Some(CALL)
        && event.data.session_id.is_none()
}

#[cfg(test)]
mod tests;
