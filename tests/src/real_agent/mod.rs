//! Real coding agents, pinned in `tests/real-agents/` and installed by `tests/real-agents/install`.
//! Describes how to start each one so that it talks only to a [`ModelServer`]. Starts nothing
//! itself. Properties of single agents are in `known`, as data; everything else applies to all.

mod installed;
mod known;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tempfile::TempDir;

use crate::model_server::ModelServer;
use installed::find_packages;
use known::{AgentSetup, SetupFolders};

/// Set to 1 where the agents are required, as in CI: a missing agent is then a panic and
/// not a skipped test.
const REQUIRE: &str = "SUBAGENT_REQUIRE_REAL_AGENTS";

/// The agents that [`RealAgent::new`] knows.
pub const AGENTS: [&str; 9] =
    ["claude", "codex", "gemini", "opencode", "kimi", "vibe", "fast-agent", "deepagents", "openhands"];

/// How to start one agent. Dropping this removes the agent's HOME with all sessions, so keep it
/// until the agent has ended. Two agents started from the same value share their stored sessions.
#[derive(Debug)]
pub struct RealAgent {
    /// One of [`AGENTS`], as text.
    pub name: &'static str,
    /// The versions of its packages, such as `0.100.0`, separated by ` / `.
    pub version: String,
    /// Absolute path of the program.
    pub command: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// The words of the command that its users type: the same agent without the adapter.
    pub typed: Vec<PathBuf>,
    /// Its whole environment: start it without any other variable, such as a proxy's.
    pub env: BTreeMap<String, String>,
    /// Whether it reports a failure of the provider within seconds; others retry for minutes.
    pub gives_up: bool,
    /// Whether it passes on its model's response piece by piece.
    pub streams: bool,
    /// Whether it can load a session only in another minute of the clock than the session's start.
    pub loads_next_minute: bool,
    /// A mode and a model other than its defaults; the model server is behind the model too. `None`
    /// if it offers no choice.
    pub chosen: Option<(&'static str, &'static str)>,
    home: TempDir,
}

impl RealAgent {
    /// Whether it is installed. If not, prints that to stderr.
    ///
    /// # Panics
    ///
    /// If it is not installed and `SUBAGENT_REQUIRE_REAL_AGENTS` is 1, or if the name is unknown.
    #[must_use]
    pub fn is_installed(name: &str) -> bool {
        find_packages(name).inspect_err(|why| absent(name, why)).is_ok()
    }

    /// Returns the agent with this name, connected to `models`.
    ///
    /// # Panics
    ///
    /// If it is not installed, or no HOME can be created for it.
    #[must_use]
    #[allow(clippy::panic, reason = "a test's set-up: continuing would hide that nothing was tested")]
    pub fn new(name: &'static str, models: &ModelServer) -> Self {
        let packages = find_packages(name).unwrap_or_else(|why| panic!("{name}: {why}"));
        match Self::set_up(name, &packages, models) {
            Ok(agent) => agent,
            Err(error) => panic!("cannot make a HOME for {name}: {error}"),
        }
    }

    fn set_up(name: &'static str, packages: &[(PathBuf, String)], models: &ModelServer) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix(&format!("{name}-home-")).tempdir()?;
        fs::create_dir(home.path().join("tmp"))?;
        let (node, agent) = packages.split_last().ok_or_else(|| io::Error::other("no packages"))?;
        let places = SetupFolders {
            node: node.0.join("bin"),
            packages: agent.iter().map(|(folder, _)| folder.clone()).collect(),
            home: home.path().to_owned(),
            models: models.url(),
        };
        let AgentSetup { command, args, typed, env, files, chosen } = known::set_up(name, &places);
        for (file, contents) in files {
            let file = home.path().join(file);
            fs::create_dir_all(file.parent().unwrap_or(home.path()))?;
            fs::write(file, contents)?;
        }
        let version: Vec<&str> = agent.iter().map(|(_, version)| version.as_str()).collect();
        let mut all = BTreeMap::from([
            ("PATH".to_owned(), places.path()),
            ("HOME".to_owned(), home.path().to_string_lossy().into_owned()),
            // Some write reports of failed requests to the temporary folder.
            ("TMPDIR".to_owned(), home.path().join("tmp").to_string_lossy().into_owned()),
        ]);
        all.extend(env);
        let version = version.join(" / ");
        let (gives_up, loads_next_minute) = (name == "claude", name == "gemini");
        let streams = name != "openhands";
        Ok(Self {
            name,
            version,
            command,
            args,
            typed,
            env: all,
            gives_up,
            streams,
            loads_next_minute,
            chosen,
            home,
        })
    }

    /// Returns the agent's HOME.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

#[allow(clippy::panic, reason = "it must be visible that a test was skipped")]
fn absent(agent: &str, why: &str) {
    assert!(
        env::var_os(REQUIRE).is_none_or(|value| value != "1"),
        "{agent} is required ({REQUIRE}=1): {why}"
    );
    crate::harness::say(&format!("SKIPPED, NOTHING WAS TESTED: {agent}: {why}"));
}
