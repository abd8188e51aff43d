//! A call narrows its definition, and widens nothing.

use subagent_config::agents::{DefinitionSource, Reading, read};
use subagent_config::start::agent::resolved;
use subagent_config::{Config, Environment};
use subagent_protocol::policy::PolicyRule;

use super::*;

fn definition(front: &str) -> Definition {
    let text = format!("---\ndescription: d\n{front}\n---\nDo it.\n");
    match read(text.as_bytes(), "helper", DefinitionSource::Command).unwrap() {
        Reading::Definition(definition) => *definition,
        Reading::Other(note) => panic!("{note:?}"),
    }
}

fn request(overrides: TaskOverrides, mode: Option<TaskMode>) -> RunTask {
    RunTask {
        agent: None,
        prompt: "p".to_owned(),
        description: None,
        name: None,
        mode,
        metadata: serde_json::Map::new(),
        overrides,
        worktree: None,
        manager: None,
    }
}

fn of(
    front: Option<&str>,
    overrides: TaskOverrides,
    mode: Option<TaskMode>,
) -> Result<(TaskTerms, TaskMode)> {
    let definition = front.map(definition);
    terms(definition.as_ref(), &request(overrides, mode), &TaskLimits::default())
}

fn steps(max_steps: u64) -> TaskOverrides {
    TaskOverrides { max_steps: Some(max_steps), ..TaskOverrides::default() }
}

fn time(timeout_ms: u64) -> TaskOverrides {
    TaskOverrides { timeout_ms: Some(timeout_ms), ..TaskOverrides::default() }
}

#[test]
fn terms_have_defaults_that_depend_on_the_mode_of_the_task() {
    let none = TaskOverrides::default;
    assert_eq!(of(None, none(), None).unwrap(), (TaskTerms::default(), TaskMode::Foreground));
    let (background, mode) = of(None, none(), Some(TaskMode::Background)).unwrap();
    assert_eq!((background.timeout_ms, background.max_steps, mode), (0, 20, TaskMode::Background));
    let (_, always) = of(Some("background: true"), none(), Some(TaskMode::Foreground)).unwrap();
    assert_eq!(always, TaskMode::Background);
    let all = "maxSteps: 3\ntimeoutSeconds: 1.5\npreApproved: read\ninspectable: false\nresultMaxTokens: 9";
    let (waited, _) = of(Some(all), none(), None).unwrap();
    assert_eq!((waited.max_steps, waited.timeout_ms, waited.result_max_tokens), (3, 1_500, 9));
    assert_eq!((waited.inspectable, waited.pre_approved.len()), (false, 0), "who waits for it can be asked");
    let (background, _) = of(Some(all), none(), Some(TaskMode::Background)).unwrap();
    assert_eq!(background.pre_approved[0].rule, "read");
    let text = serde_json::to_string(&background).unwrap();
    // The format of terms when they included the mode.
    let text = text.replacen('{', "{\"background\":true,", 1);
    assert_eq!(serde_json::from_str::<TaskTerms>(&text).unwrap(), background);
}

#[test]
fn m3_more_steps_or_time_than_the_definition_says_is_refused() {
    let own = Some("maxSteps: 5\ntimeoutSeconds: 10");
    assert_eq!(of(own, steps(4), None).unwrap().0.max_steps, 4);
    assert_eq!(of(own, time(9_000), None).unwrap().0.timeout_ms, 9_000);
    assert_eq!(of(own, time(0), None).unwrap().0.timeout_ms, 10_000, "0 is no limit of its own");
    for (overrides, field) in [(steps(6), "maxSteps"), (steps(0), "maxSteps"), (time(10_001), "timeoutMs")] {
        let error = of(own, overrides, None).unwrap_err();
        assert_eq!((error.code, &error.details["field"]), (Code::InvalidArgument, &field.into()));
    }
    // Without a limit in the definition, any limit is allowed.
    assert_eq!(of(Some(""), steps(50), None).unwrap().0.max_steps, 50);
    assert_eq!(of(None, time(0), None).unwrap().0.timeout_ms, 0);
}

fn narrowed(front: &str, allowed: &[&str], disallowed: &[&str]) -> Result<PolicyLayer> {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let overrides = TaskOverrides {
        allowed_tools: texts(allowed),
        disallowed_tools: texts(disallowed),
        ..TaskOverrides::default()
    };
    let (config, env) = (Config::default(), Environment::new([], "/"));
    let launcher = Launcher::new("x");
    let resolved = resolved(&definition(front), ("x", &launcher), &config, "/".as_ref(), &env).unwrap();
    layer(resolved.layer, &overrides)
}

#[test]
fn m3_tools_are_only_those_that_the_definition_lists_and_a_denied_one_is_denied_last() {
    let none = narrowed("tools: Read, Bash(git *)", &[], &[]).unwrap();
    assert_eq!(none.tools, ["Read", "Bash(git *)"]);
    assert_eq!(narrowed("tools: Read, Bash(git *)", &["read"], &[]).unwrap().tools, ["read"]);
    assert_eq!(narrowed("tools: Read, Bash(git *)", &["Bash(git:*)"], &[]).unwrap().tools, ["Bash(git *)"]);
    assert_eq!(narrowed("", &["Grep", "mcp__docs__find"], &[]).unwrap().tools, ["Grep", "mcp__docs__find"]);
    for beyond in ["Bash", "Bash(rm *)", "edit", "mcp__docs__find", "*"] {
        let error = narrowed("tools: Read, Bash(git *)", &["Read", beyond], &[]).unwrap_err();
        assert_eq!(error.details["field"], "allowedTools", "{beyond}");
        assert_eq!(error.details["tool"], beyond);
    }
    let denied = narrowed("permission: {edit: allow}", &[], &["Edit", "Bash(rm:*)"]).unwrap();
    let last = |rule: &PolicyRule| format!("{} {}", rule.rule, rule.action);
    let rules: Vec<String> = denied.rules.iter().map(last).collect();
    assert_eq!(rules, ["task deny", "edit allow", "Edit deny", "Bash(rm *) deny"]);
    let error = narrowed("", &[], &["no_such_tool"]).unwrap_err();
    assert_eq!((error.code, &error.details["field"]), (Code::InvalidArgument, &"disallowedTools".into()));
}
