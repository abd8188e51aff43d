//! Tests that docs/config.md matches the program: its example is valid and contains every known key.

use serde_json::{Map, Value, json};

use crate::{syntax, validate};

/// The YAML block of docs/config.md.
fn example() -> Value {
    let text = include_str!("../../../docs/config.md");
    let (_, block) = text.split_once("```yaml\n").unwrap();
    syntax::parse(block.split_once("```").unwrap().0).unwrap()
}

/// All known keys by path; `*` is a user-defined name.
const KEYS: &[&str] = &[
    "launchers",
    "launchers.*.backend",
    "launchers.*.backend.kind",
    "launchers.*.command",
    "launchers.*.args",
    "launchers.*.env",
    "launchers.*.timeouts",
    "launchers.*.timeouts.startupSeconds",
    "launchers.*.timeouts.initializeSeconds",
    "launchers.*.timeouts.sessionSeconds",
    "launchers.*.timeouts.turnSeconds",
    "launchers.*.timeouts.cancelGraceSeconds",
    "launchers.*.idleTimeout",
    "launchers.*.onRateLimit",
    "launchers.*.queueLimit",
    "launchers.*.prefixTools",
    "mcpServers",
    "launchers.*.mcpServers",
    "launchers.*.authMethod",
    "launchers.*.mode",
    "launchers.*.model",
    "launchers.*.configOptions",
    "budgets",
    "budgets.worker",
    "budgets.worker.turns",
    "budgets.worker.wallTimeSeconds",
    "budgets.worker.tokens",
    "budgets.worker.cost",
    "budgets.worker.onLimit",
    "budgets.worker.onUnknown",
    "budgets.controller",
    "budgets.controller.cost",
    "prices",
    "prices.*",
    "prices.*.input",
    "prices.*.output",
    "prices.*.cachedRead",
    "prices.*.cachedWrite",
    "prices.*.currency",
    "delegation",
    "delegation.maxDepth",
    "delegation.maxActive",
    "delegation.maxTasks",
    "delegation.taskTtlHours",
    "delegation.resultMaxTokens",
    "titles",
    "notify",
    "schedules",
    "schedules.*.cron",
    "schedules.*.timezone",
    "schedules.*.missed",
    "schedules.*.cwd",
    "schedules.*.agent",
    "schedules.*.text",
    "schedules.*.launcher",
    "schedules.*.sandbox",
    "schedules.*.worktree",
    "schedules.*.overlap",
    "schedules.*.maxFailures",
    "triggers",
    "triggers.*.watch",
    "triggers.*.debounce",
    "hooks",
    "hooks.PreToolUse",
    "launchers.*.tiers",
    "launchers.*.isolation",
    "worktrees",
    "worktrees.dir",
    "worktrees.setup",
    "worktrees.copy",
    "worktrees.copyLimit",
    "worktrees.check",
    "worktrees.protected",
    "permissions",
    "approvals",
    "approvals.timeoutSeconds",
    "approvals.onTimeout",
    "sandboxes",
    "launchers.*.sandbox",
    "defaults.sandbox",
    "roleDefaults",
    "roleDefaults.promptLanguage",
    "roleDefaults.responseLanguage",
    "roleHints",
    "roleHints.*.preferredLauncher",
    "roleHints.*.promptLanguage",
    "roleHints.*.responseLanguage",
    "roleHints.*.delegationHint",
    "roleHints.*.recommendedSkills",
    "defaults",
    "defaults.launcher",
    "defaults.role",
    "defaults.isolation",
    "hosts",
    "hosts.*.host",
    "hosts.*.cwd",
    "hosts.*.args",
    "hosts.*.program",
    "placements",
    "placements.*.kind",
    "placements.*.host",
    "placements.*.cwd",
    "placements.*.args",
    "placements.*.program",
    "placements.*.image",
    "placements.*.mounts",
    "placements.*.command",
    "placements.*.folder",
    "placements.*.lease",
    "placements.*.transport",
    "placements.*.worktrees",
    "placements.*.template",
    "placements.*.namespace",
    "placements.*.context",
    "placements.*.container",
    "placements.*.submit",
    "placements.*.dial",
    "placements.*.status",
    "placements.*.cancel",
    "placements.*.logs",
    "launchers.*.placement",
    "defaults.placement",
];

/// Returns the value at a path; `*` selects the first entry that has the rest of the path.
fn at<'a>(document: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let object: &mut Map<String, Value> = document.as_object_mut()?;
    match path.split_once('.') {
        None if path == "*" => object.values_mut().next(),
        None => object.get_mut(path),
        Some(("*", rest)) => object.values_mut().find_map(|entry| at(entry, rest)),
        Some((key, rest)) => at(object.get_mut(key)?, rest),
    }
}

#[test]
fn the_example_is_accepted_and_complete() {
    validate::config(&example()).unwrap();
    for path in KEYS {
        assert!(at(&mut example(), path).is_some(), "{path} is not in docs/config.md");
    }
}

#[test]
fn every_key_of_the_example_is_known() {
    // A known key is an error with the wrong type; an unknown key would be ignored.
    for path in KEYS {
        let mut document = example();
        *at(&mut document, path).unwrap() = json!([{"no": "such value"}]);
        assert!(validate::config(&document).is_err(), "{path} means nothing");
    }
}

#[test]
fn the_example_has_no_other_keys() {
    let known = |path: &str| {
        KEYS.contains(&path)
            || path.starts_with("launchers.*.env.")
            || path.starts_with("launchers.*.configOptions.")
            || path.starts_with("launchers.*.tiers.")
            || path.starts_with("launchers.*.mcpServers.")
            || path.starts_with("mcpServers.")
            || path.starts_with("permissions.")
            || path.starts_with("sandboxes.")
            || path.starts_with("schedules.")
            || path.starts_with("triggers.")
            || path.starts_with("launchers.*.sandbox.")
    };
    fn below(path: &str, value: &Value, known: &dyn Fn(&str) -> bool) {
        let Value::Object(members) = value else { return };
        for (key, value) in members {
            let name = if ["launchers", "roleHints", "prices", "hosts", "placements", "schedules", "triggers"]
                .contains(&path)
            {
                "*"
            } else {
                key
            };
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            assert!(name == "*" || known(&path), "{path} is not in the list");
            below(&path, value, known);
        }
    }
    below("", &example(), &known);
}
