//! Finds the installed packages of an agent in their pinned versions. Installs nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use super::known::{self, Packages};

/// The folder of the installed agents, if it is not `target/real-agents`.
const FOLDER: &str = "SUBAGENT_REAL_AGENTS";
/// The npm packages that must be installed.
const PINNED: &str = include_str!("../../real-agents/package.json");
/// The lock files of the virtual environments, with their names.
const ENVIRONMENTS: [(&str, &str); 4] = [
    ("vibe", include_str!("../../real-agents/python/vibe.txt")),
    ("fast-agent", include_str!("../../real-agents/python/fast-agent.txt")),
    ("deepagents", include_str!("../../real-agents/python/deepagents.txt")),
    ("openhands", include_str!("../../real-agents/python/openhands.txt")),
];

/// Returns the folders and versions of an agent's packages and its Node.js.
pub(super) fn find_packages(name: &str) -> Result<Vec<(PathBuf, String)>, String> {
    let node = known::node_package();
    match known::packages(name) {
        Packages::Npm(packages) => packages.iter().chain([&node]).map(|name| find_package(name)).collect(),
        Packages::Python { environment, package } => {
            Ok(vec![find_environment(environment, package)?, find_package(node)?])
        }
    }
}

/// Returns the virtual environment's folder that contains a package in the pinned
/// version, and the version.
fn find_environment(environment: &str, package: &str) -> Result<(PathBuf, String), String> {
    let lock = ENVIRONMENTS.iter().find(|(name, _)| *name == environment).map_or("", |(_, lock)| lock);
    let wanted = pinned_version(lock, package).ok_or_else(|| format!("no lock file pins {package}"))?;
    let metadata = format!("{}-{wanted}.dist-info", package.replace('-', "_"));
    let environments = folders(env::var_os(FOLDER), env::current_exe().ok());
    let environments = environments.iter().map(|folder| folder.join("python").join(environment));
    let is_installed = |folder: &PathBuf| {
        let versions = fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
        versions.into_iter().any(|python| python.path().join("site-packages").join(&metadata).is_dir())
    };
    let found = environments.into_iter().find(is_installed);
    let found =
        found.ok_or_else(|| format!("{package} {wanted} is not installed; run tests/real-agents/install"));
    Ok((found?, wanted.to_owned()))
}

/// Returns the version of a package in a lock file in pip's format.
fn pinned_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let pins = lock.lines().filter_map(|line| line.split_once("=="));
    let pin = pins.filter(|(name, _)| *name == package).find_map(|(_, rest)| rest.split_whitespace().next());
    pin.map(|version| version.trim_end_matches('\\'))
}

/// Returns the folder and pinned version of an installed package.
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

/// Returns the possible folders of the agents. Without a given one, they are beside the test
/// executable's profile folder, or in the workspace's target folder if cargo used another one.
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
    fn every_python_package_is_pinned_with_its_hash() {
        for (name, lock) in ENVIRONMENTS {
            let pins = lock.lines().filter(|line| !line.starts_with(' ')).count();
            assert!(pins > 0 && lock.matches("==").count() >= pins && !lock.contains("://"), "{name}");
            let hashed = lock.lines().filter(|line| !line.starts_with(' ') && line.ends_with('\\')).count();
            assert_eq!(hashed, pins, "{name}");
        }
        assert_eq!(pinned_version("a==1 \\\nbc==2 ; x", "bc"), Some("2"));
        assert_eq!(pinned_version("abc==1", "bc"), None);
    }

    #[test]
    fn the_lock_file_holds_no_addresses() {
        let lock = include_str!("../../real-agents/package-lock.json");
        assert!(!lock.contains("\"resolved\""), "install with npm's omit-lockfile-registry-resolved=true");
    }
}
