//! The files of one folder: bounded in number and length, and no file keeps another from being read.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::{MAX_BYTES, Source};
use crate::regular;

/// So many definitions of a folder are read.
pub(super) const MOST_FILES: usize = 500;
/// So many names in a folder are looked at.
const MOST_ENTRIES: usize = 10_000;
const ENDING: &str = "md";

/// A file that was read, or why it was not.
pub(super) struct Read {
    pub(super) path: PathBuf,
    pub(super) stem: String,
    pub(super) bytes: Result<Vec<u8>, Problem>,
}

/// What is in a folder, sorted by name; nothing of one that is not there.
pub(super) fn files(
    folder: &Path,
    problems: &mut Vec<(Source, Problem)>,
    source: fn(PathBuf) -> Source,
) -> Vec<Read> {
    let mut say = |problem: Problem| problems.push((source(folder.to_owned()), problem));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Vec::new();
        }
        Err(error) => {
            say(Problem::error(format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= MOST_ENTRIES {
            say(Problem::error(format!("has more than {MOST_ENTRIES} entries; the rest is not looked at")));
            break;
        }
        let Ok(path) = entry.map(|entry| entry.path()) else { continue };
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|ending| ending == ENDING) && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.len() > MOST_FILES {
        say(Problem::error(format!("has more than {MOST_FILES} files; the rest is not read")));
        paths.truncate(MOST_FILES);
    }
    paths.into_iter().map(of_path).collect()
}

/// One file.
pub(super) fn of_path(path: PathBuf) -> Read {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = bytes(&path).map_err(|error| Problem::error(format!("cannot be read: {error}")));
    Read { path, stem, bytes }
}

/// A byte more than may be: so it is seen that there are more.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    regular::open_to_read(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
