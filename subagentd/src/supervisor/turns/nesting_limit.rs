//! Limits the nesting of a message's blocks. Pure. JSON parsers reject more than 128 levels, and a
//! block is nested in events, records and envelopes. Every process that reads a sent block must be
//! able to parse it.

use serde_json::Value;
use subagent_protocol::{Code, Error, Result};

/// Maximum depth of lists and objects in a block.
const MAX_LEVELS: usize = 64;

/// Rejects blocks that some reader of their event could not parse.
pub(crate) fn check(blocks: &[Value]) -> Result<()> {
    if blocks.iter().all(|block| levels(block) <= MAX_LEVELS) {
        return Ok(());
    }
    let message =
        format!("a block is nested deeper than {MAX_LEVELS} levels; flatten it, or send it as text");
    Err(Error::new(Code::InvalidInput, message).with("limitLevels", MAX_LEVELS))
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_value_counts() {
        let nested = |levels: usize| -> Value {
            let text = format!("{{\"a\": 1, \"b\": {}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
            serde_json::from_str(&text).unwrap()
        };
        check(&[]).unwrap();
        check(&[nested(2), nested(MAX_LEVELS)]).unwrap();
        let error = check(&[nested(2), nested(MAX_LEVELS + 1)]).unwrap_err();
        assert_eq!((error.code, &error.details["limitLevels"]), (Code::InvalidInput, &MAX_LEVELS.into()));
    }
}
