//! Many at once: one of them sends, and repetitions send nothing.

use std::collections::BTreeSet;

use serde_json::json;
use subagent_tests::harness::TestSandbox;

use crate::contract::at_once;

#[test]
fn of_fifty_messages_one_is_accepted() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let texts: Vec<String> = (0..50).map(|index| format!("{}\n!say {index}", gate.directive())).collect();
    let commands = texts.iter().map(|text| ["send", "--worker-id", &worker, "--no-wait", "--text", text]);
    let outputs = at_once(&sandbox, commands);
    let (accepted, refused): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| output.status.success());
    assert_eq!(accepted.len(), 1, "{accepted:#?}");
    for output in refused {
        let busy = output.error("WORKER_BUSY");
        assert_eq!((&busy["details"]["state"], &busy["retryable"]), (&json!("running"), &json!(false)));
    }
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted[0].data())["type"], "turn.completed");
    let sent = sandbox.events(&worker).iter().filter(|event| event["type"] == "message.sent").count();
    assert_eq!(sent, 1);
    sandbox.finish();
}

#[test]
fn fifty_repetitions_of_a_message_are_one_turn_and_one_prompt() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let touch = format!("!touch {}", sandbox.file_name("touched"));
    let command = ["send", "--worker-id", &worker, "--turn-id", "job-7", "--text", &touch];
    let outputs = at_once(&sandbox, (0..50).map(|_| command));
    let turns: BTreeSet<String> =
        outputs.iter().map(|output| output.data_of("turn.waited")["turnId"].to_string()).collect();
    assert_eq!(turns.len(), 1, "{turns:?}");
    assert_eq!(sandbox.touches("touched"), 1);
    let ends = sandbox.events(&worker).iter().filter(|event| event["type"] == "turn.completed").count();
    assert_eq!(ends, 1);
    sandbox.finish();
}
