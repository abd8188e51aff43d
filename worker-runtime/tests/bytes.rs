//! What a runtime reads, damaged: no input panics, hangs or fills the memory, and what came before the damage is kept.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::sync::Mutex;

use subagent_runtime::fuzz;
use subagent_tests::bytes::{self, attack};

/// One at a time: memory is the process's.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn whatever_an_agent_writes_the_journal_is_whole_and_keeps_what_came_before() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let good = bytes::AGENT;
    let before = fuzz::agent_output(good);
    let corpus: Vec<Vec<u8>> = bytes::lines(good).into_iter().chain([good.to_vec()]).collect();
    attack(&corpus, |bad| {
        let heard = fuzz::agent_output(&[good, bad].concat());
        assert!(heard.starts_with(&before), "what came before the damage was lost");
    });
}

#[test]
fn whatever_a_daemon_writes_the_socket_answers_or_closes() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
}
