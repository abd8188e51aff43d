//! Damaged input for a runtime: it never panics, hangs or fills the memory, and keeps the
//! data before the damage.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use subagent_runtime::fuzz;
use subagent_testkit::bytes::{self, attack};
use subagent_testkit::in_own_process;

#[test]
fn the_journal_stays_complete_on_any_output_of_the_agent() {
    in_own_process(|| {
        let good = bytes::AGENT;
        let before = fuzz::agent_output(good);
        let corpus: Vec<Vec<u8>> = bytes::lines(good).into_iter().chain([good.to_vec()]).collect();
        attack(&corpus, |bad| {
            let heard = fuzz::agent_output(&[good, bad].concat());
            assert!(heard.starts_with(&before), "what came before the damage was lost");
        });
    });
}

#[test]
fn the_socket_answers_or_closes_on_any_input() {
    in_own_process(|| {
        let good = bytes::TO_RUNTIME;
        let (commands, answers) = fuzz::command_socket(good);
        assert_eq!(commands, 5, "each that is known is taken");
        assert!(answers <= 5, "{answers} answers; the peer may be gone before them");
        let corpus: Vec<Vec<u8>> = bytes::lines(good).into_iter().chain([good.to_vec()]).collect();
        attack(&corpus, |bad| {
            let (commands, _) = fuzz::command_socket(&[good, bad].concat());
            assert!(commands >= 5, "what came before the damage was lost");
            fuzz::command_socket(bad);
        });
    });
}
