//! The changed paths of one firing. Pure.

use std::collections::BTreeSet;
use std::path::Path;

use subagent_protocol::trigger::MAX_PAYLOAD_BYTES;

/// Paths that a payload lists.
const MAX_PATHS: usize = 1000;
/// Bytes of the paths that a payload lists; the rest of its limit is for the last line.
const MAX_BYTES: usize = MAX_PAYLOAD_BYTES - 200;

/// Paths that have changed since the last firing.
#[derive(Debug, Default)]
pub(super) struct ChangedPaths {
    paths: BTreeSet<String>,
    bytes: usize,
    others: u64,
    /// Whether the system dropped changes.
    pub(super) lost: bool,
}

impl ChangedPaths {
    pub(super) fn add(&mut self, path: &Path) {
        // A line break in a name would look like another path.
        self.insert(path.to_string_lossy().chars().flat_map(escaped).collect());
    }

    fn insert(&mut self, name: String) {
        if self.paths.contains(&name) {
            return;
        }
        if self.paths.len() >= MAX_PATHS || self.bytes + name.len() >= MAX_BYTES {
            self.others = self.others.saturating_add(1);
            return;
        }
        self.bytes += name.len() + 1;
        self.paths.insert(name);
    }

    /// Takes those of another one in.
    pub(super) fn join(&mut self, other: Self) {
        for path in other.paths {
            self.insert(path);
        }
        self.others = self.others.saturating_add(other.others);
        self.lost |= other.lost;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.others == 0 && !self.lost
    }

    /// One path a line.
    pub(super) fn payload(&self) -> String {
        let mut payload: String = self.paths.iter().map(|path| format!("{path}\n")).collect();
        if self.others > 0 {
            payload.push_str(&format!("... and {} more changes\n", self.others));
        }
        if self.lost {
            payload.push_str("... and changes that the system did not report: there were too many\n");
        }
        payload
    }
}

fn escaped(char: char) -> impl Iterator<Item = char> {
    let (plain, escape) = match char.is_control() {
        true => (None, Some(char.escape_default())),
        false => (Some(char), None),
    };
    plain.into_iter().chain(escape.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_bounded_and_has_one_path_a_line() {
        let mut changes = ChangedPaths::default();
        assert!(changes.is_empty());
        for path in ["b", "a", "b", "c\nd"] {
            changes.add(Path::new(path));
        }
        assert_eq!(changes.payload(), "a\nb\nc\\nd\n");
        let name = "x".repeat(200);
        for number in 0..5000 {
            changes.add(Path::new(&format!("{name}{number}")));
        }
        changes.lost = true;
        let payload = changes.payload();
        assert!(payload.len() <= MAX_PAYLOAD_BYTES, "{}", payload.len());
        let listed = payload.lines().count() - 2;
        assert!(payload.contains(&format!("... and {} more changes", 5003 - listed)), "{listed}");
    }
}
