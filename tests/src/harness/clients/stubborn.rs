//! A persistent manager: it repeats everything that fails, even if the command itself was killed.
//! It records the errors and checks each one against the contract.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::output::Output;
use crate::harness::sandbox::TestSandbox;

/// Time limit for one operation, including all failures.
const DEADLINE: Duration = Duration::from_secs(120);
/// Maximum number of failures of one command; more are not a temporary fault.
const MAX_FAILURES: usize = 400;
/// The events that end a turn.
const ENDS: &str = "turn.completed,turn.failed,turn.canceled";

/// The manager of one sandbox.
#[derive(Debug)]
pub struct Stubborn<'a> {
    sandbox: &'a TestSandbox,
    failure_codes: RefCell<Vec<String>>,
}

impl<'a> Stubborn<'a> {
    /// Creates the manager of this sandbox.
    #[must_use]
    pub fn new(sandbox: &'a TestSandbox) -> Self {
        Self { sandbox, failure_codes: RefCell::default() }
    }

    /// Returns the codes of all errors so far, with `killed` for a command that was killed.
    #[must_use]
    pub fn failure_codes(&self) -> Vec<String> {
        self.failure_codes.borrow().clone()
    }

    /// Runs a command once. Returns its output, or the code of its error.
    ///
    /// # Errors
    ///
    /// The code that a script would see.
    ///
    /// # Panics
    ///
    /// If its output violates the contract, or its error is only an internal one.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Result<Value, Value> {
        self.judge(&self.sandbox.subagent(args).deadline(DEADLINE).run())
    }

    /// Returns the data of a success, or the error.
    #[track_caller]
    fn judge(&self, output: &Output) -> Result<Value, Value> {
        match output.status.code() {
            Some(0) => Ok(output.data()),
            Some(_) => {
                let error = output.any_error();
                assert_ne!(error["code"], "INTERNAL_ERROR", "{output}");
                self.failure_codes.borrow_mut().push(error["code"].as_str().unwrap().to_owned());
                Err(error)
            }
            None => {
                self.failure_codes.borrow_mut().push("killed".to_owned());
                Err(Value::Null)
            }
        }
    }

    /// Runs a command until it succeeds. Returns its data.
    ///
    /// # Panics
    ///
    /// If it does not succeed in time.
    #[track_caller]
    pub fn get(&self, args: &[&str]) -> Value {
        self.repeat(&args.join(" "), || self.ask(args))
    }

    #[track_caller]
    fn repeat(&self, what: &str, mut ask: impl FnMut() -> Result<Value, Value>) -> Value {
        let begun = Instant::now();
        for _ in 0..MAX_FAILURES {
            match ask() {
                Ok(data) => return data,
                Err(error) => assert!(begun.elapsed() < DEADLINE, "{what} fails repeatedly: {error}"),
            }
        }
        panic!("{what} fails repeatedly: {:?}", self.failure_codes());
    }

    /// Creates the controller, or takes it over if the first response was lost.
    #[track_caller]
    pub fn init(&self) {
        let mut first = true;
        self.repeat("controller init", || {
            let made = match std::mem::take(&mut first) {
                true => self.ask(&["controller", "init"]),
                false => self.ask(&["controller", "attach", "--takeover"]),
            };
            made.or_else(|_| self.ask(&["controller", "init"]))
        });
    }

    /// Starts a worker of the launcher `demo`, or another one if the first attempt fails.
    ///
    /// # Panics
    ///
    /// If none can be started.
    #[must_use]
    #[track_caller]
    pub fn start(&self) -> String {
        let started = self.get(&["worker", "start", "--launcher", "demo"]);
        started["workerId"].as_str().unwrap().to_owned()
    }

    /// Completes one turn with this key, and returns the event that ended it. Grants
    /// permissions and answers questions.
    ///
    /// # Panics
    ///
    /// If the turn does not end.
    #[must_use]
    #[track_caller]
    pub fn turn(&self, worker: &str, key: &str, prompt: &str) -> Value {
        let send = || {
            let sending = self.sandbox.sending(worker, prompt).args(["--turn-id", key]).deadline(DEADLINE);
            match self.judge(&sending.run()) {
                // Its turn has failed, which is an outcome too.
                Err(error) if error["details"]["eventId"].is_string() => Ok(error),
                other => other,
            }
        };
        let mut seen = self.repeat(&format!("send {key}"), send);
        if seen["matchedEvent"].is_null() {
            return self.end(worker, seen["details"]["acceptedEventId"].as_str().unwrap());
        }
        let mut event = seen["matchedEvent"].take();
        loop {
            let (command, answer): (&str, &[&str]) = match event["type"].as_str() {
                Some("approval.requested") => ("approve", &["--decision", "allow"]),
                Some("elicitation.requested") => ("answer", &["--accept", "--set", "a=x"]),
                _ => return event,
            };
            let request = event["data"]["requestId"].as_str().unwrap();
            let words = [&[command, "--worker-id", worker, "--request", request][..], answer].concat();
            let over = |error: &Value| {
                error["code"] == "APPROVAL_NOT_PENDING" || error["code"] == "APPROVAL_NOT_FOUND"
            };
            self.repeat(command, || match self.ask(&words) {
                // Lost with its runtime, or the response to an earlier attempt arrived.
                Err(error) if over(&error) => Ok(error),
                other => other,
            });
            event = self.wait(worker, event["eventId"].as_str().unwrap(), "turn_end");
        }
    }

    /// Returns the end of a turn after this cursor.
    #[must_use]
    #[track_caller]
    pub fn end(&self, worker: &str, cursor: &str) -> Value {
        self.wait(worker, cursor, ENDS)
    }

    fn wait(&self, worker: &str, cursor: &str, until: &str) -> Value {
        let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", until];
        self.get(&[&wait[..], &["--timeout-seconds", "30"]].concat())
    }
}
