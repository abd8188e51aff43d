//! Merges config files by key: project over user over built-in. Pure. A project file comes with a
//! clone, so it is untrusted. It can add entries and select existing ones. It cannot loosen a
//! limit, reset the user's `false`, or change parts of the user's launchers and servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The file of each entry, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<Vec<String>, usize>);

impl Origins {
    /// Returns the index of the file that sets this entry or its nearest parent.
    pub(crate) fn of(&self, path: &[String]) -> Option<usize> {
        (0..=path.len()).rev().find_map(|end| self.0.get(path.get(..end)?).copied())
    }
}

/// The merge rule of a key.
#[derive(Clone, Copy)]
enum How {
    /// The upper value replaces the lower.
    Replace,
    /// Each entry of the mapping is replaced as a whole.
    Entries,
    /// Each key of the mapping is merged by its own rule.
    Keys,
    /// Each key of the mapping is merged; the stricter limit counts.
    Limits,
    /// As `Limits`; the value may also be a boolean, and `false` cannot be reset.
    Switch,
    /// The entries of both files, the lower first.
    Both,
    /// Only the user file counts.
    UserOnly,
}

fn how(key: &str) -> How {
    match key {
        "launchers" | "mcpServers" | "sandboxes" => How::Entries,
        "roleHints" | "roleDefaults" | "defaults" | "approvals" | "worktrees" => How::Keys,
        "budgets" => How::Limits,
        "delegation" => How::Switch,
        "permissions" | "hooks" => How::Both,
        "hosts" | "notify" | "placements" | "prices" | "schedules" | "triggers" => How::UserOnly,
        _ => How::Replace,
    }
}

/// Merges documents in ascending order of precedence, and returns the origin of each entry. `user` is the
/// index of the user file.
pub(crate) fn merge(documents: &[&Value], user: Option<usize>) -> (Value, Origins) {
    let mut merged = Map::new();
    let mut origins = Origins::default();
    for (number, document) in documents.iter().enumerate() {
        for (key, value) in document.as_object().into_iter().flatten() {
            if matches!(how(key), How::UserOnly) && user != Some(number) {
                continue;
            }
            let at = [key.clone()];
            put(how(key), &mut merged, key, value, &at, number, &mut origins.0);
        }
    }
    (Value::Object(merged), origins)
}

fn put(
    how: How,
    merged: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    at: &[String],
    number: usize,
    origins: &mut BTreeMap<Vec<String>, usize>,
) {
    // Null equals absent.
    if value.is_null() && merged.get(key).is_some() {
        return;
    }
    let below = |name: &String| [at, std::slice::from_ref(name)].concat();
    let lower = merged.get_mut(key).filter(|lower| !lower.is_null());
    match (how, lower, value) {
        (How::Entries, Some(Value::Object(lower)), Value::Object(upper)) => {
            for (name, value) in upper {
                put(How::Replace, lower, name, value, &below(name), number, origins);
            }
        }
        (How::Keys, Some(Value::Object(lower)), Value::Object(upper)) => {
            for (name, value) in upper {
                put(How::Keys, lower, name, value, &below(name), number, origins);
            }
        }
        (How::Limits | How::Switch, Some(Value::Object(lower)), Value::Object(upper)) => {
            for (name, value) in upper {
                put(How::Limits, lower, name, value, &below(name), number, origins);
            }
        }
        (How::Both, Some(Value::Object(lower)), Value::Object(upper)) => {
            for (name, value) in upper {
                put(How::Both, lower, name, value, &below(name), number, origins);
            }
        }
        (How::Both, Some(Value::Array(lower)), Value::Array(upper)) => {
            for value in upper {
                origins.insert(below(&lower.len().to_string()), number);
                lower.push(value.clone());
            }
        }
        // A user's `deny` cannot be replaced. `policy` decides between overlapping rules.
        (How::Both, Some(Value::String(word)), _) if word == "deny" => {}
        (How::Limits, Some(lower), upper) if !is_stricter(key, upper, lower) => {}
        (How::Switch, Some(Value::Bool(false)), _)
        | (How::Switch, Some(Value::Object(_)), Value::Bool(true)) => {}
        (_, _, value) => {
            origins.retain(|path, _| !path.starts_with(at));
            origins.insert(at.to_vec(), number);
            merged.insert(key.to_owned(), value.clone());
        }
    }
}

/// Whether a project's limit is stricter than the user's.
fn is_stricter(key: &str, upper: &Value, lower: &Value) -> bool {
    let words: &[&str] = match key {
        "onLimit" => &["warn", "refuse", "cancel"],
        "onUnknown" => &["warn", "refuse"],
        _ => &[],
    };
    let rank = |value: &Value| words.iter().position(|word| value == word);
    match (upper.as_f64(), lower.as_f64()) {
        (Some(upper), Some(lower)) => upper < lower,
        _ => rank(upper) > rank(lower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn merged(user: Value, project: Value) -> Value {
        merge(&[&user, &project], Some(0)).0
    }

    #[test]
    fn a_project_with_two_keys_takes_nothing_away() {
        let user = json!({
            "launchers": {"a": {"command": "a", "env": {"KEY": "k"}}, "b": {"command": "b"}},
            "roleHints": {"r": {"delegationHint": "h", "preferredLauncher": "a"}},
            "defaults": {"launcher": "a", "role": "r"},
        });
        let project = json!({
            "launchers": {"a": {"command": "x"}}, "roleHints": {"r": {"preferredLauncher": "b"}},
            "defaults": {"launcher": "b"}, "roleDefaults": null, "other": 1,
        });
        let expected = json!({
            "launchers": {"a": {"command": "x"}, "b": {"command": "b"}},
            "roleHints": {"r": {"delegationHint": "h", "preferredLauncher": "b"}},
            "defaults": {"launcher": "b", "role": "r"}, "roleDefaults": null, "other": 1,
        });
        assert_eq!(
            merged(user, project),
            expected,
            "no variable of the user's launcher gets into the project's"
        );
    }

    #[test]
    fn a_project_loosens_no_limit() {
        let of = |value: Value| json!({"budgets": {"worker": value}});
        let user = of(json!({"turns": 5, "cost": 1, "onLimit": "refuse", "onUnknown": "refuse"}));
        let project = of(json!({"turns": 9, "cost": 0.5, "tokens": 7, "onLimit": "warn", "onUnknown": null}));
        let expected =
            of(json!({"turns": 5, "cost": 0.5, "onLimit": "refuse", "onUnknown": "refuse", "tokens": 7}));
        assert_eq!(merged(user, project), expected);
        let switch = |user: Value, project: Value| {
            merged(json!({"delegation": user}), json!({"delegation": project}))["delegation"].clone()
        };
        assert_eq!(switch(json!(false), json!({"maxDepth": 9})), false);
        assert_eq!(switch(json!({"maxDepth": 2}), json!(true)), json!({"maxDepth": 2}));
        assert_eq!(
            switch(json!({"maxDepth": 2}), json!({"maxDepth": 9, "maxTasks": 1})),
            json!({"maxDepth": 2, "maxTasks": 1})
        );
        assert_eq!(switch(json!(true), json!(false)), false);
        assert_eq!(switch(json!(null), json!(true)), true);
    }

    #[test]
    fn notifications_are_the_users_and_hooks_those_of_both() {
        let user = json!({"notify": [{"to": "bell"}], "hooks": {"Stop": [1]}});
        let project = json!({"notify": [{"to": "command"}], "hooks": {"Stop": [2], "PreToolUse": [3]}});
        let expected = json!({"notify": [{"to": "bell"}], "hooks": {"Stop": [1, 2], "PreToolUse": [3]}});
        assert_eq!(merged(user, project.clone()), expected);
        let alone = json!({"hooks": {"Stop": [2], "PreToolUse": [3]}});
        assert_eq!(merge(&[&project], None).0, alone);
    }

    #[test]
    fn each_entry_knows_its_file() {
        let user = json!({"launchers": {"a": {"command": "a"}}, "defaults": {"launcher": "a"}});
        let project = json!({"launchers": {"b": {"command": "b"}}, "defaults": {"launcher": "b"}});
        let (_, origins) = merge(&[&user, &project], Some(0));
        let of = |path: &str| origins.of(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!((of("launchers.a.command"), of("launchers.b.command")), (Some(0), Some(1)));
        assert_eq!((of("defaults.launcher"), of("nothing")), (Some(1), None));
    }
}
