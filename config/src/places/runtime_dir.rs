//! The folder of the sockets: short enough for the kernel and accessible only to its user. Only the
//! daemon creates paths here; clients read them from its `daemon.json`. A folder with files of
//! workers stays in use, even if `XDG_RUNTIME_DIR` changes.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::regular;
use crate::state_identity::StateIdentity;
use subagent_protocol::ids::hex;

/// Maximum length of a unix socket path in bytes: the kernel's 108 without the final NUL.
pub const SOCKET_PATH_LIMIT: usize = 107;

/// Length of the longest file name: a 16-digit hash, `-`, a worker id (`w_` and 10 digits), `.sock`.
const LONGEST_NAME: usize = 16 + 1 + 12 + 5;

/// File in the state dir with the path of the last daemon's folder.
pub const REMEMBERED: &str = "socket-folder";

/// Whether a file name is that of a daemon's socket.
fn is_daemon_socket(name: &[u8]) -> bool {
    name.strip_suffix(b".sock").is_some_and(|hash| hash.len() == 16 && hash.iter().all(u8::is_ascii_hexdigit))
}

/// The socket folder of one state dir. It exists, belongs to this user and is not accessible to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeDir {
    folder: PathBuf,
    hash: String,
}

impl RuntimeDir {
    /// Selects, creates and verifies the folder: the one that contains files of this state dir's workers
    /// (candidates are the last daemon's folder and the next two), else `$XDG_RUNTIME_DIR/subagent`, else
    /// `/tmp/subagent-<uid>`.
    ///
    /// `XDG_RUNTIME_DIR` is ignored if it is not an absolute path of a folder of this user, is too long, or
    /// is not UTF-8 (paths are sent as JSON). `state_dir` is absolute and without links.
    pub fn prepare(env: &Environment, state_dir: &Path) -> Result<Self, ConfigError> {
        let uid = nix::unistd::geteuid().as_raw();
        let (xdg, tmp) = (env.var("XDG_RUNTIME_DIR").map(Path::new), Path::new("/tmp"));
        match Self::in_use(xdg, tmp, uid, state_dir) {
            Some(dir) => Ok(dir),
            None => Self::prepare_below(xdg, tmp, uid, state_dir),
        }
    }

    /// Returns the folder that contains files of workers, if it is usable.
    fn in_use(xdg: Option<&Path>, tmp: &Path, uid: u32, state_dir: &Path) -> Option<Self> {
        let in_xdg = xdg.filter(|xdg| is_own_folder(xdg, uid)).map(|xdg| xdg.join("subagent"));
        let folders = [remembered(state_dir), in_xdg, Some(tmp.join(format!("subagent-{uid}")))];
        let dirs = folders.into_iter().flatten().map(|folder| Self { folder, hash: names(state_dir) });
        let has_files = |dir: &Self| dir.worker_files().is_ok_and(|files| !files.is_empty());
        dirs.into_iter().find(|dir| {
            let usable = fits(&dir.folder) && dir.folder.to_str().is_some();
            usable && verify(&dir.folder, uid).is_ok() && has_files(dir)
        })
    }

    fn prepare_below(
        xdg: Option<&Path>,
        tmp: &Path,
        uid: u32,
        state_dir: &Path,
    ) -> Result<Self, ConfigError> {
        let in_xdg = xdg
            .filter(|xdg| is_own_folder(xdg, uid))
            .map(|xdg| xdg.join("subagent"))
            .filter(|path| fits(path) && path.to_str().is_some());
        let folder = in_xdg.unwrap_or_else(|| tmp.join(format!("subagent-{uid}")));
        let dir = Self { folder, hash: names(state_dir) };
        if !fits(&dir.folder) {
            let path = dir.folder.join("x".repeat(LONGEST_NAME));
            return Err(ConfigError::SocketPathTooLong { path, limit: SOCKET_PATH_LIMIT });
        }
        make(&dir.folder)?;
        verify(&dir.folder, uid)?;
        Ok(dir)
    }

    /// Returns the folders that may contain files of this state dir: the one that its daemon announced, the
    /// one of its last daemon, the one that would be selected now, and the one in `/tmp` if it has such
    /// files. Creates and verifies nothing.
    pub fn existing(env: &Environment, announced: Option<&Path>, state_dir: &Path) -> Vec<Self> {
        let uid = nix::unistd::geteuid().as_raw();
        let in_xdg = in_xdg(env, uid);
        let of = |folder| Self { folder, hash: names(state_dir) };
        let in_tmp = of(PathBuf::from(format!("/tmp/subagent-{uid}")));
        let uses_tmp = in_xdg.is_none()
            || in_tmp.daemon_socket().exists()
            || in_tmp.worker_files().is_ok_and(|files| !files.is_empty());
        let mut found: Vec<Self> = announced
            .map(Path::to_owned)
            .into_iter()
            .chain(remembered(state_dir))
            .chain(in_xdg)
            .map(of)
            .collect();
        found.extend(uses_tmp.then_some(in_tmp));
        found.retain(|dir| dir.folder.symlink_metadata().is_ok());
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        found.dedup();
        found
    }

    /// Returns the sockets of this user's daemons, for any state dir, in the standard folders. A socket may
    /// have no listener.
    pub fn daemon_sockets(env: &Environment) -> Vec<PathBuf> {
        let uid = nix::unistd::geteuid().as_raw();
        let in_xdg = in_xdg(env, uid);
        let folders = in_xdg.into_iter().chain([PathBuf::from(format!("/tmp/subagent-{uid}"))]);
        let mut found: Vec<PathBuf> = folders
            .filter(|folder| verify(folder, uid).is_ok())
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.file_name().is_some_and(|name| is_daemon_socket(name.as_bytes())))
            .collect();
        found.sort();
        found
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Path of the daemon's socket.
    pub fn daemon_socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.hash))
    }

    /// Path of the socket of a worker's runtime. Fails with `SOCKET_PATH_TOO_LONG` only for an overlong id.
    pub fn worker_socket(&self, worker_id: &str) -> Result<PathBuf, ConfigError> {
        let path = self.folder.join(format!("{}-{worker_id}.sock", self.hash));
        if path.as_os_str().len() > SOCKET_PATH_LIMIT {
            return Err(ConfigError::SocketPathTooLong { path, limit: SOCKET_PATH_LIMIT });
        }
        Ok(path)
    }

    /// Path of the file with a worker's environment for restarts. The writer must create it with mode 0600.
    pub fn worker_environment(&self, worker_id: &str) -> PathBuf {
        self.folder.join(format!("{}-{worker_id}.env", self.hash))
    }

    /// Path of the file with the token of a worker's container. The writer must create it with mode 0600.
    pub fn container_token(&self, worker_id: &str) -> PathBuf {
        self.folder.join(format!("{}-{worker_id}.token", self.hash))
    }

    /// Returns the sockets, environment files and tokens of this state dir's workers with the worker ids, sorted.
    ///
    /// # Errors
    /// The folder is unreadable.
    pub fn worker_files(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(worker_id) = name.and_then(|name| self.worker_of(name)) {
                files.push((worker_id.to_owned(), path));
            }
        }
        files.sort();
        Ok(files)
    }

    fn worker_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = name.strip_prefix(&self.hash)?.strip_prefix('-')?;
        [".env", ".sock", ".token"].iter().find_map(|end| rest.strip_suffix(end))
    }
}

/// Returns 16 hex digits that identify a state dir. SHA-256, because the name must not change between
/// versions, unlike the hash of the standard library.
pub fn hash(state_dir: &Path) -> String {
    let digest = Sha256::digest(state_dir.as_os_str().as_bytes());
    hex(&digest[..8])
}

/// Returns the prefix of this state dir's file names. A copy never uses the names of its original, even at
/// the same path, because the original's runtimes may still use them.
fn names(state_dir: &Path) -> String {
    match StateIdentity::read(state_dir).filter(|identity| identity.copy_of.is_some()) {
        Some(copy) => hash(&state_dir.join(copy.folder.id)),
        None => hash(state_dir),
    }
}

/// Returns the folder that the last daemon of this state dir recorded.
fn remembered(state_dir: &Path) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(regular::read(&state_dir.join(REMEMBERED)).ok()?));
    // Any other recorded path is not a folder of ours.
    let ours = |name: &str| name == "subagent" || name.starts_with("subagent-");
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(ours);
    (path.is_absolute() && named).then_some(path)
}

fn fits(folder: &Path) -> bool {
    folder.as_os_str().len() + 1 + LONGEST_NAME <= SOCKET_PATH_LIMIT
}

/// After `su` the variable names the previous user's folder; using it would lock that user out.
fn is_own_folder(path: &Path, uid: u32) -> bool {
    path.is_absolute() && std::fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

fn make(folder: &Path) -> Result<(), ConfigError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            Err(ConfigError::RuntimeDirUnwritable { path: folder.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// Returns the folder in `XDG_RUNTIME_DIR`, if it belongs to this user.
fn in_xdg(env: &Environment, uid: u32) -> Option<PathBuf> {
    let xdg = env.var("XDG_RUNTIME_DIR").map(Path::new).filter(|xdg| is_own_folder(xdg, uid))?;
    Some(xdg.join("subagent"))
}

fn verify(folder: &Path, uid: u32) -> Result<(), ConfigError> {
    let path = || folder.to_owned();
    // Examines the link itself: another user's link could lead anywhere.
    let found = std::fs::symlink_metadata(folder)
        .map_err(|cause| ConfigError::RuntimeDirUnwritable { path: path(), cause })?;
    let problem = if found.is_symlink() {
        "it is a symbolic link; remove it".to_owned()
    } else if !found.is_dir() {
        "it is not a folder; remove it".to_owned()
    } else if found.uid() != uid {
        format!(
            "it belongs to user {}, not to you ({uid}); have it removed, or set XDG_RUNTIME_DIR to a folder of yours",
            found.uid()
        )
    } else if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        format!("others may use it (mode {mode:04o}); run `chmod 700 {}`, or remove it", folder.display())
    } else {
        return Ok(());
    };
    Err(ConfigError::RuntimeDirUnsafe { path: path(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct RuntimeDirFixture {
        _dir: tempfile::TempDir,
        tmp: PathBuf,
        xdg: PathBuf,
    }

    impl RuntimeDirFixture {
        fn new() -> Self {
            // TMPDIR may be too long for a socket path.
            let dir = tempfile::tempdir_in("/tmp").unwrap();
            let (tmp, xdg) = (dir.path().join("tmp"), dir.path().join("xdg"));
            fs::create_dir(&tmp).unwrap();
            fs::create_dir(&xdg).unwrap();
            Self { _dir: dir, tmp, xdg }
        }

        fn prepare(&self, xdg: Option<&Path>) -> Result<RuntimeDir, ConfigError> {
            RuntimeDir::prepare_below(xdg, &self.tmp, uid(), Path::new("/ws/.subagent/state"))
        }

        fn in_tmp(&self) -> PathBuf {
            self.tmp.join(format!("subagent-{}", uid()))
        }
    }

    fn uid() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    #[test]
    fn the_users_runtime_folder_is_preferred_and_made_private() {
        let place = RuntimeDirFixture::new();
        let dir = place.prepare(Some(&place.xdg)).unwrap();
        assert_eq!(dir.path(), place.xdg.join("subagent"));
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(place.prepare(Some(&place.xdg)).unwrap(), dir);
        assert!(!place.in_tmp().exists());
    }

    #[test]
    fn names_are_stable_and_fit() {
        let place = RuntimeDirFixture::new();
        let dir = place.prepare(None).unwrap();
        let name = |path: PathBuf| path.strip_prefix(place.in_tmp()).unwrap().to_str().unwrap().to_owned();
        // Constant, because another version must find the same files. From `printf /ws/.subagent/state |
        // sha256sum`.
        assert_eq!(name(dir.daemon_socket()), "942cb00159a8d10b.sock");
        assert_eq!(name(dir.worker_socket("w_0123456789").unwrap()), "942cb00159a8d10b-w_0123456789.sock");
        assert_eq!(name(dir.worker_environment("w_0123456789")), "942cb00159a8d10b-w_0123456789.env");
        assert_eq!(name(dir.worker_socket("w_0123456789").unwrap()).len(), LONGEST_NAME);
        let error = dir.worker_socket(&"w".repeat(100)).unwrap_err();
        assert_eq!(error.code(), "SOCKET_PATH_TOO_LONG");
    }

    #[test]
    fn a_copy_at_the_path_of_its_original_has_other_names() {
        let state = tempfile::tempdir().unwrap();
        let write = |copy_of: &str| {
            let text = format!(r#"{{"device":1,"inode":1,"id":"own","bootId":"b"{copy_of}}}"#);
            fs::write(state.path().join(crate::state_identity::STATE_ID), text).unwrap();
            names(state.path())
        };
        assert_eq!(write(""), hash(state.path()));
        let copy = write(r#","copyOf":"original""#);
        assert!(copy != hash(state.path()) && copy.len() == 16);
    }

    #[test]
    fn another_state_dir_has_other_names() {
        assert_ne!(hash(Path::new("/a")), hash(Path::new("/b")));
    }

    #[test]
    fn the_files_of_the_workers_of_one_state_dir_are_distinguished_from_others() {
        let place = RuntimeDirFixture::new();
        let dir = place.prepare(None).unwrap();
        assert_eq!(dir.worker_files().unwrap(), []);
        let (env, socket) =
            (dir.worker_environment("w_0000000001"), dir.worker_socket("w_0000000002").unwrap());
        let others = ["0123456789abcdef-w_0000000003.env", "notes.env", "942cb00159a8d10b-w_0000000004.tmp"];
        for path in others.iter().map(|name| dir.path().join(name)).chain([
            env.clone(),
            socket.clone(),
            dir.daemon_socket(),
        ]) {
            fs::write(path, "").unwrap();
        }
        let expected = [("w_0000000001".to_owned(), env), ("w_0000000002".to_owned(), socket)];
        assert_eq!(dir.worker_files().unwrap(), expected);
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(dir.worker_files().is_err());
    }

    #[test]
    fn where_workers_have_files_the_next_daemon_goes() {
        let place = RuntimeDirFixture::new();
        let state = place.tmp.join("state");
        fs::create_dir(&state).unwrap();
        let in_use = |xdg: &Path| {
            RuntimeDir::in_use(Some(xdg), &place.tmp, uid(), &state).map(|dir| dir.path().to_owned())
        };
        let of = |xdg| RuntimeDir::prepare_below(xdg, &place.tmp, uid(), &state).unwrap();
        let (first, other) = (of(Some(&place.xdg)), of(None));
        fs::write(state.join(REMEMBERED), first.path().as_os_str().as_bytes()).unwrap();
        let elsewhere = place.tmp.join("elsewhere");
        assert_eq!(in_use(&elsewhere), None, "nothing is left there");
        fs::write(other.worker_environment("w_0000000001"), "").unwrap();
        assert_eq!(in_use(&elsewhere).as_deref(), Some(other.path()));
        fs::write(first.worker_socket("w_0000000001").unwrap(), "").unwrap();
        assert_eq!(in_use(&elsewhere).as_deref(), Some(first.path()), "it is the last one's");
        // A folder that others can enter is not used, even if it is recorded.
        fs::set_permissions(first.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(in_use(&elsewhere).as_deref(), Some(other.path()));
        for text in ["relative/subagent", "", "/none", place.xdg.to_str().unwrap()] {
            fs::write(state.join(REMEMBERED), text).unwrap();
            assert_eq!(in_use(&elsewhere).as_deref(), Some(other.path()), "{text}");
        }
    }

    #[test]
    fn a_runtime_folder_that_cannot_serve_is_passed_over() {
        let place = RuntimeDirFixture::new();
        let long = place.xdg.join("x".repeat(80));
        fs::create_dir(&long).unwrap();
        let file = place.xdg.join("file");
        fs::write(&file, "").unwrap();
        let odd = place.xdg.join(std::ffi::OsStr::from_bytes(b"\xff"));
        fs::create_dir(&odd).unwrap();
        for xdg in [
            None,
            Some(odd.as_path()),
            Some(long.as_path()),
            Some(&file),
            Some(&place.xdg.join("none")),
            Some(Path::new("relative")),
        ] {
            assert_eq!(place.prepare(xdg).unwrap().path(), place.in_tmp(), "{xdg:?}");
        }
    }

    #[test]
    fn another_users_runtime_folder_is_passed_over() {
        let place = RuntimeDirFixture::new();
        assert!(!is_own_folder(&place.xdg, uid() + 1));
        assert!(is_own_folder(&place.xdg, uid()));
    }

    #[test]
    fn too_long_everywhere_is_an_error() {
        let place = RuntimeDirFixture::new();
        let long = place.tmp.join("x".repeat(80));
        fs::create_dir(&long).unwrap();
        let error = RuntimeDir::prepare_below(None, &long, uid(), Path::new("/s")).unwrap_err();
        assert_eq!(error.code(), "SOCKET_PATH_TOO_LONG");
        assert_eq!(error.details()["limit"], 107);
        assert!(error.details()["path"].as_str().unwrap().len() > 107);
    }

    #[track_caller]
    fn unsafe_problem(place: &RuntimeDirFixture) -> String {
        let error = place.prepare(None).unwrap_err();
        assert_eq!(error.code(), "RUNTIME_DIR_UNSAFE");
        assert_eq!(error.details()["path"], place.in_tmp().to_str().unwrap());
        error.message()
    }

    #[test]
    fn links_files_and_open_folders_are_refused() {
        let place = RuntimeDirFixture::new();
        symlink(&place.xdg, place.in_tmp()).unwrap();
        assert!(unsafe_problem(&place).contains("symbolic link"));
        fs::remove_file(place.in_tmp()).unwrap();
        fs::write(place.in_tmp(), "").unwrap();
        assert!(unsafe_problem(&place).contains("not a folder"));
        fs::remove_file(place.in_tmp()).unwrap();
        fs::create_dir(place.in_tmp()).unwrap();
        for mode in [0o710, 0o701, 0o770, 0o755] {
            fs::set_permissions(place.in_tmp(), Permissions::from_mode(mode)).unwrap();
            assert!(unsafe_problem(&place).contains("chmod 700"));
        }
        fs::set_permissions(place.in_tmp(), Permissions::from_mode(0o700)).unwrap();
        place.prepare(None).unwrap();
    }

    #[test]
    fn another_users_folder_is_refused() {
        let place = RuntimeDirFixture::new();
        let folder = place.in_tmp();
        fs::create_dir(&folder).unwrap();
        let error = verify(&folder, uid() + 1).unwrap_err();
        assert!(error.message().contains("belongs to user"), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_reported() {
        let place = RuntimeDirFixture::new();
        fs::remove_dir(&place.tmp).unwrap();
        assert_eq!(place.prepare(None).unwrap_err().code(), "RUNTIME_DIR_UNWRITABLE");
    }
}
