//! Real coding agents, pinned in `tests/real-agents/` and installed by `tests/real-agents/install`: how to
//! start each so that it talks to a [`ModelServer`] and to nothing else. Starts nothing itself.
//!
//! What is particular to one agent is in `known`, as data; everything else is the same for all.

mod installed;
mod known;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tempfile::TempDir;

use crate::model_server::ModelServer;
use installed::find_packages;
use known::{Places, Setup};

/// Set to 1 where the agents must be there, as in CI: their absence is then a panic, not a skipped test.
const REQUIRE: &str = "SUBAGENT_REQUIRE_REAL_AGENTS";

/// The agents that [`RealAgent::new`] knows.
pub const AGENTS: [&str; 9] =
    ["claude", "codex", "gemini", "opencode", "kimi", "vibe", "fast-agent", "deepagents", "openhands"];

/// How to start one agent. Its HOME, with all sessions in it, goes when this is dropped, so keep it until the
/// agent has ended; two agents started from the same value share their stored sessions.
#[derive(Debug)]
pub struct RealAgent {
    /// One of [`AGENTS`].
    pub name: &'static str,
    /// The versions of its packages, as in `0.100.0`; several with ` / ` between.
    pub version: String,
    /// The program, absolute.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The command that its users type, in words: the same agent without the adapter.
    pub typed: Vec<PathBuf>,
    /// Its whole environment: start it with no other variable, a proxy's for example.
    pub env: BTreeMap<String, String>,
    /// Whether it reports a failure of the provider within seconds; others ask again for minutes.
    pub gives_up: bool,
    /// Whether it passes on its model's answer piece by piece.
    pub streams: bool,
    /// Whether it can load a session only when the clock's minute is another one than at the session's start.
    pub loads_next_minute: bool,
    /// A mode that it is not in by itself, and a model that it does not take by itself, with the model server behind it
    /// all the same. `None` when it offers no choice.
    pub chosen: Option<(&'static str, &'static str)>,
    home: TempDir,
}

impl RealAgent {
    /// Whether it is installed. If not, that is said on stderr.
    ///
    /// # Panics
    /// When it is not installed and `SUBAGENT_REQUIRE_REAL_AGENTS` is 1, or when there is no agent of this name.
    #[must_use]
    pub fn is_installed(name: &str) -> bool {
        find_packages(name).inspect_err(|why| absent(name, why)).is_ok()
    }

    /// The agent of this name, asking `models`.
    ///
    /// # Panics
    /// When it is not installed, or no HOME can be made for it.
    #[must_use]
    #[allow(clippy::panic, reason = "a test's set-up: to go on would hide that nothing was tested")]
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
        let places = Places {
            node: node.0.join("bin"),
            packages: agent.iter().map(|(folder, _)| folder.clone()).collect(),
            home: home.path().to_owned(),
            models: models.url(),
        };
        let Setup { command, args, typed, env, files, chosen } = known::set_up(name, &places);
        for (file, contents) in files {
            let file = home.path().join(file);
            fs::create_dir_all(file.parent().unwrap_or(home.path()))?;
            fs::write(file, contents)?;
        }
        let version: Vec<&str> = agent.iter().map(|(_, version)| version.as_str()).collect();
        let mut all = BTreeMap::from([
            ("PATH".to_owned(), places.path()),
            ("HOME".to_owned(), home.path().to_string_lossy().into_owned()),
            // Some leave reports of failed requests in the temporary folder.
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

    /// The agent's HOME.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

#[allow(clippy::panic, reason = "whoever runs the tests must see that one was skipped")]
fn absent(agent: &str, why: &str) {
    assert!(
        env::var_os(REQUIRE).is_none_or(|value| value != "1"),
        "{agent} is required ({REQUIRE}=1): {why}"
    );
    crate::harness::say(&format!("SKIPPED, NOTHING WAS TESTED: {agent}: {why}"));
}
