//! Real coding agents, pinned in `tests/real-agents/` and installed by `tests/real-agents/install`: how to
//! start each so that it talks to a [`ModelServer`] and to nothing else. Starts nothing itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model_server::ModelServer;

/// The folder of the installed agents, if not `target/real-agents`.
const FOLDER: &str = "SUBAGENT_REAL_AGENTS";
/// Set to 1 where the agents must be there, as in CI: their absence is then a panic, not a skipped test.
const REQUIRE: &str = "SUBAGENT_REQUIRE_REAL_AGENTS";
/// What must be installed.
const PINNED: &str = include_str!("../real-agents/package.json");

/// How to start one agent. Its HOME, with all sessions in it, goes when this is dropped, so keep it until the
/// agent has ended; two agents started from the same value share their stored sessions.
#[derive(Debug)]
pub struct RealAgent {
    /// The program, absolute.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment: start it with no other variable, a proxy's for example.
    pub env: BTreeMap<String, String>,
    home: TempDir,
}

impl RealAgent {
    /// The agent's HOME.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

/// Gemini CLI in ACP mode, asking `models`. None, after a line on stderr, when it is not installed.
///
/// # Panics
/// When it is not installed and `SUBAGENT_REQUIRE_REAL_AGENTS` is 1, or when no HOME can be made for it.
#[must_use]
#[allow(clippy::panic, reason = "a test's set-up: to go on would hide that nothing was tested")]
pub fn gemini(models: &ModelServer) -> Option<RealAgent> {
    let found = find_node().and_then(|node| Ok((node, find_package("@google/gemini-cli")?)));
    let (node, package) = match found {
        Ok(found) => found,
        Err(why) => {
            absent("Gemini CLI", &why);
            return None;
        }
    };
    let home = match gemini_home() {
        Ok(home) => home,
        Err(error) => panic!("cannot make a HOME for Gemini CLI: {error}"),
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let env = BTreeMap::from([
        ("PATH".into(), env::var("PATH").unwrap_or_default()),
        ("HOME".into(), text(home.path())),
        // It leaves reports of failed requests in the temporary folder.
        ("TMPDIR".into(), text(&home.path().join("tmp"))),
        ("GOOGLE_GEMINI_BASE_URL".into(), models.url()),
        // Any value will do, but without one it wants to log in.
        ("GEMINI_API_KEY".into(), "unused".into()),
        // Otherwise it starts itself a second time, for a larger heap.
        ("GEMINI_CLI_NO_RELAUNCH".into(), "true".into()),
        // Otherwise MCP servers of a session are dropped without a word.
        ("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into()),
    ]);
    let args = vec![text(&package.join("bundle/gemini.js")), "--acp".into()];
    Some(RealAgent { command: node, args, env, home })
}

/// A HOME in which nothing is asked and nothing but the model is looked up.
fn gemini_home() -> io::Result<TempDir> {
    let home = tempfile::Builder::new().prefix("gemini-home-").tempdir()?;
    fs::create_dir(home.path().join("tmp"))?;
    fs::create_dir(home.path().join(".gemini"))?;
    let settings = json!({
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true},
    });
    fs::write(home.path().join(".gemini/settings.json"), settings.to_string())?;
    Ok(home)
}

#[allow(clippy::panic, reason = "whoever runs the tests must see that one was skipped")]
fn absent(agent: &str, why: &str) {
    assert!(
        env::var_os(REQUIRE).is_none_or(|value| value != "1"),
        "{agent} is required ({REQUIRE}=1): {why}"
    );
    crate::harness::say(&format!("SKIPPED, NOTHING WAS TESTED: {agent}: {why}"));
}

fn find_node() -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join("node"))
        .find(|node| node.is_file())
        .ok_or_else(|| "no `node` in PATH".to_owned())
}

/// The folder of an installed package, in the pinned version.
fn find_package(name: &str) -> Result<PathBuf, String> {
    let pinned: Value = serde_json::from_str(PINNED).map_err(|error| format!("package.json: {error}"))?;
    let wanted = &pinned["dependencies"][name];
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
        return Ok(package);
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
        for (name, version) in pinned["dependencies"].as_object().unwrap() {
            let version = version.as_str().unwrap();
            assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{name} {version}");
        }
    }

    #[test]
    fn the_lock_file_holds_no_addresses() {
        let lock = include_str!("../real-agents/package-lock.json");
        assert!(!lock.contains("\"resolved\""), "install with npm's omit-lockfile-registry-resolved=true");
    }
}
