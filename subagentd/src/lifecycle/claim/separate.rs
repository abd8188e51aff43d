//! Replaces hard links below a copied state dir with copies of their content. The original's files
//! are never written.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::store::database::files::{self, DATABASE, beside};

/// Maximum attempts to copy a database that changes meanwhile.
const TRIES: usize = 20;
/// Block size of the comparison, in bytes.
const CHUNK: usize = 256 * 1024;

/// Replaces all hard links below this folder. Symbolic links are left as they are.
///
/// # Errors
/// I/O errors; `ResourceBusy` if the database keeps changing.
pub(in crate::lifecycle) fn separate(state_dir: &Path) -> io::Result<()> {
    let database = state_dir.join(DATABASE);
    let log = files::log(&database);
    let index = files::index(&database);
    if is_shared(&database)? || is_shared(&log)? || is_shared(&index)? {
        copy_together(&[&database, &log])?;
        // The database rebuilds it from the other two.
        remove(&index)?;
    }
    separate_folder(state_dir)
}

fn separate_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            separate_folder(&entry.path())?;
        } else if kind.is_file() && entry.metadata()?.nlink() > 1 {
            let path = entry.path();
            fs::rename(copied(&path)?, &path)?;
        }
    }
    Ok(())
}

fn is_shared(path: &Path) -> io::Result<bool> {
    Ok(metadata(path)?.is_some_and(|meta| meta.nlink() > 1))
}

/// Copies files as a consistent set.
fn copy_together(paths: &[&Path]) -> io::Result<()> {
    for _ in 0..TRIES {
        let before = stamps(paths)?;
        let mut copies = Vec::new();
        for path in paths {
            if metadata(path)?.is_some() {
                copies.push((copied(path)?, *path));
            }
        }
        let mut same = stamps(paths)? == before && !copies.is_empty();
        for (copy, path) in &copies {
            same = same && is_equal(copy, path)?;
        }
        if same && stamps(paths)? == before {
            return copies.iter().try_for_each(|(copy, path)| fs::rename(copy, path));
        }
        for (copy, _) in &copies {
            remove(copy)?;
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "its database is a hard link of one that is being changed; try again when the original is idle",
    ))
}

/// Metadata that changes with the content of a file.
#[derive(PartialEq, Eq)]
struct DatabaseStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

fn stamps(paths: &[&Path]) -> io::Result<Vec<Option<DatabaseStamp>>> {
    let stamp = |meta: Metadata| DatabaseStamp {
        inode: meta.ino(),
        length: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    };
    paths.iter().map(|path| Ok(metadata(path)?.map(stamp))).collect()
}

/// Copies a file to a temporary name beside it.
fn copied(path: &Path) -> io::Result<PathBuf> {
    let copy = beside(path, ".own");
    remove(&copy)?;
    fs::copy(path, &copy)?;
    Ok(copy)
}

fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
    loop {
        left.clear();
        right.clear();
        (&mut one).take(CHUNK as u64).read_to_end(&mut left)?;
        (&mut other).take(CHUNK as u64).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file if it exists.
pub(in crate::lifecycle) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_become_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
        for name in ["", "runtimes", "runtimes/w_1"] {
            fs::create_dir(original.join(name)).unwrap();
            fs::create_dir(copy.join(name)).unwrap();
        }
        let files = ["state.db", "state.db-wal", "state.db-shm", "runtimes/w_1/1.journal", "controller"];
        for name in files {
            fs::write(original.join(name), name).unwrap();
            fs::hard_link(original.join(name), copy.join(name)).unwrap();
        }
        separate(&copy).unwrap();
        for name in files.iter().filter(|name| **name != "state.db-shm") {
            assert_eq!(fs::read_to_string(copy.join(name)).unwrap(), *name);
            assert_eq!(fs::metadata(copy.join(name)).unwrap().nlink(), 1, "{name}");
            fs::write(copy.join(name), "changed").unwrap();
            assert_eq!(fs::read_to_string(original.join(name)).unwrap(), *name);
        }
        assert!(!copy.join("state.db-shm").exists() && original.join("state.db-shm").exists());
        assert_eq!(fs::read_dir(&copy).unwrap().count(), 4, "nothing else is left");
    }
}
