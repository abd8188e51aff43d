//! `<state dir>/launchers/NAME.json`: the result of an agent's last ACP handshake, by launcher.
//!
//! It is a cache: an unreadable file, or one for another command, counts as absent.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::Launcher;
use crate::regular;
use crate::write::{self, Replace};

/// The folder in the state dir.
pub const FOLDER: &str = "launchers";
/// Maximum size of a cached handshake in bytes; `launcher list` reads all of them.
const MAX_BYTES: usize = 1024 * 1024;
/// Maximum length of a launcher name in bytes; longer names are not cached.
const MAX_NAME_BYTES: usize = 100;

/// Returns the path of a launcher's cached handshake; `None` if the name is unsuitable for a file.
#[must_use]
pub fn path(state_dir: &Path, name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    // Names are free text. Characters that could leave the folder or hide the file are escaped.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut file = String::new();
    for byte in name.bytes() {
        if plain(byte) {
            file.push(char::from(byte));
        } else {
            file.push_str(&format!("%{byte:02x}"));
        }
    }
    // A file name has at most 255 bytes.
    (file.len() <= 240).then(|| state_dir.join(FOLDER).join(format!("{file}.json")))
}

/// The content of the file.
#[derive(Deserialize)]
struct HandshakeNote {
    command: String,
    args: Vec<String>,
    handshake: Value,
}

/// Returns the cached handshake if the launcher's command is unchanged.
#[must_use]
pub fn read(state_dir: &Path, name: &str, launcher: &Launcher) -> Option<Value> {
    let bytes = regular::read(&path(state_dir, name)?).ok()?;
    let note: HandshakeNote = serde_json::from_slice(&bytes).ok()?;
    let same = note.command == launcher.command && note.args == launcher.args;
    same.then_some(note.handshake).filter(Value::is_object)
}

/// Writes the handshake with mode 0600. The state dir must exist.
///
/// # Errors
/// `InvalidFilename` for an unsuitable name, `FileTooLarge`, or the error of the system.
pub fn write(state_dir: &Path, name: &str, launcher: &Launcher, handshake: &Value) -> io::Result<()> {
    let path = path(state_dir, name).ok_or(io::ErrorKind::InvalidFilename)?;
    let note = json!({
        "schemaVersion": "v1",
        "command": launcher.command,
        "args": launcher.args,
        "handshake": handshake,
    });
    let text = format!("{note}\n");
    if text.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    match DirBuilder::new().mode(0o700).create(state_dir.join(FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    write::atomically(&path, text.as_bytes(), 0o600, Replace::Yes)
}

/// Deletes the cached handshake after a change that invalidates it.
pub fn forget(state_dir: &Path, name: &str) {
    if let Some(path) = path(state_dir, name) {
        // A missing file is not an error.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_note_is_private_and_is_of_one_command() {
        let dir = tempfile::tempdir().unwrap();
        let launcher = Launcher::new("agent --acp");
        assert_eq!(read(dir.path(), "one", &launcher), None);
        for n in 0..2 {
            write(dir.path(), "one", &launcher, &json!({"n": n})).unwrap();
            assert_eq!(read(dir.path(), "one", &launcher), Some(json!({"n": n})));
        }
        let path = path(dir.path(), "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(dir.path().join(FOLDER)).unwrap().permissions().mode() & 0o777, 0o700);
        let error = write(dir.path(), "one", &launcher, &json!("x".repeat(MAX_BYTES))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let other = Launcher { args: vec!["--x".to_owned()], ..launcher.clone() };
        assert_eq!(read(dir.path(), "one", &other), None);
        fs::write(&path, "{").unwrap();
        assert_eq!(read(dir.path(), "one", &launcher), None);
        forget(dir.path(), "one");
        assert!(!path.exists());
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let folder = Path::new("/s").join(FOLDER);
        for name in ["..", ".", "a/../../b", "/etc/passwd", "a\0b", "é"] {
            let path = path(Path::new("/s"), name).unwrap();
            assert_eq!(path.parent(), Some(folder.as_path()), "{name}");
            assert!(path.file_name().unwrap().to_str().unwrap().ends_with(".json"), "{name}");
        }
        assert_ne!(path(Path::new("/s"), "a/b"), path(Path::new("/s"), "a%2fb"));
        assert_eq!(path(Path::new("/s"), ""), None);
        assert_eq!(path(Path::new("/s"), &"é".repeat(60)), None);
    }
}
