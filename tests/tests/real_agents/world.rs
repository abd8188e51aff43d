//! One agent with a model server, a sandbox and a worker, and the actions of the cases.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use subagent_tests::harness::{Command, Gate, Output, TestSandbox, say, wait_until};
use subagent_tests::model_server::{Asked, ModelRequest, ModelServer};
use subagent_tests::real_agent::RealAgent;

use super::crew::launcher;
use super::table;

/// Time limit of one command. A turn takes a second on an idle machine, and many on a busy one.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);
/// How long one of our commands waits for the agent, below [`DEADLINE`].
const WAIT: &str = "120";
/// How long to wait for what the agent does not do according to the table. Shorter than for what it
/// does: if this is too short, the result still matches the table.
const NOT_DONE: Duration = Duration::from_secs(3);
/// The events that a running turn may lead to.
pub(crate) const NEXT: &str = "approval.requested,turn.completed,turn.failed,turn.canceled";

/// The world of one agent.
pub(crate) struct RealAgentWorld {
    pub(crate) sandbox: TestSandbox,
    pub(crate) models: ModelServer,
    pub(crate) worker: String,
    pub(crate) agent: RealAgent,
    /// The end of the first turn in a worker's session: some agents create the session only then.
    pub(crate) since: RefCell<BTreeMap<String, SystemTime>>,
    /// A worker that has to hibernate in the end.
    pub(crate) sleeper: RefCell<String>,
}

impl RealAgentWorld {
    /// A world with a worker of this agent.
    pub(crate) fn new(name: &'static str) -> Self {
        let mut world = Self::empty(name);
        world.worker = world.start();
        world
    }

    /// A world without a worker.
    pub(crate) fn empty(name: &'static str) -> Self {
        Self::with_env(name, &[])
    }

    /// A world without a worker, whose agent has these variables. An empty value removes one.
    pub(crate) fn with_env(name: &'static str, env: &[(&str, &str)]) -> Self {
        let models = ModelServer::start().unwrap();
        let mut sandbox = TestSandbox::new();
        let mcp = sandbox.executable("mcp-echo");
        let mut agent = RealAgent::new(name, &models);
        agent.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        agent.env.retain(|_, value| !value.is_empty());
        sandbox.launcher(name, launcher(&agent).key("mcpServers", json!({"echo": {"command": mcp}})));
        sandbox.init();
        let (since, sleeper) = (RefCell::default(), RefCell::default());
        Self { sandbox, models, worker: String::new(), agent, since, sleeper }
    }

    /// Starts one more worker.
    pub(crate) fn start(&self) -> String {
        self.start_with(&[])
    }

    /// Starts one more worker with these flags.
    pub(crate) fn start_with(&self, flags: &[&str]) -> String {
        let start = [&["worker", "start", "--launcher", self.agent.name], flags].concat();
        let started = self.run(&start).data_of("worker.started");
        started["workerId"].as_str().unwrap().to_owned()
    }

    /// The first turn of a worker has ended.
    pub(crate) fn begins(&self, worker: &str) {
        self.since.borrow_mut().insert(worker.to_owned(), SystemTime::now());
    }

    pub(crate) fn stop(&self, worker: &str) {
        let stopped = self.run(&["worker", "stop", worker]).data_of("worker.stopped");
        assert_eq!(stopped["state"], "stopped");
    }

    /// Runs a command that makes the agent do something.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.sandbox.subagent(args).deadline(DEADLINE).run()
    }

    /// How long to wait for what the agent may not do: not long, if the table says so.
    pub(crate) fn patience(&self, row: &str, not_done: &str, long: Duration) -> Duration {
        let expected = table::expected(self.agent.name, row);
        if expected.as_deref() == Some(not_done) { NOT_DONE } else { long }
    }

    /// Runs a case and prints its duration.
    pub(crate) fn case(&self, row: &str, case: fn(&Self) -> String) -> String {
        let begun = Instant::now();
        say(&format!("{}: {row} ...", self.agent.name));
        let cell = case(self);
        say(&format!("{}: {row}: {cell} ({:.1} s)", self.agent.name, begun.elapsed().as_secs_f32()));
        cell
    }

    /// Returns the tested version.
    pub(crate) fn version(&self) -> String {
        self.agent.version.clone()
    }

    /// Ends everything; the sandbox proves that nothing is left.
    pub(crate) fn finish(self) {
        if !self.worker.is_empty() {
            self.stop(&self.worker);
        }
        self.sandbox.finish();
        let unknown = |request: &ModelRequest| request.asked == Asked::Unknown;
        let unknown: Vec<_> = self.models.requests().into_iter().filter(unknown).collect();
        assert!(unknown.is_empty(), "the agent makes requests unknown to the model server: {unknown:?}");
    }

    /// Sends a prompt and waits for the end of its turn or a question.
    pub(crate) fn send(&self, prompt: &str) -> Value {
        self.send_to(&self.worker, prompt)
    }

    /// The same with another worker.
    pub(crate) fn send_to(&self, worker: &str, prompt: &str) -> Value {
        let sending = self.sandbox.sending(worker, prompt).args(["--wait-timeout-seconds", WAIT]);
        sending.deadline(DEADLINE).run().data_of("turn.waited")
    }

    /// Sends a prompt that has to be answered with this text.
    pub(crate) fn say(&self, text: &str) {
        self.say_to(&self.worker, text);
    }

    /// The same with another worker.
    pub(crate) fn say_to(&self, worker: &str, text: &str) {
        let waited = self.send_to(worker, &format!("SAY: {text}"));
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        assert_eq!(waited["assistantText"], text, "{waited}");
    }

    /// Sends a prompt after which the agent has to ask about `about`. Returns the data of the wait.
    pub(crate) fn question(&self, prompt: &str, about: &str) -> Value {
        let waited = self.send(prompt);
        assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
        let data = &waited["matchedEvent"]["data"];
        assert!(data.to_string().contains(about), "the question must show its subject: {data}");
        waited
    }

    /// Returns a worker's next event after this cursor.
    pub(crate) fn next(&self, worker: &str, cursor: &Value) -> Value {
        self.waiting_for(worker, cursor, NEXT).run().data_of("event.matched")
    }

    /// Returns a command that waits for an event of one of these types.
    pub(crate) fn waiting_for(&self, worker: &str, cursor: &Value, until: &str) -> Command {
        let cursor = cursor.as_str().unwrap();
        let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", until];
        self.sandbox.subagent(&wait).args(["--timeout-seconds", WAIT]).deadline(DEADLINE)
    }

    /// Decides every question of a turn in the same way. Returns the event that ends it.
    pub(crate) fn decide(&self, waited: &Value, decision: &str) -> Value {
        let mut event = waited["matchedEvent"].clone();
        while event["type"] == "approval.requested" {
            let request = &event["data"]["requestId"];
            self.sandbox.approve(&self.worker, request, decision).data_of("approval.decided");
            event = self.next(&self.worker, &event["eventId"]);
        }
        event
    }

    /// Returns the agent's whole output in a turn.
    pub(crate) fn said(&self, turn: &Value) -> String {
        let mut events = self.sandbox.events(&self.worker);
        events.retain(|event| event["turnId"] == *turn && event["type"] == "progress.message");
        events.iter().filter_map(|event| event["data"]["text"].as_str()).collect()
    }

    /// Returns the data of the progress of a kind in a turn.
    pub(crate) fn progress(&self, turn: &Value, kind: &str) -> Vec<Value> {
        let mut events = self.sandbox.events(&self.worker);
        events.retain(|event| event["turnId"] == *turn && event["data"]["kind"] == kind);
        events.into_iter().map(|mut event| event["data"].take()).collect()
    }

    /// Sends a slow prompt, and waits for the agent's first output, or for the model request if it
    /// does not stream. Returns the data of the acceptance.
    pub(crate) fn speaking(&self, worker: &str, prompt: &str) -> Value {
        let accepted = self.sandbox.send_no_wait(worker, prompt);
        if !self.agent.streams {
            wait_until("a request to its model", DEADLINE, || (self.asked(prompt) > 0).then_some(()));
            return accepted;
        }
        let speaks = self.waiting_for(worker, &accepted["acceptedEventId"], "progress.message");
        speaks.run().data_of("event.matched");
        accepted
    }

    /// Sends a prompt that waits at a gate.
    pub(crate) fn at_gate(&self, worker: &str, gate: &Gate) -> Value {
        self.speaking(worker, &format!("GATE: {}", gate.path().display()))
    }

    /// Cancels the open turn. Returns whether the agent obeys, so that it is not ended.
    pub(crate) fn cancel(&self, accepted: &Value) -> bool {
        let runtime = self.sandbox.runtime(&self.worker);
        let cancel = ["cancel", "--worker-id", &self.worker];
        let canceled = self.sandbox.subagent(&cancel).deadline(DEADLINE).run().data_of("turn.canceled");
        assert_eq!(canceled["turnId"], accepted["turnId"], "{canceled}");
        let forced = canceled["forced"] == true;
        self.say("still here");
        let is_same = self.sandbox.runtime(&self.worker).pid == runtime.pid;
        assert_eq!(is_same, !forced, "whether it was ended for the cancel: {canceled}");
        !forced
    }

    /// Returns the last model request about this prompt, with the agent's whole history.
    pub(crate) fn last_request(&self, prompt: &str) -> String {
        let about = |request: &ModelRequest| matches!(&request.asked, Asked::Prompt { text } if text.contains(prompt));
        let mut requests = self.models.requests();
        requests.retain(about);
        requests
            .last()
            .unwrap_or_else(|| panic!("the model got no request about {prompt:?}"))
            .body
            .to_string()
    }

    /// Returns how often the model was asked to answer this prompt.
    pub(crate) fn asked(&self, prompt: &str) -> usize {
        self.models.prompts().iter().filter(|seen| seen.contains(prompt)).count()
    }
}
