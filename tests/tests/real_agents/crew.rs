//! Several agents in one sandbox with one model server, and definitions that select the
//! agent of a task.

use std::fs;

use serde_json::Value;
use subagent_tests::harness::{TestLauncher, TestSandbox};
use subagent_tests::model_server::ModelServer;
use subagent_tests::real_agent::{AGENTS, RealAgent};

use super::table;
use super::turns::FORCED;
use super::world::DEADLINE;

pub(crate) struct Crew {
    pub(crate) sandbox: TestSandbox,
    pub(crate) models: ModelServer,
    /// Their HOMEs are removed with them.
    _agents: Vec<RealAgent>,
}

/// Returns how an agent is started in a sandbox.
pub(crate) fn launcher(agent: &RealAgent) -> TestLauncher {
    let is_forced = |row| table::expected(agent.name, row).is_some_and(|cell| cell == FORCED);
    // Waiting is useless for an agent that does not obey. OpenHands obeys after the 30 s that
    // it gives a command.
    let grace = if is_forced("cancel during a command") {
        5.0
    } else if is_forced("cancel during text") {
        45.0
    } else {
        60.0
    };
    let launcher = TestLauncher::new(agent.command.to_str().unwrap(), agent.args.clone())
        .startup_seconds(120.0)
        .cancel_grace_seconds(grace);
    agent.env.iter().fold(launcher, |launcher, (name, value)| launcher.env(name, value))
}

impl Crew {
    /// A workspace with a controller, and a launcher for each of these agents, with the same name.
    pub(crate) fn new(names: &[&str]) -> Self {
        let models = ModelServer::start().unwrap();
        let mut sandbox = TestSandbox::new();
        let mut agents = Vec::new();
        for name in AGENTS.into_iter().filter(|name| names.contains(name)) {
            let agent = RealAgent::new(name, &models);
            sandbox.launcher(name, launcher(&agent));
            agents.push(agent);
        }
        sandbox.init();
        Self { sandbox, models, _agents: agents }
    }

    /// Writes a definition with these keys.
    pub(crate) fn define(&self, name: &str, keys: &str) {
        let folder = self.sandbox.workspace().join(".agents/agents");
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\ndescription: Does as it is told\n{keys}\n---\nDo as you are told.\n");
        fs::write(folder.join(format!("{name}.md")), text).unwrap();
    }

    /// Submits a background task to an agent, with these flags. Returns its id.
    pub(crate) fn gives(&self, agent: &[&str], prompt: &str) -> String {
        let run = [&["task", "run", "--background", "--text", prompt, "--agent"], agent].concat();
        let spawned = self.sandbox.subagent(&run).deadline(DEADLINE).run().data_of("task.spawned");
        spawned["taskId"].as_str().unwrap().to_owned()
    }

    /// Returns the task, once it has ended.
    pub(crate) fn ended(&self, task: &str) -> Value {
        let wait = ["task", "wait", task, "--timeout-seconds", "120"];
        self.sandbox.subagent(&wait).deadline(DEADLINE).run().data_of("task.waited")
    }

    /// Returns the data of a task's events of a type.
    pub(crate) fn events(&self, task: &str, kind: &str) -> Vec<Value> {
        let events = self.sandbox.events(task).into_iter().filter(|event| event["type"] == kind);
        events.map(|mut event| event["data"].take()).collect()
    }

    pub(crate) fn finish(self) {
        self.sandbox.finish();
    }
}
