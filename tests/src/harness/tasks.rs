//! Tasks of scripted agents. No test agent starts a task server, so a helper plays its part.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::TestSandbox;

/// The definition of an agent that can delegate to others of its kind.
const NESTED: &str = "---\ndescription: gives tasks\npermission: {task: allow}\n---\n";

impl TestSandbox {
    /// Starts a worker with these flags, which may delegate to agents (`nested`) that may delegate
    /// too. `delegation` goes into the config. Returns its id.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn delegating(&mut self, delegation: &Value, flags: &[&str]) -> String {
        let demo = self.demo_agent(&[]);
        self.launcher("demo", demo);
        let config = self.config_file();
        let text = format!("{}delegation: {delegation}\n", fs::read_to_string(&config).unwrap());
        fs::write(config, text).unwrap();
        let folder = self.workspace().join(".agents/agents");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("nested.md"), NESTED).unwrap();
        self.init();
        let start = ["worker", "start", "--launcher", "demo", "--delegate", "--label", "Root"];
        let started = self.run(&[&start, flags].concat()).data_of("worker.started");
        started["workerId"].as_str().unwrap().to_owned()
    }

    /// Returns a file with a task for this agent.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    #[must_use]
    pub fn task_file(&self, agent: &str, name: &str, mode: &str, prompt: &str) -> PathBuf {
        let file = self.file(&format!("{agent}-{}.json", name.replace(' ', "-")));
        let task = json!({"agent": agent, "prompt": prompt, "description": name, "name": name, "mode": mode});
        fs::write(&file, task.to_string()).unwrap();
        file
    }

    /// Returns the directive by which an agent submits the task in a file, and waits
    /// for a foreground task.
    ///
    /// # Panics
    ///
    /// If no daemon runs.
    #[must_use]
    #[track_caller]
    pub fn gives(&self, file: &Path) -> String {
        let socket = self.daemon_info().unwrap().socket;
        format!("!shell {} task {} {}", self.executable("stranger"), socket.display(), file.display())
    }

    /// Returns the token for tasks of a worker's agent, from the daemon's file.
    ///
    /// # Panics
    ///
    /// If there is no file, or others could read it.
    #[must_use]
    #[track_caller]
    pub fn task_token(&self, worker: &str) -> String {
        let folder = self.file("run/subagent");
        let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.to_str().unwrap().ends_with(&format!("-{worker}.env"))).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let kept: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        kept["taskToken"].as_str().unwrap().to_owned()
    }
}
