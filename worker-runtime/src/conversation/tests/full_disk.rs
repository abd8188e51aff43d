//! A conversation whose journal cannot be written.

use super::*;

#[test]
fn a_full_disk_ends_the_turn_after_a_while() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    talk.input(ConversationInput::Storage(Storage::Full));
    assert!(
        talk.actions
            .contains(&ConversationAction::SetTimer(Timer::StorageFull, end::ending::STORAGE_TIMEOUT))
    );
    let unknown =
        RuntimeCommand::Answer { request_id: RequestId::from_random([9; 5]), option_id: None, rule: None };
    assert_eq!(talk.command(unknown), Err(Refusal::StorageFull));
    talk.forget();
    talk.input(ConversationInput::Timer(Timer::StorageFull));
    assert_eq!(talk.types(), [T::TurnEnd, T::Terminating]);
    assert_eq!(talk.records[0].body["error"]["code"], "STORAGE_FULL");
    assert!(
        talk.actions.contains(&ConversationAction::DropPrompt),
        "one that still waits must not be sent later"
    );
    talk.input(ConversationInput::Timer(Timer::StorageFull));
    assert!(!talk.actions.contains(&ConversationAction::AbandonJournal));
    talk.input(ConversationInput::Timer(Timer::StorageFull));
    assert!(talk.actions.contains(&ConversationAction::AbandonJournal));
}

#[test]
fn a_prompt_that_was_refused_for_a_full_disk_is_not_taken_when_it_is_said_again() {
    let mut talk = Talk::ready(None, json!({}));
    talk.input(ConversationInput::Storage(Storage::Full));
    assert_eq!(talk.prompt(5), Err(Refusal::StorageFull));
    talk.input(ConversationInput::Storage(Storage::Ok));
    assert_eq!(talk.prompt(5), Err(Refusal::StorageFull), "its turn has failed");
    assert_eq!((talk.types(), talk.methods()), (vec![], vec![]));
    // A client on another connection may not have received that answer.
    talk.connection += 1;
    talk.prompt(5).unwrap();
}

#[test]
fn an_answer_is_confirmed_only_after_its_record_is_written() {
    let mut talk = Talk::ready(None, json!({}));
    talk.line(json!({"id": 9, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}}));
    let request_id = RequestId::from_random([1, 1, 1, 1, 1]);
    let answer = || RuntimeCommand::Answer { request_id: request_id.clone(), option_id: None, rule: None };
    talk.command(answer()).unwrap();
    talk.input(ConversationInput::Storage(Storage::Full));
    talk.command(RuntimeCommand::Terminate { reason: String::new() }).unwrap();
    assert_eq!(talk.command(answer()), Err(Refusal::StorageFull), "its record waits");
    talk.input(ConversationInput::Storage(Storage::Ok));
    assert_eq!(talk.command(answer()), Err(Refusal::Ending));
}
