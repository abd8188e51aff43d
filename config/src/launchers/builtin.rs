//! The built-in launchers: the lowest layer of every config.
//!
//! They equal those of the template. If the agent's own program is in the PATH, it replaces `npx`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::environment::Environment;
pub use crate::known::NAMES;
use crate::launcher::find_program;
use crate::model::{Launcher, LauncherTimeouts};

struct BuiltinAgent {
    name: &'static str,
    /// The agent's own program, and its arguments for ACP.
    program: (&'static str, &'static [&'static str]),
    /// The package for `npx`; `None` if the agent is installed in another way.
    package: Option<&'static str>,
}

const KNOWN: [BuiltinAgent; 7] = [
    BuiltinAgent {
        name: "claude-code",
        program: ("claude-agent-acp", &[]),
        package: Some("@agentclientprotocol/claude-agent-acp"),
    },
    BuiltinAgent { name: "cline", program: ("cline", &["--acp"]), package: Some("cline") },
    BuiltinAgent {
        name: "codex",
        program: ("codex-acp", &[]),
        package: Some("@agentclientprotocol/codex-acp"),
    },
    BuiltinAgent { name: "gemini", program: ("gemini", &["--acp"]), package: Some("@google/gemini-cli") },
    BuiltinAgent {
        name: "github-copilot",
        program: ("copilot", &["--acp"]),
        package: Some("@github/copilot"),
    },
    BuiltinAgent { name: "kiro", program: ("kiro-cli", &["acp"]), package: None },
    BuiltinAgent { name: "opencode", program: ("opencode", &["acp"]), package: None },
];

/// Returns the built-in launchers. The caller's PATH decides between the agent's program and `npx`.
#[must_use]
pub fn launchers(env: &Environment) -> BTreeMap<String, Launcher> {
    KNOWN.iter().map(|known| (known.name.to_owned(), known.launcher(env))).collect()
}

impl BuiltinAgent {
    fn launcher(&self, env: &Environment) -> Launcher {
        let (program, args) = self.program;
        // Relative PATH entries depend on the worker's folder, so they do not count here.
        let own = self.package.is_none_or(|_| find_program(program, Path::new("/"), env).is_ok());
        let (command, args, startup, initialize) = match self.package {
            Some(package) if !own => ("npx", [&["-y", package], args].concat(), 180, 150),
            _ => (program, args.to_vec(), 90, 45),
        };
        Launcher {
            args: args.into_iter().map(str::to_owned).collect(),
            timeouts: LauncherTimeouts {
                startup: Duration::from_secs(startup),
                initialize: Some(Duration::from_secs(initialize)),
                session: Some(Duration::from_secs(60)),
                ..LauncherTimeouts::default()
            },
            ..Launcher::new(command)
        }
    }
}

/// Fills missing keys of launcher entries without `command` from the built-in launcher of the same name.
///
/// An entry with `args` or `backend` and no `command` is unchanged, because it means another program.
pub(crate) fn complete(document: &mut Value, env: &Environment) {
    let entries = document.get_mut("launchers").and_then(Value::as_object_mut);
    for (name, entry) in entries.into_iter().flatten() {
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else { continue };
        let Some(entry) = entry.as_object_mut() else { continue };
        if ["command", "args", "backend"].iter().all(|key| !entry.contains_key(*key)) {
            let of = known.launcher(env);
            entry.insert("command".to_owned(), of.command.clone().into());
            entry.insert("args".to_owned(), json!(of.args));
            complete_timeouts(entry, of.timeouts);
        }
    }
}

fn complete_timeouts(entry: &mut Map<String, Value>, of: LauncherTimeouts) {
    let timeouts = entry.entry("timeouts").or_insert(Value::Null);
    if timeouts.is_null() {
        *timeouts = json!({});
    }
    // The check reports a wrong type.
    let Some(timeouts) = timeouts.as_object_mut() else { return };
    for (key, time) in written(of) {
        timeouts.entry(key).or_insert_with(|| time.as_secs().into());
    }
}

fn written(of: LauncherTimeouts) -> impl Iterator<Item = (&'static str, Duration)> {
    let all = [
        ("startupSeconds", Some(of.startup)),
        ("initializeSeconds", of.initialize),
        ("sessionSeconds", of.session),
    ];
    all.into_iter().filter_map(|(key, time)| Some((key, time?)))
}

/// Returns the built-in launchers in the form of a config file.
pub(crate) fn document(env: &Environment) -> Value {
    let of = |(name, launcher): (String, Launcher)| {
        let timeouts: Map<String, Value> =
            written(launcher.timeouts).map(|(key, time)| (key.to_owned(), time.as_secs().into())).collect();
        (name, json!({"command": launcher.command, "args": launcher.args, "timeouts": timeouts}))
    };
    json!({"launchers": launchers(env).into_iter().map(of).collect::<Map<String, Value>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use crate::template::TEMPLATE;
    use std::os::unix::fs::PermissionsExt as _;

    fn env(path: &Path) -> Environment {
        Environment::new([("PATH".into(), path.into())], "/")
    }

    #[test]
    fn they_are_those_of_the_template() {
        let template = file::parse(Path::new("t.yaml"), TEMPLATE.as_bytes()).unwrap();
        let known = launchers(&env(Path::new("/nonexistent")));
        assert_eq!(known, template.launchers);
        assert!(known.keys().eq(NAMES));
    }

    #[test]
    fn an_agents_own_program_is_taken_where_it_is_in_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("gemini");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let known = launchers(&env(dir.path()));
        let listed = |name: &str| (known[name].command.as_str(), known[name].args.join(" "));
        assert_eq!(listed("gemini"), ("gemini", "--acp".to_owned()));
        assert_eq!(listed("codex"), ("npx", "-y @agentclientprotocol/codex-acp".to_owned()));
    }

    #[test]
    fn a_launcher_without_a_command_is_the_built_in_one_with_more() {
        let env = env(Path::new("/nonexistent"));
        let mut document = json!({"launchers": {
            "codex": {"env": {"K": "v"}, "timeouts": {"turnSeconds": 5}},
            "kiro": {"args": ["x"]}, "mine": {}, "cline": 7, "gemini": {"command": "g"},
        }});
        let before = document.clone();
        complete(&mut document, &env);
        let codex = &document["launchers"]["codex"];
        assert_eq!((&codex["command"], &codex["env"]["K"]), (&json!("npx"), &json!("v")));
        assert_eq!(
            codex["timeouts"],
            json!({
                "turnSeconds": 5, "startupSeconds": 180, "initializeSeconds": 150, "sessionSeconds": 60,
            })
        );
        for name in ["kiro", "mine", "cline", "gemini"] {
            assert_eq!(document["launchers"][name], before["launchers"][name], "{name}");
        }
    }
}
