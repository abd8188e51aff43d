//! Small files of the state dir that belong to the daemon's lifecycle: their names, and atomic
//! writes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::O_NOFOLLOW;
use subagent_config::regular;
use subagent_config::runtime_dir::REMEMBERED;
use subagent_config::state_identity::announces;
use subagent_protocol::api::{Announced, DaemonInfo};

/// Lock held by the daemon for its whole life; the only proof that one runs.
pub const DAEMON_LOCK: &str = "daemon.lock";
/// Lock held while a daemon is started or replaced, until it is ready.
pub const START_LOCK: &str = "start.lock";
/// File in which clients find the daemon's socket ([`DaemonInfo`]).
pub const DAEMON_INFO: &str = "daemon.json";
/// Status of `subagentd run` for people and monitors.
pub const STATUS_FILE: &str = "subagentd-status.json";

/// Replaces a file atomically, with mode 0600. Only the holder of `daemon.lock` writes, so the
/// temporary name needs no random part. Nothing is synced: after a power loss these files are
/// outdated anyway.
///
/// # Errors
/// The directory cannot be written.
pub(in crate::lifecycle) fn replace(state_dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    replace_unless(state_dir, name, content, || subagent_failpoint::check("announcement.before_rename"))
}

/// Stores the folder of the sockets for a later daemon that is started from a shell with another
/// runtime dir. At this point no worker of this daemon has a file there.
pub(in crate::lifecycle) fn remember_sockets(state_dir: &Path, folder: &Path) {
    let content = folder.as_os_str().as_bytes();
    if regular::read(&state_dir.join(REMEMBERED)).is_ok_and(|found| found == content) {
        return;
    }
    let checked = || subagent_failpoint::check("socket_folder.before_rename");
    match replace_unless(state_dir, REMEMBERED, content, checked) {
        Ok(()) => subagent_failpoint::hit("socket_folder.after_rename"),
        Err(error) => tracing::warn!(%error, "the folder of the sockets was not written down"),
    }
}

/// Same as [`replace`], unless `refused` fails right before the rename.
pub(in crate::lifecycle) fn replace_unless(
    state_dir: &Path,
    name: &str,
    content: &[u8],
    refused: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let beside = state_dir.join(format!(".{name}.new"));
    let flags = if subagent_failpoint::sabotaged("link.follow") { 0 } else { O_NOFOLLOW };
    let mut options = OpenOptions::new();
    let written = regular::open(&beside, options.write(true).create(true).truncate(true).mode(0o600), flags)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| refused())
        .and_then(|()| fs::rename(&beside, state_dir.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// The content of `daemon.json` of a running daemon, restored when it changes: clients have no
/// other way to find it.
#[derive(Debug)]
pub(in crate::lifecycle) struct Announcement {
    state_dir: PathBuf,
    said: Announced,
    content: Vec<u8>,
}

impl Announcement {
    /// Writes `daemon.json`.
    ///
    /// # Errors
    /// The state dir cannot be written.
    pub(in crate::lifecycle) fn write(state_dir: &Path, info: &DaemonInfo) -> io::Result<Self> {
        let said = Announced { info: info.clone(), awaited: false };
        let content = serde_json::to_vec_pretty(&said)?;
        subagent_failpoint::check("announcement.before_write")?;
        replace(state_dir, DAEMON_INFO, &content)?;
        subagent_failpoint::hit("announcement.after_rename");
        Ok(Self { state_dir: state_dir.to_owned(), said, content })
    }

    /// Says whether something awaits the daemon. Whether that changed the file, which another one is then.
    pub(in crate::lifecycle) fn awaited(&mut self, awaited: bool) -> bool {
        if self.said.awaited == awaited {
            return false;
        }
        self.said.awaited = awaited;
        let written = self.write_again();
        if let Err(error) = &written {
            tracing::warn!(%error, awaited, "daemon.json does not say whether something awaits the daemon");
        }
        written.is_ok()
    }

    fn write_again(&mut self) -> io::Result<()> {
        self.content = serde_json::to_vec_pretty(&self.said)?;
        replace(&self.state_dir, DAEMON_INFO, &self.content)
    }

    /// Notes in the file that the daemon ends in order. A failure is only logged: until the file is
    /// removed, the daemon then seems to have died.
    pub(in crate::lifecycle) fn ending(mut self) {
        let written = subagent_failpoint::check("announcement.before_ending").and_then(|()| {
            self.said.info.ending = true;
            self.write_again()
        });
        match written {
            Ok(()) => subagent_failpoint::hit("announcement.after_ending"),
            Err(error) => tracing::warn!(%error, "daemon.json does not say that the daemon is ending"),
        }
    }

    pub(in crate::lifecycle) fn path(&self) -> PathBuf {
        self.state_dir.join(DAEMON_INFO)
    }

    /// Writes the file again if it is missing or changed. Returns whether it did.
    pub(in crate::lifecycle) fn restore(&self) -> bool {
        if regular::read(&self.path()).is_ok_and(|content| content == self.content) {
            return false;
        }
        match replace(&self.state_dir, DAEMON_INFO, &self.content) {
            Ok(()) => {
                tracing::warn!("daemon.json was removed or changed and was written again");
                true
            }
            Err(error) => {
                tracing::error!(%error, "daemon.json is gone and cannot be written");
                false
            }
        }
    }
}

/// Reads the announcement of the running (or last) daemon. `None` if it is unreadable, or if this
/// state dir is a copy and the announcement belongs to the original.
pub(in crate::lifecycle) fn daemon_info(state_dir: &Path) -> Option<DaemonInfo> {
    announced(state_dir).filter(|info| announces(info, state_dir))
}

/// Reads `daemon.json`, for any state dir.
pub(in crate::lifecycle) fn announced(state_dir: &Path) -> Option<DaemonInfo> {
    serde_json::from_slice(&regular::read(&state_dir.join(DAEMON_INFO)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["one", "2"] {
            replace(dir.path(), "f", content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), content);
        }
        assert_eq!(fs::metadata(dir.path().join("f")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_not_followed_and_the_old_content_stays_on_errors() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "f", b"old").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        replace(dir.path(), "d", b"new").unwrap_err();
        symlink(dir.path().join("elsewhere"), dir.path().join(".f.new")).unwrap();
        replace(dir.path(), "f", b"new").unwrap_err();
        assert!(!dir.path().join("elsewhere").exists());
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"old");
    }
}
