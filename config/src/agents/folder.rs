//! Reads the files of one folder. Their number and size are limited; a bad file does not affect the others.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::problem::DefinitionProblem;
use super::{DefinitionSource, MAX_BYTES};
use crate::regular;

/// Maximum number of definitions per folder.
pub(super) const MAX_FILES: usize = 500;
/// Maximum number of directory entries that are examined.
const MAX_ENTRIES: usize = 10_000;
const ENDING: &str = "md";

/// A file with its content, or the reason why it is unreadable.
pub(super) struct ScannedFile {
    pub(super) path: PathBuf,
    pub(super) stem: String,
    pub(super) bytes: Result<Vec<u8>, DefinitionProblem>,
}

/// Returns the files of a folder, sorted by name. A missing folder is empty.
pub(super) fn files(
    folder: &Path,
    problems: &mut Vec<(DefinitionSource, DefinitionProblem)>,
    source: fn(PathBuf) -> DefinitionSource,
) -> Vec<ScannedFile> {
    let mut say = |problem: DefinitionProblem| problems.push((source(folder.to_owned()), problem));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Vec::new();
        }
        Err(error) => {
            say(DefinitionProblem::error(format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= MAX_ENTRIES {
            say(DefinitionProblem::error(format!(
                "has more than {MAX_ENTRIES} entries; the rest is not looked at"
            )));
            break;
        }
        let Ok(path) = entry.map(|entry| entry.path()) else { continue };
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|ending| ending == ENDING) && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.len() > MAX_FILES {
        say(DefinitionProblem::error(format!("has more than {MAX_FILES} files; the rest is not read")));
        paths.truncate(MAX_FILES);
    }
    paths.into_iter().map(of_path).collect()
}

pub(super) fn of_path(path: PathBuf) -> ScannedFile {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = bytes(&path).map_err(|error| DefinitionProblem::error(format!("cannot be read: {error}")));
    ScannedFile { path, stem, bytes }
}

/// Reads one byte more than allowed, so that a larger file is detected.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    regular::open_to_read(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
