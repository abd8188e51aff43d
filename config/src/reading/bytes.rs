//! Property tests: a damaged config file gives a config or a located error, in bounded time and memory.

use std::path::Path;

use subagent_testkit::bytes::{self, attack};
use subagent_testkit::in_own_process;

use crate::agents::{self, DefinitionSource, Reading};
use crate::file;

#[test]
fn any_config_file_gives_a_config_or_an_error_with_its_path() {
    in_own_process(|| {
        let path = Path::new("/ws/config.yaml");
        file::parse(path, bytes::CONFIG).unwrap();
        let json =
            br#"{"launchers": {"a": {"command": "x", "args": ["-y"]}}, "defaults": {"launcher": "a"}}"#;
        let corpus = [bytes::CONFIG.to_vec(), json.to_vec(), crate::template::TEMPLATE.as_bytes().to_vec()];
        attack(&corpus, |bad| {
            if let Err(error) = file::parse(path, bad) {
                assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
                assert_eq!(error.details()["path"], "/ws/config.yaml");
                assert!(error.message().len() < 20_000, "an error of {} bytes", error.message().len());
            }
        });
    });
}

#[test]
fn any_agent_file_gives_a_definition_another_file_or_a_problem() {
    in_own_process(|| {
        let good = [
            include_bytes!("../agents/cases/ours.md").to_vec(),
            include_bytes!("../agents/cases/claude.md").to_vec(),
            include_bytes!("../agents/cases/opencode.md").to_vec(),
        ];
        for file in &good {
            assert!(matches!(agents::read(file, "x", DefinitionSource::Command), Ok(Reading::Definition(_))));
        }
        attack(&good, |bad| {
            if let Err(problem) = agents::read(bad, "x", DefinitionSource::Command) {
                let length = problem.message.len();
                assert!((1..2_000).contains(&length), "a message of {length} bytes");
            }
        });
    });
}
