//! A worker whose agent replays a transcript written by the test.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// A transcript that begins with an agent that has the session `s`.
pub(crate) struct PlayedScript(String);

impl PlayedScript {
    /// With these results of `initialize` and `session/new`, in addition to the common fields.
    pub(crate) fn new(agent: Value, session: Value) -> Self {
        let mut script = Self(String::new());
        script.process(agent, "session/new", session)
    }

    /// Begins the agent's next process, which gets this kind of session request.
    pub(crate) fn process(&mut self, mut agent: Value, method: &str, mut session: Value) -> Self {
        agent["protocolVersion"] = 1.into();
        session["sessionId"] = "s".into();
        self.add('>', &json!({"id": 0, "method": "initialize"}));
        self.add('<', &json!({"id": 0, "result": agent}));
        self.add('>', &json!({"id": 1, "method": method}));
        self.add('<', &json!({"id": 1, "result": session}));
        Self(std::mem::take(&mut self.0))
    }

    fn add(&mut self, from: char, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        self.0.push_str(&format!("{from} {message}\n"));
    }

    /// Waits for a prompt.
    pub(crate) fn prompted(mut self) -> Self {
        self.add('>', &json!({"id": 9, "method": "session/prompt"}));
        self
    }

    /// Answers the last prompt.
    pub(crate) fn answers(mut self, mut result: Value) -> Self {
        if result.get("stopReason").is_none() {
            result["stopReason"] = "end_turn".into();
        }
        self.add('<', &json!({"id": 9, "result": result}));
        self
    }

    /// Adds an update of the session.
    pub(crate) fn says(self, update: Value) -> Self {
        self.says_of("s", update)
    }

    /// Adds an update of another session.
    pub(crate) fn says_of(mut self, session: &str, update: Value) -> Self {
        let params = json!({"sessionId": session, "update": update});
        self.add('<', &json!({"method": "session/update", "params": params}));
        self
    }

    /// Adds a permission request of the agent.
    pub(crate) fn asks(mut self, call: Value) -> Self {
        let params = json!({"sessionId": "s", "toolCall": call, "options": []});
        self.add('<', &json!({"id": 7, "method": "session/request_permission", "params": params}));
        self
    }

    /// Ends this process and continues with another one, whose session is loaded.
    pub(crate) fn loaded(mut self, agent: Value, session: Value) -> Self {
        self.process(agent, "session/load", session)
    }

    /// Returns a sandbox with a worker whose agent replays this.
    pub(crate) fn started(self) -> (TestSandbox, String) {
        let mut sandbox = TestSandbox::new();
        let (file, state) = (sandbox.file_name("script"), sandbox.file_name("played"));
        fs::write(&file, &self.0).unwrap();
        let agent = sandbox.test_agent("replay-agent", &[&file, &state]);
        sandbox.launcher("played", agent);
        sandbox.init();
        let worker = sandbox.start("played");
        (sandbox, worker)
    }
}

/// Returns the data of updates of these kinds.
pub(crate) fn updates(events: &[Value], kinds: &[&str]) -> Vec<Value> {
    let of_kind = |event: &&Value| kinds.iter().any(|kind| event["data"]["kind"] == **kind);
    let updates = events.iter().filter(|event| event["type"] == "progress.update").filter(of_kind);
    updates.map(|event| event["data"].clone()).collect()
}
