//! A question waits for its answer in spite of any dying process, and a secret is kept
//! no longer than necessary.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{answer, answer_received, elicit, form, of_type};

#[test]
fn a_question_waits_while_the_daemon_is_killed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    sandbox.kill(&sandbox.daemon());
    assert_eq!(sandbox.show(&worker)["questions"][0]["requestId"], request);
    let set = ["--accept", "--set", "name=x", "--set", "size=2"];
    assert_eq!(answer(&sandbox, &worker, &set).data_of("elicitation.answered")["delivery"], "delivered");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    assert_eq!(answer_received(&sandbox, &worker)["content"], json!({"name": "x", "size": 2}));
    sandbox.finish();
}

#[test]
fn a_question_of_a_runtime_that_is_killed_is_lost() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = elicit(&sandbox, &worker, &form());
    sandbox.kill(&sandbox.runtime(&worker));
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.failed");
    let lost = of_type(&sandbox, &worker, "elicitation.lost");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0]["data"], json!({"requestId": request, "reason": "runtime_lost"}));
    let late = answer(&sandbox, &worker, &["--request", &request, "--decline"]).error("APPROVAL_NOT_PENDING");
    assert_eq!(late["details"]["status"], "lost");
    sandbox.finish();
}

/// Returns every file below the state directory that contains these bytes.
fn files_with(folder: &std::path::Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_with(&path, bytes)),
            // A file that is gone by now contains nothing.
            kind if kind.is_file() => {
                let content = std::fs::read(&path).unwrap_or_default();
                if content.windows(bytes.len()).any(|part| part == bytes) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn what_was_filled_in_reaches_the_agent_and_stays_nowhere() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let file = sandbox.file_name("told");
    for secret in ["hunter2-short".to_owned(), format!("hunter2-{}", "long".repeat(5_000))] {
        let waited = sandbox.send(&worker, &format!("!elicit-to {file} {}", form()));
        let input = json!({
            "workerId": worker, "action": "accept", "content": {"name": secret, "size": 2},
        });
        let args = ["answer", "--input", "-"];
        let answered = sandbox.subagent(&args).stdin(input.to_string()).run();
        assert_eq!(answered.data_of("elicitation.answered")["delivery"], "delivered");
        let _ = sandbox.turn_end(&waited);
        let answer_received: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(answer_received, json!({"action": "accept", "content": {"name": secret, "size": 2}}));
    }
    // A job of the writer runs after its idle work.
    let _ = sandbox.send(&worker, "!say on");
    assert_eq!(files_with(sandbox.state_dir(), b"hunter2"), Vec::<std::path::PathBuf>::new());
    sandbox.finish();
}

#[test]
fn hostile_questions_are_bounded_and_can_be_answered() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    for (case, accepts) in [("deep", true), ("huge", true), ("link", false)] {
        let waited = sandbox.send(&worker, &format!("hostile: elicitation-{case}"));
        assert_eq!(waited["matchedEvent"]["type"], "elicitation.requested", "{case}");
        assert_eq!(sandbox.show(&worker)["questions"][0]["message"], "m");
        if accepts {
            let wrong = answer(&sandbox, &worker, &["--accept", "--content", r#"{"a": {"b": 1}}"#]);
            assert_eq!(wrong.error("INVALID_ELICITATION_CONTENT")["details"]["field"], "a");
            answer(&sandbox, &worker, &["--accept"]).data_of("elicitation.answered");
        } else {
            answer(&sandbox, &worker, &["--accept"]).error("INVALID_ELICITATION_CONTENT");
            answer(&sandbox, &worker, &["--decline"]).data_of("elicitation.answered");
        }
        assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed", "{case}");
    }
    let accepted = sandbox.send_no_wait(&worker, "hostile: elicitation-many");
    let end = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "turn.completed");
    assert_eq!(end["turnId"], accepted["turnId"]);
    let of_turn = |wanted: &str| {
        let events = of_type(&sandbox, &worker, wanted);
        events.iter().filter(|event| event["turnId"] == accepted["turnId"]).count()
    };
    assert_eq!((of_turn("elicitation.requested"), of_turn("elicitation.canceled")), (256, 256));
    sandbox.finish();
}
