//! The template that `config init` writes.

/// The text of the template.
pub const TEMPLATE: &str = include_str!("template.yaml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use crate::model::{Config, Launcher, LauncherTimeouts};
    use std::path::Path;
    use std::time::Duration;

    fn template() -> Config {
        file::parse(Path::new("template.yaml"), TEMPLATE.as_bytes()).unwrap()
    }

    #[test]
    fn the_contracts_substrings_are_there() {
        for part in [
            "launchers:",
            "roleDefaults:",
            "roleHints:",
            "defaults:",
            "command: npx",
            "\"@zed-industries/codex-acp\"",
            "\"@zed-industries/claude-agent-acp\"",
            "@google/gemini-cli",
            "\"@github/copilot-language-server\"",
            "\"@kirodotdev/cli\"",
            "\"--experimental-acp\"",
            "command: opencode",
            "- acp",
            "- \"cline\"",
            "- \"--acp\"",
        ] {
            assert!(TEMPLATE.contains(part), "{part}");
        }
    }

    #[test]
    fn the_launchers_are_the_contracts_by_their_names_of_today() {
        let lines: Vec<String> = template()
            .launchers
            .iter()
            .map(|(name, launcher)| format!("{name}: {} {}", launcher.command, launcher.args.join(" ")))
            .collect();
        assert_eq!(
            lines,
            [
                "claude-code: npx -y @agentclientprotocol/claude-agent-acp",
                "cline: npx -y cline --acp",
                "codex: npx -y @agentclientprotocol/codex-acp",
                "gemini: npx -y @google/gemini-cli --acp",
                "github-copilot: npx -y @github/copilot --acp",
                "kiro: kiro-cli acp",
                "opencode: opencode acp",
            ]
        );
        for launcher in template().launchers.values() {
            let (args, timeouts) = (launcher.args.clone(), launcher.timeouts);
            let bare = Launcher { args, timeouts, ..Launcher::new(&launcher.command) };
            assert_eq!(launcher, &bare);
            // Each phase has a timeout, and `startup` covers both.
            let (Some(initialize), Some(session)) = (timeouts.initialize, timeouts.session) else {
                panic!("{launcher:?}")
            };
            assert!(initialize < timeouts.startup && session < timeouts.startup, "{launcher:?}");
            assert!(initialize >= Duration::from_secs(30), "{launcher:?}");
            assert_eq!(
                LauncherTimeouts {
                    startup: timeouts.startup,
                    initialize: Some(initialize),
                    session: Some(session),
                    ..LauncherTimeouts::default()
                },
                timeouts
            );
        }
    }

    #[test]
    fn the_rest_is_the_contracts() {
        let config = template();
        assert_eq!(config.role_defaults.prompt_language, "en");
        assert_eq!(config.role_defaults.response_language, "same_as_manager");
        let roles: Vec<_> = config.role_hints.keys().map(String::as_str).collect();
        assert_eq!(roles, ["data_scientist", "developer", "research_analyst", "reviewer", "ux_designer"]);
        for (role, hint) in &config.role_hints {
            assert!(hint.delegation_hint.is_some(), "{role}");
            if let Some(launcher) = &hint.preferred_launcher {
                config.launcher(launcher).unwrap();
            }
        }
        assert_eq!(config.defaults.launcher.as_deref(), Some("codex"));
        assert_eq!(config.defaults.role.as_deref(), Some("developer"));
        assert!(config.defaults.other.is_empty());
    }

    #[test]
    fn the_launcher_in_its_comments_gives_tools_a_prefix() {
        let (_, block) = TEMPLATE.split_once("  # openhands:\n").unwrap();
        let keys: Vec<&str> = block.lines().map_while(|line| line.strip_prefix("  # ")).collect();
        let text = format!("launchers:\n  openhands:\n  {}\n", keys.join("\n  "));
        let config = file::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
        assert!(config.launcher("openhands").unwrap().prefix_tools, "{text}");
    }

    #[test]
    fn the_examples_in_its_comments_are_valid_too() {
        let uncommented = TEMPLATE.replace(" # | ", " ");
        assert_ne!(uncommented, TEMPLATE);
        let config = file::parse(Path::new("template.yaml"), uncommented.as_bytes()).unwrap();
        assert!(config.launchers.values().any(|launcher| launcher.timeouts.turn.is_some()));
        assert!(config.launchers.values().any(|launcher| !launcher.env.is_empty()));
    }
}
