//! Collects inaccessible files, such as another user's. They are reported and must not count as absent.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::finding::{CheckedPart, Finding};

/// Maximum number of files that are listed.
const MAX_REPORTED: usize = 5;

/// The files and folders of a check that are inaccessible.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    found: Vec<(PathBuf, String)>,
    more: usize,
}

impl Unseen {
    /// Records an error of the system. A missing file is not recorded.
    pub(super) fn note(&mut self, path: &Path, error: &io::Error) {
        match error.kind() {
            ErrorKind::NotFound => {}
            _ if self.found.len() < MAX_REPORTED => self.found.push((path.to_owned(), error.to_string())),
            _ => self.more += 1,
        }
    }

    /// Returns the entries of a folder, sorted; a missing folder is empty.
    pub(super) fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let read = fs::read_dir(folder).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<PathBuf>>>()
        });
        let mut found = read.unwrap_or_else(|error| {
            self.note(folder, &error);
            Vec::new()
        });
        found.sort();
        found
    }

    /// Returns the metadata of the file itself, not of a link's target.
    pub(super) fn meta(&mut self, path: &Path) -> Option<Metadata> {
        fs::symlink_metadata(path).inspect_err(|error| self.note(path, error)).ok()
    }

    pub(super) fn finding(self, group: CheckedPart, id: &'static str) -> Option<Finding> {
        let (first, _) = self.found.first()?;
        let advice = format!(
            "check its owner with `ls -ld {}`, and run this as that user",
            shell_words::quote(&first.to_string_lossy())
        );
        let mut reported: Vec<String> =
            self.found.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
        if self.more > 0 {
            reported.push(format!("and {} more", self.more));
        }
        let seen = format!("not everything could be looked at: {}", reported.join("; "));
        Some(Finding::problem(group, id, seen).advise(advice))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_not_there_is_nothing_and_what_cannot_be_seen_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        // Even root cannot resolve a link to itself.
        let knot = dir.path().join("knot");
        symlink(&knot, &knot).unwrap();
        let mut unseen = Unseen::default();
        assert!(unseen.entries(&dir.path().join("none")).is_empty());
        assert!(unseen.meta(&dir.path().join("none")).is_none() && unseen.meta(&knot).is_some());
        assert_eq!(unseen.entries(dir.path()), std::slice::from_ref(&knot));
        assert_eq!(unseen.finding(CheckedPart::Disk, "disk.look"), None);
        let mut unseen = Unseen::default();
        for _ in 0..=MAX_REPORTED {
            assert!(unseen.entries(&knot).is_empty() && unseen.meta(&knot.join("below")).is_none());
        }
        let finding = unseen.finding(CheckedPart::Disk, "disk.look").unwrap();
        assert!(
            finding.seen.contains(knot.to_str().unwrap()) && finding.seen.contains("and 7 more"),
            "{finding:?}"
        );
    }
}
