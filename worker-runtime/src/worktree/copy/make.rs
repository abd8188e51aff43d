//! `Plan` and `Create` of a copy. A killed attempt is made again from the beginning.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::fs::{futimens, ioctl_ficlone, openat, renameat, symlinkat, unlinkat};
use subagent_protocol::Error;
use subagent_protocol::worktree::{Copied, CopyRequest, Plan, Worktree};

use super::super::work::{OperationContext, step};
use super::super::{errors, plan};
use super::tree::{self, Found};
use super::{hidden, manifest};

/// Determines what a copy would contain. Refuses one above the limit.
pub(in super::super) fn plan(cwd: &Path, root: &Path, wish: &CopyRequest) -> Result<Plan, Error> {
    if !cwd.is_dir() {
        return Err(errors::argument("cwd", format!("the folder {} does not exist", cwd.display())));
    }
    let main = cwd.canonicalize().map_err(|error| errors::file(cwd, &error))?;
    let mut without = wish.without.clone();
    // Copies inside of the folder do not contain each other.
    without.push(root.canonicalize().unwrap_or_else(|_| root.to_owned()));
    let copied = Copied { limit: wish.limit, without };
    check_size(&main, &copied)?;
    let folder = folder(&main, root);
    let mut taken = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        taken.extend(Some(name).filter(|name| !name.starts_with('.')));
    }
    Ok(Plan {
        repository: folder.clone(),
        main,
        folder,
        prefix: PathBuf::new(),
        base: String::new(),
        source_branch: None,
        with_changes: false,
        identity_missing: false,
        taken,
        copied: Some(copied),
    })
}

/// Returns the folder of all copies of a folder.
pub(in super::super) fn folder(main: &Path, root: &Path) -> PathBuf {
    root.join(plan::folder_of(&main.file_name().unwrap_or_default().to_string_lossy(), main))
}

/// Refuses a folder whose files are larger than the limit.
fn check_size(main: &Path, copied: &Copied) -> Result<(), Error> {
    let mut bytes = 0_u64;
    let walked = tree::walk(main, &copied.without, &mut |_, found| {
        if let Found::File(_, stat) = found {
            bytes = bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
        }
        Ok(())
    });
    walked.map_err(|error| errors::file(main, &error))?;
    if bytes > copied.limit { Err(too_large(main, bytes, copied.limit)) } else { Ok(()) }
}

fn too_large(main: &Path, bytes: u64, limit: u64) -> Error {
    let message = format!(
        "a copy of {} would have {bytes} bytes, and `worktrees.copyLimit` allows {limit}",
        main.display()
    );
    errors::needs_git("copyTooLarge", message)
        .with("bytes", bytes)
        .with("limit", limit)
        .recommend("raise `worktrees.copyLimit` in the config, or make the folder a git repository")
}

/// Makes the copy, unless it is complete.
pub(super) fn create(work: &OperationContext<'_>, worktree: &Worktree, copied: &Copied) -> Result<(), Error> {
    if manifest::read(worktree)?.is_some() {
        return match worktree.path.is_dir() {
            true => Ok(()),
            false => Err(errors::not_found(&worktree.path, "the folder of the copy is gone")),
        };
    }
    if !worktree.main.is_dir() {
        return Err(errors::not_found(&worktree.main, "the folder is gone"));
    }
    check_size(&worktree.main, copied)?;
    let new = hidden(worktree, "new");
    if worktree.path.symlink_metadata().is_ok() {
        // Only a killed attempt leaves a folder without a base.
        if !work.was_killed() {
            return Err(errors::exists("path", &worktree.path.display().to_string()));
        }
        step();
        super::delete(&worktree.path)?;
    }
    super::delete(&new)?;
    step();
    fill(worktree, copied, &new).inspect_err(|_| {
        // The original error counts. The next attempt removes the rest.
        let _ = super::delete(&new);
    })?;
    let files = manifest::files(&new, &[])?;
    step();
    fs::rename(&new, &worktree.path).map_err(|error| errors::file(&worktree.path, &error))?;
    manifest::write(worktree, &files)
}

/// Copies all files. Stops above the limit: files may have grown since they were counted.
pub(super) fn fill(worktree: &Worktree, copied: &Copied, new: &Path) -> Result<(), Error> {
    let mut left = copied.limit;
    let filled = fill_within(worktree, copied, new, &mut left);
    filled.map_err(|error| match error.kind() {
        io::ErrorKind::QuotaExceeded if error.raw_os_error().is_none() => {
            too_large(&worktree.main, copied.limit.saturating_add(1), copied.limit)
        }
        _ => errors::file(new, &error),
    })
}

fn fill_within(worktree: &Worktree, copied: &Copied, new: &Path, left: &mut u64) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(new)?;
    let mut folders = Vec::new();
    tree::walk(&worktree.main, &copied.without, &mut |path, found| {
        let to = new.join(path);
        match found {
            Found::Folder(stat) => {
                // Writable until its content is there.
                DirBuilder::new().mode(0o700).create(&to)?;
                folders.push((to, stat.st_mode & 0o777));
                Ok(())
            }
            Found::Link(target) => symlink(std::ffi::OsString::from_vec(target), to),
            Found::File(from, stat) => {
                let (file, bytes) = copy(&from, &to, stat.st_mode & 0o777, *left)?;
                *left = left.checked_sub(bytes).ok_or(io::ErrorKind::QuotaExceeded)?;
                let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
                Ok(futimens(&file, &Timestamps { last_access: time, last_modification: time })?)
            }
        }
    })?;
    for (folder, mode) in folders.into_iter().rev() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode))?;
    }
    let mode = fs::metadata(&worktree.main)?.permissions().mode() & 0o777;
    fs::set_permissions(new, fs::Permissions::from_mode(mode))
}

/// Copies a file to a new one. Returns its size, which is at most one byte above the limit, unless
/// the file system shares its blocks.
pub(super) fn copy(from: &File, to: &Path, mode: u32, limit: u64) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    copy_into(file, from, mode, limit)
}

/// Fills a new file, without copying blocks where the file system can share them.
fn copy_into(mut file: File, from: &File, mode: u32, limit: u64) -> io::Result<(File, u64)> {
    let bytes = match ioctl_ficlone(&file, from) {
        Ok(()) => file.metadata()?.len(),
        Err(_) => io::copy(&mut from.take(limit.saturating_add(1)), &mut file)?,
    };
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok((file, bytes))
}

/// Creates a link or file under a name beside its place, and then moves it there. Follows no links
/// below `top`.
pub(super) fn put(found: Found, top: &Path, path: &Path) -> io::Result<()> {
    let folder = tree::folder_of(top, path, true)?;
    let name = path.file_name().unwrap_or_default();
    let mut near = name.to_owned();
    near.push(".subagent-merge");
    let _ = unlinkat(&folder, &near, AtFlags::empty());
    match found {
        Found::Folder(_) => return Ok(()),
        Found::Link(target) => symlinkat(std::ffi::OsStr::from_bytes(&target), &folder, &near)?,
        Found::File(from, stat) => {
            let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(openat(&folder, &near, new, Mode::RUSR | Mode::WUSR)?);
            copy_into(file, &from, stat.st_mode & 0o777, u64::MAX)?.0.sync_all()?;
        }
    }
    step();
    Ok(renameat(&folder, &near, &folder, name)?)
}
