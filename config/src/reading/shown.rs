//! The merged config for display by `config show`. Secrets must not appear in it.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::agents::keys::{self, KeyPositions};
use crate::environment::Environment;
use crate::{LoadedConfig, builtin, layers};

/// Placeholder for a secret.
pub const HIDDEN: &str = "<set>";

/// One value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Path of keys to the value.
    pub path: Vec<String>,
    /// The value; secrets are replaced.
    pub value: Value,
    /// `built-in`, `user`, `project`, `flag` or `variable`.
    pub origin: &'static str,
    /// The file; `None` for a built-in value.
    pub file: Option<PathBuf>,
    /// Line from 1, if known.
    pub line: Option<u64>,
}

/// Returns the merged config, and each of its values with its origin.
#[must_use]
pub fn of(loaded: &LoadedConfig, env: &Environment) -> (Value, Vec<ConfigEntry>) {
    let below = builtin::document(env);
    let documents: Vec<&Value> =
        std::iter::once(&below).chain(loaded.files.iter().map(|file| &file.document)).collect();
    // A file of `--config` keeps its notifications; see `layers`.
    let user = (documents.len() > 1).then_some(1);
    let (mut merged, origins) = layers::merge(&documents, user);
    hide(&mut merged, &mut Vec::new());
    let keys: Vec<KeyPositions> = loaded.files.iter().map(|file| keys::of(&file.text)).collect();
    let mut leaves = Vec::new();
    leaves_of(&merged, &mut Vec::new(), &mut leaves);
    let entry = |(path, value): (Vec<String>, Value)| {
        let number = origins.of(&path).unwrap_or(0);
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        // A value that the file does not contain came from a lower layer.
        let file = number.checked_sub(1).filter(|at| !was_completed(&words, keys.get(*at)));
        let (file, at) = match file.and_then(|at| Some((loaded.files.get(at)?, keys.get(at)?))) {
            Some((file, keys)) => (Some(file), keys.of(&words)),
            None => (None, None),
        };
        ConfigEntry {
            value,
            origin: file.map_or("built-in", |file| file.source.as_str()),
            line: at.map(|at| at.line),
            file: file.map(|file| file.path.clone()),
            path,
        }
    };
    (merged, leaves.into_iter().map(entry).collect())
}

/// Whether a launcher's key is absent from the text of the file that defines the launcher.
fn was_completed(path: &[&str], keys: Option<&KeyPositions>) -> bool {
    let ["launchers", _, key, ..] = path else { return false };
    let Some(keys) = keys.filter(|keys| keys.has(path.get(..2).unwrap_or_default())) else { return false };
    let exact = if *key == "timeouts" { path } else { path.get(..3).unwrap_or_default() };
    ["command", "args", "timeouts"].contains(key) && !keys.has(exact)
}

fn leaves_of(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    let mut below = |key: String, value: &Value| {
        path.push(key);
        leaves_of(value, path, found);
        path.pop();
    };
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            entries.iter().for_each(|(key, value)| below(key.clone(), value));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value));
        }
        other => found.push((path.clone(), other.clone())),
    }
}

/// Replaces everything that may be secret.
fn hide(value: &mut Value, path: &mut Vec<String>) {
    if is_secret(&path.iter().map(String::as_str).collect::<Vec<_>>()) {
        cover(value);
        return;
    }
    let mut below = |key: String, value: &mut Value| {
        path.push(key);
        hide(value, path);
        path.pop();
    };
    match value {
        Value::Object(entries) => entries.iter_mut().for_each(|(key, value)| below(key.clone(), value)),
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(at, value)| below(at.to_string(), value));
        }
        _ => {}
    }
}

/// Secrets are variables and headers, everything of MCP servers but names and kinds, and URLs and keys of
/// notifications.
fn is_secret(path: &[&str]) -> bool {
    let server = match path {
        ["mcpServers", _, below @ ..] | ["launchers", _, "mcpServers", _, below @ ..] => below,
        ["launchers", _, "env", _] => return true,
        ["triggers", _, "webhook", _] => return true,
        ["notify", _, key] => return ["url", "secret", "command"].contains(key),
        _ => return false,
    };
    match server {
        [key] => !["type", "env", "headers"].contains(key),
        ["env" | "headers", _] => true,
        _ => false,
    }
}

fn cover(value: &mut Value) {
    match value {
        Value::Object(entries) => entries.values_mut().for_each(cover),
        Value::Array(items) => items.iter_mut().for_each(cover),
        Value::Null => {}
        other => *other = HIDDEN.into(),
    }
}

/// Returns the merged config as YAML.
///
/// # Errors
/// The message of the YAML writer.
pub fn yaml(merged: &Value) -> Result<String, String> {
    let empty = Map::new();
    let shown = merged.as_object().unwrap_or(&empty);
    serde_saphyr::to_string(shown).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{discovery, syntax};
    use std::fs;

    #[test]
    fn values_know_their_files_and_secrets_are_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (user, project) = (".config/subagent/config.yaml", "ws/.subagent/config.yaml");
        for (file, text) in [
            (
                user,
                "launchers:\n  codex:\n    env: {KEY: secret-1}\nmcpServers:\n  m:\n    command: secret-2\n    env: {A: secret-3}\n\
                 notify:\n  - to: webhook\n    url: https://secret-4.example\n",
            ),
            (project, "defaults:\n  launcher: codex\n"),
        ] {
            fs::create_dir_all(base.join(file).parent().unwrap()).unwrap();
            fs::write(base.join(file), text).unwrap();
        }
        let env = Environment::new([("HOME".into(), base.clone().into())], base.join("ws"));
        let loaded = discovery::load(None, None, &env).unwrap();
        let (merged, entries) = of(&loaded, &env);
        let text = yaml(&merged).unwrap();
        assert!(!text.contains("secret") && text.contains(HIDDEN), "{text}");
        assert_eq!(syntax::parse(&text).unwrap(), merged, "what is shown can be read again:\n{text}");
        let listed = |path: &str| {
            let entry = entries.iter().find(|entry| entry.path.join(".") == path).unwrap();
            (entry.origin, entry.line)
        };
        assert_eq!(listed("launchers.codex.command"), ("built-in", None));
        assert_eq!(listed("launchers.codex.env.KEY"), ("user", Some(3)));
        assert_eq!(listed("launchers.kiro.command"), ("built-in", None));
        assert_eq!(listed("defaults.launcher"), ("project", Some(2)));
        assert_eq!(listed("notify.0.url").0, "user");
    }
}
