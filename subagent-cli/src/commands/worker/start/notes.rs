//! What a person should know of a worker that was started, beside that it was.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient::{self, Lenient};

use crate::commands::hook::untrusted;
use crate::output::advice;

const LOGIN_WANTED: &str = "loginWanted";
const WORKTREE: &str = "worktree";
/// The keys that the notes are about.
pub(crate) const KEYS: [&str; 3] = [LOGIN_WANTED, untrusted::KEY, WORKTREE];

/// The notes about the data of `worker.started`, most important first.
pub(crate) fn of(worker: &Value) -> Vec<String> {
    [login_wanted(worker), untrusted::warning(worker), identity_missing(worker)]
        .into_iter()
        .flatten()
        .collect()
}

/// The data of `worker.started`, as far as the notes are about it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StartNotes<'a> {
    login_wanted: bool,
    launcher: Option<&'a str>,
    worktree: Lenient<WorktreeNotes>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorktreeNotes {
    identity_missing: bool,
}

/// Its first message will fail: its agent says before it that it is not logged in.
fn login_wanted(worker: &Value) -> Option<String> {
    let StartNotes { login_wanted, launcher, .. } = lenient::read(worker);
    let command = advice::login(launcher.filter(|_| login_wanted)?);
    Some(format!("the agent says that it is not logged in; log in with `{command}`"))
}

/// Its work could not be landed.
fn identity_missing(worker: &Value) -> Option<String> {
    let worktree = lenient::read::<StartNotes<'_>>(worker).worktree.0?;
    worktree.identity_missing.then(no_identity)
}

/// The note about a worktree that was created where git has no identity.
pub(crate) fn no_identity() -> String {
    format!(
        "git has no name and email address for commits, which `subagent land` needs; {}",
        advice::GIT_IDENTITY
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_login_that_is_wanted_is_said_with_its_command() {
        let worker = json!({"launcher": "my agent", "loginWanted": true, "untrustedHooks": ["/h"]});
        let notes = of(&worker);
        assert!(notes[0].ends_with("`subagent launcher login 'my agent'`"), "{notes:?}");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(of(&json!({"launcher": "codex", "worktree": {"name": "a"}})), Vec::<String>::new());
    }
}
