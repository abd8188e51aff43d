//! The changes of a work tree since its base was recorded.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subagent_protocol::api::FileChange;
use subagent_protocol::work_tree::TreeBase;

use super::limits::WorkTreeLimits;
use super::{record, snapshot};

/// Maximum output read from git, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The changed files of a work tree.
pub type Changes = Vec<FileChange>;

/// Compares a work tree with the base recorded in a folder. Adds patches only on request.
///
/// # Errors
///
/// Why it cannot be compared, as part of a sentence.
pub fn compare(
    folder: &Path,
    env: &[(OsString, OsString)],
    patches: bool,
    limits: WorkTreeLimits,
) -> Result<Changes, String> {
    let (root, tree) = match record::read(folder) {
        Some(TreeBase::Recorded { root, tree, .. }) => (root, tree),
        Some(TreeBase::Missing { reason }) => return Err(reason),
        None => return Err("its state at the first turn was not recorded".to_owned()),
    };
    let root = Path::new(&root);
    let failed = |error: std::io::Error| format!("no temporary file can be written: {error}");
    // The base stays unchanged: index and objects of this comparison are temporary.
    let scratch = ComparisonFolder::new(folder).map_err(failed)?;
    let mut git = record::own(folder, root, env, limits.until);
    git.places.retain(|(name, _)| *name != "GIT_INDEX_FILE");
    git.places.extend([
        ("GIT_INDEX_FILE", scratch.0.join("index").into()),
        ("GIT_OBJECT_DIRECTORY", scratch.0.join("objects").into()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", folder.join("objects").into()),
    ]);
    let now = snapshot::write(&git, limits)?;
    if now == tree {
        return Ok(Vec::new());
    }
    let diff = |how: &[&str]| {
        let common =
            ["diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"];
        let args: Vec<&str> =
            common.iter().chain(how).copied().chain([tree.as_str(), now.as_str()]).collect();
        git.run(&args, b"", MAX_BYTES).map_err(String::from)
    };
    let mut changes = names(&diff(&["-z", "--name-status"])?);
    count(&mut changes, &diff(&["-z", "--numstat"])?);
    if patches {
        add_patches(&mut changes, &diff(&["-p"])?);
    }
    Ok(changes)
}

/// A folder for one comparison; removed on drop.
struct ComparisonFolder(std::path::PathBuf);

impl ComparisonFolder {
    fn new(base: &Path) -> std::io::Result<Self> {
        let scratch = Self(base.join(format!("compare.{}", std::process::id())));
        let _ = fs::remove_dir_all(&scratch.0);
        remove_left(base);
        DirBuilder::new().recursive(true).mode(0o700).create(scratch.0.join("objects"))?;
        match record::copy_index(&base.join("index"), &scratch.0.join("index")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(scratch),
        }
    }
}

impl Drop for ComparisonFolder {
    fn drop(&mut self) {
        // Remaining files are deleted with the worker.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of comparisons that were killed.
fn remove_left(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("compare.")?.parse::<i32>().ok());
        let is_dead = |pid: i32| pid > 0 && kill(Pid::from_raw(pid), None::<Signal>) == Err(Errno::ESRCH);
        if pid.is_some_and(is_dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn fields(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned())
}

/// Returns the numbers of lines that were added and deleted.
#[must_use]
pub fn total(changes: &Changes) -> (u64, u64) {
    let sum = |lines: fn(&FileChange) -> Option<u64>| changes.iter().filter_map(lines).sum();
    (sum(|change| change.added), sum(|change| change.deleted))
}

/// Parses the output of `--name-status -z`.
fn names(bytes: &[u8]) -> Changes {
    let mut fields = fields(bytes);
    let mut changes = Vec::new();
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let renamed = status.starts_with(['R', 'C']);
        let (path, old_path) = match renamed {
            true => (fields.next().unwrap_or_default(), Some(path)),
            false => (path, None),
        };
        let status = match status.as_bytes().first() {
            Some(b'A') => "added",
            Some(b'D') => "deleted",
            Some(b'R' | b'C') => "renamed",
            Some(b'T') => "retyped",
            _ => "modified",
        };
        let status = status.to_owned();
        changes.push(FileChange { path, old_path, status, added: None, deleted: None, patch: String::new() });
    }
    changes
}

/// Parses the output of `--numstat -z`, which lists the files in the same order.
fn count(changes: &mut [FileChange], bytes: &[u8]) {
    let mut fields = fields(bytes);
    for change in changes {
        let Some(counts) = fields.next() else { return };
        let mut parts = counts.split('\t');
        change.added = parts.next().and_then(|count| count.parse().ok());
        change.deleted = parts.next().and_then(|count| count.parse().ok());
        if change.old_path.is_some() {
            // Both names of a rename follow.
            fields.nth(1);
        }
    }
}

/// Parses the output of `-p`, in the same order. A retyped file appears as a
/// deletion and an addition.
fn add_patches(changes: &mut [FileChange], bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut patches: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match patches.last_mut() {
            Some(patch) if !line.starts_with("diff --git ") => patch.push_str(line),
            _ => patches.push(line.to_owned()),
        }
    }
    let mut patches = patches.into_iter();
    for change in changes {
        let parts = if change.status == "retyped" { 2 } else { 1 };
        change.patch = patches.by_ref().take(parts).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_comparison_left_is_removed() {
        let base = tempfile::tempdir().unwrap();
        // No process has the first id, and the second one always lives.
        let (dead, alive) = (base.path().join("compare.2147483647"), base.path().join("compare.1"));
        for folder in [&dead, &alive] {
            fs::create_dir_all(folder.join("objects")).unwrap();
        }
        let scratch = ComparisonFolder::new(base.path()).unwrap();
        assert_eq!((dead.exists(), alive.exists(), scratch.0.exists()), (false, true, true));
    }

    #[test]
    fn names_counts_and_patches_are_put_together() {
        let mut changes = names(b"M\0a b\0R087\0old\0new\0T\0link\0A\0bin\0");
        count(&mut changes, b"1\t2\ta b\x003\t0\t\0old\0new\x001\t1\tlink\0-\t-\tbin\0");
        let patch = "diff --git a/a b/a\n-x\n+diff --git\ndiff --git new\ndiff --git link\ndiff --git link2\ndiff --git bin\n";
        add_patches(&mut changes, patch.as_bytes());
        let seen: Vec<_> = changes
            .iter()
            .map(|one| {
                (&*one.path, one.old_path.as_deref(), &*one.status, one.added, one.deleted, &*one.patch)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a b", None, "modified", Some(1), Some(2), "diff --git a/a b/a\n-x\n+diff --git\n"),
                ("new", Some("old"), "renamed", Some(3), Some(0), "diff --git new\n"),
                ("link", None, "retyped", Some(1), Some(1), "diff --git link\ndiff --git link2\n"),
                ("bin", None, "added", None, None, "diff --git bin\n"),
            ]
        );
    }
}
