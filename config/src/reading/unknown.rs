//! Finds unknown keys of a config file and suggests similar ones. Pure. Unknown keys are warnings,
//! because an older program may read a newer file. Sections with their own check are not covered
//! here.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agents::keys::{self, KeyPositions};
use crate::discovery::ConfigFile;
use crate::policy::ToolKind;

/// A key without a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// Path of the file.
    pub file: PathBuf,
    /// Line from 1, if known.
    pub line: Option<u64>,
    /// Path of keys, ending with the unknown one.
    pub path: Vec<String>,
    /// The most similar known key.
    pub similar: Option<&'static str>,
}

impl UnknownKey {
    /// Returns the message without the position.
    #[must_use]
    pub fn problem(&self) -> String {
        let similar = self.similar.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default();
        format!("unknown key `{}`{similar}", self.path.join("."))
    }
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(f, "{}{line}: {}", self.file.display(), self.problem())
    }
}

/// The permitted keys at a place of a document.
enum PermittedKeys {
    /// Any value: it is free, or checked elsewhere.
    Any,
    /// A mapping with user-defined names.
    Named(&'static Self),
    /// A mapping with these keys.
    Keys(&'static [(&'static str, Self)]),
    /// A mapping with kinds and names of tools. Misspelled kinds are reported.
    Tools,
}

use PermittedKeys::{Any, Keys as Of, Named, Tools};

const SERVERS: PermittedKeys = Named(&Of(&[
    ("type", Any),
    ("command", Any),
    ("args", Any),
    ("env", Any),
    ("url", Any),
    ("headers", Any),
]));

const LAUNCHER: PermittedKeys = Of(&[
    ("backend", Of(&[("kind", Any)])),
    ("command", Any),
    ("args", Any),
    ("env", Any),
    (
        "timeouts",
        Of(&[
            ("startupSeconds", Any),
            ("initializeSeconds", Any),
            ("sessionSeconds", Any),
            ("turnSeconds", Any),
            ("cancelGraceSeconds", Any),
        ]),
    ),
    ("authMethod", Any),
    ("idleTimeout", Any),
    ("onRateLimit", Any),
    ("queueLimit", Any),
    ("prefixTools", Any),
    ("mode", Any),
    ("model", Any),
    ("configOptions", Any),
    ("tiers", Any),
    ("isolation", Any),
    ("sandbox", Any),
    ("placement", Any),
    ("mcpServers", SERVERS),
]);

const ROLE: PermittedKeys = Of(&[
    ("preferredLauncher", Any),
    ("promptLanguage", Any),
    ("responseLanguage", Any),
    ("delegationHint", Any),
    ("recommendedSkills", Any),
]);

/// The keys of what a schedule or a trigger starts, and these.
macro_rules! start_keys {
    ($($own:expr),* $(,)?) => {
        Of(&[
            ("cwd", Any),
            ("stateDir", Any),
            ("agent", Any),
            ("send", Any),
            ("text", Any),
            ("launcher", Any),
            ("sandbox", Any),
            ("worktree", Any),
            ("overlap", Any),
            ("maxFailures", Any),
            $($own),*
        ])
    };
}

const SCHEDULE: PermittedKeys =
    start_keys![("cron", Any), ("every", Any), ("at", Any), ("timezone", Any), ("missed", Any)];

const TRIGGER: PermittedKeys = start_keys![
    ("after", Any),
    ("status", Any),
    ("onCommand", Any),
    ("every", Any),
    ("timeout", Any),
    ("watch", Any),
    ("debounce", Any),
    ("webhook", Of(&[("tokenSha256", Any)])),
];

const ROOT: PermittedKeys = Of(&[
    ("launchers", Named(&LAUNCHER)),
    ("mcpServers", SERVERS),
    ("permissions", Tools),
    ("approvals", Of(&[("timeoutSeconds", Any), ("onTimeout", Any)])),
    ("budgets", Any),
    ("delegation", Any),
    ("titles", Any),
    ("hooks", Any),
    ("notify", Any),
    ("prices", Any),
    ("schedules", Named(&SCHEDULE)),
    ("triggers", Named(&TRIGGER)),
    (
        "worktrees",
        Of(&[
            ("dir", Any),
            ("setup", Any),
            ("copy", Any),
            ("copyLimit", Any),
            ("check", Any),
            ("protected", Any),
        ]),
    ),
    ("roleDefaults", Of(&[("promptLanguage", Any), ("responseLanguage", Any)])),
    ("roleHints", Named(&ROLE)),
    (
        "defaults",
        Of(&[("launcher", Any), ("role", Any), ("isolation", Any), ("sandbox", Any), ("placement", Any)]),
    ),
    ("sandboxes", Any),
    ("hosts", Any),
    ("placements", Any),
]);

/// Returns the unknown keys of a file in document order.
#[must_use]
pub fn of_file(file: &ConfigFile) -> Vec<UnknownKey> {
    of_document(&file.path, &file.text, &file.document)
}

pub(crate) fn of_document(file: &Path, text: &str, document: &Value) -> Vec<UnknownKey> {
    let mut paths = Vec::new();
    look(&ROOT, document, &mut Vec::new(), &mut paths);
    if paths.is_empty() {
        return Vec::new();
    }
    let keys: KeyPositions = keys::of(text);
    let of = |(path, similar): (Vec<String>, Option<&'static str>)| {
        let at = keys.of(&path.iter().map(String::as_str).collect::<Vec<_>>());
        UnknownKey { file: file.to_owned(), line: at.map(|at| at.line), path, similar }
    };
    paths.into_iter().map(of).collect()
}

fn look(
    shape: &'static PermittedKeys,
    value: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, Option<&'static str>)>,
) {
    let Some(entries) = value.as_object() else { return };
    for (key, value) in entries {
        path.push(key.clone());
        match shape {
            Any => {}
            Tools => {
                if let Some(kind) = ToolKind::misspelled_as(key) {
                    found.push((path.clone(), Some(kind.as_str())));
                }
            }
            Named(below) => look(below, value, path, found),
            Of(known) => match known.iter().find(|(name, _)| name == key) {
                Some((_, below)) => look(below, value, path, found),
                None => found.push((path.clone(), similar(key, known))),
            },
        }
        path.pop();
    }
}

/// Returns the most similar key, if it is similar enough.
fn similar(key: &str, known: &'static [(&'static str, PermittedKeys)]) -> Option<&'static str> {
    /// The threshold that clap uses for its suggestions.
    const ENOUGH: f64 = 0.7;
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let scored = known.iter().map(|(name, _)| (*name, strsim::jaro(&plain(name), &plain(key))));
    let best = scored.max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.filter(|(_, score)| *score > ENOUGH).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn listed(text: &str) -> Vec<String> {
        let found = of_document(Path::new("/c.yaml"), text, &syntax::parse(text).unwrap());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_misspelled_key_has_a_line_and_a_suggestion() {
        let text = "launchers:\n  a:\n    comand: x\n    command: y\n    timeouts: {turn_seconds: 5}\ndefalts: {}\n\
                    roleHints: {r: {zzz: 1}}\n";
        let expected = [
            "/c.yaml:3: unknown key `launchers.a.comand`; did you mean `command`?",
            "/c.yaml:5: unknown key `launchers.a.timeouts.turn_seconds`; did you mean `turnSeconds`?",
            "/c.yaml:6: unknown key `defalts`; did you mean `defaults`?",
            "/c.yaml:7: unknown key `roleHints.r.zzz`",
        ];
        assert_eq!(listed(text), expected);
    }

    #[test]
    fn a_misspelled_kind_of_tool_is_found_and_the_name_of_a_tool_is_not() {
        let text =
            "permissions:\n  read: allow\n  reed: allow\n  Read: ask\n  mcp__x__y: deny\n  \"*\": ask\n";
        assert_eq!(listed(text), ["/c.yaml:3: unknown key `permissions.reed`; did you mean `read`?"]);
    }

    #[test]
    fn the_reference_and_the_template_have_no_unknown_key() {
        let (_, block) = include_str!("../../../docs/config.md").split_once("```yaml\n").unwrap();
        assert_eq!(listed(block.split_once("```").unwrap().0), [""; 0]);
        assert_eq!(listed(crate::template::TEMPLATE), [""; 0]);
        assert_eq!(listed("7"), [""; 0]);
    }
}
