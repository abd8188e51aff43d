//! Counts a runtime's allocations per agent line and per journal append. Each row of the table has
//! the count at the time it was written and the allowed maximum. If a change needs more
//! allocations, it changes the row.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this file is a test")]

use serde_json::value::RawValue;
use subagent_runtime::measured::{Appender, in_turn};
use subagent_testkit::counting::allocations;
use subagent_testkit::in_own_process;

const LINES: u64 = 256;
const MESSAGE: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a piece of text "}}}"#;
const THOUGHT: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"a piece of text "}}}"#;
const CALL: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","title":"cat"}}"#;

#[test]
fn a_line_becomes_a_record_with_few_allocations() {
    in_own_process(|| {
        // Name, parameters, allocations for a chunk of 256 lines: original count, maximum.
        let limits =
            [("message", MESSAGE, 518, 600), ("thought", THOUGHT, 518, 600), ("tool call", CALL, 262, 400)];
        for (name, params, then, limit) in limits {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{params}}}\n");
            let chunk = line.repeat(usize::try_from(LINES).unwrap());
            let mut runtime = in_turn();
            let (count, bytes) = allocations(16, || drop(runtime.output(chunk.as_bytes())));
            println!("{name}: {count} allocations of {bytes} bytes for {LINES} lines");
            assert!(
                count <= limit,
                "{name}: {count} allocations for {LINES} lines, at most {limit} ({then} when that was set)"
            );
        }
    });
}

#[test]
fn an_append_allocates_next_to_nothing() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut appender = Appender::begin(folder.path()).unwrap();
        let body = RawValue::from_string(MESSAGE.to_owned()).unwrap();
        for (records, then, limit) in [(1, 1, 4), (256, 4, 16)] {
            let (count, bytes) = allocations(64, || appender.append(records, &body).unwrap());
            println!("{records} records: {count} allocations of {bytes} bytes for an append");
            assert!(
                count <= limit,
                "{records} records: {count} allocations, at most {limit} ({then} when that was set)"
            );
        }
    });
}
