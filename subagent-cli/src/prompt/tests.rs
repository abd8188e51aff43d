//! Tests that the skill is valid, the prompt contains it, and all its commands exist.

use std::ffi::OsString;

use super::*;

/// Returns the front matter as `key: value` pairs.
fn front_matter() -> Vec<(&'static str, &'static str)> {
    let (front, _) = SKILL.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
    front.lines().map(|line| line.split_once(": ").unwrap()).collect()
}

/// Returns the commands in backticks that begin with `subagent `.
fn commands(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("subagent ")).collect()
}

fn words(command: &str) -> Vec<OsString> {
    command.split_whitespace().skip(1).map(OsString::from).collect()
}

#[test]
fn the_front_matter_is_what_the_format_wants() {
    let front = front_matter();
    let [("name", name), ("description", description)] = front.as_slice() else { panic!("{front:?}") };
    // The name of the folder: lower case letters, digits and hyphens.
    assert_eq!(*name, "subagent-manager");
    assert!(description.len() <= 1024 && description.contains("Use it when"), "{description}");
    assert!(!description.contains(": ") && !description.contains(" #"), "it would not be plain YAML");
}

#[test]
fn the_prompt_is_the_skills_body_with_the_roles_at_its_end() {
    let prompt = render(&Config::default());
    let (_, body) = SKILL.split_once("\n---\n").unwrap();
    let (rules, pointer) = body.trim_start().split_once(ROLES).unwrap();
    assert!(prompt.starts_with("# ") && prompt.starts_with(rules));
    assert!(!prompt.contains(pointer.trim()) && !prompt.contains("description:"));
    assert_eq!(prompt.matches(ROLES).count(), 1);
}

#[test]
fn the_contracts_substrings_are_there() {
    let prompt = render(&Config::default());
    for part in [
        "Read this quick workflow first",
        "subagent controller init",
        "subagent send --worker-id",
        "--no-wait",
        "--wait-no-progress-timeout-seconds",
        "--text-file",
        "--text-stdin",
        "--include-history",
        "Role hints:",
    ] {
        assert!(prompt.contains(part), "{part}");
    }
}

#[test]
fn the_quick_workflow_has_five_steps_each_with_its_command() {
    let prompt = render(&Config::default());
    let (_, quick) = prompt.split_once("Read this quick workflow first").unwrap();
    let (quick, _) = quick.split_once("\n## ").unwrap();
    let wanted = ["controller init", "worker start", "send", "approve", "watch"];
    for (index, command) in wanted.into_iter().enumerate() {
        let (_, step) = quick.split_once(&format!("\n{}. ", index + 1)).unwrap();
        let step = step.split_once(&format!("\n{}. ", index + 2)).map_or(step, |(step, _)| step);
        assert!(
            commands(step).iter().any(|line| line.starts_with(&format!("subagent {command} "))),
            "{step}"
        );
    }
    assert!(!quick.contains("\n6. "));
}

#[test]
fn no_wait_is_longer_than_a_shell_tool_lets_a_command_run() {
    let seconds = |command: &str| -> Option<f64> {
        let (_, rest) = command.split_once("--timeout-seconds ")?;
        rest.split(' ').next()?.parse().ok()
    };
    let found = commands(SKILL);
    // Without the flag a wait takes longer.
    let waits = found.iter().filter(|command| command.starts_with("subagent wait "));
    let waits: Vec<Option<f64>> = waits.map(|command| seconds(command)).collect();
    let is_short = |wait: &Option<f64>| wait.is_some_and(|wait| (1.0..=45.0).contains(&wait));
    assert!(waits.len() >= 4 && waits.iter().all(is_short), "{waits:?}");
    let sends = found.iter().filter(|command| command.starts_with("subagent send "));
    assert!(sends.into_iter().all(|send| send.contains("--no-wait")), "{found:?}");
}

#[test]
fn every_command_in_it_is_one() {
    let prompt = render(&Config::default());
    let found = commands(SKILL);
    assert!(found.len() > 15, "{found:?}");
    for command in found.iter().chain(&commands(&prompt)) {
        if let Err(error) = crate::commands::parse(words(command)) {
            // A bare command name may lack required arguments; any other error fails.
            let name_alone = !command.contains("--");
            let missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
            assert!(name_alone && missing, "{command}: {error}");
        }
    }
}

#[test]
fn every_flag_in_it_is_one() {
    let known: Vec<String> = {
        fn below(command: &clap::Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
            command.get_subcommands().for_each(|sub| below(sub, found));
        }
        let mut found = Vec::new();
        let mut command = crate::commands::documented();
        command.build();
        below(&command, &mut found);
        found
    };
    let flags = SKILL.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| {
        word.strip_prefix("--").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    });
    for flag in flags {
        assert!(known.iter().any(|known| known == flag), "{flag}");
    }
}

#[test]
fn roles_are_listed_with_what_they_override() {
    let mut config = Config::default();
    config.defaults.role = Some("developer".to_owned());
    config.defaults.launcher = Some("codex".to_owned());
    config.role_hints.insert("plain".to_owned(), RoleHint::default());
    let hint = RoleHint {
        preferred_launcher: Some("gemini".to_owned()),
        prompt_language: Some("de".to_owned()),
        response_language: None,
        delegation_hint: Some("Finds out.\n  Changes nothing.".to_owned()),
        recommended_skills: vec!["skill-creator".to_owned(), "skill-installer".to_owned()],
    };
    config.role_hints.insert("analyst".to_owned(), hint);
    let prompt = render(&config);
    let (_, roles) = prompt.split_once("Role hints:\n\n").unwrap();
    let expected = "\
- A role is free text: give a worker any (`--role`), also one that is not listed here. The hints are advice.
- Default role: `developer`
- Fallback launcher: `codex`
- Languages: promptLanguage=`en` (in which you write to workers), responseLanguage=`same_as_manager` (in which they answer)
- `analyst`: preferredLauncher=`gemini`, promptLanguage=`de`
  - delegationHint: Finds out. Changes nothing.
  - recommendedSkills: `skill-creator`, `skill-installer`
- `plain`: (no overrides)";
    assert_eq!(roles, expected);
}

#[test]
fn without_hints_one_line_says_none() {
    let prompt = render(&Config::default());
    assert_eq!(prompt.lines().filter(|line| line.contains("(none")).count(), 1);
    assert!(!prompt.contains("Default role") && !prompt.contains("Fallback launcher"));
}
