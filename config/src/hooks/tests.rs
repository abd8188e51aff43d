//! Valid and invalid hooks.

use serde_json::json;

use super::*;
use crate::agents::{self, Definition, DefinitionSource, Reading};
use crate::error::ConfigError;
use crate::file;

const FILE: &str = "/w/.subagent/config.yaml";

fn config(text: &str) -> Result<FileHooks, ConfigError> {
    file::parse(std::path::Path::new(FILE), text.as_bytes()).map(|config| config.hooks)
}

fn definition(front: &str) -> Result<Definition, String> {
    let text = format!("---\ndescription: d\n{front}---\nDo it.\n");
    match agents::read(text.as_bytes(), "x", DefinitionSource::Project("/w/x.md".into())) {
        Ok(Reading::Definition(definition)) => Ok(*definition),
        Ok(Reading::Other(problem)) => panic!("{problem}"),
        Err(problem) => Err(problem.to_string()),
    }
}

const CLAUDE_CODE_EXAMPLE: &str = r#"hooks:
  PreToolUse:
    - matcher: "Bash"
      hooks:
        - type: command
          command: "./scripts/validate-command.sh"
  PostToolUse:
    - matcher: "Edit|Write"
      hooks:
        - type: command
          command: "./scripts/run-linter.sh"
          timeout: 30
"#;

#[test]
fn the_shape_of_claude_code_is_read_with_places() {
    let hooks = config(CLAUDE_CODE_EXAMPLE).unwrap();
    let reported: Vec<_> =
        hooks.entries.iter().map(|entry| (entry.event.as_str(), entry.timeout.as_secs())).collect();
    assert_eq!(reported, [("PreToolUse", 60), ("PostToolUse", 30)]);
    let pre = hooks.entries.iter().find(|entry| entry.event.as_str() == "PreToolUse").unwrap();
    assert_eq!(pre.matcher.as_deref(), Some("Bash"));
    let at = pre.at.unwrap();
    assert_eq!((at.line, at.column), (6, 11));
    assert_eq!(hooks.sha256, content_hash(CLAUDE_CODE_EXAMPLE.as_bytes()));
    let hook = pre.hook(HookOrigin::Project, std::path::Path::new(FILE), &hooks.sha256);
    assert_eq!((hook.event, hook.timeout_ms), (HookEvent::PreToolUse, 60_000));
}

#[test]
fn no_hooks_are_no_hooks() {
    for text in ["", "hooks:\n", "hooks: {}\n", "hooks: {Stop: }\n", "hooks: {Stop: []}\n"] {
        assert!(config(text).unwrap().entries.is_empty(), "{text}");
    }
}

#[test]
fn every_event_and_its_aliases_are_known() {
    let entry = "[{hooks: [{type: command, command: x}]}]";
    let named = |name: &str| config(&format!("hooks: {{{name}: {entry}}}")).unwrap().entries[0].event;
    assert_eq!(named("PermissionRequest"), HookEvent::ApprovalRequested);
    assert_eq!(named("TurnEnd"), HookEvent::Stop);
    for event in HookEvent::ALL {
        assert_eq!(named(event.as_str()), *event);
    }
}

#[test]
fn what_is_wrong_in_a_config_file_is_named_with_its_place() {
    for (text, line, field, advice) in [
        ("hooks: 5\n", 1, "hooks", "must be a mapping"),
        ("hooks:\n  PreTooluse: []\n", 2, "PreTooluse", "is not an event; write SessionStart"),
        (
            "hooks:\n  PreCompact: []\n",
            2,
            "PreCompact",
            "event of Claude Code that this version does not have",
        ),
        ("hooks:\n  Stop: x\n", 2, "hooks.Stop", "must be a list"),
        (
            "hooks:\n  Stop:\n    - match: x\n      hooks: []\n",
            3,
            "match",
            "is not known; write matcher, hooks",
        ),
        (
            "hooks:\n  Stop:\n    - matcher: '('\n      hooks: []\n",
            3,
            "matcher",
            "is not a regular expression",
        ),
        ("hooks:\n  Stop:\n    - matcher: x\n", 2, "hooks.Stop[0].hooks", "is missing"),
        ("hooks:\n  Stop:\n    - hooks:\n      - command: x\n", 3, "type", "write `type: command`"),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - type: prompt\n",
            4,
            "type",
            "only hooks of the type `command`",
        ),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - type: command\n",
            3,
            "command",
            "write a line for the shell",
        ),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - type: command\n        command: ' '\n",
            5,
            "command",
            "must not be blank",
        ),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - type: command\n        command: x\n        async: true\n",
            6,
            "async",
            "is not carried out by this version",
        ),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - {type: command, command: x, timeout: 5000}\n",
            4,
            "timeout",
            "must be seconds",
        ),
    ] {
        let error = config(text).unwrap_err();
        let (message, details) = (error.message(), error.details());
        assert!(
            message.starts_with(FILE) && message.contains(field) && message.contains(advice),
            "{message}"
        );
        assert_eq!(details["line"].as_u64(), Some(line), "{message}");
    }
}

#[test]
fn a_definition_with_hooks_loads() {
    let definition = definition(CLAUDE_CODE_EXAMPLE).unwrap();
    assert!(definition.refusals.is_empty(), "{:?}", definition.refusals);
    assert_eq!(definition.hooks.entries.len(), 2);
    assert_eq!(definition.hooks.sha256.len(), 64);
    assert!(definition.hooks.entries.iter().all(|entry| entry.at.is_some()));
}

#[test]
fn what_claude_code_has_and_this_version_not_is_not_honoured() {
    let front = "hooks:\n  PreCompact:\n    - hooks: [{type: command, command: x}]\n  \
                 Stop:\n    - hooks:\n      - type: prompt\n        prompt: all done?\n      \
                 - {type: command, command: x, if: 'Bash(rm *)'}\n      - {type: command, command: y}\n";
    let definition = definition(front).unwrap();
    assert!(definition.refusals.is_empty());
    let commands: Vec<_> = definition.hooks.entries.iter().map(|entry| entry.command.as_str()).collect();
    assert_eq!(commands, ["y"]);
    let ignored: Vec<_> = definition.hooks.ignored.iter().map(|ignored| ignored.key.as_str()).collect();
    assert_eq!(ignored, ["hooks.PreCompact", "hooks.Stop[0].hooks[0]", "hooks.Stop[0].hooks[1]"]);
    assert_eq!(definition.hooks.ignored[1].value, json!({"type": "prompt", "prompt": "all done?"}));
}

#[test]
fn a_definition_with_a_misspelt_event_is_refused() {
    let problem = definition("hooks:\n  PreTooluse: []\n").unwrap_err();
    assert!(problem.starts_with("4:3: ") && problem.contains("is not an event"), "{problem}");
}
