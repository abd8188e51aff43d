//! A well-behaved manager for tests with failing processes: it repeats what may be repeated,
//! answers requests, and accepts the loss of a turn.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::output::Output;
use crate::harness::sandbox::TestSandbox;

/// Time limit of one turn, in which several processes may be killed.
const DEADLINE: Duration = Duration::from_secs(120);
/// The events that end a turn.
const ENDS: &str = "turn.completed,turn.failed,turn.canceled";

impl TestSandbox {
    /// Repeats a command while it fails with a retryable error. Returns its first other output.
    ///
    /// # Panics
    ///
    /// If there is no such output in time.
    #[track_caller]
    pub fn persist(&self, args: &[&str]) -> Output {
        let begun = Instant::now();
        loop {
            let output = self.subagent(args).deadline(DEADLINE).run();
            if output.status.success() || output.any_error()["retryable"] != true {
                return output;
            }
            assert!(begun.elapsed() < DEADLINE, "again and again:\n{output}");
        }
    }

    /// Completes one turn with its own key, and returns the event that
    /// ended it. Grants permissions.
    ///
    /// # Panics
    ///
    /// If the turn does not end, or a command fails with an error that a manager cannot handle.
    #[must_use]
    #[track_caller]
    pub fn manage(&self, worker: &str, key: &str, prompt: &str) -> Value {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < DEADLINE, "{key} does not end");
            let sending = self.sending(worker, prompt).args(["--turn-id", key]).deadline(DEADLINE);
            let output = sending.run();
            if !output.status.success() {
                let error = output.any_error();
                if error["details"]["eventId"].is_string() {
                    // Its turn has failed; a new one would need another key.
                    let cursor = error["details"]["acceptedEventId"].as_str().unwrap();
                    let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", ENDS];
                    return self.persist(&wait).data_of("event.matched");
                }
                // The same command may be repeated: it has a key.
                assert_eq!(error["retryable"], true, "{output}");
                continue;
            }
            let event = output.data_of("turn.waited")["matchedEvent"].take();
            if event["type"] != "approval.requested" {
                return event;
            }
            let request = event["data"]["requestId"].as_str().unwrap();
            let approve = ["approve", "--worker-id", worker, "--request", request, "--decision", "allow"];
            let decided = self.persist(&approve);
            if !decided.status.success() {
                // Either its runtime was killed, and question and turn are lost. Or an earlier
                // answer arrived without its confirmation.
                let code = decided.any_error()["code"].clone();
                assert!(code == "APPROVAL_NOT_PENDING" || code == "APPROVAL_NOT_FOUND", "{decided}");
            }
            let cursor = event["eventId"].as_str().unwrap();
            let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", ENDS];
            let ended = self.persist(&[&wait[..], &["--timeout-seconds", "30"]].concat());
            return ended.data_of("event.matched");
        }
    }
}
