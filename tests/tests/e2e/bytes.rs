//! Agents that write damaged bytes, with the real executables. Each turn ends or fails with a code,
//! and no process is left.

use std::fs;

use subagent_testkit::bytes::{AGENT, Mutator, lines};
use subagent_tests::harness::{Random, TestSandbox, say, times};

/// Number of streams in an ordinary run.
const STREAMS: usize = 100;
/// A stream that ended its agent costs another start.
const AGENTS: usize = 4;

#[test]
fn a_turn_ends_after_any_output_of_its_agent() {
    let mut mutator = Mutator::new(Random::announced());
    let corpus: Vec<Vec<u8>> = lines(AGENT).into_iter().chain([AGENT.to_vec()]).collect();
    let streams: Vec<Vec<u8>> = (0..times(STREAMS)).map(|_| mutator.damage(&corpus)).collect();
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]).turn_seconds(20.0);
    sandbox.launcher("writer", agent);
    sandbox.init();
    let workers: Vec<String> = (0..AGENTS).map(|_| sandbox.start("writer")).collect();
    std::thread::scope(|scope| {
        for (index, worker) in workers.iter().enumerate() {
            let (sandbox, streams) = (&sandbox, &streams);
            scope.spawn(move || {
                for (number, stream) in streams.iter().enumerate().skip(index).step_by(AGENTS) {
                    let file = sandbox.file(&format!("stream-{number}"));
                    fs::write(&file, stream).unwrap();
                    let prompt = format!("hostile: write {}", file.to_str().unwrap());
                    let accepted = sandbox.send_no_wait(worker, &prompt);
                    let end = sandbox.turn_end(&accepted);
                    let head = stream[..stream.len().min(600)].escape_ascii();
                    match end["type"].as_str() {
                        Some("turn.completed") => {}
                        Some("turn.failed") => {
                            assert!(end["data"]["error"]["code"].is_string(), "{end}: {head}")
                        }
                        _ => panic!("{end}: {head}"),
                    }
                }
            });
        }
    });
    sandbox.finish();
    say(&format!("faults: {} damaged streams of {AGENTS} agents, each turn ended", streams.len()));
}
