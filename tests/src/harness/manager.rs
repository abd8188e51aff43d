//! A manager that does what a good one does when things die under it: asks again what may be asked again, answers
//! what is asked, and takes a lost turn for lost.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::output::Output;
use super::sandbox::Sandbox;

/// For one turn, in which several processes may be killed.
const DEADLINE: Duration = Duration::from_secs(120);
/// How a turn ends.
const ENDS: &str = "turn.completed,turn.failed,turn.canceled";

impl Sandbox {
    /// Repeats a command while it fails with an error that says that this may help; gives its first other output.
    ///
    /// # Panics
    /// When it does not come to an end.
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

    /// Gets one turn done, with a key of its own, and gives the event that ended it. Permissions are given.
    ///
    /// # Panics
    /// When the turn does not come to an end, or a command fails in a way that a manager cannot get over.
    #[must_use]
    #[track_caller]
    pub fn manage(&self, worker: &str, key: &str, prompt: &str) -> Value {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < DEADLINE, "{key} does not come to an end");
            let sending = self.sending(worker, prompt).args(["--turn-id", key]).deadline(DEADLINE);
            let output = sending.run();
            if !output.status.success() {
                let error = output.any_error();
                if error["details"]["eventId"].is_string() {
                    // Its turn has failed; another one would need another key.
                    let cursor = error["details"]["acceptedEventId"].as_str().unwrap();
                    let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", ENDS];
                    return self.persist(&wait).data_of("event.matched");
                }
                // The same command may be given again: it has a key.
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
                // Its runtime was killed before: the question is lost, and the turn with it. Or the answer of an
                // earlier attempt came through, although its confirmation did not.
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
