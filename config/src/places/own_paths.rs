//! The folders in which known agents keep sessions and logins. A sandbox that the user did not
//! choose must let an agent write these. Inspects files, changes nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::model::Launcher;
use crate::{launcher, paths};

/// An agent whose own files are known and that works in a sandbox.
struct KnownFolders {
    program: &'static str,
    /// Its npm package, if it has one.
    package: Option<&'static str>,
    folders: &'static [OwnFolder],
    /// A file in the home that it writes, if it has one.
    file: Option<&'static str>,
}

/// A folder of an agent.
struct OwnFolder {
    /// The variable that moves it, and its path below the value.
    variable: (&'static str, &'static str),
    /// Its path below the home, without the variable.
    home: &'static str,
}

// Only agents that a test of real agents starts in a sandbox. Codex is missing: it confines its
// own commands, which fails in a sandbox. So is OpenHands: the agents of a user share one server of
// terminals, which the sandbox of one must not let the others use.
const KNOWN: [KnownFolders; 5] = [
    KnownFolders {
        program: "claude-agent-acp",
        package: Some("@agentclientprotocol/claude-agent-acp"),
        folders: &[OwnFolder { variable: ("CLAUDE_CONFIG_DIR", "."), home: ".claude" }],
        file: Some(".claude.json"),
    },
    KnownFolders {
        program: "gemini",
        package: Some("@google/gemini-cli"),
        folders: &[OwnFolder { variable: ("GEMINI_CLI_HOME", ".gemini"), home: ".gemini" }],
        file: None,
    },
    KnownFolders {
        program: "kimi",
        package: Some("@moonshot-ai/kimi-code"),
        folders: &[OwnFolder { variable: ("KIMI_CODE_HOME", "."), home: ".kimi-code" }],
        file: None,
    },
    KnownFolders {
        program: "opencode",
        package: Some("opencode-ai"),
        folders: &[
            OwnFolder { variable: ("XDG_CONFIG_HOME", "opencode"), home: ".config/opencode" },
            OwnFolder { variable: ("XDG_DATA_HOME", "opencode"), home: ".local/share/opencode" },
            OwnFolder { variable: ("XDG_STATE_HOME", "opencode"), home: ".local/state/opencode" },
            OwnFolder { variable: ("XDG_CACHE_HOME", "opencode"), home: ".cache/opencode" },
        ],
        file: None,
    },
    KnownFolders {
        program: "vibe-acp",
        package: None,
        folders: &[OwnFolder { variable: ("VIBE_HOME", "."), home: ".vibe" }],
        file: None,
    },
];

impl KnownFolders {
    fn is_started_by(&self, words: &[String]) -> bool {
        name(words) == Some(OsStr::new(self.program))
            || self.package.is_some_and(|package| {
                let version = |arg: &String| {
                    let rest = arg.strip_prefix(package);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
                };
                let installed = format!("/node_modules/{package}/");
                (is_npx(words) && words.iter().any(version))
                    || words.iter().any(|word| word.contains(&installed))
            })
    }

    fn paths(&self, variable: impl Fn(&str) -> Option<PathBuf>, home: &Path) -> Vec<PathBuf> {
        let path = |folder: &OwnFolder| {
            let (name, below) = folder.variable;
            variable(name).map_or_else(|| home.join(folder.home), |path| path.join(below))
        };
        let mut own: Vec<PathBuf> = self.folders.iter().map(path).collect();
        // A missing path would be made as a folder.
        own.extend(self.file.map(|file| home.join(file)).filter(|file| file.is_file()));
        own
    }
}

fn name(words: &[String]) -> Option<&OsStr> {
    words.first().and_then(|program| Path::new(program).file_name())
}

fn is_npx(words: &[String]) -> bool {
    name(words) == Some(OsStr::new("npx"))
}

/// Returns the paths that the agent of a launcher writes besides its workspace: its own folder, the
/// cache of npm for `npx`, and the temporary folder. `None` for other agents. Paths that contain
/// one of `roots` are left out.
#[must_use]
pub fn of_agent(launcher: &Launcher, env: &Environment, roots: &[&Path]) -> Option<Vec<PathBuf>> {
    let mut words = launcher::words(&launcher.command, &env.cwd, env);
    words.extend(launcher.args.iter().cloned());
    let agent = KNOWN.iter().find(|agent| agent.is_started_by(&words))?;
    let variable = |name: &str| {
        let own = launcher.env.get(name).map(PathBuf::from);
        own.or_else(|| env.var(name).map(PathBuf::from)).filter(|path| path.is_absolute())
    };
    let home = variable("HOME").or_else(|| env.home.clone())?;
    let mut own = agent.paths(variable, &home);
    if is_npx(&words) {
        own.push(variable("npm_config_cache").unwrap_or_else(|| home.join(".npm")));
    }
    own.push(variable("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp")));
    let roots: Vec<PathBuf> = roots.iter().map(|root| paths::resolve_absolute(root)).collect();
    let real = own.iter().map(|path| paths::resolve_absolute(path));
    Some(real.filter(|path| !roots.iter().any(|root| root.starts_with(path))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(command: &str, args: &[&str]) -> Launcher {
        Launcher { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..Launcher::new(command) }
    }

    #[test]
    fn known_agents_have_their_folders_and_other_programs_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let at = |name: &str| base.join(name);
        std::fs::create_dir_all(at("ws")).unwrap();
        let vars = [("HOME", "home"), ("TMPDIR", "tmp")].map(|(name, path)| (name.into(), at(path).into()));
        let env = Environment::new(vars, at("ws"));
        let of = |launcher: &Launcher| of_agent(launcher, &env, &[&at("ws")]);
        let claude = launcher("'/opt/bin/claude-agent-acp'", &[]);
        assert_eq!(of(&claude).unwrap(), [at("home/.claude"), at("tmp")]);
        std::fs::create_dir_all(at("home")).unwrap();
        std::fs::write(at("home/.claude.json"), "{}").unwrap();
        assert_eq!(of(&claude).unwrap(), [at("home/.claude"), at("home/.claude.json"), at("tmp")]);
        let mut moved = claude;
        moved.env.insert("CLAUDE_CONFIG_DIR".to_owned(), at("other").display().to_string());
        moved.env.insert("TMPDIR".to_owned(), base.display().to_string());
        assert_eq!(of(&moved).unwrap(), [at("other"), at("home/.claude.json")], "the workspace is in TMPDIR");
        let npx = launcher("npx -y", &["@google/gemini-cli@1.2.3", "--acp"]);
        assert_eq!(of(&npx).unwrap(), [at("home/.gemini"), at("home/.npm"), at("tmp")]);
        let node = launcher("node", &["/opt/node_modules/@google/gemini-cli/bundle/gemini.js"]);
        assert_eq!(of(&node).unwrap(), [at("home/.gemini"), at("tmp")]);
        let vibe = launcher("/opt/venv/bin/vibe-acp", &[]);
        assert_eq!(of(&vibe).unwrap(), [at("home/.vibe"), at("tmp")]);
        let kimi = launcher("kimi", &["acp"]);
        assert_eq!(of(&kimi).unwrap(), [at("home/.kimi-code"), at("tmp")]);
        let mut opencode = launcher("opencode", &["acp"]);
        opencode.env.insert("XDG_CACHE_HOME".to_owned(), at("cache").display().to_string());
        let folders = [".config/opencode", ".local/share/opencode", ".local/state/opencode"];
        let mut expected: Vec<_> = folders.iter().map(|folder| at("home").join(folder)).collect();
        expected.extend([at("cache/opencode"), at("tmp")]);
        assert_eq!(of(&opencode).unwrap(), expected);
        for other in [
            launcher("npx", &["-y", "@google/gemini-cli-fork"]),
            launcher("codex-acp", &[]),
            launcher("openhands", &["acp"]),
            launcher("subagent", &[]),
        ] {
            assert_eq!(of(&other), None, "{}", other.command);
        }
    }
}
