//! Owner tokens, values of agents' variables and the text of prompts are in no log. The token is in
//! no file of the state directory.

use std::fs;
use std::path::Path;

use memchr::memmem;
use rusqlite::Connection;

use super::evidence::Evidence;

/// A prompt with this word must not leave it in a log.
pub const PROMPT_CANARY: &str = "prompt-canary-7c1f";

pub(super) fn check(evidence: &Evidence, _: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    look(&evidence.state_dir, &mut |path| {
        let bytes = fs::read(path).unwrap_or_default();
        let holds = |text: &str| memmem::find(&bytes, text.as_bytes()).is_some();
        for secret in &evidence.acknowledged.secrets {
            if holds(secret) {
                violations.push(format!("{} holds a secret of {} bytes", path.display(), secret.len()));
            }
        }
        let is_log = path.starts_with(evidence.state_dir.join("logs"));
        if is_log && holds(PROMPT_CANARY) {
            violations.push(format!("{} holds the text of a prompt", path.display()));
        }
    });
    Ok(violations)
}

fn look(folder: &Path, at: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => look(&entry.path(), at),
            Ok(kind) if kind.is_file() => at(&entry.path()),
            _ => {}
        }
    }
}
