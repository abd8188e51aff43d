//! When a runtime hibernates, and what prevents that.

use subagent_protocol::client::{ExitStatus, TerminalExited};

use super::*;

fn hibernate(talk: &mut Talk, last_turn: u64) -> Result<(), Refusal> {
    talk.forget();
    talk.command(RuntimeCommand::Hibernate { last_turn, reason: "idle".to_owned() })
}

#[test]
fn nothing_is_open_so_the_session_is_closed_and_the_agent_ended() {
    let mut talk = Talk::ready(None, json!({"sessionCapabilities": {"close": {}}}));
    assert_eq!(hibernate(&mut talk, 4), Ok(()));
    let types: Vec<T> = talk.records.iter().map(|record| record.t).collect();
    assert_eq!((types, &talk.records[0].body["reason"]), (vec![T::Terminating], &json!("idle")));
    assert_eq!(talk.sent()[0]["method"], "session/close");
    assert_eq!(talk.conversation.phase(), RuntimePhase::Ending);
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::Ending));
    // An agent that does not react is ended anyway.
    talk.input(ConversationInput::Timer(Timer::StopGrace));
    assert!(talk.actions.contains(&ConversationAction::CloseInput));
}

#[test]
fn pending_work_prevents_it() {
    let mut talk = Talk::new(None, None);
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::NotReady));
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    assert_eq!(hibernate(&mut talk, 5), Err(Refusal::Busy));
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::WrongTurn { last: 5 }));
    let mut talk = Talk::ready(None, json!({}));
    talk.line(json!({"id": 0, "method": "session/request_permission", "params": {}}));
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::Busy));
    let mut talk = Talk::ready(None, json!({}));
    talk.input(ConversationInput::Storage(Storage::Full));
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::StorageFull));
}

#[test]
fn requests_of_the_agent_prevent_it_until_they_end() {
    let mut talk = Talk::ready(None, json!({}));
    talk.line(json!({"id": 0, "method": "terminal/create", "params": {"sessionId": "s", "command": "c"}}));
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::Busy), "it waits for an answer");
    let terminal = "term_1_1".to_owned();
    let created = ClientOperationResult::Created { terminal: terminal.clone() };
    talk.input(ConversationInput::CallDone { call: 1, outcome: Ok(created) });
    assert_eq!(hibernate(&mut talk, 4), Err(Refusal::Busy), "its command runs");
    let exit_status = ExitStatus { exit_code: Some(0), signal: None };
    let exited = TerminalExited { terminal_id: terminal, exit_status, output_bytes: 0, tail: String::new() };
    talk.input(ConversationInput::TerminalExited(exited));
    assert_eq!(hibernate(&mut talk, 4), Ok(()));
}
