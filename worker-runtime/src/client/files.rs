//! Reads and writes text files within the workspace. Must not wait for a pipe or a device: opens
//! only what was found to be a regular file, through the descriptor that found it.

// Files are written in place: mode, owner, links, attributes and watchers stay, and a crash leaves
// no extra file. Space for the new text is reserved first, so a full disk changes nothing; the
// journal holds the text already.
//
// Blocks: runs on its own thread.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use subagent_protocol::MAX_LINE_BYTES;

use super::lines::{LineRange, TooLong};
use super::walk::{self, AccessScope, LocatedFile, WalkError, WalkPath};
use crate::conversation::{
    ClientOperationError, ClientOperationResult, MAX_SHOWN_BYTES, ResolvedRequest as Resolved,
};

/// Maximum text per read. As JSON it can take six times as much, and the response is one line.
const MAX_TEXT_BYTES: usize = MAX_LINE_BYTES / 6 - 4096;
/// Maximum number of bytes scanned for the first requested line.
const MAX_SCANNED_BYTES: u64 = 1024 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// How often a lookup is retried when another process creates or removes the name meanwhile.
const ATTEMPTS: usize = 16;
/// Flags for opening a file: it must not become our terminal or block on a peer.
const SAFE_OPEN_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Returns the text of a file, or some of its lines.
pub(super) fn read(
    scope: &AccessScope,
    path: &str,
    allowed: Option<&str>,
    line: Option<u64>,
    limit: Option<u64>,
) -> Result<ClientOperationResult, ClientOperationError> {
    let found = walk::to_file(scope, walk_path(path, allowed), None)
        .map_err(|error| refused("read", path, &error))?;
    let Some((looked_at, stat)) = found.there else { return Err(not_found(path)) };
    let failed = |error: io::Error| ClientOperationError::internal(format!("cannot read {path}: {error}"));
    regular(&stat, path)?;
    let mut file = reopen(&looked_at, OFlags::RDONLY).map_err(|error| failed(error.into()))?;
    let mut lines = LineRange::new(line, limit, MAX_TEXT_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    let mut scanned = 0;
    while !lines.is_full() {
        let length = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        scanned += length as u64;
        if scanned > MAX_SCANNED_BYTES {
            return Err(ClientOperationError::invalid(format!(
                "{path}: the lines are more than 1 GiB into the file"
            )));
        }
        lines.take(&piece[..length]).map_err(|TooLong| {
            let mebibytes = MAX_TEXT_BYTES / (1024 * 1024);
            ClientOperationError::invalid(format!(
                "{path} is too long: more than {mebibytes} MiB are not read at once; ask for fewer lines with `limit`"
            ))
        })?;
    }
    match String::from_utf8(lines.kept()) {
        Ok(text) => Ok(ClientOperationResult::Content(text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(ClientOperationError::internal(format!(
                "{path} is not UTF-8 text (at byte {at} of what was asked for)"
            )))
        }
    }
}

/// Writes a file. Creates it and missing folders. `umask` is the agent's.
pub(super) fn write(
    scope: &AccessScope,
    umask: u32,
    path: &str,
    allowed: Option<&str>,
    content: &str,
) -> Result<ClientOperationResult, ClientOperationError> {
    let failed = |error: io::Error| ClientOperationError::internal(format!("cannot write {path}: {error}"));
    for _ in 0..ATTEMPTS {
        let make = |above: &OwnedFd, name: &OsStr| make_folder(above, name, umask);
        let found = walk::to_file(scope, walk_path(path, allowed), Some(&make));
        let found = found.map_err(|error| refused("write", path, &error))?;
        if let Some((looked_at, stat)) = &found.there {
            regular(stat, path)?;
            let mut file = reopen(looked_at, OFlags::WRONLY).map_err(|error| failed(error.into()))?;
            return overwrite(&mut file, content).map(|()| ClientOperationResult::Written).map_err(failed);
        }
        match create(&found, umask, content) {
            Ok(()) => return Ok(ClientOperationResult::Written),
            // Another process created the name first, or removed the folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(ClientOperationError::internal(format!("cannot write {path}: it is repeatedly created and removed")))
}

/// Finds a file to read.
pub(super) fn find_source(scope: &AccessScope, path: &str) -> Result<Resolved, ClientOperationError> {
    match walk::where_to(scope, Path::new(path)).map_err(|error| refused("read", path, &error))? {
        (found, Some((_, stat))) => {
            regular(&stat, path)?;
            text_of("read", path, found).map(|path| Resolved { path, text: None })
        }
        (_, None) => Err(not_found(path)),
    }
}

/// Finds the file to write, or its future path. Returns its present text if `shown` and if
/// the text is short.
pub(super) fn find_target(
    scope: &AccessScope,
    path: &str,
    shown: bool,
) -> Result<Resolved, ClientOperationError> {
    let found = walk::where_to(scope, Path::new(path)).map_err(|error| refused("write", path, &error))?;
    let (found, there) = found;
    let mut text = None;
    if let Some((looked_at, stat)) = there {
        regular(&stat, path)?;
        if shown {
            text = short_text(&looked_at);
        }
    }
    text_of("write", path, found).map(|path| Resolved { path, text })
}

/// Finds the folder of a command.
pub(super) fn find_folder(scope: &AccessScope, path: &str) -> Result<Resolved, ClientOperationError> {
    let found = walk::to_folder(scope, WalkPath::Named(Path::new(path)));
    let (_, found) = found.map_err(|error| refused_cwd(path, &error))?;
    text_of("run a command in", path, found).map(|path| Resolved { path, text: None })
}

fn text_of(what: &str, path: &str, found: PathBuf) -> Result<String, ClientOperationError> {
    let found = found.into_os_string().into_string();
    found.map_err(|_| refused(what, path, &WalkError::NoText))
}

/// Returns a file's text, unless the file is long, not text, or unreadable.
fn short_text(looked_at: &OwnedFd) -> Option<String> {
    let mut bytes = Vec::new();
    let file = reopen(looked_at, OFlags::RDONLY).ok()?;
    file.take(MAX_SHOWN_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_SHOWN_BYTES)
}

pub(super) fn walk_path<'a>(path: &'a str, allowed: Option<&'a str>) -> WalkPath<'a> {
    allowed.map_or_else(|| WalkPath::Named(Path::new(path)), |allowed| WalkPath::Allowed(Path::new(allowed)))
}

fn overwrite(file: &mut File, content: &str) -> io::Result<()> {
    let length = content.len() as u64;
    if length > 0 {
        let room = rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, length);
        // A file system without this feature writes as much as it can.
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = room {
            return Err(error.into());
        }
    }
    file.write_all(content.as_bytes())?;
    file.set_len(length)
}

fn create(found: &LocatedFile, umask: u32, content: &str) -> io::Result<()> {
    let LocatedFile { folder, name, .. } = found;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | SAFE_OPEN_FLAGS;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    let mode = Mode::from_raw_mode(0o666 & !umask);
    let written = rustix::fs::fchmod(&file, mode).map_err(io::Error::from);
    written.and_then(|()| overwrite(&mut file, content)).inspect_err(|_| {
        // A partial file must not look complete, unless the name belongs to another file by now.
        let same = |one: &Stat, other: &Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(ours), Ok(named)) = (rustix::fs::fstat(&file), named)
            && same(&ours, &named)
        {
            let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        }
    })
}

/// This process creates files for itself alone; files for the agent get the agent's modes.
fn make_folder(above: &OwnedFd, name: &OsStr, umask: u32) -> Result<(), Errno> {
    rustix::fs::mkdirat(above, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(above, name, flags, Mode::empty())?;
    let kept = rustix::fs::fstat(&made)?.st_mode & 0o7000;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(kept | (0o777 & !umask)))
}

/// Opens the file that was inspected, even if its name leads elsewhere by now.
fn reopen(looked_at: &OwnedFd, flags: OFlags) -> Result<File, Errno> {
    let path = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    rustix::fs::open(path, flags | SAFE_OPEN_FLAGS, Mode::empty()).map(File::from)
}

fn regular(stat: &Stat, path: &str) -> Result<(), ClientOperationError> {
    let what = match walk::kind(stat) {
        FileType::RegularFile => return Ok(()),
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(ClientOperationError::invalid(format!("{path} is {what}, not a regular file")))
}

fn not_found(path: &str) -> ClientOperationError {
    ClientOperationError::not_found(format!("Resource not found: {path}"))
}

fn refused(what: &str, path: &str, error: &WalkError) -> ClientOperationError {
    match error {
        WalkError::System(Errno::NOENT) => not_found(path),
        WalkError::System(Errno::ISDIR) => {
            ClientOperationError::invalid(format!("{path} is a folder, not a regular file"))
        }
        WalkError::System(errno) => {
            ClientOperationError::internal(format!("cannot {what} {path}: {}", io::Error::from(*errno)))
        }
        WalkError::Outside(_)
        | WalkError::Private
        | WalkError::Confined(_)
        | WalkError::TooMany(_)
        | WalkError::Moved
        | WalkError::NoText => ClientOperationError::invalid(format!("cannot {what} {path}: {error}")),
    }
}

/// Explains why a folder cannot be a command's working directory.
pub(super) fn refused_cwd(path: &str, error: &WalkError) -> ClientOperationError {
    match error {
        WalkError::System(Errno::NOTDIR) => {
            ClientOperationError::invalid(format!("`cwd` is not a folder: {path}"))
        }
        WalkError::System(Errno::NOENT) => {
            ClientOperationError::not_found(format!("Resource not found: {path}"))
        }
        error => ClientOperationError::invalid(format!("cannot run a command in {path}: {error}")),
    }
}
