//! `Look`: the content that would be lost with a worktree.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use subagent_protocol::Error;
use subagent_protocol::worktree::{Contents, Worktree};

use super::checkout::Checkout;
use super::commits::OwnCommits;
use super::registration::{READY, REMOVING, Registration, restore_link};
use super::scratch::Scratch;
use super::status::{self, OwnIndex, parts, path};
use super::work::OperationContext;
use super::{commits, errors};

/// Bytes that git inspects to detect a binary file.
const TEXT_CHECK: usize = 8000;
/// Maximum number of changed files named.
const MAX_NAMES: usize = 100;

/// Returns the content with its size.
pub(super) fn look(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Contents, Error> {
    inspect(work, worktree, |_| true)
}

/// The same for a removal. The size of a clean worktree is not counted.
pub(super) fn before_removal(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Contents, Error> {
    inspect(work, worktree, |contents| !contents.is_clean())
}

fn inspect(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    is_counted: impl Fn(&Contents) -> bool,
) -> Result<Contents, Error> {
    let Some(found) = registered(worktree)? else {
        let gone = Registration::find(worktree)?;
        let commits = OwnCommits::find(work, worktree, gone.as_ref())?.unique.len() as u64;
        let uncommitted = gone.map_or(Ok(0), |gone| staged(work, &gone))?;
        return Ok(Contents { commits, uncommitted, ..Contents::default() });
    };
    let is_removed = found.read(REMOVING).is_some();
    // Deletions by a killed removal were found not worth keeping.
    let place = Checkout { deletions_count: !is_removed, ..Checkout::of(worktree, &found) };
    let mut contents = Contents { exists: true, ..Contents::default() };
    contents.commits = OwnCommits::find(work, worktree, Some(&found))?.unique.len() as u64;
    contents.under_way = status::under_way(&found.admin).map(str::to_owned);
    let untracked = place.count(work, &worktree.repository, &mut contents)?;
    if is_counted(&contents) {
        count_lines(work, worktree, &found, &untracked, &mut contents)?;
    }
    Ok(contents)
}

/// Counts the staged files of a worktree whose folder is gone.
fn staged(work: &OperationContext<'_>, gone: &Registration) -> Result<u64, Error> {
    if gone.read("index").is_none() {
        return Ok(0);
    }
    let args = ["diff-index", "--cached", "--name-only", "-z", "HEAD", "--"];
    let staged = work.asked_of(&work.git_of(&gone.admin), &args)?.unwrap_or_default();
    Ok(parts(&staged).count() as u64)
}

/// Returns the registration of a worktree whose folder exists.
///
/// # Errors
///
/// The folder exists, but git does not know it, so its content is unknown.
pub(super) fn registered(worktree: &Worktree) -> Result<Option<Registration>, Error> {
    let found = Registration::find(worktree)?;
    let top = found.as_ref().map_or(&worktree.path, |found| &found.path);
    if top.symlink_metadata().is_err() {
        return Ok(None);
    }
    let is_removed = found.as_ref().is_some_and(|found| found.read(REMOVING).is_some());
    match found {
        Some(found) if worktree.is_inside() => Ok(Some(found)),
        Some(found) if top.join(".git").is_file() || is_removed => {
            restore_link(&found)?;
            Ok(Some(found))
        }
        _ => Err(errors::not_found(top, "git does not know this folder as a worktree of the repository")
            .recommend("run `git worktree repair` in the repository, or move the folder away")),
    }
}

/// Returns the end of the setup. Ignored files that are not newer have no value. All count if
/// the setup never ended.
pub(super) fn ready(found: &Registration) -> SystemTime {
    let ready = fs::metadata(found.admin.join(READY)).and_then(|meta| meta.modified());
    ready.unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Checkout {
    /// Counts uncommitted changes here and below. Returns the untracked files.
    fn count(
        &self,
        work: &OperationContext<'_>,
        repository: &Path,
        contents: &mut Contents,
    ) -> Result<BTreeSet<PathBuf>, Error> {
        let scratch = Scratch::new(repository)?;
        let OwnIndex { git, modules, .. } = status::with_own_index(work, &self.top, &self.git_dir, &scratch)?;
        let args = [
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
            "--no-renames",
        ];
        let mut untracked = BTreeSet::new();
        for entry in parts(&work.feed(&git, &args, b"")?) {
            let (Some(kind), Some(name)) = (entry.get(..2), entry.get(3..)) else { continue };
            if kind == b"??" {
                untracked.insert(path(name).to_owned());
            }
            contents.uncommitted += u64::from(kind != b" D" || self.deletions_count);
        }
        contents.ignored += self.ignored(work)?.len() as u64;
        for place in self.those(work, &modules)? {
            let commits = commits::of_module(work, &place)?;
            contents.commits += commits.len() as u64;
            if contents.under_way.is_none() {
                contents.under_way = status::under_way(&place.git_dir).map(str::to_owned);
            }
            place.count(work, repository, contents)?;
        }
        Ok(untracked)
    }

    /// Returns ignored files that are newer than the setup.
    pub(super) fn ignored(&self, work: &OperationContext<'_>) -> Result<Vec<PathBuf>, Error> {
        let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
        let mut found = Vec::new();
        for name in parts(&work.run(&self.top, &list)?) {
            let file = self.top.join(path(name));
            if is_newer(&file, self.ready) {
                found.push(path(name).to_owned());
            }
        }
        Ok(found)
    }
}

/// Whether a file, or one in a folder, changed or appeared after the setup's end.
fn is_newer(file: &Path, ready: SystemTime) -> bool {
    let Ok(meta) = file.symlink_metadata() else { return false };
    if meta.is_dir() {
        let entries = fs::read_dir(file).into_iter().flatten().flatten();
        return entries.map(|entry| entry.path()).any(|entry| is_newer(&entry, ready));
    }
    let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
    let nanos = u32::try_from(meta.ctime_nsec()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) >= ready
}

/// Counts the files and lines that differ from the base.
fn count_lines(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    found: &Registration,
    untracked: &BTreeSet<PathBuf>,
    contents: &mut Contents,
) -> Result<(), Error> {
    let diff = ["diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];
    let args: Vec<&str> = diff.into_iter().chain([&*worktree.base, "--"]).collect();
    // The base may be gone, or the files may be half removed. The essential counts are still valid.
    let Some(counts) = work.asked(&found.path, &args)? else { return Ok(()) };
    let counts = numbers(&counts);
    contents.files = counts.files.len() as u64;
    (contents.added, contents.removed) = (counts.added, counts.removed);
    let new = untracked.iter().map(|name| name.to_string_lossy().into_owned());
    contents.names = counts.files.into_iter().chain(new).take(MAX_NAMES).collect();
    contents.names.sort();
    for name in untracked {
        contents.files += 1;
        contents.added += lines(&found.path.join(name));
    }
    Ok(())
}

/// Parses the output of `--numstat -z --no-renames`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) files: Vec<String>,
    pub(super) added: u64,
    pub(super) removed: u64,
}

pub(super) fn numbers(bytes: &[u8]) -> Numbers {
    let mut numbers = Numbers::default();
    for entry in parts(bytes) {
        let text = String::from_utf8_lossy(entry);
        let mut fields = text.splitn(3, '\t');
        // A binary file has `-` here.
        let mut count = || fields.next().and_then(|count| count.parse().ok()).unwrap_or(0_u64);
        numbers.added += count();
        numbers.removed += count();
        numbers.files.extend(fields.next().map(str::to_owned));
    }
    numbers
}

/// Counts the lines of a new file; 0 for a binary one.
fn lines(file: &Path) -> u64 {
    let is_file = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let Some(mut file) = is_file.then(|| fs::File::open(file).ok()).flatten() else { return 0 };
    let (mut chunk, mut lines, mut last, mut first) = (vec![0; 64 * 1024], 0, b'\n', true);
    loop {
        match file.read(&mut chunk) {
            Ok(0) | Err(_) => return lines + u64::from(last != b'\n'),
            Ok(length) => {
                let bytes = &chunk[..length];
                if std::mem::take(&mut first) && memchr::memchr(0, &bytes[..length.min(TEXT_CHECK)]).is_some()
                {
                    return 0;
                }
                lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
                last = bytes[length - 1];
            }
        }
    }
}
