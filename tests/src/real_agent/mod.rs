//! Real coding agents, pinned in `tests/real-agents/` and installed by `tests/real-agents/install`: how to
//! start each so that it talks to a [`ModelServer`] and to nothing else. Starts nothing itself.
//!
//! What is particular to one agent is in `known`, as data; everything else is the same for all.

mod known;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde_json::Value;
use tempfile::TempDir;

use crate::model_server::ModelServer;
use known::{Places, Setup};

/// The folder of the installed agents, if not `target/real-agents`.
const FOLDER: &str = "SUBAGENT_REAL_AGENTS";
/// Set to 1 where the agents must be there, as in CI: their absence is then a panic, not a skipped test.
const REQUIRE: &str = "SUBAGENT_REQUIRE_REAL_AGENTS";
/// What must be installed.
const PINNED: &str = include_str!("../../real-agents/package.json");

/// The agents that [`RealAgent::new`] knows.
pub const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "opencode", "kimi"];

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
    /// Whether it can load a session only when the clock's minute is another one than at the session's start.
    pub loads_next_minute: bool,
    /// A mode that it is not in by itself.
    pub mode: &'static str,
    /// A model that it does not take by itself, with the model server behind it all the same.
    pub model: &'static str,
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
        let Setup { command, args, typed, env, files, mode, model } = known::set_up(name, &places);
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
        Ok(Self {
            name,
            version,
            command,
            args,
            typed,
            env: all,
            gives_up,
            loads_next_minute,
            mode,
            model,
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

/// The folders and versions of an agent's packages, and of the Node.js for it.
fn find_packages(name: &str) -> Result<Vec<(PathBuf, String)>, String> {
    let node = known::node_package();
    known::packages(name).iter().chain([&node]).map(|package| find_package(package)).collect()
}

/// The folder of an installed package, in the pinned version, and that version.
fn find_package(name: &str) -> Result<(PathBuf, String), String> {
    let pinned: Value = serde_json::from_str(PINNED).map_err(|error| format!("package.json: {error}"))?;
    let wanted = pinned["dependencies"]
        .get(name)
        .or(pinned["optionalDependencies"].get(name))
        .and_then(Value::as_str)
        .ok_or_else(|| format!("tests/real-agents/package.json has no {name}"))?;
    let folders = folders(env::var_os(FOLDER), env::current_exe().ok());
    let Some(package) =
        folders.iter().map(|folder| folder.join("node_modules").join(name)).find(|package| package.is_dir())
    else {
        return Err(format!("{name} is not installed; run tests/real-agents/install"));
    };
    let manifest = package.join("package.json");
    let manifest: Value = fs::read(&manifest)
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|error| format!("{}: {error}; run tests/real-agents/install", manifest.display()))?;
    if manifest["version"] == *wanted {
        return Ok((package, wanted.to_owned()));
    }
    let found = &manifest["version"];
    Err(format!("{} is version {found}, not {wanted}; run tests/real-agents/install", package.display()))
}

/// Where the agents may be: the folder that is given, and no other; else beside the test executable's
/// profile folder; else in the workspace's own target folder, when cargo was given another one.
fn folders(given: Option<OsString>, executable: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return vec![given.into()];
    }
    let above =
        executable.iter().flat_map(|path| path.ancestors().skip(1)).map(|above| above.join("real-agents"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("real-agents");
    above.chain([own]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_folder_is_the_only_one_that_is_looked_in() {
        assert_eq!(folders(Some("/given".into()), Some("/t/debug/deps/x".into())), [Path::new("/given")]);
        let found = folders(Some(OsString::new()), Some("/t/debug/deps/x".into()));
        assert!(found.contains(&PathBuf::from("/t/real-agents")), "{found:?}");
    }

    #[test]
    fn every_agent_is_pinned_to_one_version() {
        let pinned: Value = serde_json::from_str(PINNED).unwrap();
        for kind in ["dependencies", "optionalDependencies"] {
            for (name, version) in pinned[kind].as_object().unwrap() {
                let version = version.as_str().unwrap();
                assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{name} {version}");
            }
        }
    }

    #[test]
    fn the_lock_file_holds_no_addresses() {
        let lock = include_str!("../../real-agents/package-lock.json");
        assert!(!lock.contains("\"resolved\""), "install with npm's omit-lockfile-registry-resolved=true");
    }
}
