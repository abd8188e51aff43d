//! Sessions with their history, in memory and, with `--state`, in one file per session.
//!
//! A file is `<session id>.ndjson`: a header line, then one update per line for `session/load`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::options::Dialect;

#[derive(Debug)]
struct DemoSession {
    cwd: String,
    history: Vec<Value>,
}

#[derive(Debug)]
pub(super) struct Sessions {
    folder: Option<PathBuf>,
    dialect: Dialect,
    open: BTreeMap<String, DemoSession>,
    created: u64,
}

impl Sessions {
    pub(super) fn new(folder: Option<PathBuf>, dialect: Dialect) -> Self {
        Self { folder, dialect, open: BTreeMap::new(), created: 0 }
    }

    /// Creates a session and returns its id: random, or `session-1`, `session-2`, ... in the bare dialect.
    pub(super) fn create(&mut self, cwd: &str) -> io::Result<String> {
        self.created += 1;
        let id = match self.dialect {
            Dialect::Bare => format!("session-{}", self.created),
            Dialect::Standard => {
                let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
                format!("demo-{random:016x}")
            }
        };
        if let Some(folder) = &self.folder {
            fs::create_dir_all(folder)?;
            let header = format!("{}\n", json!({"sessionId": id, "cwd": cwd}));
            let path = file(folder, &id);
            let mut open = OpenOptions::new();
            open.write(true).create(true).truncate(true).mode(0o600);
            open.open(path)?.write_all(header.as_bytes())?;
        }
        self.open.insert(id.clone(), DemoSession { cwd: cwd.to_owned(), history: Vec::new() });
        Ok(id)
    }

    /// Whether the session accepts prompts.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Reopens a known session and returns its history; `None` if it is unknown. The bare dialect starts an
    /// empty session instead.
    pub(super) fn reopen(&mut self, id: &str, cwd: &str) -> Option<&[Value]> {
        if !self.open.contains_key(id) {
            let stored = self.folder.as_ref().and_then(|folder| read(folder, id));
            let session = match (stored, self.dialect) {
                (Some(session), _) => session,
                (None, Dialect::Bare) => DemoSession { cwd: cwd.to_owned(), history: Vec::new() },
                (None, Dialect::Standard) => return None,
            };
            self.open.insert(id.to_owned(), session);
        }
        self.open.get(id).map(|session| session.history.as_slice())
    }

    /// Appends updates to the history, in memory and in the file.
    pub(super) fn append(&mut self, id: &str, updates: Vec<Value>) -> io::Result<()> {
        if let Some(folder) = self.folder.as_ref().filter(|_| is_file_name(id)) {
            // The empty line ends a line that a crash truncated.
            let lines = updates.iter().map(|update| format!("{update}\n"));
            let text: String = std::iter::once("\n".to_owned()).chain(lines).collect();
            let mut open = OpenOptions::new();
            open.append(true).create(true).mode(0o600).open(file(folder, id))?.write_all(text.as_bytes())?;
        }
        if let Some(session) = self.open.get_mut(id) {
            session.history.extend(updates);
        }
        Ok(())
    }

    /// Closes an open session; a stored one can be loaded again. Returns whether it was open.
    pub(super) fn close(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }

    /// Returns ids and working directories of all open and stored sessions, sorted by id.
    pub(super) fn list(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> =
            self.open.iter().map(|(id, session)| (id.clone(), session.cwd.clone())).collect();
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(".ndjson").filter(|id| !all.contains_key(*id)) else { continue };
            if let Some(session) = self.folder.as_ref().and_then(|folder| read(folder, id)) {
                all.insert(id.to_owned(), session.cwd);
            }
        }
        all.into_iter().collect()
    }
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.ndjson"))
}

/// Whether an id is a safe file name. Ids come from the client and must not lead out of the folder.
fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn read(folder: &Path, id: &str) -> Option<DemoSession> {
    if !is_file_name(id) {
        return None;
    }
    let bytes = fs::read(file(folder, id)).ok()?;
    // A line that a crash truncated is not JSON and is skipped.
    let mut lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let header: Value = lines.next()?;
    let cwd = header.get("cwd")?.as_str()?.to_owned();
    Some(DemoSession { cwd, history: lines.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_session_survives_its_process_and_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Sessions::new(Some(folder.path().into()), Dialect::Standard);
        let id = first.create("/w").unwrap();
        first.append(&id, vec![json!({"n": 1}), json!({"n": 2})]).unwrap();
        let path = file(folder.path(), &id);
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"n\":").unwrap();

        let mut second = Sessions::new(Some(folder.path().into()), Dialect::Standard);
        assert_eq!(second.list(), [(id.clone(), "/w".to_owned())]);
        assert!(!second.is_open(&id));
        assert_eq!(second.reopen(&id, "/w").unwrap(), [json!({"n": 1}), json!({"n": 2})]);
        assert!(second.is_open(&id));
        assert!(second.close(&id));
        assert!(!second.close(&id));
    }

    #[test]
    fn unknown_ids_and_paths_are_not_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let mut sessions = Sessions::new(Some(folder.path().join("state")), Dialect::Standard);
        fs::write(folder.path().join("outside.ndjson"), "{\"cwd\":\"/\"}\n").unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        assert!(sessions.reopen("demo-1", "/").is_none());
        assert!(sessions.reopen("../outside", "/").is_none());
    }

    #[test]
    fn the_bare_dialect_repeats_its_ids_and_loads_anything() {
        for _ in 0..2 {
            let mut sessions = Sessions::new(None, Dialect::Bare);
            assert_eq!(sessions.create("/").unwrap(), "session-1");
            assert_eq!(sessions.reopen("unknown", "/"), Some(&[][..]));
        }
    }
}
