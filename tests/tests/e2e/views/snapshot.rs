//! Stored snapshots: a section for each command, one file for each width.

use std::fs;
use std::path::PathBuf;

use super::normal::width;

/// Whether a line fits. A path or command that is too long for its own line is left to the
/// terminal, which breaks it in a way that can be copied.
pub(super) fn fits(line: &str, columns: u16) -> bool {
    /// Maximum width of a name before it.
    const NAME: usize = 24;
    let widest = line.split(' ').map(width).max().unwrap_or(0);
    width(line) <= usize::from(columns) || widest + NAME > usize::from(columns)
}

/// Returns the sections that differ from the stored ones; with `UPDATE_VIEWS=1` stores them first.
pub(super) fn differences(name: &str, text: &str) -> Vec<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/e2e/views/{name}.txt"));
    if std::env::var_os("UPDATE_VIEWS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    let (stored, found) = (sections(&stored), sections(text));
    let mut wrong = Vec::new();
    for (number, (view, found)) in found.iter().enumerate() {
        // A command may stand there twice, with another result.
        let known = stored.get(number).filter(|(name, _)| name == view);
        let known = known.or_else(|| stored.iter().find(|(name, _)| name == view)).map(|(_, text)| *text);
        if known != Some(*found) {
            let known = known.unwrap_or_default();
            wrong.push(format!("{view} in {name}; UPDATE_VIEWS=1 renews it\n{found}\n-- before:\n{known}"));
        }
    }
    wrong
}

fn sections(text: &str) -> Vec<(&str, &str)> {
    text.split("$ subagent ").skip(1).filter_map(|part| part.split_once('\n')).collect()
}
