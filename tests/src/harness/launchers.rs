//! The launchers of a sandbox's config file.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

/// One launcher of the config.
#[derive(Debug, Clone)]
#[must_use]
pub struct TestLauncher {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    startup_seconds: f64,
    cancel_grace_seconds: f64,
    turn_seconds: Option<f64>,
    more: serde_json::Map<String, Value>,
    phase_seconds: Option<f64>,
}

impl TestLauncher {
    /// A program with its arguments.
    pub fn new<S: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = S>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            startup_seconds: 30.0,
            cancel_grace_seconds: 1.0,
            turn_seconds: None,
            more: serde_json::Map::new(),
            phase_seconds: None,
        }
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets another config key.
    pub fn key(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_owned(), value);
        self
    }

    /// Time limit from the start to a session (default 30 s).
    pub const fn startup_seconds(mut self, seconds: f64) -> Self {
        self.startup_seconds = seconds;
        self
    }

    /// Time limit for `initialize` and for each session request (default: that of the start).
    pub const fn phase_seconds(mut self, seconds: f64) -> Self {
        self.phase_seconds = Some(seconds);
        self
    }

    /// Time from a cancel to the end of an agent that ignores it (default 1 s).
    pub const fn cancel_grace_seconds(mut self, seconds: f64) -> Self {
        self.cancel_grace_seconds = seconds;
        self
    }

    /// Maximum duration of a turn (default: none).
    pub const fn turn_seconds(mut self, seconds: f64) -> Self {
        self.turn_seconds = Some(seconds);
        self
    }

    fn to_json(&self) -> Value {
        // A path with blanks must be one word.
        let command = format!("'{}'", self.command);
        let mut timeouts =
            json!({"startupSeconds": self.startup_seconds, "cancelGraceSeconds": self.cancel_grace_seconds});
        if let Some(seconds) = self.phase_seconds {
            timeouts["initializeSeconds"] = seconds.into();
            timeouts["sessionSeconds"] = seconds.into();
        }
        if let Some(seconds) = self.turn_seconds {
            timeouts["turnSeconds"] = seconds.into();
        }
        let mut launcher = json!({
            "backend": {"kind": "acp-stdio"}, "command": command, "args": self.args, "env": self.env,
            "timeouts": timeouts,
        });
        for (key, value) in &self.more {
            launcher[key] = value.clone();
        }
        launcher
    }
}

/// Returns the text of a config file. Each launcher is a line of JSON, which is valid YAML.
pub(super) fn config(launchers: &BTreeMap<String, TestLauncher>, default: &str) -> String {
    let mut text = format!("defaults:\n  launcher: {default}\nlaunchers:\n");
    for (name, launcher) in launchers {
        writeln!(text, "  {name}: {}", launcher.to_json()).unwrap();
    }
    text
}
