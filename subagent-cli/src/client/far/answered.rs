//! When each host last answered, in one private file per host. Only a hint for people: a lost or
//! damaged file counts as never.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_config::regular;
use subagent_protocol::time::Timestamp;

use crate::output::human::now;

const FOLDER: &str = ".local/state/subagent/hosts";

/// The content of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredHost {
    /// What the name was then.
    host: String,
    answered_at: Timestamp,
}

/// Returns the file of a host; `None` without a home.
pub(super) fn path(home: Option<&Path>, name: &str) -> Option<PathBuf> {
    home.map(|home| home.join(FOLDER).join(format!("{name}.json")))
}

/// Returns when this host last answered.
pub(super) fn read(path: &Path, host: &str) -> Option<Timestamp> {
    let found: AnsweredHost = serde_json::from_slice(&regular::read(path).ok()?).ok()?;
    (found.host == host).then_some(found.answered_at)
}

/// Stores that the host answers now. A failure changes only what people read about it later.
pub(super) fn note(path: &Path, host: &str) {
    let note = AnsweredHost { host: host.to_owned(), answered_at: now() };
    let Some(folder) = path.parent() else { return };
    let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    // Not synced: each command that uses the host writes it again.
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        serde_json::to_writer(&mut file, &note)?;
        file.persist(path).map_err(|error| error.error)
    });
    // Without the file, a row says that the host never answered.
    drop(written);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_answer_is_noted_in_a_private_file_for_the_same_host() {
        let home = tempfile::tempdir().unwrap();
        let path = path(Some(home.path()), "lap").unwrap();
        assert_eq!(read(&path, "me@lap"), None);
        note(&path, "me@lap");
        assert!(read(&path, "me@lap").is_some());
        assert_eq!(read(&path, "me@other"), None);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{").unwrap();
        assert_eq!(read(&path, "me@lap"), None);
    }
}
