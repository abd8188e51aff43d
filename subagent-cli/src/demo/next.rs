//! Suggestions after the demo, for the agents of this machine.

use subagent_config::installed::{self, Presence};
use subagent_config::{Environment, LoadedConfig};

pub(super) fn lines(env: &Environment) -> Vec<String> {
    let (installed, fetchable) = agents(env);
    let listed = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("{what}: {}. ", names.join(", ")),
    };
    let mut found = listed("Installed", &installed) + &listed("Fetched by npx", &fetchable);
    let first = installed.first().or_else(|| fetchable.iter().find(|name| *name == "codex"));
    if found.is_empty() {
        found = "None was found in the PATH.".to_owned();
    }
    let mut lines =
        vec!["Next, with an agent of this machine:".to_owned(), format!("  {}", found.trim_end())];
    lines.extend(match first.or(fetchable.first()) {
        Some(agent) => [
            format!("  subagent run -d {agent} 'What is this project about?'"),
            format!("  subagent wait {agent}-1"),
            format!("  subagent result {agent}-1"),
        ],
        None => ["init", "launcher list", "doctor"].map(|command| format!("  subagent {command}")),
    });
    lines
}

/// Returns the installed agents and the fetchable ones.
fn agents(env: &Environment) -> (Vec<String>, Vec<String>) {
    let known = LoadedConfig::built_in(env).config;
    let (mut available, mut fetchable) = (Vec::new(), Vec::new());
    for (name, presence) in installed::all(&known, &env.cwd, env) {
        match presence {
            Presence::Available => available.push(name.to_owned()),
            Presence::Fetchable(_) => fetchable.push(name.to_owned()),
            Presence::Missing => {}
        }
    }
    (available, fetchable)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_installed_agent_comes_before_one_that_is_fetched() {
        let dir = tempfile::tempdir().unwrap();
        let env = Environment::new([("PATH".into(), dir.path().into())], dir.path());
        let install = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        };
        assert!(lines(&env).contains(&"  None was found in the PATH.".to_owned()));
        install("npx");
        let text = lines(&env).join("\n");
        assert!(
            text.contains("Fetched by npx: claude-code, cline, codex, ") && text.contains("run -d codex ")
        );
        install("opencode");
        let text = lines(&env).join("\n");
        assert!(text.contains("Installed: opencode. Fetched") && text.contains("run -d opencode "), "{text}");
    }
}
