//! `<workspace>/.subagent/controller.json`: which controller a workspace last had. A hint only: it holds no secret,
//! proves no ownership, and whoever reads it asks the daemon.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::ConfigError;
use crate::markers::{CONTROLLER_FILE, DOT_SUBAGENT};
use crate::write::{self, Replace};

/// The content of the hint file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerHint {
    /// Id of the controller; the only thing that is used on reading.
    pub controller_id: String,
    /// Its label.
    pub label: String,
    /// The workspace that it belongs to.
    pub workspace_key: String,
}

/// Where the hint of a workspace lives.
pub fn path(workspace_root: &Path) -> PathBuf {
    workspace_root.join(DOT_SUBAGENT).join(CONTROLLER_FILE)
}

/// The controller id of a workspace's hint. A missing, unreadable or malformed file is no hint.
pub fn read_controller_id(workspace_root: &Path) -> Option<String> {
    let bytes = std::fs::read(path(workspace_root)).ok()?;
    let document: Value = serde_json::from_slice(&bytes).ok()?;
    let id = document.as_object()?.get("controllerId")?.as_str()?;
    Some(id.to_owned()).filter(|id| !id.is_empty())
}

/// Writes the hint of a workspace, readable by its owner alone, and returns its path.
pub fn write(workspace_root: &Path, hint: &ControllerHint) -> Result<PathBuf, ConfigError> {
    let path = path(workspace_root);
    let document = json!({
        "schemaVersion": "v1",
        "controllerId": hint.controller_id,
        "label": hint.label,
        "workspaceKey": hint.workspace_key,
    });
    // The alternate form of a JSON value is the pretty one, indented by two spaces.
    let text = format!("{document:#}\n");
    let placed = std::fs::create_dir_all(workspace_root.join(DOT_SUBAGENT))
        .and_then(|()| write::atomically(&path, text.as_bytes(), 0o600, Replace::Yes));
    match placed {
        Ok(()) => Ok(path),
        Err(cause) => Err(ConfigError::ControllerHintUnwritable { path, cause }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
    fn whatever_is_not_a_hint_is_none() {
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
    fn a_folder_that_cannot_be_made_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".subagent"), "a file").unwrap();
        let error = write(dir.path(), &hint("ctl_1")).unwrap_err();
        assert_eq!(error.code(), "CONTROLLER_HINT_UNWRITABLE");
        assert_eq!(error.details()["path"], path(dir.path()).to_str().unwrap());
    }
}
