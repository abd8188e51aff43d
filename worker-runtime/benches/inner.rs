//! Inner parts of a runtime: an agent's lines become records, records are appended.
//! `cargo bench -p subagent-runtime --features testing`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::value::RawValue;
use subagent_runtime::measured::{Appender, in_turn};

const LINES: usize = 256;
const MESSAGE: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a piece of text "}}}"#;
const CALL: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","title":"cat"}}"#;

fn lines(params: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{params}}}\n")
        .repeat(LINES)
        .into_bytes()
}

fn records(c: &mut Criterion) {
    let mut group = c.benchmark_group("line to record");
    group.throughput(Throughput::Elements(LINES as u64));
    for (name, params) in [("message", MESSAGE), ("tool call", CALL)] {
        let chunk = lines(params);
        let mut runtime = in_turn();
        group.bench_function(name, |b| b.iter(|| black_box(runtime.output(&chunk))));
    }
    group.finish();
}

fn appends(c: &mut Criterion) {
    let body = RawValue::from_string(MESSAGE.to_owned()).unwrap();
    let mut group = c.benchmark_group("journal append");
    for records in [1, LINES] {
        group.throughput(Throughput::Elements(records as u64));
        group.bench_function(format!("{records} records"), |b| {
            let begin = || {
                let folder = tempfile::tempdir().unwrap();
                let appender = Appender::begin(folder.path()).unwrap();
                (folder, appender)
            };
            let append = |(_, appender): &mut (tempfile::TempDir, Appender)| {
                for _ in 0..16 {
                    appender.append(records, &body).unwrap();
                }
            };
            b.iter_batched_ref(begin, append, BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group!(benches, records, appends);
criterion_main!(benches);
