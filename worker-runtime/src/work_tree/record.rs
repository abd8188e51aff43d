//! Records the base of a work tree.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Instant, SystemTime};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use subagent_protocol::time::Timestamp;
use subagent_protocol::work_tree::{FILE, TreeBase};

use super::find::{self, Repository};
use super::limits::WorkTreeLimits;
use super::snapshot;
use crate::git::{Git, GitFailure, GitSettings};

/// Maximum size of an index that is copied, in bytes.
const MAX_INDEX: u64 = 256 * 1024 * 1024;
/// Maximum size of `info/exclude`, in bytes.
const MAX_EXCLUDE: u64 = 1024 * 1024;
/// Maximum output of `git pack-objects`, and maximum size of a base file, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Records the state of the work tree around a folder, or the reason why that failed.
pub fn record(cwd: &Path, folder: &Path, env: &[(OsString, OsString)], limits: WorkTreeLimits) -> TreeBase {
    let base = recorded(cwd, folder, env, limits).unwrap_or_else(|reason| {
        // Removes remains of an earlier attempt.
        let _ = fs::remove_dir_all(folder).and_then(|()| create(folder));
        TreeBase::Missing { reason }
    });
    let text = serde_json::to_vec(&base).unwrap_or_default();
    // If it cannot be written, the base counts as missing.
    let unfinished = folder.join("base.json.new");
    let _ = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, folder.join(FILE)));
    base
}

/// Reads the base recorded in a folder; `None` if there is none.
pub fn read(folder: &Path) -> Option<TreeBase> {
    let text = copy_of(&folder.join(FILE), MAX_ANSWER as u64).ok()?;
    serde_json::from_slice(&text).ok()
}

fn recorded(
    cwd: &Path,
    folder: &Path,
    env: &[(OsString, OsString)],
    limits: WorkTreeLimits,
) -> Result<TreeBase, String> {
    let failed = |error: io::Error| format!("the state dir cannot be written: {error}");
    let _ = fs::remove_dir_all(folder);
    create(folder).map_err(failed)?;
    let found = find::repository(cwd, env, limits.until)?;
    let Some(root) = found.root.to_str() else { return Err("the folder's path is not UTF-8".to_owned()) };
    prepare(folder, &found).map_err(failed)?;
    let git = own(folder, &found.root, env, limits.until);
    let tree = snapshot::write(&git, limits).or_else(|failure| {
        // Its index may consist of several files, which are not copied.
        let Some(head) = found.head.as_deref().filter(|_| matches!(failure, GitFailure::Refused { .. }))
        else {
            return Err(String::from(failure));
        };
        fs::remove_file(folder.join("index")).map_err(failed)?;
        git.run(&["read-tree", head], b"", MAX_ANSWER)?;
        snapshot::write(&git, limits).map_err(String::from)
    })?;
    // Objects that only the repository's index names would be lost with it.
    let wanted =
        found.head.as_deref().map_or_else(|| format!("{tree}\n"), |head| format!("{tree}\n^{head}\n"));
    let pack = folder.join("objects/pack/pack");
    let pack = pack.to_str().ok_or("the state dir's path is not UTF-8")?;
    git.run(&["pack-objects", "-q", "--revs", pack], wanted.as_bytes(), MAX_ANSWER)?;
    Ok(TreeBase::Recorded { root: root.to_owned(), head: found.head.clone(), tree, recorded_at: now() })
}

/// Returns git with the git directory in this folder.
pub(super) fn own<'a>(
    folder: &Path,
    root: &'a Path,
    env: &'a [(OsString, OsString)],
    until: Instant,
) -> Git<'a> {
    let places = vec![
        ("GIT_DIR", folder.into()),
        ("GIT_WORK_TREE", root.into()),
        ("GIT_INDEX_FILE", folder.join("index").into()),
    ];
    Git { folder: root, env, settings: GitSettings::Own, places, until, held: &[] }
}

/// Creates a git directory that borrows a repository's objects, with its index and its file rules.
fn prepare(folder: &Path, found: &Repository) -> io::Result<()> {
    for inner in ["objects/info", "objects/pack", "refs", "info"] {
        create(&folder.join(inner))?;
    }
    let objects = found.common_dir.join("objects").into_os_string();
    if objects.as_encoded_bytes().contains(&b'\n') {
        return Err(io::Error::other("the repository's path has a line end"));
    }
    fs::write(folder.join("objects/info/alternates"), [objects.as_encoded_bytes(), b"\n"].concat())?;
    fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?;
    let version = u8::from(found.format != "sha1");
    let mut config = format!("[core]\n\trepositoryformatversion = {version}\n");
    for (name, value) in &found.settings {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        config.push_str(&format!("\t{} = \"{value}\"\n", name.trim_start_matches("core.")));
    }
    if version > 0 {
        config.push_str(&format!("[extensions]\n\tobjectFormat = {}\n", found.format));
    }
    fs::write(folder.join("config"), config)?;
    // With the index, git recognizes unchanged files without reading them.
    let _ = copy_index(&found.git_dir.join("index"), &folder.join("index"));
    if let Ok(bytes) = copy_of(&found.common_dir.join("info/exclude"), MAX_EXCLUDE) {
        fs::write(folder.join("info/exclude"), bytes)?;
    }
    Ok(())
}

/// Copies an index with its modification time. Git reads files that are not older than the index,
/// because they may have changed since.
pub(crate) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    // Read before the content, which may be replaced meanwhile: an older time only makes
    // git read more files.
    let time = fs::symlink_metadata(from)?.modified()?;
    let bytes = copy_of(from, MAX_INDEX)?;
    fs::write(to, bytes)?;
    File::options().write(true).open(to)?.set_modified(time)
}

/// Returns the content of a regular file.
fn copy_of(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    File::take(file, limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn create(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // In whole seconds, as it is stored.
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(0).saturating_mul(1000))
}
