//! A config file, damaged: a config or a located error, in bounded time and memory.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::path::Path;

use subagent_config::agents::{self, Reading, Source};
use subagent_config::file;
use subagent_tests::bytes::{self, attack};

#[test]
fn whatever_is_in_a_config_file_there_is_a_config_or_an_error_with_its_path() {
    let path = Path::new("/ws/config.yaml");
    file::parse(path, bytes::CONFIG).unwrap();
    let json = br#"{"launchers": {"a": {"command": "x", "args": ["-y"]}}, "defaults": {"launcher": "a"}}"#;
    let corpus =
        [bytes::CONFIG.to_vec(), json.to_vec(), subagent_config::template::TEMPLATE.as_bytes().to_vec()];
    attack(&corpus, |bad| {
        if let Err(error) = file::parse(path, bad) {
            assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
            assert_eq!(error.details()["path"], "/ws/config.yaml");
            assert!(error.message().len() < 20_000, "an error of {} bytes", error.message().len());
        }
    });
}

#[test]
fn whatever_is_in_the_file_of_an_agent_there_is_a_definition_another_file_or_a_problem() {
    let good = [
        include_bytes!("../src/agents/cases/ours.md").to_vec(),
        include_bytes!("../src/agents/cases/claude.md").to_vec(),
        include_bytes!("../src/agents/cases/opencode.md").to_vec(),
    ];
    for file in &good {
        assert!(matches!(agents::read(file, "x", Source::Command), Ok(Reading::Definition(_))));
    }
    attack(&good, |bad| {
        if let Err(problem) = agents::read(bad, "x", Source::Command) {
            let length = problem.message.len();
            assert!((1..2_000).contains(&length), "a message of {length} bytes");
        }
    });
}
