//! Tasks of scripted agents: no agent of the tests starts a task server, so what one would say is said for it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use super::Sandbox;

impl Sandbox {
    /// The token with which the agent of a worker gives tasks, from where the daemon keeps it.
    ///
    /// # Panics
    /// If nothing is kept, or others could read it.
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
