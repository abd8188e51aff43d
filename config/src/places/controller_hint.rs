//! `<workspace>/.subagent/controller.json`: the last controller of a workspace. The file is a hint: it
//! holds no secret and proves no ownership. A reader must ask the daemon.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::O_NONBLOCK;

use serde::Deserialize;
use serde_json::json;

use crate::error::ConfigError;
use crate::markers::{CONTROLLER_FILE, DOT_SUBAGENT};
use crate::write::{self, Replace};

/// Maximum size of a hint in bytes. A real one has a few hundred.
const MAX_BYTES: u64 = 64 * 1024;

/// The content of the hint file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerHint {
    /// Id of the controller; the only field that is read back.
    pub controller_id: String,
    /// Label of the controller.
    pub label: String,
    /// Key of the workspace.
    pub workspace_key: String,
}

/// What is read back from the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredHint {
    controller_id: String,
}

/// The path of a workspace's hint.
pub fn path(workspace_root: &Path) -> PathBuf {
    workspace_root.join(DOT_SUBAGENT).join(CONTROLLER_FILE)
}

/// Returns the controller id in a workspace's hint. A missing, unreadable, malformed or oversized file
/// gives `None`.
pub fn read_controller_id(workspace_root: &Path) -> Option<String> {
    let bytes = read(&path(workspace_root)).ok()?;
    let stored: StoredHint = serde_json::from_slice(&bytes).ok()?;
    Some(stored.controller_id).filter(|id| !id.is_empty())
}

/// Reads at most one byte more than the limit; a truncated hint is not valid JSON. A pipe does not block.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let mut bytes = Vec::new();
    match file.metadata()? {
        about if about.is_file() && about.len() <= MAX_BYTES => {
            file.take(MAX_BYTES).read_to_end(&mut bytes)?
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(bytes)
}

/// Writes the hint of a workspace with mode 0600 and returns its path. The workspace must exist. An
/// existing file is replaced; an existing folder of this name only if it is empty.
pub fn write(workspace_root: &Path, hint: &ControllerHint) -> Result<PathBuf, ConfigError> {
    let path = path(workspace_root);
    let document = json!({
        "schemaVersion": "v1",
        "controllerId": hint.controller_id,
        "label": hint.label,
        "workspaceKey": hint.workspace_key,
    });
    // The alternate form (`#`) pretty-prints JSON with two spaces.
    let text = format!("{document:#}\n");
    let place = || write::atomically(&path, text.as_bytes(), 0o600, Replace::Yes);
    let placed = make_folder(&workspace_root.join(DOT_SUBAGENT)).and_then(|()| match place() {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            fs::remove_dir(&path).and_then(|()| place())
        }
        placed => placed,
    });
    match placed {
        Ok(()) => Ok(path),
        Err(cause) => Err(ConfigError::ControllerHintUnwritable { path, cause }),
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn hint(id: &str) -> ControllerHint {
        ControllerHint {
            controller_id: id.to_owned(),
            label: "märz".to_owned(),
            workspace_key: "/ws".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_pretty_private_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), &hint("ctl_1")).unwrap();
        assert_eq!(path, dir.path().join(".subagent/controller.json"));
        let expected = "{\n  \"schemaVersion\": \"v1\",\n  \"controllerId\": \"ctl_1\",\n  \"label\": \"märz\",\n  \"workspaceKey\": \"/ws\"\n}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_controller_id(dir.path()).as_deref(), Some("ctl_1"));
        write(dir.path(), &hint("ctl_2")).unwrap();
        assert_eq!(read_controller_id(dir.path()).as_deref(), Some("ctl_2"));
    }

    #[test]
    fn a_file_that_is_no_hint_gives_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_controller_id(dir.path()), None);
        fs::create_dir(dir.path().join(".subagent")).unwrap();
        let broken: [&[u8]; 7] =
            [b"", b"{", b"[]", b"{}", br#"{"controllerId": 1}"#, br#"{"controllerId": ""}"#, b"\xff"];
        for content in broken {
            fs::write(path(dir.path()), content).unwrap();
            assert_eq!(read_controller_id(dir.path()), None, "{content:?}");
        }
    }

    #[test]
    fn a_large_file_a_pipe_and_a_folder_are_no_hints_and_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(dir.path());
        let large = format!("{{\"controllerId\": \"ctl_1\", \"x\": \"{}\"}}", "x".repeat(10 << 20));
        let make: [&dyn Fn(); 3] = [
            &|| fs::write(&path, &large).unwrap(),
            &|| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            &|| fs::create_dir(&path).unwrap(),
        ];
        fs::create_dir(dir.path().join(".subagent")).unwrap();
        for make in make {
            make();
            assert_eq!(read_controller_id(dir.path()), None);
            write(dir.path(), &hint("ctl_2")).unwrap();
            assert_eq!(read_controller_id(dir.path()).as_deref(), Some("ctl_2"));
            fs::remove_file(&path).unwrap();
        }
        fs::create_dir(&path).unwrap();
        fs::write(path.join("foreign"), "").unwrap();
        assert_eq!(write(dir.path(), &hint("ctl_2")).unwrap_err().code(), "CONTROLLER_HINT_UNWRITABLE");
        assert!(path.join("foreign").exists());
    }

    #[test]
    fn a_workspace_that_is_gone_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("gone"), &hint("ctl_1")).unwrap_err();
        assert!(!dir.path().join("gone").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".subagent"), "a file").unwrap();
        let error = write(dir.path(), &hint("ctl_1")).unwrap_err();
        assert_eq!(error.code(), "CONTROLLER_HINT_UNWRITABLE");
        assert_eq!(error.details()["path"], path(dir.path()).to_str().unwrap());
    }
}
