//! Reads the text of an agent's messages from the events of its turns.
//! The rule that turns pieces into paragraphs is not here.

use rusqlite::{Connection, Row, params};
use subagent_protocol::Result;
use subagent_protocol::message_text::MessageText;

use super::COLUMNS;
use super::words::MESSAGE_TYPES;
use crate::store::events;
use crate::store::rows::{self, RowId};
use crate::store::tx::signed;

/// Maximum number of pieces and tool calls read of one turn.
const MAX_PARTS: i64 = 1_000_000;
/// SQL condition for tool calls that the agent begins in the worker's own session.
const CALLS: &str = "(e.kind = 'tool_call' AND e.record IN ('', 'update'))";

/// SQL condition for the events that make up a text.
pub(in crate::store) fn parts() -> String {
    format!("(e.type IN {MESSAGE_TYPES} OR {CALLS})")
}

/// A piece of text, or a tool call between pieces.
#[derive(Debug)]
pub(in crate::store) enum MessagePart {
    Piece(String),
    ToolCall,
}

impl MessagePart {
    /// Reads a row of [`COLUMNS`]. Returns `None` for a piece without text.
    pub(in crate::store) fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        if row.get_ref(3)?.as_str_or_null()?.is_some_and(|kind| kind == "tool_call") {
            return Ok(Some(Self::ToolCall));
        }
        Ok(events::read(row)?.into_text().map(Self::Piece))
    }

    pub(in crate::store) fn bytes(&self) -> usize {
        match self {
            Self::Piece(piece) => piece.len(),
            Self::ToolCall => 0,
        }
    }

    pub(super) fn add_to(self, text: &mut MessageText) {
        match self {
            Self::Piece(piece) => text.push(&piece),
            Self::ToolCall => text.tool_call(),
        }
    }
}

/// Returns the last `max_bytes` bytes of the text, and whether there is more.
pub(in crate::store) fn end_of(parts: Vec<MessagePart>, max_bytes: usize) -> (String, bool) {
    let mut text = MessageText::up_to(usize::MAX);
    parts.into_iter().for_each(|part| part.add_to(&mut text));
    let whole = text.whole();
    let cut = whole.ceil_char_boundary(whole.len().saturating_sub(max_bytes));
    (whole[cut..].to_owned(), cut > 0)
}

/// The final message of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FinalMessage {
    pub(crate) text: String,
    pub(crate) truncated: bool,
}

/// The events of a turn after `first` and up to `last`.
#[derive(Debug, Clone, Copy)]
struct TextSpan {
    worker: RowId,
    turn: i64,
    first: i64,
    last: i64,
}

/// Returns the final message of a turn, cut to `max_bytes` bytes.
pub(crate) fn final_message(
    connection: &Connection,
    worker: RowId,
    turn: u64,
    max_bytes: usize,
) -> Result<FinalMessage> {
    let sql = "SELECT id, message_seq, coalesce(end_seq, ?3) FROM turns WHERE worker = ?1 AND no = ?2";
    let span = rows::one(connection, sql, params![worker.0, signed(turn), i64::MAX], |row| {
        Ok(TextSpan { worker, turn: row.get(0)?, first: row.get(1)?, last: row.get(2)? })
    })?;
    let sql = format!(
        "SELECT coalesce(max(e.seq), ?2) FROM events e INDEXED BY tool_calls
         WHERE e.turn = ?1 AND e.seq BETWEEN ?2 AND ?3 AND e.kind IN ('tool_call', 'tool_call_update') AND {CALLS}"
    );
    let bounds = params![span.turn, span.first, span.last];
    let last_call = rows::one(connection, &sql, bounds, |row| row.get(0))?;
    let after = read(connection, TextSpan { first: last_call, ..span }, max_bytes)?;
    // An agent may write nothing after its last call. Then all text of the turn is its message.
    let text = match after.last().trim().is_empty() && last_call > span.first {
        true => read(connection, span, max_bytes)?,
        false => after,
    };
    let last = text.last();
    let last = if last_call > span.first { last.trim_start_matches(['\n', '\r']) } else { last };
    Ok(FinalMessage { text: last.to_owned(), truncated: text.is_truncated() })
}

fn read(connection: &Connection, span: TextSpan, max_bytes: usize) -> Result<MessageText> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ?1 AND e.internal = 0 AND e.turn = ?2 AND e.seq > ?3 AND e.seq <= ?4 AND {}
         ORDER BY e.seq LIMIT ?5",
        parts()
    );
    let TextSpan { worker, turn, first, last } = span;
    let mut text = MessageText::up_to(max_bytes);
    rows::each(connection, &sql, params![worker.0, turn, first, last, MAX_PARTS], |row| {
        if let Some(part) = MessagePart::read(row)? {
            part.add_to(&mut text);
        }
        Ok(())
    })?;
    Ok(text)
}
