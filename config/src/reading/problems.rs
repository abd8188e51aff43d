//! Finds all problems of a config, for `config check`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::agents::keys::{self, KeyPositions};
use crate::check::Violation;
use crate::discovery::{self, ConfigSource};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::unknown::UnknownKey;
use crate::{builtin, declared, file, notify, unknown, validate};

/// A problem of a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Path of the file.
    pub file: PathBuf,
    /// Line from 1, if known.
    pub line: Option<u64>,
    /// Description of the problem.
    pub message: String,
}

/// The result of checking all files of a command.
#[derive(Debug, Default)]
pub struct ConfigFindings {
    /// The files in ascending order of precedence.
    pub files: Vec<(PathBuf, ConfigSource)>,
    /// Problems that make a file unusable.
    pub problems: Vec<ConfigProblem>,
    /// Keys without a meaning.
    pub unknown: Vec<UnknownKey>,
    /// References to undefined names.
    pub dangling: Vec<ConfigProblem>,
}

/// Checks the files of a command.
///
/// # Errors
/// `CONFIG_PARSE_ERROR` if a named file is missing, `INVALID_ARGUMENT` for an invalid folder.
pub fn of_command(
    config_flag: Option<&Path>,
    typed_cwd: Option<&Path>,
    env: &Environment,
) -> Result<ConfigFindings, ConfigError> {
    let mut checked = ConfigFindings::default();
    let mut documents = Vec::new();
    for (path, source) in discovery::files(config_flag, typed_cwd, env)? {
        checked.files.push((path.clone(), source));
        match file::load(&path) {
            Ok(file::Written { text, mut document }) => {
                builtin::complete(&mut document, env);
                let keys = keys::of(&text);
                let mut found = violations(&document);
                let user = discovery::user_path(env).filter(|user| *user != path);
                match declared::check_project(&document, user.as_deref()) {
                    Err(violation) if source == ConfigSource::Project && user.is_some() => {
                        found.push((Vec::new(), violation));
                    }
                    // The daemon reads the user's file alone.
                    Err(violation) if user.is_some() => {
                        let line = declared::position(&keys, &violation.place).map(|at| at.line);
                        let message = format!("{} {}", violation.place, violation.problem);
                        checked.dangling.push(ConfigProblem { file: path.clone(), line, message });
                    }
                    _ => {}
                }
                for (at, violation) in found {
                    let message = format!("{} {}", violation.place, violation.problem);
                    let own = notify::position(&keys, &violation.place)
                        .or_else(|| declared::position(&keys, &violation.place))
                        .map(|at| at.line);
                    let line = own.or_else(|| line(&keys, &at));
                    checked.problems.push(ConfigProblem { file: path.clone(), line, message });
                }
                checked.unknown.extend(unknown::of_document(&path, &text, &document));
                documents.push((path, document, keys));
            }
            Err(error) => {
                let line = error.details().get("line").and_then(Value::as_u64);
                let message = match error {
                    ConfigError::ConfigSyntax { problem, .. } => problem,
                    other => other.message(),
                };
                checked.problems.push(ConfigProblem { file: path, line, message });
            }
        }
    }
    checked.dangling.extend(dangling(&documents));
    Ok(checked)
}

fn line(keys: &KeyPositions, at: &[String]) -> Option<u64> {
    keys.of(&at.iter().map(String::as_str).collect::<Vec<_>>()).map(|at| at.line)
}

fn dangling(documents: &[(PathBuf, Value, KeyPositions)]) -> Vec<ConfigProblem> {
    let is_known = |name: &str| {
        builtin::NAMES.contains(&name)
            || documents.iter().any(|(_, document, _)| document["launchers"].get(name).is_some())
    };
    let mut found = Vec::new();
    for (path, document, keys) in documents {
        let default = ["defaults", "launcher"].map(str::to_owned).to_vec();
        let roles = document["roleHints"].as_object().into_iter().flat_map(Map::keys);
        let hints =
            roles.map(|role| vec!["roleHints".to_owned(), role.clone(), "preferredLauncher".to_owned()]);
        for at in std::iter::once(default).chain(hints) {
            let value = at.iter().try_fold(document, |value, key| value.get(key));
            let name = value.and_then(Value::as_str).map(str::trim).unwrap_or_default();
            if !name.is_empty() && !is_known(name) {
                let message = format!("`{}` names the launcher `{name}`, which no file has", at.join("."));
                found.push(ConfigProblem { file: path.clone(), line: line(keys, &at), message });
            }
        }
    }
    found
}

/// Returns all violations of a document with their paths.
fn violations(document: &Value) -> Vec<(Vec<String>, Violation)> {
    let mut found = Vec::new();
    below(document, &mut Vec::new(), &mut found);
    found
}

/// Checks a value separately, and its parts if it is invalid, because a check stops at the first violation.
fn below(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Violation)>) {
    let Err(violation) = validate::config(&alone(value, path)) else { return };
    let before = found.len();
    // A key of a schedule or a trigger alone lacks the required ones.
    let is_whole = matches!(path.as_slice(), [section, _] if section == "schedules" || section == "triggers");
    for (key, value) in value.as_object().filter(|_| !is_whole).into_iter().flatten() {
        path.push(key.clone());
        below(value, path, found);
        path.pop();
    }
    if found.iter().skip(before).all(|(_, other)| *other != violation) {
        found.push((path.clone(), violation));
    }
}

/// Returns a document with only this value. A launcher also gets a command, which is required.
fn alone(value: &Value, path: &[String]) -> Value {
    path.iter().enumerate().rev().fold(value.clone(), |value, (depth, key)| {
        let mut holder = Map::new();
        holder.insert(key.clone(), value);
        let is_program = match path.get(..depth) {
            Some([root, _]) => root == "launchers" || root == "mcpServers",
            Some([root, _, servers, _]) => root == "launchers" && servers == "mcpServers",
            _ => false,
        };
        if is_program && key != "command" {
            holder.insert("command".to_owned(), "x".into());
        }
        Value::Object(holder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, text).unwrap();
        let checked = of_command(Some(&file), None, &Environment::new([], dir.path())).unwrap();
        let all = checked.problems.iter().chain(&checked.dangling);
        all.map(|problem| format!("{}: {}", problem.line.unwrap_or(0), problem.message)).collect()
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let text = "launchers:\n  a:\n    args: [1]\n    env:\n      K: 7\n      L: 8\n  b:\n    command: x\n    queueLimit: -1\n\
                    permissions:\n  execute:\n    'a*': maybe\n    'b*': never\ndefaults:\n  launcher: unknown\n";
        let found = listed(text);
        let lines: Vec<&str> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["3", "5", "6", "2", "9", "12", "13", "15"], "{found:#?}");
        assert!(found[3].contains("launchers.a.command"), "{found:#?}");
    }

    #[test]
    fn a_mistake_about_a_sink_has_the_line_of_its_key() {
        let of = |entry: &str| {
            listed(&format!("notify:\n  - {{to: bell}}\n  - name: a\n    to: webhook\n{entry}"))
        };
        for (entry, line, problem) in [
            ("    url: http://example.com/hush\n", "5", "`notify[1].url` is http to another machine"),
            ("    url: hush\n", "5", "`notify[1].url` is not a valid URL"),
            ("    url: https://x\n    on: [done, quest]\n", "6", "`notify[1].on[1]` says `quest`"),
            ("    url: https://x\n    insecure: 1\n", "6", "`notify[1].insecure`"),
            ("    secret: x\n", "3", "`notify[1].url` is missing"),
        ] {
            let found = of(entry);
            let first = found.first().unwrap();
            assert!(first.starts_with(&format!("{line}: {problem}")), "{entry}: {found:?}");
            assert!(!first.contains("hush"), "{first}");
        }
        for right in
            ["    url: http://localhost/x\n", "    url: http://h/x\n    insecure: true\n", "    url: ${U}\n"]
        {
            assert_eq!(of(right), [""; 0], "{right}");
        }
    }

    #[test]
    fn syntax_and_what_is_right() {
        assert_eq!(listed("a: b: c\n").len(), 1);
        assert!(listed("a: b: c\n")[0].starts_with("1: "));
        assert_eq!(listed("launchers: {codex: {env: {K: v}}}\ndefaults: {launcher: gemini}\n"), [""; 0]);
        assert_eq!(listed("[1]"), ["0: the document must be a mapping, not a list"]);
    }
}
